"""The log cleaner: which segments go, what is left of batches, and when there is something to do."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kwire.records import ControlType, Record, parse_header, read_control, write_batch
from mockbroker.config.broker_config import BrokerConfig
from mockbroker.state.metadata.configs import Configs
from mockbroker.state.storage import log_cleaner
from mockbroker.state.storage.append_origin import AppendOrigin
from mockbroker.state.storage.log_config import AppendRules, CleanerRules
from mockbroker.state.storage.partition_log import PartitionLog, StoredBatch
from mockbroker.state.storage.segments import RollRules

ROLL = RollRules(size_max=1_000_000, age_max_ms=1_000)
DEFAULTS = Configs(BrokerConfig()).topic("t")
APPENDS = replace(AppendRules.from_config(DEFAULTS), roll=ROLL)
COMPACTS = replace(CleanerRules.from_config(DEFAULTS), compacts=True, deletes=False, retention_ms=-1, roll=ROLL)
RULES = replace(COMPACTS, dirty_ratio_min=0.0, tombstones_ms=10_000)
DELETES = replace(RULES, compacts=False, deletes=True)
NOW = 1_000_000


def rules(**changes: object) -> CleanerRules:
    return replace(RULES, **changes)


class Log:
    """A log that batches of keys are appended to, one second's segment after the other."""

    def __init__(self) -> None:
        self.log = PartitionLog(lambda: APPENDS)
        self.timestamp = NOW

    def write(self, *keys: str, value: bytes | None = b"v", **given: object) -> None:
        records = [Record(at, self.timestamp, key.encode(), value) for at, key in enumerate(keys)]
        self.log.append(write_batch(records, **given), now_ms=NOW)  # type: ignore[arg-type]

    def roll(self, key: str = "roll") -> None:
        """Begin a segment, with a record of this key."""
        self.timestamp += 2_000
        self.write(key)

    def clean(self, now_ms: int = NOW, **changes: object) -> None:
        cleanable = log_cleaner.find_cleanable_range(self.log, rules(**changes), now_ms=now_ms)
        assert cleanable is not None
        log_cleaner.compact_log(self.log, cleanable, rules(**changes), now_ms=now_ms)

    def batches(self) -> list[StoredBatch]:
        return list(self.log.batches_below(self.log.end_offset))

    def offsets(self) -> list[tuple[int, int, list[int]]]:
        return [(b.base_offset, b.last_offset, [r.offset for r in b.records()]) for b in self.batches()]


@pytest.fixture
def log() -> Log:
    return Log()


def test_the_last_record_of_each_key_stays_in_a_batch_of_the_same_span(log: Log) -> None:
    log.write("a", "b", "a", "c", codec="lz4")
    log.write("b")
    log.roll()
    log.clean()

    assert log.offsets() == [(0, 3, [2, 3]), (4, 4, [4]), (5, 5, [5])]
    header = log.batches()[0].header()
    assert header.crc_is_valid
    assert header.codec.name == "LZ4"
    assert (log.log.start_offset, log.log.end_offset) == (0, 6)


def test_the_active_segment_is_never_cleaned_and_a_clean_log_is_unchanged(log: Log) -> None:
    log.write("a")
    log.write("a")
    assert log_cleaner.find_cleanable_range(log.log, RULES, now_ms=NOW) is None
    log.roll()
    log.clean()

    assert log_cleaner.find_cleanable_range(log.log, RULES, now_ms=NOW) is None
    assert log.offsets() == [(1, 1, [1]), (2, 2, [2])]


def test_old_messages_stay_as_they_are(log: Log) -> None:
    for key in ("a", "b"):
        data = write_batch([Record(log.log.end_offset, log.timestamp, key.encode(), b"old")], magic=1)
        log.log.append(data, now_ms=NOW, origin=AppendOrigin.OLD_LOG)
    log.roll("a")
    log.roll()
    log.clean()

    assert [(batch.header().magic, batch.base_offset) for batch in log.batches()] == [(1, 0), (1, 1), (2, 2), (2, 3)]


def test_a_log_is_dirty_by_the_bytes_of_its_segments(log: Log) -> None:
    log.write("a")
    log.roll("b")
    log.clean(dirty_ratio_min=0.9)
    log.roll("c")

    assert log_cleaner.find_cleanable_range(log.log, rules(dirty_ratio_min=0.5), now_ms=NOW) is None
    cleanable = log_cleaner.find_cleanable_range(log.log, rules(dirty_ratio_min=0.49), now_ms=NOW)
    assert cleanable is not None
    assert (cleanable.first_dirty_offset, cleanable.end_offset, cleanable.ratio) == (1, 2, 0.5)


@pytest.mark.parametrize(
    ("waits", "due_ms"), [(rules(dirty_ratio_min=1.0, lag_max_ms=500), 501), (rules(lag_min_ms=700), 700)]
)
def test_a_segment_waits_for_the_minimum_lag_and_not_longer_than_the_maximum(
    log: Log, waits: CleanerRules, due_ms: int
) -> None:
    log.write("a")
    log.roll("b")

    assert log_cleaner.find_cleanable_range(log.log, waits, now_ms=NOW + due_ms - 1) is None
    assert log_cleaner.compaction_due_ms(log.log, waits, now_ms=NOW) == NOW + due_ms
    assert log_cleaner.find_cleanable_range(log.log, waits, now_ms=NOW + due_ms) is not None


def test_a_tombstone_gets_its_delete_horizon_in_one_cleaning_and_is_removed_in_a_later_one(log: Log) -> None:
    log.write("a")
    log.write("a", value=None)
    log.roll()
    log.clean(now_ms=NOW)
    assert log.batches()[0].header().delete_horizon_ms == NOW + 10_000
    assert log.batches()[0].records()[0].timestamp == NOW
    log.roll("x")
    log.clean(now_ms=NOW + 9_999)
    assert log.offsets()[0] == (1, 1, [1])
    log.roll("y")
    log.clean(now_ms=NOW + 10_000)

    assert log.offsets()[0] == (2, 2, [2])


def test_the_last_batch_of_a_producer_stays_with_its_sequence_only(log: Log) -> None:
    log.write("a", producer_id=7, producer_epoch=0, base_sequence=0)
    log.write("a", "a", producer_id=7, producer_epoch=0, base_sequence=1)
    log.write("a")
    log.roll()
    log.clean()

    assert log.offsets()[:2] == [(1, 2, []), (3, 3, [3])]
    remaining = log.batches()[0].header()
    assert (remaining.producer_id, remaining.base_sequence, remaining.max_timestamp) == (7, 1, NOW)


def test_the_last_batch_of_a_cleaning_stays_though_it_is_empty(log: Log) -> None:
    log.write("a")
    log.write("b", value=None)
    log.roll("c")
    log.clean(tombstones_ms=0)
    log.log.segments.cleaned_to = 0
    log.clean(tombstones_ms=0)

    assert log.offsets() == [(0, 0, [0]), (1, 1, []), (2, 2, [2])]


def transact(log: Log, key: str, *, commit: bool, sequence: int) -> None:
    log.write(key, producer_id=9, producer_epoch=0, base_sequence=sequence, transactional=True)
    log.log.append_marker(commit=commit, producer_id=9, producer_epoch=0, coordinator_epoch=0, now_ms=NOW)


def test_aborted_records_are_removed_at_once_and_do_not_replace_earlier_ones(log: Log) -> None:
    log.write("a")
    transact(log, "a", commit=False, sequence=0)
    transact(log, "b", commit=True, sequence=1)
    log.roll()
    log.clean()

    assert log.offsets() == [(0, 0, [0]), (2, 2, [2]), (3, 3, [3]), (4, 4, [4]), (5, 5, [5])]
    assert [record.first_offset for record in log.log.aborted_transactions(0, 9)] == [1]


def test_a_marker_is_removed_after_the_horizon_of_the_first_cleaning_without_records(log: Log) -> None:
    transact(log, "a", commit=False, sequence=0)
    transact(log, "b", commit=True, sequence=1)
    log.roll()
    log.clean()
    assert log.batches()[0].header().delete_horizon_ms is None
    log.roll("x")
    log.clean()
    assert log.batches()[0].header().delete_horizon_ms == NOW + 10_000
    assert log.log.aborted_transactions(0, 9) == []
    log.roll("y")
    log.clean(now_ms=NOW + 10_000)

    kinds = [read_control(b.records()[0]).type for b in log.batches() if b.header().is_control]
    assert kinds == [ControlType.COMMIT]


def test_nothing_is_cleaned_from_the_segment_of_an_open_transaction_on(log: Log) -> None:
    log.write("a")
    log.roll("a")
    log.write("b", producer_id=9, producer_epoch=0, base_sequence=0, transactional=True)
    log.roll("a")
    cleanable = log_cleaner.find_cleanable_range(log.log, RULES, now_ms=NOW)

    assert cleanable is not None
    assert cleanable.end_offset == 1


def test_segments_that_fit_into_one_are_merged(log: Log) -> None:
    for key in "aabbcc":
        log.roll(key)
    size = log.log.segments.size
    log.clean()

    assert [(s.base_offset, s.size > 0) for s in log.log.segments] == [(0, True), (5, True)]
    assert log.log.segments.size < size
    assert log.log.segments.size == log.log.size


def test_segments_are_deleted_by_age_the_active_one_too(log: Log) -> None:
    log.write("a")
    log.roll()
    aged = replace(DELETES, retention_ms=5_000)
    assert log_cleaner.deletion_due_ms(log.log, aged) == NOW + 5_001
    log_cleaner.delete_old_segments(log.log, aged, now_ms=NOW + 5_000)
    assert log.log.start_offset == 0
    log_cleaner.delete_old_segments(log.log, aged, now_ms=NOW + 5_001)
    assert log.log.start_offset == 1
    log_cleaner.delete_old_segments(log.log, aged, now_ms=NOW + 7_001)

    assert (log.log.start_offset, log.log.end_offset, log.batches()) == (2, 2, [])
    assert log_cleaner.deletion_due_ms(log.log, aged) is None
    log.write("b")
    assert log.offsets() == [(2, 2, [2])]


def test_segments_are_deleted_by_size_down_to_the_limit(log: Log) -> None:
    for key in "abcd":
        log.roll(key)
    segment = log.log.segments[0].size
    sized = replace(DELETES, retention_bytes=2 * segment)
    assert log_cleaner.deletion_due_ms(log.log, sized) == 0
    log_cleaner.delete_old_segments(log.log, sized, now_ms=NOW)

    assert log.log.start_offset == 2
    assert log_cleaner.deletion_due_ms(log.log, sized) is None


def test_cleaned_records_are_read_and_found_by_their_offsets(log: Log) -> None:
    log.write("a", "b")
    log.write("a")
    log.write("b")
    log.roll()
    log.clean()

    result = log.log.read(0, 1_000_000)
    assert [batch.base_offset for batch in result.batches] == [2, 3]
    assert parse_header(result.join()).base_offset == 2
    first = log.log.offset_for_timestamp(NOW)
    assert first is not None
    assert first.offset == 2
