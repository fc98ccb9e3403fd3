"""The log cleaner: which segments go, what is left of batches, and when there is something to do."""

from __future__ import annotations

import msgspec

from kwire.records import ControlType, Record, parse_header, read_control, write_batch
from mockbroker.config import BrokerConfig
from mockbroker.state import cleaning
from mockbroker.state.batch_rules import TopicRules
from mockbroker.state.cleaning import CleaningRules
from mockbroker.state.configs import Configs
from mockbroker.state.log import PartitionLog, StoredBatch
from mockbroker.state.segments import RollRules

ROLL = RollRules(size_max=1_000_000, age_max_ms=1_000)
APPENDS = msgspec.structs.replace(TopicRules.of(Configs(BrokerConfig()).topic("t")), roll=ROLL)
RULES = CleaningRules(
    compacts=True,
    deletes=False,
    retention_ms=-1,
    retention_bytes=-1,
    dirty_ratio_min=0.0,
    lag_min_ms=0,
    lag_max_ms=1 << 62,
    tombstones_ms=10_000,
    roll=ROLL,
)
DELETES = msgspec.structs.replace(RULES, compacts=False, deletes=True)
NOW = 1_000_000


def rules(**changes: object) -> CleaningRules:
    return msgspec.structs.replace(RULES, **changes)


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
        found = cleaning.dirt(self.log, rules(**changes), now_ms=now_ms)
        assert found is not None
        cleaning.compact(self.log, found, rules(**changes), now_ms=now_ms)

    def batches(self) -> list[StoredBatch]:
        return self.log.below(self.log.end_offset)

    def offsets(self) -> list[tuple[int, int, list[int]]]:
        return [(b.base_offset, b.last_offset, [r.offset for r in b.records()]) for b in self.batches()]


def test_the_last_record_of_each_key_stays_in_a_batch_of_the_same_span() -> None:
    log = Log()
    log.write("a", "b", "a", "c", codec="lz4")
    log.write("b")
    log.roll()
    log.clean()

    assert log.offsets() == [(0, 3, [2, 3]), (4, 4, [4]), (5, 5, [5])]
    header = log.batches()[0].header()
    assert header.crc_is_valid
    assert header.codec.name == "LZ4"
    assert (log.log.start_offset, log.log.end_offset) == (0, 6)


def test_the_active_segment_is_never_cleaned_and_a_clean_log_is_left_alone() -> None:
    log = Log()
    log.write("a")
    log.write("a")
    assert cleaning.dirt(log.log, RULES, now_ms=NOW) is None
    log.roll()
    log.clean()

    assert cleaning.dirt(log.log, RULES, now_ms=NOW) is None
    assert log.offsets() == [(1, 1, [1]), (2, 2, [2])]


def test_a_log_is_dirty_by_the_bytes_of_its_segments() -> None:
    log = Log()
    log.write("a")
    log.roll("b")
    log.clean(dirty_ratio_min=0.9)
    log.roll("c")

    assert cleaning.dirt(log.log, rules(dirty_ratio_min=0.5), now_ms=NOW) is None
    found = cleaning.dirt(log.log, rules(dirty_ratio_min=0.49), now_ms=NOW)
    assert found is not None
    assert (found.first, found.end, found.ratio) == (1, 2, 0.5)


def test_a_record_that_waited_for_the_longest_lag_makes_its_log_due_however_clean_it_is() -> None:
    log = Log()
    log.write("a")
    log.roll("b")
    waits = rules(dirty_ratio_min=1.0, lag_max_ms=500)

    assert cleaning.dirt(log.log, waits, now_ms=NOW + 500) is None
    assert cleaning.compaction_due_ms(log.log, waits, now_ms=NOW) == NOW + 501
    assert cleaning.dirt(log.log, waits, now_ms=NOW + 501) is not None


def test_a_segment_waits_until_all_of_it_is_as_old_as_the_shortest_lag() -> None:
    log = Log()
    log.write("a")
    log.roll("b")
    waits = rules(lag_min_ms=700)

    assert cleaning.dirt(log.log, waits, now_ms=NOW + 699) is None
    assert cleaning.compaction_due_ms(log.log, waits, now_ms=NOW) == NOW + 700
    assert cleaning.dirt(log.log, waits, now_ms=NOW + 700) is not None


def test_a_tombstone_gets_its_horizon_in_one_round_and_goes_in_a_later_one() -> None:
    log = Log()
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


def test_the_last_batch_of_a_producer_stays_with_its_sequence_alone() -> None:
    log = Log()
    log.write("a", producer_id=7, producer_epoch=0, base_sequence=0)
    log.write("a", "a", producer_id=7, producer_epoch=0, base_sequence=1)
    log.write("a")
    log.roll()
    log.clean()

    assert log.offsets()[:2] == [(1, 2, []), (3, 3, [3])]
    kept = log.batches()[0].header()
    assert (kept.producer_id, kept.base_sequence, kept.max_timestamp) == (7, 1, NOW)


def test_the_last_batch_of_a_round_stays_though_it_is_empty() -> None:
    log = Log()
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


def test_aborted_records_go_at_once_and_take_no_place_of_earlier_ones() -> None:
    log = Log()
    log.write("a")
    transact(log, "a", commit=False, sequence=0)
    transact(log, "b", commit=True, sequence=1)
    log.roll()
    log.clean()

    assert log.offsets() == [(0, 0, [0]), (2, 2, [2]), (3, 3, [3]), (4, 4, [4]), (5, 5, [5])]
    assert [one.first_offset for one in log.log.aborted_transactions(0, 9)] == [1]


def test_a_marker_goes_after_the_horizon_that_the_first_round_without_records_sets() -> None:
    log = Log()
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


def test_nothing_is_cleaned_from_the_segment_of_an_open_transaction_on() -> None:
    log = Log()
    log.write("a")
    log.roll("a")
    log.write("b", producer_id=9, producer_epoch=0, base_sequence=0, transactional=True)
    log.roll("a")
    found = cleaning.dirt(log.log, RULES, now_ms=NOW)

    assert found is not None
    assert found.end == 1


def test_segments_that_fit_into_one_become_one_again() -> None:
    log = Log()
    for key in "aabbcc":
        log.roll(key)
    size = log.log.segments.size
    log.clean()

    assert [(s.base_offset, s.size > 0) for s in log.log.segments] == [(0, True), (5, True)]
    assert log.log.segments.size < size
    assert log.log.segments.size == log.log.size


def test_segments_go_by_age_the_active_one_too() -> None:
    log = Log()
    log.write("a")
    log.roll()
    aged = msgspec.structs.replace(DELETES, retention_ms=5_000)
    assert cleaning.deletion_due_ms(log.log, aged) == NOW + 5_001
    cleaning.delete_old(log.log, aged, now_ms=NOW + 5_000)
    assert log.log.start_offset == 0
    cleaning.delete_old(log.log, aged, now_ms=NOW + 5_001)
    assert log.log.start_offset == 1
    cleaning.delete_old(log.log, aged, now_ms=NOW + 7_001)

    assert (log.log.start_offset, log.log.end_offset, log.batches()) == (2, 2, [])
    assert cleaning.deletion_due_ms(log.log, aged) is None
    log.write("b")
    assert log.offsets() == [(2, 2, [2])]


def test_segments_go_by_size_as_long_as_the_limit_is_kept() -> None:
    log = Log()
    for key in "abcd":
        log.roll(key)
    one = log.log.segments[0].size
    sized = msgspec.structs.replace(DELETES, retention_bytes=2 * one)
    assert cleaning.deletion_due_ms(log.log, sized) == 0
    cleaning.delete_old(log.log, sized, now_ms=NOW)

    assert log.log.start_offset == 2
    assert cleaning.deletion_due_ms(log.log, sized) is None


def test_what_was_cleaned_is_read_and_found_as_by_its_offsets() -> None:
    log = Log()
    log.write("a", "b")
    log.write("a")
    log.write("b")
    log.roll()
    log.clean()

    found = log.log.read(0, 1_000_000)
    assert [batch.base_offset for batch in found.batches] == [2, 3]
    assert parse_header(found.join()).base_offset == 2
    first = log.log.offset_for_timestamp(NOW)
    assert first is not None
    assert first.offset == 2
