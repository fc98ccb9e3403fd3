"""Records below the log start: found by their timestamp, and part of the size, until their segment is deleted.

Source: the conversation other-delete-records-size.
"""

from __future__ import annotations

from kwire.records import Record, write_batch
from mockbroker.state.storage.log_cleaner import delete_old_segments, deletion_due_ms
from mockbroker.state.storage.log_config import AppendRules, CleanerRules
from mockbroker.state.storage.partition_log import PartitionLog
from mockbroker.state.storage.segments import RollRules

ROLL = RollRules(size_max=200, age_max_ms=1 << 40)
KEEP = CleanerRules(False, True, -1, -1, 0.5, 0, 1 << 40, 0, ROLL)


def new_log(timestamps: list[int]) -> PartitionLog:
    """A log with a batch of one record for each timestamp, two batches in each segment."""
    rules = AppendRules(False, False, 1 << 60, 1 << 60, 1000, 1 << 60, ROLL, None, None)
    log = PartitionLog(lambda: rules)
    for timestamp in timestamps:
        log.append(write_batch([Record(0, timestamp, None, b"v" * 20)]), now_ms=1000)
    return log


def newest_offset(log: PartitionLog) -> int | None:
    newest = log.offset_of_max_timestamp()
    return None if newest is None else newest.offset


def test_deleted_records_are_found_until_their_segment_is_deleted() -> None:
    log = new_log([100, 900, 300, 800, 500])
    size = log.size
    log.delete_records_before(4)
    assert (newest_offset(log), log.size) == (1, size)
    assert deletion_due_ms(log, KEEP) == 0

    delete_old_segments(log, KEEP, now_ms=2000)
    assert newest_offset(log) == 4
    assert log.size < size
    assert deletion_due_ms(log, KEEP) is None


def test_the_first_of_equal_timestamps_is_found() -> None:
    log = new_log([700, 700, 700])
    log.delete_records_before(1)
    assert newest_offset(log) == 0
    log.delete_records_before(3)
    assert newest_offset(log) == 0


def test_truncated_batches_are_not_part_of_the_size() -> None:
    log = new_log([1, 2, 3])
    size = log.size
    log.truncate_to(1)
    assert log.size == size // 3
