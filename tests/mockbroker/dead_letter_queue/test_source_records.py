"""Reading original records within a limit (share-semantics 9.2)."""

from __future__ import annotations

import pytest

from kwire.records import Record, write_batch
from mockbroker.dead_letter_queue.source_records import SourceRecords, read_source_records
from mockbroker.state.storage.partition_log import PartitionLog
from tests.support.brokers.broker import Broker


@pytest.fixture
def log() -> PartitionLog:
    return Broker(topics={"t": 1}).leader_log("t")


def _append(log: PartitionLog, *sizes: int, codec: str = "none") -> None:
    records = [Record(at, 0, b"k", bytes(size)) for at, size in enumerate(sizes)]
    log.append(write_batch(records, codec=codec), now_ms=0)


def _offsets(read: SourceRecords) -> tuple[list[int], int]:
    return sorted(read.by_offset), read.resolved_to


def test_all_records_that_fit_are_read(log: PartitionLog) -> None:
    _append(log, 10, 10)
    _append(log, 10, 10, 10, codec="gzip")

    assert _offsets(read_source_records(log, 1, 3, 1000)) == ([1, 2, 3], 3)


def test_a_record_that_fits_alone_waits_for_the_next_round(log: PartitionLog) -> None:
    _append(log, 400, 400, 400)

    assert _offsets(read_source_records(log, 0, 2, 1000)) == ([0, 1], 1)
    assert _offsets(read_source_records(log, 2, 2, 1000)) == ([2], 2)


def test_a_record_that_never_fits_is_left_out(log: PartitionLog) -> None:
    _append(log, 10, 2000, 10)

    assert _offsets(read_source_records(log, 0, 2, 1000)) == ([0, 2], 2)


def test_a_compressed_batch_that_never_fits_is_left_out(log: PartitionLog) -> None:
    _append(log, 600, 600, codec="gzip")
    _append(log, 10)

    assert _offsets(read_source_records(log, 0, 2, 1000)) == ([2], 2)


def test_a_range_that_begins_below_the_log_start_is_not_read(log: PartitionLog) -> None:
    _append(log, 10, 10, 10)
    log.delete_records_before(1)

    assert _offsets(read_source_records(log, 0, 2, 1000)) == ([], 2)
    assert _offsets(read_source_records(log, 1, 2, 1000)) == ([1, 2], 2)
