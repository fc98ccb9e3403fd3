"""What a produced batch must be before it enters a log, and what the topic's configuration makes of it.

Source: Kafka's UnifiedLog.analyzeAndValidateRecords and LogValidator; codes pinned by the conversations
other-produce-validation, other-produce-timestamps and other-produce-compacted-topic.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from kwire.error_codes import ErrorCode
from kwire.errors import CorruptRecords, WireError
from kwire.records import Batch, Codec, Record, TimestampType, parse_header, write_batch
from mockbroker.kafka_error import KafkaError
from mockbroker.state.record_scan import Scan, scan
from mockbroker.state.segments import RollRules

#: What the broker may decompress a batch to. Kafka has no such limit; ours keeps a bomb from taking all memory.
DECOMPRESSED_MAX = 256 * 1024 * 1024


class RecordsRefusedError(KafkaError):
    """Single records are wrong: their indexes in the batch and why, as Produce v8 reports them."""

    def __init__(self, code: ErrorCode, message: str, record_errors: Sequence[tuple[int, str]]) -> None:
        super().__init__(code, message)
        self.record_errors = tuple(record_errors)


class TopicRules(msgspec.Struct, frozen=True):
    """A topic's configuration as far as an append looks at it. Times in milliseconds, sizes in bytes."""

    compacted: bool
    append_time: bool
    before_max_ms: int
    after_max_ms: int
    message_bytes_max: int
    roll: RollRules
    codec: Codec | None
    level: int | None

    @classmethod
    def of(cls, config: Mapping[str, object]) -> TopicRules:
        """Read them from a topic's effective configuration."""
        policy, compression = config["cleanup.policy"], config["compression.type"]
        assert isinstance(policy, list)
        assert isinstance(compression, str)
        codec = _CODECS.get(compression)
        level = config.get(f"compression.{compression}.level")
        return cls(
            compacted="compact" in policy,
            append_time=config["message.timestamp.type"] == "LogAppendTime",
            before_max_ms=_number(config, "message.timestamp.before.max.ms"),
            after_max_ms=_number(config, "message.timestamp.after.max.ms"),
            message_bytes_max=_number(config, "max.message.bytes"),
            roll=roll_rules(config),
            codec=codec,
            level=level if isinstance(level, int) else None,
        )


#: compression.type -> codec; `producer` keeps what the producer chose.
_CODECS = {
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


def read_one_batch(data: bytes | bytearray | memoryview) -> Batch:
    """The header of the only batch in a client's records, its size and checksum checked.

    Raises: CORRUPT_MESSAGE; INVALID_RECORD for more than one batch or an old format.
    """
    try:
        batch = parse_header(data)
    except CorruptRecords as damage:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, str(damage)) from None
    if batch.magic != 2:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"magic {batch.magic}: only record batches of magic 2 are produced")
    if batch.size != len(data):
        raise KafkaError(ErrorCode.INVALID_RECORD, f"{len(data) - batch.size} bytes follow the only batch allowed")
    return batch


def check_batch(batch: Batch, rules: TopicRules) -> None:
    """Refuse a client's batch by its header and checksum."""
    if batch.base_offset != 0:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"the base offset of a produced batch is {batch.base_offset}, not 0")
    if batch.size > rules.message_bytes_max:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE,
            f"a batch of {batch.size} bytes; max.message.bytes is {rules.message_bytes_max}",
        )
    if not batch.crc_is_valid:
        raise KafkaError(ErrorCode.CORRUPT_MESSAGE, f"the batch does not match its checksum {batch.crc:#010x}")
    spanned = batch.last_offset - batch.base_offset + 1
    if batch.count <= 0 or spanned != batch.count:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"{batch.count} records span {spanned} offsets")
    if batch.is_control:
        raise KafkaError(ErrorCode.INVALID_RECORD, "clients are not allowed to write control records")
    if batch.producer_id >= 0 and batch.base_sequence < 0:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"sequence {batch.base_sequence} with producer {batch.producer_id}")


def examine(batch: Batch, rules: TopicRules, *, now_ms: int) -> bytes | None:
    """Look at a client's records: refuse wrong ones, and write the batch anew where it cannot be stored as it is.

    Returns: the batch written anew, or None when its own bytes will do.
    """
    try:
        seen = scan(batch, DECOMPRESSED_MAX)
        if seen is not None and _is_fine(batch, seen, rules, now_ms):
            return None
        records = batch.records(DECOMPRESSED_MAX, strict=False)
    except WireError as damage:
        raise KafkaError(ErrorCode.INVALID_RECORD, str(damage)) from None
    check_records(batch, records, rules, now_ms=now_ms)
    return rewritten(batch, records, rules, now_ms=now_ms)


def check_records(batch: Batch, records: Sequence[Record], rules: TopicRules, *, now_ms: int) -> None:
    """Refuse what is wrong with single records, and name each."""
    errors: list[tuple[int, str]] = []
    mistimed = False
    for index, record in enumerate(records):
        if rules.compacted and record.key is None:
            errors.append((index, "a compacted topic cannot take a record without a key"))
        elif (why := _time_error(batch, record, rules, now_ms)) is not None:
            errors.append((index, why))
            mistimed = True
    if mistimed:
        raise RecordsRefusedError(ErrorCode.INVALID_TIMESTAMP, "records are rejected for their timestamps", errors)
    if errors:
        raise RecordsRefusedError(
            ErrorCode.INVALID_RECORD, f"{len(errors)} record(s) are rejected: {errors[:3]}", errors
        )


def rewritten(batch: Batch, records: Sequence[Record], rules: TopicRules, *, now_ms: int) -> bytes | None:
    """The batch written anew where it cannot be stored as it is, else None.

    That is so when the topic wants another codec, when offsets have holes, and when the header's timestamp type or
    largest timestamp is not true.
    """
    codec = batch.codec if rules.codec is None else rules.codec
    # Kafka looks at the offsets inside only where compression is involved; there they have to be consecutive.
    consecutive = codec is Codec.NONE or all(record.offset == at for at, record in enumerate(records))
    honest = rules.append_time or (
        batch.timestamp_type is TimestampType.CREATE_TIME
        and batch.max_timestamp == max(record.timestamp for record in records)
    )
    if codec is batch.codec and consecutive and honest:
        return None
    if not consecutive:
        records = [
            Record(at, record.timestamp, record.key, record.value, record.headers) for at, record in enumerate(records)
        ]
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


def check_size(size: int, rules: TopicRules) -> None:
    """Refuse what outgrew the limits after it was written anew, or does not fit into a segment."""
    if size > rules.message_bytes_max:
        raise KafkaError(ErrorCode.MESSAGE_TOO_LARGE, f"{size} bytes; max.message.bytes is {rules.message_bytes_max}")
    if size > rules.roll.size_max:
        raise KafkaError(ErrorCode.RECORD_LIST_TOO_LARGE, f"{size} bytes; segment.bytes is {rules.roll.size_max}")


def _is_fine(batch: Batch, seen: Scan, rules: TopicRules, now_ms: int) -> bool:
    """Whether a glance is enough: nothing to refuse, and nothing to write anew."""
    if (rules.compacted and seen.keyless) or batch.timestamp_type is TimestampType.LOG_APPEND_TIME:
        return False
    if rules.codec is not None and rules.codec is not batch.codec:
        return False
    if not seen.consecutive and batch.codec is not Codec.NONE:
        return False
    if rules.append_time:
        return True
    return (
        now_ms - seen.timestamp_min <= rules.before_max_ms
        and seen.timestamp_max - now_ms <= rules.after_max_ms
        and seen.timestamp_max == batch.max_timestamp
    )


def _time_error(batch: Batch, record: Record, rules: TopicRules, now_ms: int) -> str | None:
    if not rules.append_time and record.timestamp != -1:
        age = now_ms - record.timestamp
        if age > rules.before_max_ms or -age > rules.after_max_ms:
            low, high = now_ms - rules.before_max_ms, now_ms + rules.after_max_ms
            return f"timestamp {record.timestamp} is not within [{low}, {high}]"
    elif batch.timestamp_type is TimestampType.LOG_APPEND_TIME:
        return "a producer must not set the timestamp type LogAppendTime"
    return None


def roll_rules(config: Mapping[str, object]) -> RollRules:
    """When the topic's segments are full."""
    policy, small = config["cleanup.policy"], config.get("internal.segment.bytes")
    assert isinstance(policy, list)
    age_ms = _number(config, "segment.ms")
    if "compact" in policy:
        # So that no record has to wait longer for its segment to close than for its compaction.
        age_ms = min(age_ms, _number(config, "max.compaction.lag.ms"))
    size = small if isinstance(small, int) else _number(config, "segment.bytes")
    return RollRules(size, age_ms, _number(config, "segment.jitter.ms"))


def _number(config: Mapping[str, object], name: str) -> int:
    value = config[name]
    assert isinstance(value, int)
    return value
