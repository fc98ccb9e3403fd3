"""Replicas that stop following, and the log after one of them is elected."""

from __future__ import annotations

import pytest

from kwire.error_codes import ErrorCode
from kwire.records import Record, write_batch
from mockbroker.config.broker_config import BrokerConfig
from mockbroker.state.metadata.configs import Configs
from mockbroker.state.storage.log_config import AppendRules
from mockbroker.state.storage.partition_log import PartitionLog
from mockbroker.state.storage.replicas import ReplicaLog, advance_high_watermark, stop_following, truncate_to_leader
from tests.support.raises_code import raises_code

RULES = AppendRules.from_config(Configs(BrokerConfig()).topic("t"))
NOW = 1_000_000


def make_log() -> PartitionLog:
    log = PartitionLog(lambda: RULES)
    log.start_leader_epoch(0)
    return log


def batch(value: bytes, count: int = 1, *, timestamp: int = NOW, **given: object) -> bytes:
    return write_batch([Record(at, timestamp, b"k", value) for at in range(count)], **given)  # type: ignore[arg-type]


def append(log: PartitionLog, value: bytes, count: int = 1, *, timestamp: int = NOW, **given: object) -> None:
    log.append(batch(value, count, timestamp=timestamp, **given), now_ms=NOW)


def transactional(log: PartitionLog, sequence: int, *, producer_id: int = 7) -> None:
    append(log, b"t", producer_id=producer_id, producer_epoch=0, base_sequence=sequence, transactional=True)


def end(log: PartitionLog, *, commit: bool, producer_id: int = 7) -> None:
    log.append_marker(commit=commit, producer_id=producer_id, producer_epoch=0, coordinator_epoch=3, now_ms=NOW)


def values(log: PartitionLog) -> str:
    batches = log.read(log.start_offset, 1 << 20).batches
    return "".join((record.value or b"").decode() for stored in batches for record in stored.records())


@pytest.fixture
def log() -> PartitionLog:
    return make_log()


def test_a_truncated_log_ends_there_in_every_respect(log: PartitionLog) -> None:
    append(log, b"a", 2, timestamp=NOW)
    log.start_leader_epoch(1)
    append(log, b"b", 2, timestamp=NOW + 50)
    cut = log.truncate_to(2)

    assert [(stored.base_offset, stored.last_offset) for stored in cut] == [(2, 3)]
    assert (log.end_offset, log.high_watermark, log.last_stable_offset) == (2, 2, 2)
    assert (log.end_of_epoch(0), log.leader_epoch) == ((0, 2), 0)
    result = log.offset_of_max_timestamp()
    assert result is not None
    assert (result.offset, result.timestamp) == (0, NOW)
    assert log.offset_for_timestamp(NOW + 1) is None
    with raises_code(ErrorCode.OFFSET_OUT_OF_RANGE):
        log.read(3, 100)


def test_a_truncation_below_the_start_leaves_an_empty_log_there(log: PartitionLog) -> None:
    append(log, b"a", 4)
    append(log, b"b", 4)
    log.delete_records_before(6)
    log.truncate_to(3)

    assert (log.start_offset, log.end_offset, log.high_watermark) == (3, 3, 3)
    append(log, b"c")
    assert values(log) == "c"


def test_a_producer_continues_after_its_last_remaining_batch(log: PartitionLog) -> None:
    for sequence in range(3):
        append(log, b"a", producer_id=7, producer_epoch=0, base_sequence=sequence)
    log.truncate_to(1)

    (producer,) = log.producers.all_states()
    assert producer.last_sequence == 0
    append(log, b"a", producer_id=7, producer_epoch=0, base_sequence=1)
    assert log.end_offset == 2


def test_a_producer_without_remaining_records_is_unknown(log: PartitionLog) -> None:
    append(log, b"a")
    append(log, b"b", producer_id=7, producer_epoch=0, base_sequence=0)
    log.truncate_to(1)

    assert log.producers.all_states() == []


def test_a_producer_whose_records_are_deleted_is_still_known(log: PartitionLog) -> None:
    append(log, b"a", producer_id=7, producer_epoch=0, base_sequence=0)
    append(log, b"b")
    append(log, b"c")
    log.delete_records_before(1)
    log.truncate_to(2)

    assert [producer.producer_id for producer in log.producers.all_states()] == [7]


def test_a_transaction_whose_marker_is_lost_is_open_again(log: PartitionLog) -> None:
    transactional(log, 0)
    append(log, b"a")
    end(log, commit=False)
    assert log.last_stable_offset == 3
    log.truncate_to(2)

    assert (log.last_stable_offset, log.high_watermark) == (0, 2)
    assert log.aborted_transactions(0, 3) == []


def test_an_aborted_transaction_that_is_left_stays_aborted_once(log: PartitionLog) -> None:
    transactional(log, 0)
    end(log, commit=False)
    append(log, b"a")
    log.truncate_to(2)

    (aborted,) = log.aborted_transactions(0, 9)
    assert (aborted.first_offset, aborted.last_offset) == (0, 1)
    (producer,) = log.producers.all_states()
    assert (producer.transaction_start, producer.coordinator_epoch) == (None, 3)


def test_the_high_watermark_stays_while_an_in_sync_replica_is_stopped(log: PartitionLog) -> None:
    append(log, b"a", 3)
    disks = {2: stop_following(log)}
    advance_high_watermark(log, disks, in_sync=(1, 2), min_count=1)
    append(log, b"b", 2)

    assert (log.high_watermark, log.end_offset) == (3, 5)
    advance_high_watermark(log, disks, in_sync=(1,), min_count=1)
    assert log.high_watermark == 5


def test_the_high_watermark_stays_while_too_few_replicas_are_in_sync(log: PartitionLog) -> None:
    append(log, b"a", 3)
    disks = {2: stop_following(log)}
    advance_high_watermark(log, disks, in_sync=(1,), min_count=2)
    append(log, b"b", 2)
    assert log.high_watermark == 3
    advance_high_watermark(log, {}, in_sync=(1, 2), min_count=2)

    assert log.high_watermark == 5


def test_waiting_requests_are_woken_when_the_high_watermark_advances() -> None:
    wakes: list[int] = []
    waking = PartitionLog(lambda: RULES, lambda: wakes.append(waking.high_watermark))
    append(waking, b"a", 3)
    waking.hold_high_watermark(3)
    append(waking, b"b")
    waking.hold_high_watermark(None)

    assert wakes == [3, 3, 4]


def elect_shorter_replica(log: PartitionLog) -> ReplicaLog:
    """A replica with aa is elected. Returns: the former leader, with aabbb."""
    append(log, b"a", 2)
    second = stop_following(log)
    append(log, b"b", 3)
    first = stop_following(log)
    truncate_to_leader(log, second, [first])
    return first


def test_records_that_a_new_leader_lacks_are_lost(log: PartitionLog) -> None:
    first = elect_shorter_replica(log)

    assert (values(log), log.end_offset) == ("aa", 2)
    assert (first.fork_offset, first.end_offset) == (2, 5)


def test_records_of_a_stopped_replica_are_restored_when_it_is_elected(log: PartitionLog) -> None:
    first = elect_shorter_replica(log)
    log.start_leader_epoch(2)
    append(log, b"c", 1)
    second = stop_following(log)
    truncate_to_leader(log, first, [second])
    advance_high_watermark(log, {}, in_sync=(1,), min_count=1)
    log.start_leader_epoch(4)
    append(log, b"d", 1)

    assert values(log) == "aabbbd"
    assert [stored.leader_epoch for stored in log.read(0, 1 << 20).batches] == [0, 0, 4]
    assert (log.end_of_epoch(0), log.end_of_epoch(2), log.end_of_epoch(4)) == ((0, 5), (0, 5), (4, 6))
    assert (second.fork_offset, second.end_offset) == (2, 3)


def test_a_third_replica_keeps_what_it_had_while_two_others_lead(log: PartitionLog) -> None:
    append(log, b"a", 1)
    short = stop_following(log)
    append(log, b"b", 1)
    middle = stop_following(log)
    append(log, b"c", 1)
    long = stop_following(log)
    truncate_to_leader(log, short, [middle, long])
    log.start_leader_epoch(1)
    append(log, b"x", 5)
    short = stop_following(log)
    truncate_to_leader(log, middle, [short, long])
    assert values(log) == "ab"
    log.start_leader_epoch(2)
    middle = stop_following(log)
    truncate_to_leader(log, long, [short, middle])

    assert values(log) == "abc"


def test_a_new_leader_starts_with_its_last_high_watermark(log: PartitionLog) -> None:
    append(log, b"a", 4)
    truncate_to_leader(log, ReplicaLog(fork_offset=4, high_watermark=1), [])

    assert (log.high_watermark, log.end_offset) == (1, 4)
