"""Replicas that fall behind, and what is left of a log when one of them is elected."""

from __future__ import annotations

import pytest

from kwire.error_codes import ErrorCode
from kwire.records import Record, write_batch
from mockbroker.config import BrokerConfig
from mockbroker.kafka_error import KafkaError
from mockbroker.state.batch_rules import TopicRules
from mockbroker.state.configs import Configs
from mockbroker.state.log import PartitionLog
from mockbroker.state.replicas import Disk, elect, leave, release

RULES = TopicRules.of(Configs(BrokerConfig()).topic("t"))
NOW = 1_000_000


def make() -> PartitionLog:
    log = PartitionLog(lambda: RULES)
    log.begin_epoch(0)
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


def test_a_log_that_is_cut_ends_there_in_every_respect() -> None:
    log = make()
    append(log, b"a", 2, timestamp=NOW)
    log.begin_epoch(1)
    append(log, b"b", 2, timestamp=NOW + 50)
    cut = log.truncate(2)

    assert [(stored.base_offset, stored.last_offset) for stored in cut] == [(2, 3)]
    assert (log.end_offset, log.high_watermark, log.last_stable_offset) == (2, 2, 2)
    assert (log.epoch_end(0), log.leader_epoch) == ((0, 2), 0)
    found = log.offset_of_max_timestamp()
    assert found is not None
    assert (found.offset, found.timestamp) == (0, NOW)
    assert log.offset_for_timestamp(NOW + 1) is None
    with pytest.raises(KafkaError) as refused:
        log.read(3, 100)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_cut_below_the_start_leaves_an_empty_log_there() -> None:
    log = make()
    append(log, b"a", 4)
    append(log, b"b", 4)
    log.delete_before(6)
    log.truncate(3)

    assert (log.start_offset, log.end_offset, log.high_watermark) == (3, 3, 3)
    append(log, b"c")
    assert values(log) == "c"


def test_a_producer_goes_on_after_its_last_batch_that_is_left() -> None:
    log = make()
    for sequence in range(3):
        append(log, b"a", producer_id=7, producer_epoch=0, base_sequence=sequence)
    log.truncate(1)

    (producer,) = log.producers.active()
    assert producer.last_sequence == 0
    append(log, b"a", producer_id=7, producer_epoch=0, base_sequence=1)
    assert log.end_offset == 2


def test_a_producer_of_whom_nothing_is_left_is_not_known() -> None:
    log = make()
    append(log, b"a")
    append(log, b"b", producer_id=7, producer_epoch=0, base_sequence=0)
    log.truncate(1)

    assert log.producers.active() == []


def test_a_producer_whose_records_are_deleted_is_still_known() -> None:
    log = make()
    append(log, b"a", producer_id=7, producer_epoch=0, base_sequence=0)
    append(log, b"b")
    append(log, b"c")
    log.delete_before(1)
    log.truncate(2)

    assert [producer.producer_id for producer in log.producers.active()] == [7]


def test_a_transaction_whose_marker_is_lost_is_open_again() -> None:
    log = make()
    transactional(log, 0)
    append(log, b"a")
    end(log, commit=False)
    assert log.last_stable_offset == 3
    log.truncate(2)

    assert (log.last_stable_offset, log.high_watermark) == (0, 2)
    assert log.aborted_transactions(0, 3) == []


def test_an_aborted_transaction_that_is_left_stays_aborted_once() -> None:
    log = make()
    transactional(log, 0)
    end(log, commit=False)
    append(log, b"a")
    log.truncate(2)

    assert [(one.first_offset, one.last_offset) for one in log.aborted_transactions(0, 9)] == [(0, 1)]
    (producer,) = log.producers.active()
    assert (producer.transaction_start, producer.coordinator_epoch) == (None, 3)


def test_the_high_watermark_stands_while_a_replica_in_sync_stands() -> None:
    log = make()
    append(log, b"a", 3)
    disks = {2: leave(log)}
    release(log, disks, in_sync=(1, 2), least=1)
    append(log, b"b", 2)

    assert (log.high_watermark, log.end_offset) == (3, 5)
    release(log, disks, in_sync=(1,), least=1)
    assert log.high_watermark == 5


def test_the_high_watermark_stands_while_too_few_are_in_sync() -> None:
    log = make()
    append(log, b"a", 3)
    disks = {2: leave(log)}
    release(log, disks, in_sync=(1,), least=2)
    append(log, b"b", 2)
    assert log.high_watermark == 3
    release(log, {}, in_sync=(1, 2), least=2)

    assert log.high_watermark == 5


def test_whoever_waits_is_told_when_the_high_watermark_goes_on() -> None:
    told: list[int] = []
    log = PartitionLog(lambda: RULES, lambda: told.append(log.high_watermark))
    append(log, b"a", 3)
    log.hold(3)
    append(log, b"b")
    log.hold(None)

    assert told == [3, 3, 4]


def test_records_that_a_new_leader_lacks_are_lost() -> None:
    log = make()
    append(log, b"a", 2)
    second = leave(log)
    append(log, b"b", 3)
    first = leave(log)
    elect(log, second, [first])

    assert (values(log), log.end_offset) == ("aa", 2)
    assert (first.fork, first.end_offset) == (2, 5)


def test_records_of_a_replica_that_has_not_followed_come_back_with_it() -> None:
    log = make()
    append(log, b"a", 2)
    second = leave(log)
    append(log, b"b", 3)
    first = leave(log)
    elect(log, second, [first])
    log.begin_epoch(2)
    append(log, b"c", 1)
    second = leave(log)
    elect(log, first, [second])
    release(log, {}, in_sync=(1,), least=1)
    log.begin_epoch(4)
    append(log, b"d", 1)

    assert values(log) == "aabbbd"
    assert [stored.leader_epoch for stored in log.read(0, 1 << 20).batches] == [0, 0, 4]
    assert (log.epoch_end(0), log.epoch_end(2), log.epoch_end(4)) == ((0, 5), (0, 5), (4, 6))
    assert (second.fork, second.end_offset) == (2, 3)


def test_a_third_replica_keeps_what_it_had_while_two_others_lead() -> None:
    log = make()
    append(log, b"a", 1)
    short = leave(log)
    append(log, b"b", 1)
    middle = leave(log)
    append(log, b"c", 1)
    long = leave(log)
    elect(log, short, [middle, long])
    log.begin_epoch(1)
    append(log, b"x", 5)
    short = leave(log)
    elect(log, middle, [short, long])
    assert values(log) == "ab"
    log.begin_epoch(2)
    middle = leave(log)
    elect(log, long, [short, middle])

    assert values(log) == "abc"


def test_a_new_leader_begins_with_the_high_watermark_that_it_knew() -> None:
    log = make()
    append(log, b"a", 4)
    elect(log, Disk(fork=4, high_watermark=1), [])

    assert (log.high_watermark, log.end_offset) == (1, 4)
