"""The log of a partition: appends, reads and offsets."""

from __future__ import annotations

import msgspec
import pytest

from kwire.error_codes import ErrorCode
from kwire.records import Codec, Record, TimestampType, parse_header, read_batches, write_batch
from mockbroker.config.broker_config import BrokerConfig
from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata.configs import Configs
from mockbroker.state.storage.log_config import AppendRules
from mockbroker.state.storage.log_validator import RecordsRefusedError
from mockbroker.state.storage.partition_log import AppendOrigin, PartitionLog, TimestampOffset
from mockbroker.state.storage.segments import RollRules
from tests.support.raises_code import code_of, raises_code

RULES = AppendRules.from_config(Configs(BrokerConfig()).topic("t"))
NOW = 1_000_000


def make_log(**changes: object) -> PartitionLog:
    return PartitionLog(lambda: msgspec.structs.replace(RULES, **changes))


def batch(*timestamps: int, key: bytes | None = b"k", codec: str = "none", **given: object) -> bytes:
    """A produced batch with one record for each timestamp."""
    records = [Record(at, timestamp, key, b"v" * 10) for at, timestamp in enumerate(timestamps)]
    return write_batch(records, codec=codec, **given)  # type: ignore[arg-type]


def idempotent(sequence: int, count: int = 1, *, epoch: int = 0, transactional: bool = False) -> bytes:
    return batch(
        *[NOW] * count, producer_id=7, producer_epoch=epoch, base_sequence=sequence, transactional=transactional
    )


def end_transaction(log: PartitionLog, *, commit: bool = True, producer_id: int = 7, **given: int) -> int:
    marker = {"producer_epoch": 0, "coordinator_epoch": 0, **given}
    return log.append_marker(commit=commit, producer_id=producer_id, now_ms=NOW, **marker)


def error_of(log: PartitionLog, data: bytes) -> ErrorCode:
    return code_of(lambda: log.append(data, now_ms=NOW))


@pytest.fixture
def log() -> PartitionLog:
    return make_log()


def test_batches_get_the_next_offsets_and_the_leaders_epoch(log: PartitionLog) -> None:
    log.start_leader_epoch(3)
    first = log.append(batch(NOW, NOW), now_ms=NOW)
    second = log.append(batch(NOW, NOW, NOW), now_ms=NOW)

    assert (first.first_offset, first.last_offset, first.append_time_ms) == (0, 1, -1)
    assert (second.first_offset, second.last_offset) == (2, 4)
    assert (log.start_offset, log.high_watermark, log.end_offset, log.last_stable_offset) == (0, 5, 5, 5)
    stored = list(read_batches(log.read(0, 1 << 20).join()))
    assert [(b.base_offset, b.last_offset, b.partition_leader_epoch) for b in stored] == [(0, 1, 3), (2, 4, 3)]


def test_a_read_gives_whole_batches_from_the_one_that_holds_the_offset(log: PartitionLog) -> None:
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
def test_a_read_outside_of_the_log_fails(log: PartitionLog, offset: int) -> None:
    log.append(batch(NOW, NOW), now_ms=NOW)

    with raises_code(ErrorCode.OFFSET_OUT_OF_RANGE):
        log.read(offset, 100)


def test_an_invalid_batch_has_kafkas_code() -> None:
    """The conversation other-produce-validation."""
    corrupt = bytearray(batch(NOW))
    corrupt[-1] ^= 1
    valid = batch(NOW)
    control = batch(NOW, control=True)

    assert error_of(make_log(), bytes(corrupt)) is ErrorCode.CORRUPT_MESSAGE
    assert error_of(make_log(), valid[:-1]) is ErrorCode.CORRUPT_MESSAGE
    assert error_of(make_log(), valid + valid) is ErrorCode.INVALID_RECORD
    assert error_of(make_log(), write_batch([Record(5, NOW)])) is ErrorCode.INVALID_RECORD
    assert error_of(make_log(), control) is ErrorCode.INVALID_RECORD
    assert error_of(make_log(), batch(NOW, magic=1)) is ErrorCode.INVALID_RECORD
    assert error_of(make_log(), batch(NOW, producer_id=1, producer_epoch=0)) is ErrorCode.INVALID_RECORD
    assert error_of(make_log(message_bytes_max=len(valid) - 1), valid) is ErrorCode.MESSAGE_TOO_LARGE
    assert error_of(make_log(roll=RollRules(len(valid) - 1, 604_800_000)), valid) is ErrorCode.RECORD_LIST_TOO_LARGE
    stamped = batch(NOW, timestamp_type=TimestampType.LOG_APPEND_TIME)
    assert error_of(make_log(append_time=True), stamped) is ErrorCode.INVALID_TIMESTAMP


def test_a_rejected_batch_changes_nothing() -> None:
    log = make_log(compacted=True)

    assert error_of(log, batch(NOW, key=None)) is ErrorCode.INVALID_RECORD
    assert (log.end_offset, log.producers.all_states()) == (0, [])


def test_records_without_key_in_a_compacted_topic_are_reported_one_by_one() -> None:
    """The conversation other-produce-compacted-topic."""
    with pytest.raises(RecordsRefusedError) as caught:
        make_log(compacted=True).append(batch(NOW, NOW, key=None), now_ms=NOW)

    assert caught.value.code is ErrorCode.INVALID_RECORD
    assert [index for index, _ in caught.value.record_errors] == [0, 1]


@pytest.mark.parametrize(
    ("timestamp", "valid"), [(NOW - 1000, True), (NOW - 1001, False), (NOW + 500, True), (NOW + 501, False)]
)
def test_timestamps_stay_within_the_topics_window(timestamp: int, valid: bool) -> None:
    """The conversation other-produce-timestamps."""
    log = make_log(before_max_ms=1000, after_max_ms=500)

    if valid:
        assert log.append(batch(timestamp), now_ms=NOW).first_offset == 0
    else:
        assert error_of(log, batch(timestamp)) is ErrorCode.INVALID_TIMESTAMP


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_the_broker_sets_the_time_where_the_topic_says_so(codec: str) -> None:
    log = make_log(append_time=True)
    appended = log.append(batch(5, 6, codec=codec), now_ms=NOW)

    assert appended.append_time_ms == NOW
    (stored,) = log.read(0, 1 << 20).batches
    assert stored.header().crc_is_valid
    assert [record.timestamp for record in stored.records()] == [NOW, NOW]


def test_a_wrong_timestamp_in_the_header_is_corrected(log: PartitionLog) -> None:
    """Kafka's LogValidator sets type and largest timestamp from the records."""
    log.append(batch(NOW, timestamp_type=TimestampType.LOG_APPEND_TIME), now_ms=NOW)
    log.append(batch(NOW, NOW - 7, max_timestamp=NOW + 9), now_ms=NOW)

    stamped, late = (stored.header() for stored in log.read(0, 1 << 20).batches)
    assert stamped.timestamp_type is TimestampType.CREATE_TIME
    assert (late.max_timestamp, late.crc_is_valid) == (NOW, True)
    assert log.offset_of_max_timestamp() == TimestampOffset(0, NOW, 0)


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("append_time", [False, True])
def test_a_topic_with_a_codec_of_its_own_stores_no_other(codec: Codec, append_time: bool) -> None:
    log = make_log(codec=codec, append_time=append_time)
    data = batch(NOW, NOW - 1, codec="gzip", producer_id=7, producer_epoch=1, base_sequence=4)
    log.append(data, now_ms=NOW + 5)

    (stored,) = log.read(0, 1 << 20).batches
    header = stored.header()
    assert (header.codec, header.producer_id, header.producer_epoch, header.base_sequence) == (codec, 7, 1, 4)
    assert header.crc_is_valid
    expected = [NOW + 5, NOW + 5] if append_time else [NOW, NOW - 1]
    records = [(record.offset, record.timestamp, record.value) for record in stored.records()]
    assert records == [(at, timestamp, b"v" * 10) for at, timestamp in enumerate(expected)]


def test_duplicates_of_the_last_five_batches_are_detected(log: PartitionLog) -> None:
    """The conversation other-idempotent-window."""
    for sequence in range(7):
        log.append(idempotent(sequence), now_ms=NOW)

    for sequence in range(2, 7):
        again = log.append(idempotent(sequence), now_ms=NOW)
        assert (again.is_duplicate, again.first_offset) == (True, sequence)
    for sequence in (0, 1, 8):
        assert error_of(log, idempotent(sequence)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.end_offset == 7


def test_epochs_fence_and_begin_with_sequence_zero(log: PartitionLog) -> None:
    log.append(idempotent(0, epoch=1), now_ms=NOW)

    assert error_of(log, idempotent(1, epoch=0)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert error_of(log, idempotent(1, epoch=2)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.append(idempotent(0, epoch=2), now_ms=NOW).first_offset == 1


def test_an_unknown_producer_may_begin_anywhere_and_sequences_wrap(log: PartitionLog) -> None:
    largest = (1 << 31) - 1
    log.append(idempotent(largest - 1, 2), now_ms=NOW)

    assert log.append(idempotent(0), now_ms=NOW).first_offset == 2


def test_the_stable_offset_waits_for_open_transactions(log: PartitionLog) -> None:
    """The conversation other-txn-aborted-list."""
    log.append(idempotent(0, 2, transactional=True), now_ms=NOW)
    other = batch(NOW, NOW, producer_id=8, producer_epoch=0, base_sequence=0, transactional=True)
    log.append(other, now_ms=NOW)
    assert log.last_stable_offset == 0

    assert end_transaction(log, commit=False) == 4
    assert (log.last_stable_offset, log.high_watermark) == (2, 5)
    assert end_transaction(log, producer_id=8, commit=False) == 5
    assert log.last_stable_offset == 6

    def aborted(first: int) -> list[tuple[int, int]]:
        return [(a.producer_id, a.first_offset) for a in log.aborted_transactions(first, 6)]

    assert aborted(0) == [(7, 0), (8, 2)]
    assert aborted(2) == [(7, 0), (8, 2)]
    assert aborted(5) == [(8, 2)]
    assert aborted(6) == []
    marker = log.read(4, 1).batches[0].header()
    assert (marker.is_control, marker.is_transactional) == (True, True)


def test_a_transaction_whose_first_records_are_deleted_begins_where_the_log_does(log: PartitionLog) -> None:
    """The conversation other-delete-records."""
    log.append(idempotent(0, 3, transactional=True), now_ms=NOW)
    log.delete_records_before(2)

    assert (log.start_offset, log.last_stable_offset, log.high_watermark) == (2, 2, 3)


def test_a_committed_transaction_is_not_among_the_aborted(log: PartitionLog) -> None:
    log.append(idempotent(0, transactional=True), now_ms=NOW)
    end_transaction(log)

    assert (log.last_stable_offset, log.aborted_transactions(0, 9)) == (2, [])


def test_markers_of_old_producers_and_coordinators_are_refused(log: PartitionLog) -> None:
    log.append(idempotent(0, epoch=3, transactional=True), now_ms=NOW)

    with raises_code(ErrorCode.INVALID_PRODUCER_EPOCH):
        end_transaction(log, producer_epoch=2)
    with raises_code(ErrorCode.INVALID_PRODUCER_EPOCH):
        end_transaction(log, producer_epoch=3, transaction_version=2)
    end_transaction(log, producer_epoch=4, coordinator_epoch=5)
    with raises_code(ErrorCode.TRANSACTION_COORDINATOR_FENCED):
        end_transaction(log, producer_epoch=4, coordinator_epoch=4)


def test_an_open_transaction_rejects_other_records_of_its_producer(log: PartitionLog) -> None:
    log.append(idempotent(0, transactional=True), now_ms=NOW)

    assert error_of(log, idempotent(1)) is ErrorCode.INVALID_TXN_STATE


def test_records_are_found_by_time_from_the_logs_start_on(log: PartitionLog) -> None:
    log.append(batch(100, 300), now_ms=NOW)
    log.append(batch(200, 250), now_ms=NOW)
    log.append(batch(400), now_ms=NOW)

    assert log.offset_for_timestamp(0) == TimestampOffset(0, 100, 0)
    assert log.offset_for_timestamp(101) == TimestampOffset(1, 300, 0)
    assert log.offset_for_timestamp(301) == TimestampOffset(4, 400, 0)
    assert log.offset_for_timestamp(401) is None
    assert log.offset_of_max_timestamp() == TimestampOffset(4, 400, 0)
    log.delete_records_before(2)
    assert log.offset_for_timestamp(0) == TimestampOffset(2, 200, 0)


def test_an_empty_log_has_no_record_at_any_time() -> None:
    assert make_log().offset_for_timestamp(0) is None
    assert make_log().offset_of_max_timestamp() is None


def test_the_logs_start_moves_up_to_the_high_watermark_and_not_back(log: PartitionLog) -> None:
    for _ in range(3):
        log.append(batch(NOW, NOW), now_ms=NOW)

    assert log.delete_records_before(3) == 3
    assert log.delete_records_before(1) == 3
    assert [b.base_offset for b in log.read(3, 1 << 20).batches] == [2, 4]
    with raises_code(ErrorCode.OFFSET_OUT_OF_RANGE):
        log.read(2, 100)
    with pytest.raises(KafkaError):
        log.delete_records_before(7)
    assert log.delete_records_before(-1) == 6


def test_leader_epochs_have_end_offsets(log: PartitionLog) -> None:
    """The conversation other-offset-for-leader-epoch."""
    log.start_leader_epoch(0)
    for _ in range(2):
        log.append(batch(NOW, NOW), now_ms=NOW)
    log.start_leader_epoch(2)
    log.start_leader_epoch(5)
    log.append(batch(NOW), now_ms=NOW)

    assert log.end_of_epoch(0) == (0, 4)
    assert log.end_of_epoch(3) == (0, 4)
    assert log.end_of_epoch(5) == (5, 5)
    assert log.end_of_epoch(6) is None
    assert log.end_of_epoch(-1) is None
    assert log.epoch_at(log.start_offset) == 0


def test_the_broker_may_write_records_that_a_client_may_not() -> None:
    log = make_log(compacted=True)
    log.append(batch(NOW, key=None), now_ms=NOW, origin=AppendOrigin.COORDINATOR)

    assert log.end_offset == 1


def test_every_append_wakes_waiting_requests() -> None:
    wakes: list[int] = []
    waking = PartitionLog(lambda: RULES, lambda: wakes.append(waking.high_watermark))
    waking.append(batch(NOW), now_ms=NOW)
    waking.append(batch(NOW, NOW), now_ms=NOW)

    assert wakes == [1, 3]


def test_an_append_copies_the_batch_and_a_read_of_one_batch_does_not(log: PartitionLog) -> None:
    data = bytearray(batch(NOW))
    log.append(data, now_ms=NOW)
    data[:] = bytes(len(data))

    slice_ = log.read(0, 1)
    joined = slice_.join()
    assert type(joined) is memoryview
    assert isinstance(slice_.batches[0].chunk, memoryview)
    assert joined.obj is slice_.batches[0].chunk.obj
    assert parse_header(slice_.join()).crc_is_valid


def test_a_measured_read_has_the_size_of_the_read(log: PartitionLog) -> None:
    for count in (1, 3, 1, 2):
        log.append(batch(*[NOW] * count), now_ms=NOW)

    for offset in range(8):
        for up_to in range(8):
            for max_bytes in (1, 79, 80, 200, 10_000):
                read = log.read(offset, max_bytes, up_to=up_to)
                is_all = not read.batches or read.batches[-1].last_offset + 1 >= up_to
                assert log.measure(offset, max_bytes, up_to=up_to) == (read.size, is_all)
    with pytest.raises(KafkaError, match="not within 0 to 7"):
        log.measure(8, 1, up_to=8)


@pytest.mark.parametrize("partial", [True, False])
def test_a_read_from_beyond_its_end_is_empty(partial: bool) -> None:
    """A follower that is ahead of the high watermark, as when too few replicas are in sync."""
    log = make_log()
    for _ in range(5):
        log.append(batch(NOW), now_ms=NOW)

    read = log.read(5, 1_000_000, up_to=3, partial=partial)

    assert (list(read.batches), read.size, read.cut_batch) == ([], 0, None)
    assert log.read(4, 0, up_to=3, partial=partial).size == 0
    assert log.measure(5, 1_000_000, up_to=3) == (0, True)


def test_what_was_read_is_a_sequence_of_the_batches_read(log: PartitionLog) -> None:
    for _ in range(5):
        log.append(batch(NOW), now_ms=NOW)
    read = log.read(1, 1 << 20, up_to=4).batches
    log.append(batch(NOW), now_ms=NOW)

    assert [stored.base_offset for stored in read] == [1, 2, 3]
    assert (len(read), read[0].base_offset, read[-1].base_offset) == (3, 1, 3)
    assert [stored.base_offset for stored in read[1:]] == [stored.base_offset for stored in read[-2:]] == [2, 3]
    for beyond in (3, -4):
        with pytest.raises(IndexError):
            _ = read[beyond]


def test_old_messages_keep_their_bytes_and_have_no_epoch_also_after_they_were_truncated_and_restored() -> None:
    log = make_log(append_time=True)
    log.start_leader_epoch(3)
    records = [Record(at, NOW, b"k", b"v") for at in range(3)]
    packed = write_batch(records, magic=1, codec="gzip")
    log.append(packed, now_ms=NOW + 1, origin=AppendOrigin.OLD_LOG)
    log.append(batch(NOW), now_ms=NOW + 1)
    log.restore_batches(log.truncate_to(0))

    assert [(each.base_offset, each.last_offset, each.leader_epoch) for each in log.batches_from(0)] == [
        (0, 2, -1),
        (3, 3, 3),
    ]
    assert bytes(log.read(0, 1).batches[0].raw) == packed
    assert log.leader_epoch == 3
