"""Validation of produced batches, and their conversion to the topic's configuration.

Source: Kafka's UnifiedLog.analyzeAndValidateRecords and LogValidator; codes pinned by the conversations
other-produce-validation, other-produce-timestamps and other-produce-compacted-topic.
"""

from __future__ import annotations

from collections.abc import Sequence

from kwire.error_codes import ErrorCode
from kwire.errors import CorruptRecords, LimitExceeded, WireError
from kwire.records import Batch, Codec, Record, TimestampType, parse_header, write_batch
from mockbroker.config.limits import COMPRESSED_RECORDS
from mockbroker.kafka_error import KafkaError
from mockbroker.state.storage.log_config import AppendRules
from mockbroker.state.storage.record_scan import BatchLimitError, RecordScan, scan_records

#: A batch of a few hundred bytes can hold many records that are rejected, each with a row in the response.
_RECORD_ERRORS_MAX = 10_000


class RecordsRefusedError(KafkaError):
    """Single records are invalid: their indexes in the batch with the reasons, as Produce v8 reports them."""

    def __init__(self, code: ErrorCode, message: str, record_errors: Sequence[tuple[int, str]]) -> None:
        super().__init__(code, message)
        self.record_errors = tuple(record_errors)


def read_one_batch(data: bytes | bytearray | memoryview) -> Batch:
    """Parse the header of the only batch in a client's records; size and checksum are checked.

    Raises: CORRUPT_MESSAGE; INVALID_RECORD for more than one batch or an old format.
    """
    try:
        batch = parse_header(data)
    except CorruptRecords as damage:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(damage)) from None
    if batch.magic != 2:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"magic {batch.magic}: only record batches of magic 2 are accepted")
    if batch.size != len(data):
        raise KafkaError(ErrorCode.INVALID_RECORD, f"{len(data) - batch.size} bytes follow the only batch allowed")
    return batch


def validate_batch(batch: Batch, rules: AppendRules, *, now_ms: int) -> bytes | None:
    """Validate a client's batch. Returns: as `validate_records`. Raises: KafkaError for one that is not stored."""
    check_batch(batch, rules)
    written = validate_records(batch, rules, now_ms=now_ms)
    check_size(batch.size, rules)
    return written


def check_batch(batch: Batch, rules: AppendRules) -> None:
    """Reject a client's batch by its header and checksum."""
    if batch.base_offset != 0:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"the base offset of a produced batch is {batch.base_offset}, not 0")
    if batch.size > rules.message_bytes_max:
        message = f"a batch of {batch.size} bytes; max.message.bytes is {rules.message_bytes_max}"
        raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, message)
    if not batch.crc_is_valid:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the batch does not match its checksum {batch.crc:#010x}")
    spanned = batch.last_offset - batch.base_offset + 1
    if batch.count <= 0 or spanned != batch.count:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"{batch.count} records span {spanned} offsets")
    if batch.is_control:
        raise KafkaError(ErrorCode.INVALID_RECORD, "clients are not allowed to write control records")
    if batch.producer_id >= 0 and batch.base_sequence < 0:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"sequence {batch.base_sequence} with producer {batch.producer_id}")


def validate_records(batch: Batch, rules: AppendRules, *, now_ms: int) -> bytes | None:
    """Validate a client's records, and rewrite the batch where it cannot be stored as it is.

    Returns: the rewritten batch, or None when its own bytes can be stored.
    """
    limits = rules.limits
    try:
        record_scan = scan_records(batch, limits, rules.record_bytes_max)
        if record_scan is not None and _is_storable_as_is(batch, record_scan, rules, now_ms):
            return None
        records = batch.records(limits.decompressed_bytes, strict=False, max_count=limits.compressed_records)
    except LimitExceeded as error:
        raise BatchLimitError(str(error), COMPRESSED_RECORDS, limits.compressed_records) from None
    except WireError as damage:
        raise KafkaError(ErrorCode.INVALID_RECORD, str(damage)) from None
    check_records(batch, records, rules, now_ms=now_ms)
    return rewrite_batch(batch, records, rules, now_ms=now_ms)


def check_records(batch: Batch, records: Sequence[Record], rules: AppendRules, *, now_ms: int) -> None:
    """Reject invalid records, with the reason for each of the first; Kafka reports all of them."""
    errors: list[tuple[int, str]] = []
    mistimed = False
    for index, record in enumerate(records):
        if len(errors) == _RECORD_ERRORS_MAX:
            break
        if rules.compacted and record.key is None:
            errors.append((index, "a compacted topic does not accept a record without a key"))
        elif (why := _time_error(batch, record, rules, now_ms)) is not None:
            errors.append((index, why))
            mistimed = True
    if mistimed:
        message = f"{len(errors)} record(s) are rejected: invalid timestamp"
        raise RecordsRefusedError(ErrorCode.INVALID_TIMESTAMP, message, errors)
    if errors:
        message = f"{len(errors)} record(s) are rejected: {errors[:3]}"
        raise RecordsRefusedError(ErrorCode.INVALID_RECORD, message, errors)


def rewrite_batch(batch: Batch, records: Sequence[Record], rules: AppendRules, *, now_ms: int) -> bytes | None:
    """The rewritten batch where it cannot be stored as it is, else None.

    A batch is rewritten for a different codec of the topic, for gaps in its offsets, and when the timestamp type or the
    largest timestamp in its header is wrong.
    """
    codec = batch.codec if rules.codec is None else rules.codec
    # Kafka checks the offsets of records only where compression is involved; there they have to be consecutive.
    consecutive = codec is Codec.NONE or all(record.offset == at for at, record in enumerate(records))
    timestamps_are_valid = rules.append_time or (
        batch.timestamp_type is TimestampType.CREATE_TIME
        and batch.max_timestamp == max(record.timestamp for record in records)
    )
    if codec is batch.codec and consecutive and timestamps_are_valid:
        return None
    if not consecutive:
        records = [Record(at, each.timestamp, each.key, each.value, each.headers) for at, each in enumerate(records)]
    written = write_batch(
        records,
        base_offset=0,
        codec=codec,
        level=rules.level,
        timestamp_type=TimestampType.LOG_APPEND_TIME if rules.append_time else TimestampType.CREATE_TIME,
        max_timestamp=now_ms if rules.append_time else None,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        transactional=batch.is_transactional,
    )
    check_size(len(written), rules)
    return written


def check_size(size: int, rules: AppendRules) -> None:
    """Reject a batch that exceeds the limits after it was rewritten, or does not fit into a segment."""
    if size > rules.message_bytes_max:
        raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"{size} bytes; max.message.bytes is {rules.message_bytes_max}")
    if size > rules.roll.size_max:
        raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, f"{size} bytes; segment.bytes is {rules.roll.size_max}")


def _is_storable_as_is(batch: Batch, record_scan: RecordScan, rules: AppendRules, now_ms: int) -> bool:
    """Return whether the scan is sufficient: nothing to reject, and nothing to rewrite."""
    if (rules.compacted and record_scan.keyless) or batch.timestamp_type is TimestampType.LOG_APPEND_TIME:
        return False
    if rules.codec is not None and rules.codec is not batch.codec:
        return False
    if not record_scan.consecutive and batch.codec is not Codec.NONE:
        return False
    if rules.append_time:
        return True
    return (
        now_ms - record_scan.timestamp_min <= rules.before_max_ms
        and record_scan.timestamp_max - now_ms <= rules.after_max_ms
        and record_scan.timestamp_max == batch.max_timestamp
    )


def _time_error(batch: Batch, record: Record, rules: AppendRules, now_ms: int) -> str | None:
    if not rules.append_time and record.timestamp != -1:
        age = now_ms - record.timestamp
        if age > rules.before_max_ms or -age > rules.after_max_ms:
            low, high = now_ms - rules.before_max_ms, now_ms + rules.after_max_ms
            return f"timestamp {record.timestamp} of the record at offset {record.offset} is not within [{low}, {high}]"
    elif batch.timestamp_type is TimestampType.LOG_APPEND_TIME:
        return "a producer must not set the timestamp type LogAppendTime"
    return None
