"""Read the records of many partitions together: a batch of each partition at a time, then a record of each batch.

Only valid batches without compression are read; partitions with others are left. The accelerator reads all records of
such partitions, the Python code those without headers where many partitions have some. Compressed batches can be
decompressed before, for the accelerator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kwire.accelerator import NATIVE
from kwire.capture.columnar.body_walker import BODIES_MIN, PADDING_SIZE, BodyWalker
from kwire.capture.columnar.record_checks import read_numbers
from kwire.capture.index.arrays import NO_NUMBERS
from kwire.capture.index.scan.packet_headers import gather_bytes
from kwire.capture.rows.dead_letter_headers import DEAD_LETTER_PREFIX
from kwire.errors import WireError
from kwire.payload import read_complete_batches
from kwire.records import Codec
from kwire.records.batch import HEADER_SIZE, PREFIX_SIZE
from kwire.records.compression import check_count, decompress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kwire.capture.index.arrays import Bools, Ints

# Up to the magic, which all formats have at this offset.
_START_SIZE = 17
_MAGIC = 2
_CODEC_BITS = 0x07
# So many bytes are decompressed at once.
_DECOMPRESSED_MAX = 32 << 20
# Below this, the sum of four numbers fits 64 bits.
_SAFE = 1 << 61


class BatchTable(NamedTuple):
    """Batches, in the order of each partition. partition: the number of the partition.

    before: how many records are in the batches before it in its partition. at, end: where its records are.
    """

    partition: Ints
    before: Ints
    at: Ints
    end: Ints
    record_count: Ints
    base_offset: Ints
    base_timestamp: Ints
    max_timestamp: Ints
    attributes: Ints
    producer_id: Ints

    def select(self, chosen: Ints | Bools) -> BatchTable:
        """The batches with these indexes."""
        return BatchTable(*(column[chosen] for column in self))


class RecordTable(NamedTuple):
    """Records, in the order of each partition; batch: the row of its batch. Sizes of null are -1."""

    batch: Ints
    timestamp_delta: Ints
    offset_delta: Ints
    key_at: Ints
    key_size: Ints
    value_at: Ints
    value_size: Ints
    header_count: Ints


class HeaderTable(NamedTuple):
    """The headers of all records, in their order. Names are ASCII. The size of a value that is null is -1."""

    name_at: Ints
    name_size: Ints
    value_size: Ints


_NO_HEADERS = HeaderTable(*[NO_NUMBERS] * len(HeaderTable._fields))


class FoundRecords(NamedTuple):
    """The records of partitions. is_read: the partitions whose records were read completely."""

    is_read: Bools
    batches: BatchTable
    records: RecordTable
    headers: HeaderTable = _NO_HEADERS


def read_records(data: bytes, at: Ints, size: Ints, *, is_decompressed: bool = False) -> FoundRecords:
    """The records at these positions. Headers of dead letters are not read: they have columns of their own.

    Args: size: of each partition, 0 or less where it has no records. is_decompressed: the batches are those of
        `decompress_partitions`, which only the accelerator reads.
    """
    if NATIVE is None:
        assert not is_decompressed
        return read_records_pure(data, at, size)
    begin, end = (np.ascontiguousarray(numbers, dtype=np.int64) for numbers in (at, at + np.maximum(size, 0)))
    is_read, *tables = NATIVE.read_record_columns(data, begin, end, DEAD_LETTER_PREFIX.encode(), is_decompressed)
    batches, records, headers = (np.frombuffer(table, dtype=np.int64) for table in tables)
    return FoundRecords(
        np.frombuffer(is_read, dtype=np.bool_),
        BatchTable(*_columns(batches, len(BatchTable._fields))),
        RecordTable(*_columns(records, len(RecordTable._fields))),
        HeaderTable(*_columns(headers, len(HeaderTable._fields))),
    )


def decompress_partitions(data: bytes, at: Ints, size: Ints, rows: Ints) -> Iterator[tuple[list[int], list[bytes]]]:
    """Batches of some partitions with decompressed records, for `read_records`: the partitions, and the bytes of each.

    About 32 MiB are decompressed for each result. Partitions without compressed batches, with invalid ones, or with
    more than that are omitted.
    """
    view = memoryview(data)
    chosen: list[int] = []
    parts: list[bytes] = []
    bytes_left = _DECOMPRESSED_MAX
    for row in rows.tolist():
        begin = int(at[row])
        records = _decompress_batches(view[begin : begin + max(int(size[row]), 0)])
        if records is None:
            continue
        chosen.append(row)
        parts.append(records)
        bytes_left -= len(records)
        if bytes_left < 0:
            yield chosen, parts
            chosen, parts, bytes_left = [], [], _DECOMPRESSED_MAX
    if chosen:
        yield chosen, parts


def _decompress_batches(records: memoryview) -> bytes | None:
    """The complete batches with decompressed records; None where no batch is compressed, or one is invalid or old."""
    parts: list[bytes | memoryview] = []
    bytes_left, is_compressed = _DECOMPRESSED_MAX, False
    try:
        for batch in read_complete_batches(records):
            if batch.magic != _MAGIC:
                return None
            content: bytes | memoryview = batch.raw[HEADER_SIZE:]
            if batch.codec is not Codec.NONE and batch.count:
                check_count(batch.codec, batch.count, batch.size, bytes_left)
                content = decompress(batch.codec, content, bytes_left)
                is_compressed = True
            bytes_left -= len(content)
            length = HEADER_SIZE - PREFIX_SIZE + len(content)
            parts += (batch.raw[:8], length.to_bytes(4, "big"), batch.raw[PREFIX_SIZE:HEADER_SIZE], content)
    except WireError:
        return None
    return b"".join(parts) if is_compressed else None


def _columns(rows: Ints, count: int) -> Ints:
    """The columns of rows that follow each other."""
    return np.ascontiguousarray(rows.reshape(-1, count).T)


def read_records_pure(data: bytes, at: Ints, size: Ints) -> FoundRecords:
    """The same without the accelerator."""
    batches, is_read = _read_batches(data, at, at + np.maximum(size, 0))
    decoder = _RecordDecoder(data, batches)
    is_read[batches.partition[~decoder.is_good]] = False
    chosen = is_read[batches.partition]
    if not bool(chosen.all()):
        new_rows = np.cumsum(chosen) - 1
        records = decoder.records(chosen)
        return FoundRecords(is_read, batches.select(chosen), records._replace(batch=new_rows[records.batch]))
    return FoundRecords(is_read, batches, decoder.records(chosen))


def _read_batches(data: bytes, at: Ints, end: Ints) -> tuple[BatchTable, Bools]:
    """The batches of each partition, and which partitions have only batches that `_RecordDecoder` may read."""
    is_read = np.ones(len(at), dtype=np.bool_)
    begin, before = at.copy(), np.zeros(len(at), dtype=np.int64)
    parts: list[BatchTable] = []
    rows = np.nonzero(end - begin >= _START_SIZE)[0]
    while len(rows) >= BODIES_MIN:
        start = begin[rows]
        headers = gather_bytes(data, np.minimum(start, len(data) - PADDING_SIZE), HEADER_SIZE)
        size = PREFIX_SIZE + read_numbers(headers, 8, ">i4")
        base, delta, count = (read_numbers(headers, *field) for field in ((0, ">i8"), (23, ">i4"), (57, ">i4")))
        times = (read_numbers(headers, 27, ">i8"), read_numbers(headers, 35, ">i8"))
        attributes = read_numbers(headers, 21, ">i2")
        is_usual = (headers[:, 16] == 2) & (size >= HEADER_SIZE)
        is_truncated = is_usual & (start + size > end[rows])
        is_safe = (np.abs(base) < _SAFE) & (np.abs(times[0]) < _SAFE) & (attributes & _CODEC_BITS == 0)
        is_usual &= ((delta >= 0) & (count >= 0) & is_safe) | is_truncated
        is_read[rows[~is_usual]] = False
        chosen = np.nonzero(is_usual & ~is_truncated)[0]
        taken = rows[chosen]
        columns = (taken, before[taken], (start + HEADER_SIZE)[chosen], (start + size)[chosen])
        values = (count, base, *times, attributes, read_numbers(headers, 43, ">i8"))
        parts.append(BatchTable(*columns, *(value[chosen] for value in values)))
        before[taken] += count[chosen]
        begin[taken] += size[chosen]
        rows = taken[end[taken] - begin[taken] >= _START_SIZE]
    # Too few are left to read them together.
    is_read[rows] = False
    if not parts:
        return BatchTable(*[NO_NUMBERS] * len(BatchTable._fields)), is_read
    table = BatchTable(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    is_kept = is_read[table.partition]
    return table if bool(is_kept.all()) else table.select(is_kept), is_read


class _RecordDecoder(BodyWalker[None]):
    """Reads the records of batches. `is_good`: the batches that were read completely."""

    def __init__(self, data: bytes, batches: BatchTable) -> None:
        super().__init__(data, batches.at)
        self._end = batches.end
        self._chunks: list[RecordTable] = []
        number, rows = 0, np.nonzero(batches.record_count > 0)[0]
        while len(rows):
            if number and len(rows) < BODIES_MIN:
                self.is_good[rows] = False
                break
            rows = self._read_record(rows)
            number += 1
            rows = rows[batches.record_count[rows] > number]
        # Kafka does not read behind the header of a batch without records.
        self.is_good &= (self._at == batches.end) | (batches.record_count == 0)

    def records(self, is_chosen: Bools) -> RecordTable:
        """The records of chosen batches."""
        if not self._chunks:
            return RecordTable(*[NO_NUMBERS] * len(RecordTable._fields))
        table = RecordTable(*(np.concatenate(columns) for columns in zip(*self._chunks, strict=True)))
        is_kept = is_chosen[table.batch]
        return table if bool(is_kept.all()) else RecordTable(*(column[is_kept] for column in table))

    def _read_record(self, rows: Ints) -> Ints:
        """Read the next record of each batch; return the batches where it is valid."""
        first = rows
        rows, size = self._read_signed(rows)
        end = np.full(len(self._at), -1, dtype=np.int64)
        end[rows] = self._at[rows] + size
        rows = self._keep_good(rows, (size >= 0) & (end[rows] <= self._end[rows]))
        # The attributes: no version has used them (KIP-98).
        self._at[rows] += 1
        values = []
        for _ in range(2):
            rows, delta = self._read_signed(rows)
            values.append((rows, delta))
        for _ in range(2):
            rows, size = self._read_signed(rows)
            values += [(rows, self._at[rows]), (rows, size)]
            rows = self._keep_good(rows, size >= -1)
            self._at[rows] += np.maximum(size if len(size) == len(rows) else size[size >= -1], 0)
        header_count = self._flat[self._position(rows)]
        self._at[rows] += 1
        rows = self._keep_good(rows, (header_count == 0) & (self._at[rows] == end[rows]))
        is_valid = np.zeros(len(self._at), dtype=np.bool_)
        is_valid[rows] = True
        if len(rows) == len(first):
            columns = [column for _, column in values]
        else:
            columns = [column[is_valid[read_rows]] for read_rows, column in values]
        self._chunks.append(RecordTable(*(rows, *columns, np.zeros(len(rows), dtype=np.int64))))
        return rows

    def _read_signed(self, rows: Ints) -> tuple[Ints, Ints]:
        """Read zigzag varints of up to three bytes."""
        rows, raw = self._read_uvarint(rows)
        return rows, (raw >> 1) ^ -(raw & 1)
