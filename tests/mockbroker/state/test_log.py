"""The log of a partition: what goes in, what comes out, and where offsets lie."""

from __future__ import annotations

import msgspec
import pytest

from kwire.error_codes import ErrorCode
from kwire.records import Codec, Record, TimestampType, parse_header, read_batches, write_batch
from mockbroker.config import BrokerConfig
from mockbroker.kafka_error import KafkaError
from mockbroker.state.batch_rules import RecordsRefusedError, TopicRules
from mockbroker.state.configs import Configs
from mockbroker.state.log import OffsetAtTime, Origin, PartitionLog
from mockbroker.state.segments import RollRules

RULES = TopicRules.of(Configs(BrokerConfig()).topic("t"))
NOW = 1_000_000


def make(**changes: object) -> PartitionLog:
    return PartitionLog(lambda: msgspec.structs.replace(RULES, **changes))


def batch(*timestamps: int, key: bytes | None = b"k", codec: str = "none", **given: object) -> bytes:
    """A produced batch with one record for each timestamp."""
    records = [Record(at, timestamp, key, b"v" * 10) for at, timestamp in enumerate(timestamps)]
    return write_batch(records, codec=codec, **given)  # type: ignore[arg-type]


def idempotent(sequence: int, count: int = 1, *, epoch: int = 0, transactional: bool = False) -> bytes:
    return batch(
        *[NOW] * count, producer_id=7, producer_epoch=epoch, base_sequence=sequence, transactional=transactional
    )


def code_of(log: PartitionLog, data: bytes, *, now_ms: int = NOW) -> ErrorCode:
    with pytest.raises(KafkaError) as caught:
        log.append(data, now_ms=now_ms)
    return caught.value.code


def test_batches_get_the_next_offsets_and_the_leaders_epoch() -> None:
    log = make()
    log.begin_epoch(3)
    first = log.append(batch(NOW, NOW), now_ms=NOW)
    second = log.append(batch(NOW, NOW, NOW), now_ms=NOW)

    assert (first.first_offset, first.last_offset, first.append_time_ms) == (0, 1, -1)
    assert (second.first_offset, second.last_offset) == (2, 4)
    assert (log.start_offset, log.high_watermark, log.end_offset, log.last_stable_offset) == (0, 5, 5, 5)
    stored = list(read_batches(log.read(0, 1 << 20).join()))
    assert [(b.base_offset, b.last_offset, b.partition_leader_epoch) for b in stored] == [(0, 1, 3), (2, 4, 3)]


def test_a_read_gives_whole_batches_from_the_one_that_holds_the_offset() -> None:
    log = make()
    for _ in range(4):
        log.append(batch(NOW, NOW), now_ms=NOW)
    size = len(batch(NOW, NOW))

    def spans(offset: int, max_bytes: int, **how: object) -> list[int]:
        return [b.base_offset for b in log.read(offset, max_bytes, **how).batches]  # type: ignore[arg-type]

    assert spans(3, 10 * size) == [2, 4, 6]
    assert spans(0, 2 * size) == [0, 2]
    assert spans(0, 2 * size - 1) == [0]
    assert spans(0, 1) == [0]
    assert spans(0, 1, min_one=False) == []
    assert spans(0, 10 * size, up_to=4) == [0, 2]
    assert spans(8, 10 * size) == []
    assert log.read(0, 2 * size).size == 2 * size


@pytest.mark.parametrize("offset", [-1, 3])
def test_a_read_outside_of_the_log_is_refused(offset: int) -> None:
    log = make()
    log.append(batch(NOW, NOW), now_ms=NOW)

    with pytest.raises(KafkaError) as caught:
        log.read(offset, 100)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_what_is_wrong_with_a_batch_has_kafkas_code() -> None:
    """The conversation other-produce-validation."""
    corrupt = bytearray(batch(NOW))
    corrupt[-1] ^= 1
    good = batch(NOW)
    control = batch(NOW, control=True)

    assert code_of(make(), bytes(corrupt)) is ErrorCode.CORRUPT_MESSAGE
    assert code_of(make(), good[:-1]) is ErrorCode.CORRUPT_MESSAGE
    assert code_of(make(), good + good) is ErrorCode.INVALID_RECORD
    assert code_of(make(), write_batch([Record(5, NOW)])) is ErrorCode.INVALID_RECORD
    assert code_of(make(), control) is ErrorCode.INVALID_RECORD
    assert code_of(make(), batch(NOW, magic=1)) is ErrorCode.INVALID_RECORD
    assert code_of(make(), batch(NOW, producer_id=1, producer_epoch=0)) is ErrorCode.INVALID_RECORD
    assert code_of(make(message_bytes_max=len(good) - 1), good) is ErrorCode.MESSAGE_TOO_LARGE
    assert code_of(make(roll=RollRules(len(good) - 1, 604_800_000)), good) is ErrorCode.RECORD_LIST_TOO_LARGE
    stamped = batch(NOW, timestamp_type=TimestampType.LOG_APPEND_TIME)
    assert code_of(make(append_time=True), stamped) is ErrorCode.INVALID_TIMESTAMP


def test_a_refused_batch_leaves_no_trace() -> None:
    log = make(compacted=True)

    assert code_of(log, batch(NOW, key=None)) is ErrorCode.INVALID_RECORD
    assert (log.end_offset, log.producers.active()) == (0, [])


def test_records_without_key_in_a_compacted_topic_are_named_one_by_one() -> None:
    """The conversation other-produce-compacted-topic."""
    with pytest.raises(RecordsRefusedError) as caught:
        make(compacted=True).append(batch(NOW, NOW, key=None), now_ms=NOW)

    assert caught.value.code is ErrorCode.INVALID_RECORD
    assert [index for index, _ in caught.value.record_errors] == [0, 1]


@pytest.mark.parametrize(
    ("timestamp", "good"), [(NOW - 1000, True), (NOW - 1001, False), (NOW + 500, True), (NOW + 501, False)]
)
def test_timestamps_stay_within_the_topics_window(timestamp: int, good: bool) -> None:
    """The conversation other-produce-timestamps."""
    log = make(before_max_ms=1000, after_max_ms=500)

    if good:
        assert log.append(batch(timestamp), now_ms=NOW).first_offset == 0
    else:
        assert code_of(log, batch(timestamp)) is ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_the_broker_sets_the_time_where_the_topic_says_so(codec: str) -> None:
    log = make(append_time=True)
    appended = log.append(batch(5, 6, codec=codec), now_ms=NOW)

    assert appended.append_time_ms == NOW
    (stored,) = log.read(0, 1 << 20).batches
    assert stored.header().crc_is_valid
    assert [record.timestamp for record in stored.records()] == [NOW, NOW]


def test_a_header_that_lies_about_time_is_put_right() -> None:
    """Kafka's LogValidator sets type and largest timestamp from the records."""
    log = make()
    log.append(batch(NOW, timestamp_type=TimestampType.LOG_APPEND_TIME), now_ms=NOW)
    log.append(batch(NOW, NOW - 7, max_timestamp=NOW + 9), now_ms=NOW)

    stamped, late = (stored.header() for stored in log.read(0, 1 << 20).batches)
    assert stamped.timestamp_type is TimestampType.CREATE_TIME
    assert (late.max_timestamp, late.crc_is_valid) == (NOW, True)
    assert log.offset_of_max_timestamp() == OffsetAtTime(0, NOW, 0)


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("append_time", [False, True])
def test_a_topic_with_a_codec_of_its_own_stores_no_other(codec: Codec, append_time: bool) -> None:
    log = make(codec=codec, append_time=append_time)
    data = batch(NOW, NOW - 1, codec="gzip", producer_id=7, producer_epoch=1, base_sequence=4)
    log.append(data, now_ms=NOW + 5)

    (stored,) = log.read(0, 1 << 20).batches
    header = stored.header()
    assert (header.codec, header.producer_id, header.producer_epoch, header.base_sequence) == (codec, 7, 1, 4)
    assert header.crc_is_valid
    expected = [NOW + 5, NOW + 5] if append_time else [NOW, NOW - 1]
    assert [(r.offset, r.timestamp, r.value) for r in stored.records()] == [
        (at, timestamp, b"v" * 10) for at, timestamp in enumerate(expected)
    ]


def test_the_last_five_batches_are_known_again() -> None:
    """The conversation other-idempotent-window."""
    log = make()
    for sequence in range(7):
        log.append(idempotent(sequence), now_ms=NOW)

    for sequence in range(2, 7):
        again = log.append(idempotent(sequence), now_ms=NOW)
        assert (again.duplicate, again.first_offset) == (True, sequence)
    for sequence in (0, 1, 8):
        assert code_of(log, idempotent(sequence)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.end_offset == 7


def test_epochs_fence_and_begin_with_sequence_zero() -> None:
    log = make()
    log.append(idempotent(0, epoch=1), now_ms=NOW)

    assert code_of(log, idempotent(1, epoch=0)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert code_of(log, idempotent(1, epoch=2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.append(idempotent(0, epoch=2), now_ms=NOW).first_offset == 1


def test_an_unknown_producer_may_begin_anywhere_and_sequences_wrap() -> None:
    log = make()
    largest = (1 << 31) - 1
    log.append(idempotent(largest - 1, 2), now_ms=NOW)

    assert log.append(idempotent(0), now_ms=NOW).first_offset == 2


def test_the_stable_offset_waits_for_open_transactions() -> None:
    """The conversation other-txn-aborted-list."""
    log = make()
    log.append(idempotent(0, 2, transactional=True), now_ms=NOW)
    other = batch(NOW, NOW, producer_id=8, producer_epoch=0, base_sequence=0, transactional=True)
    log.append(other, now_ms=NOW)
    assert log.last_stable_offset == 0

    def end(producer_id: int, *, commit: bool) -> int:
        return log.append_marker(
            commit=commit, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, now_ms=NOW
        )

    assert end(7, commit=False) == 4
    assert (log.last_stable_offset, log.high_watermark) == (2, 5)
    assert end(8, commit=False) == 5
    assert log.last_stable_offset == 6

    def aborted(first: int) -> list[tuple[int, int]]:
        return [(a.producer_id, a.first_offset) for a in log.aborted_transactions(first, 6)]

    assert aborted(0) == [(7, 0), (8, 2)]
    assert aborted(2) == [(7, 0), (8, 2)]
    assert aborted(5) == [(8, 2)]
    assert aborted(6) == []
    marker = log.read(4, 1).batches[0].header()
    assert (marker.is_control, marker.is_transactional) == (True, True)


def test_a_transaction_whose_first_records_are_deleted_begins_where_the_log_does() -> None:
    """The conversation other-delete-records."""
    log = make()
    log.append(idempotent(0, 3, transactional=True), now_ms=NOW)
    log.delete_before(2)

    assert (log.start_offset, log.last_stable_offset, log.high_watermark) == (2, 2, 3)


def test_a_committed_transaction_is_not_among_the_aborted() -> None:
    log = make()
    log.append(idempotent(0, transactional=True), now_ms=NOW)
    log.append_marker(commit=True, producer_id=7, producer_epoch=0, coordinator_epoch=0, now_ms=NOW)

    assert (log.last_stable_offset, log.aborted_transactions(0, 9)) == (2, [])


def test_markers_of_old_producers_and_coordinators_are_refused() -> None:
    log = make()
    log.append(idempotent(0, epoch=3, transactional=True), now_ms=NOW)

    def code(epoch: int, coordinator_epoch: int, version: int) -> ErrorCode:
        with pytest.raises(KafkaError) as caught:
            log.append_marker(
                commit=True,
                producer_id=7,
                producer_epoch=epoch,
                coordinator_epoch=coordinator_epoch,
                now_ms=NOW,
                transaction_version=version,
            )
        return caught.value.code

    assert code(2, 0, 1) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert code(3, 0, 2) is ErrorCode.INVALID_PRODUCER_EPOCH
    log.append_marker(commit=True, producer_id=7, producer_epoch=4, coordinator_epoch=5, now_ms=NOW)
    assert code(4, 4, 1) is ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_an_open_transaction_takes_no_other_records_of_its_producer() -> None:
    log = make()
    log.append(idempotent(0, transactional=True), now_ms=NOW)

    assert code_of(log, idempotent(1)) is ErrorCode.INVALID_TXN_STATE


def test_records_are_found_by_time_from_the_logs_start_on() -> None:
    log = make()
    log.append(batch(100, 300), now_ms=NOW)
    log.append(batch(200, 250), now_ms=NOW)
    log.append(batch(400), now_ms=NOW)

    assert log.offset_for_timestamp(0) == OffsetAtTime(0, 100, 0)
    assert log.offset_for_timestamp(101) == OffsetAtTime(1, 300, 0)
    assert log.offset_for_timestamp(301) == OffsetAtTime(4, 400, 0)
    assert log.offset_for_timestamp(401) is None
    assert log.offset_of_max_timestamp() == OffsetAtTime(4, 400, 0)
    log.delete_before(2)
    assert log.offset_for_timestamp(0) == OffsetAtTime(2, 200, 0)


def test_an_empty_log_has_no_record_at_any_time() -> None:
    assert make().offset_for_timestamp(0) is None
    assert make().offset_of_max_timestamp() is None


def test_the_logs_start_moves_up_to_the_high_watermark_and_not_back() -> None:
    log = make()
    for _ in range(3):
        log.append(batch(NOW, NOW), now_ms=NOW)

    assert log.delete_before(3) == 3
    assert log.delete_before(1) == 3
    assert [b.base_offset for b in log.read(3, 1 << 20).batches] == [2, 4]
    with pytest.raises(KafkaError) as caught:
        log.read(2, 100)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE
    with pytest.raises(KafkaError):
        log.delete_before(7)
    assert log.delete_before(-1) == 6


def test_leader_epochs_know_where_they_end() -> None:
    """The conversation other-offset-for-leader-epoch."""
    log = make()
    log.begin_epoch(0)
    for _ in range(2):
        log.append(batch(NOW, NOW), now_ms=NOW)
    log.begin_epoch(2)
    log.begin_epoch(5)
    log.append(batch(NOW), now_ms=NOW)

    assert log.epoch_end(0) == (0, 4)
    assert log.epoch_end(3) == (0, 4)
    assert log.epoch_end(5) == (5, 5)
    assert log.epoch_end(6) is None
    assert log.epoch_end(-1) is None
    assert log.epoch_at_start() == 0


def test_the_broker_itself_may_write_what_a_client_may_not() -> None:
    log = make(compacted=True)
    log.append(batch(NOW, key=None), now_ms=NOW, origin=Origin.COORDINATOR)

    assert log.end_offset == 1


def test_every_append_tells_whoever_waits() -> None:
    told: list[int] = []
    log = PartitionLog(lambda: RULES, lambda: told.append(log.high_watermark))
    log.append(batch(NOW), now_ms=NOW)
    log.append(batch(NOW, NOW), now_ms=NOW)

    assert told == [1, 3]


def test_an_append_copies_the_batch_and_a_read_of_one_batch_does_not() -> None:
    log = make()
    data = bytearray(batch(NOW))
    log.append(data, now_ms=NOW)
    data[:] = bytes(len(data))

    slice_ = log.read(0, 1)
    assert slice_.join() is slice_.batches[0].raw
    assert parse_header(slice_.join()).crc_is_valid
