"""The bytes of a log: copied once, adjacent, and freed with their batches."""

from __future__ import annotations

import mmap
import tracemalloc
import weakref
from itertools import pairwise

import pytest

from kwire.records import Record, parse_header, write_batch
from mockbroker.config.broker_config import BrokerConfig
from mockbroker.state.metadata.configs import Configs
from mockbroker.state.storage.batches import log_buffer
from mockbroker.state.storage.batches.log_buffer import LogBuffer
from mockbroker.state.storage.log_config import AppendRules
from mockbroker.state.storage.partition_log import PartitionLog
from mockbroker.state.storage.segments import LogSegment, RollRules
from mockbroker.state.storage.stored_batch import StoredBatch, join_batches


def stored(buffer: LogBuffer, data: bytes) -> StoredBatch:
    chunk, at = buffer.append(data)
    return StoredBatch(0, 0, len(data), chunk, at, 0, 0)


def test_batches_are_adjacent_and_read_without_a_copy() -> None:
    buffer = LogBuffer()
    stored(buffer, bytes(512))  # The first chunk is full.
    batches = [stored(buffer, bytes([number]) * 100) for number in range(20)]

    joined = join_batches(batches[:19], batches[19], 30)

    assert type(joined) is memoryview
    assert isinstance(batches[0].chunk, memoryview)
    assert joined.obj is batches[0].chunk.obj
    assert joined.readonly
    assert bytes(joined) == b"".join(bytes([number]) * 100 for number in range(19)) + bytes([19]) * 30
    assert bytes(join_batches([], batches[3], 2)) == b"\3\3"
    assert join_batches([]) == b""


@pytest.mark.parametrize("changed", [0, 1, 2])
def test_batches_that_are_not_adjacent_are_joined(changed: int) -> None:
    """One in the middle was rewritten with the same size, as by compaction: the bytes between the others are old."""
    buffer = LogBuffer()
    batches = [stored(buffer, bytes([number]) * 10) for number in range(3)]
    batches[changed] = batches[changed].with_bytes(b"n" * 10, max_timestamp=7)

    joined = join_batches(batches)

    expected = [bytes([number]) * 10 for number in range(3)]
    expected[changed] = b"n" * 10
    assert joined == b"".join(expected)
    assert join_batches(batches[:2], batches[2], 4) == b"".join(expected)[:24]


def test_chunks_grow_and_a_batch_of_any_size_fits() -> None:
    buffer = LogBuffer()
    sizes = [1, 600, 5_000, 100, 40 << 20, 1]
    batches = [stored(buffer, bytes([number]) * size) for number, size in enumerate(sizes)]

    assert [bytes(batch.raw) == bytes([number]) * batch.size for number, batch in enumerate(batches)] == [True] * 6
    chunks = [len(batch.chunk) for batch in batches if isinstance(batch.chunk, memoryview)]
    assert chunks == [512, 2_048, 8_192, 8_192, 40 << 20, 16 << 20]
    assert all(second.at == first.at + first.size for first, second in pairwise(batches) if second.chunk is first.chunk)


def test_a_system_that_provides_no_pages_in_advance_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_buffer, "_POPULATE", 9_999)
    buffer = LogBuffer()

    batches = [stored(buffer, bytes([number]) * (3 << 20)) for number in (1, 2)]

    assert [bytes(batch.raw[:1]) + bytes(batch.raw[-1:]) for batch in batches] == [b"\1\1", b"\2\2"]


def test_a_batch_is_copied_once_and_gets_its_offset_and_epoch() -> None:
    data = write_batch([Record(0, 0, None, bytes(8 << 20), ())])
    buffer = LogBuffer()
    tracemalloc.start()
    try:
        chunk, at = buffer.append(data, (70, 3))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    header = parse_header(chunk[at : at + len(data)])
    assert (header.base_offset, header.partition_leader_epoch, header.crc_is_valid) == (70, 3, True)
    assert parse_header(data).base_offset == 0
    assert peak < 1.1 * len(data)


def big_log() -> tuple[PartitionLog, list[StoredBatch]]:
    """A log with 40 batches of 1 MiB."""
    log = PartitionLog(lambda: AppendRules.from_config(Configs(BrokerConfig()).topic("t")))
    for _ in range(40):
        log.append(write_batch([Record(0, 0, b"k", bytes(1_000_000), ())]), now_ms=0)
    return log, list(log.batches_from(0))


@pytest.mark.parametrize("how", ["deleted", "compacted"])
def test_chunks_are_freed_with_their_batches(how: str) -> None:
    """Of each segment one deleted batch is kept, and compaction keeps what it wants: in memory of their own."""
    log, batches = big_log()
    owners = [batch.chunk.obj for batch in batches if isinstance(batch.chunk, memoryview)]
    mapped = {id(owner): weakref.ref(owner) for owner in owners if type(owner) is mmap.mmap}
    del owners
    chunks = list(mapped.values())
    if how == "deleted":
        log.delete_records_before(40)
    else:
        log.roll_segment(RollRules(1 << 30, 1 << 40), now_ms=0)
        count = len(log.segments) - 1
        log.replace_first_segments(count, 40, [(LogSegment(0, 0, 0), batches[::20])], [])
    batches.clear()

    assert len(chunks) == 4
    assert len([chunk for chunk in chunks if chunk() is not None]) == 1  # The one that is written to.
    assert [batch.base_offset for batch in log.batches_from(0)] == ([] if how == "deleted" else [0, 20])
