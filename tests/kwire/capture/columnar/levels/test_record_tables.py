"""The tables of records have what the decoder of records returns, with the accelerator and without it."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from kwire.accelerator import NATIVE
from kwire.capture.columnar.body_walker import BODIES_MIN, PADDING_SIZE
from kwire.capture.columnar.levels import record_tables
from kwire.capture.columnar.levels.record_tables import (
    FoundRecords,
    decompress_partitions,
    read_records,
    read_records_pure,
)
from kwire.errors import WireError
from kwire.payload import read_complete_batches
from kwire.records import Record, write_batch
from kwire.records.batch import with_append_time
from tests.support.memory import memory_below

Reader = Callable[[bytes, "np.ndarray[tuple[int], np.dtype[np.int64]]", "np.ndarray[tuple[int], np.dtype[np.int64]]"],
                  FoundRecords]  # fmt: skip
needs_accelerator = pytest.mark.skipif(NATIVE is None, reason="this process uses no accelerator")

BLOBS = (None, b"", b"k", b"v" * 63, b"v" * 64, b"w" * 9_000)
NAMES = ("trace", "", "größe", "__dlq.errors.group", "__dlq")


def build_batch(chance: random.Random, *, is_usual: bool) -> bytes:
    headers: tuple[tuple[str, bytes | None], ...] = ()
    if not is_usual or chance.random() < 0.3:
        names = NAMES[:2] if is_usual else NAMES
        headers = tuple((chance.choice(names), chance.choice(BLOBS)) for _ in range(chance.randrange(3)))
    first, gap, time = chance.randrange(1 << 40), chance.choice((1, 90, 9_000)), chance.choice((0, 70, 1 << 33))
    records = [
        Record(first + at * gap, 9 + at * time, chance.choice(BLOBS), chance.choice(BLOBS), headers)
        for at in range(chance.randint(1, 5))
    ]
    codec = "none" if is_usual else chance.choice(("none", "none", "none", "lz4"))
    batch = write_batch(records, codec=codec, producer_id=chance.choice((-1, 7)))
    return with_append_time(batch, 1_700) if chance.random() < 0.2 else batch


def build_partition(chance: random.Random) -> bytes:
    """Batches of a partition; of some partitions unusual, damaged, or cut off at the end."""
    is_usual = chance.random() < 0.6
    records = b"".join(build_batch(chance, is_usual=is_usual) for _ in range(chance.randrange(4)))
    if records and chance.random() < 0.2:
        return records[: chance.randrange(len(records))]
    if records and chance.random() < 0.2:
        damaged = bytearray(records)
        damaged[chance.randrange(len(damaged))] = chance.choice((0, 1, 2, 127, 128, 255))
        return bytes(damaged)
    return records


def decode(records: bytes) -> list[tuple[object, ...]]:
    """What the tables should have of a partition; raises WireError."""
    rows: list[tuple[object, ...]] = []
    before = 0
    for batch in read_complete_batches(records):
        for record in batch.records(strict=False):
            headers = [(name, None if value is None else len(value)) for name, value in record.headers]
            numbers = before, batch.base_offset, batch.producer_id
            rows.append((*numbers, record.offset, record.timestamp, record.key, record.value, headers))
        before += batch.count
    return rows


def rows_of_tables(data: bytes, found: FoundRecords, partition_count: int) -> list[list[tuple[object, ...]]]:
    rows: list[list[tuple[object, ...]]] = [[] for _ in range(partition_count)]
    batches = list(zip(*(column.tolist() for column in found.batches), strict=True))
    headers = list(zip(*(column.tolist() for column in found.headers), strict=True))

    def blob(at: int, size: int) -> bytes | None:
        return None if size < 0 else data[at : at + size]

    # The Python code reads the first record of every batch, then the second ones; without headers.
    order = np.lexsort((found.records.batch, found.batches.partition[found.records.batch]))
    columns = [column[order].tolist() for column in found.records]
    for number, delta, offset, *blobs, count in zip(*columns, strict=True):
        taken, headers = headers[:count], headers[count:]
        partition, before, _, _, _, base, base_time, last_time, attributes, producer_id = batches[number]
        time = last_time if attributes & 8 else base_time + delta
        pairs = [(data[at : at + size].decode(), None if value < 0 else value) for at, size, value in taken]
        key, value = blob(*blobs[:2]), blob(*blobs[2:])
        rows[partition].append((before, base, producer_id, base + offset, time, key, value, pairs))
    assert not headers
    return rows


@pytest.mark.parametrize("read", [pytest.param(read_records, marks=needs_accelerator), read_records_pure])
def test_partitions_that_are_read_have_the_records_of_the_decoder(read: Reader) -> None:
    chance = random.Random(12)
    for _ in range(30):
        partitions = [build_partition(chance) for _ in range(BODIES_MIN * 3)]
        data = b"".join((*partitions, bytes(PADDING_SIZE)))
        size = np.array([len(records) for records in partitions], dtype=np.int64)
        found = read(data, np.cumsum(size) - size, size)

        rows = rows_of_tables(data, found, len(partitions))
        assert 5 < int(found.is_read.sum()) < len(partitions)
        for is_read, records, decoded in zip(found.is_read.tolist(), partitions, rows, strict=True):
            assert decoded == (decode(records) if is_read else [])


@pytest.mark.slow
@needs_accelerator
def test_the_accelerator_reads_every_usual_partition_and_no_damaged_one() -> None:
    chance = random.Random(5)
    usual = b"".join(build_batch(chance, is_usual=True) for _ in range(3))
    size = np.array([len(usual)], dtype=np.int64)

    found = read_records(usual, np.array([0]), size)
    assert found.is_read.tolist() == [True]
    assert rows_of_tables(usual, found, 1) == [decode(usual)]
    for at in range(len(usual)):
        damaged = bytearray(usual)
        damaged[at] ^= 0x41
        found = read_records(bytes(damaged), np.array([0]), size)
        try:
            expected = decode(bytes(damaged))
        except WireError:
            assert not found.is_read[0]
            continue
        assert rows_of_tables(bytes(damaged), found, 1) in ([expected], [[]])


@needs_accelerator
@pytest.mark.parametrize("size_max", [1 << 20, 5_000])
def test_compressed_batches_are_read_after_they_are_decompressed(
    size_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_tables, "_DECOMPRESSED_MAX", size_max)
    chance = random.Random(8)
    partitions = [build_batch(chance, is_usual=True)]
    for codec in ("gzip", "snappy", "lz4", "zstd") * 5:
        records = [Record(at, 5, None, b"v" * chance.choice((1, 90, 1_500))) for at in range(chance.randint(1, 4))]
        partitions += [
            write_batch(records, codec=codec) + partitions[0],
            write_batch(records, codec=codec)[:-1] + b"\xff",
        ]
    data = b"".join(partitions)
    size = np.array([len(records) for records in partitions], dtype=np.int64)
    at = np.cumsum(size) - size

    results = list(decompress_partitions(data, at, size, np.arange(len(partitions))))

    chosen = [row for rows, _ in results for row in rows]
    assert len(results) > 1 if size_max == 5_000 else len(results) == 1
    assert len(set(chosen)) == len(chosen) >= (20 if size_max > 5_000 else 5)
    for rows, parts in results:
        sizes = np.array([len(part) for part in parts], dtype=np.int64)
        joined = b"".join(parts)
        found = read_records(joined, np.cumsum(sizes) - sizes, sizes, is_decompressed=True)
        decoded = rows_of_tables(joined, found, len(rows))
        for row, is_read, expected in zip(rows, found.is_read.tolist(), decoded, strict=True):
            assert expected == (decode(partitions[row]) if is_read else [])
        assert found.is_read.any()


@needs_accelerator
def test_positions_outside_of_the_data_are_not_read() -> None:
    batch = write_batch([Record(0, 5, b"k", b"v")])
    at = np.array([-1, 0, 0, len(batch), -(2**63), 2**61, 5], dtype=np.int64)
    size = np.array([20, len(batch) + 1, len(batch), 30, 40, 2**61, -1], dtype=np.int64)

    found = read_records(batch, at, size)

    assert found.is_read.tolist() == [False, False, True, False, False, False, True]
    assert len(found.records.batch) == 1


@needs_accelerator
def test_arrays_of_another_kind_are_refused() -> None:
    assert NATIVE is not None
    two, one = np.zeros(2, dtype=np.int64), np.zeros(1, dtype=np.int64)
    for begins, ends in ((two, one), (bytes(7), bytes(7)), (memoryview(bytes(17))[1:], two)):
        with pytest.raises(ValueError, match="arrays of int64"):
            NATIVE.read_record_columns(b"", begins, ends, b"x", False)
    with pytest.raises((TypeError, BufferError, ValueError)):
        NATIVE.read_record_columns(b"", np.zeros(4, dtype=np.int64)[::2], two, b"x", False)
    with pytest.raises(TypeError):
        NATIVE.read_record_columns(b"", two)


@needs_accelerator
@pytest.mark.parametrize("count", [2, 1_000, 2**31 - 1])
def test_an_impossible_count_allocates_no_memory(count: int) -> None:
    batch = bytearray(write_batch([Record(0, 5, b"k", b"v")]))
    batch[57:61] = count.to_bytes(4, "big")
    at, size = np.array([0]), np.array([len(batch)])

    with memory_below(100_000):
        found = read_records(bytes(batch), at, size)
    assert not found.is_read[0]
