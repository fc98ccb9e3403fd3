"""Writes record batches in all three formats, with the layout of Kafka's writer."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from io import BytesIO

from kwire.errors import InvalidValue
from kwire.records import checksum, legacy_writer
from kwire.records.batch import (
    APPEND_TIME_BIT,
    CONTROL_BIT,
    CRC_START,
    DELETE_HORIZON_BIT,
    HEADER,
    HEADER_SIZE,
    PREFIX_SIZE,
    TRANSACTIONAL_BIT,
)
from kwire.records.compression import compress
from kwire.records.native_codec import RECORD_CODEC, Fields, RecordCodec, Span
from kwire.records.record import Codec, Header, Record, TimestampType
from kwire.records.varint import ONE_BYTE_VARINTS, encode_unsigned, one_and_two_byte_varints, wrap_int64

_INT32_MAX = (1 << 31) - 1
_SAFE = 1 << 62
_LARGE_BATCH_COUNT = 64
_NULL = b"\x01"  # The varint of -1.


def write_batch(
    records: Sequence[Record],
    *,
    base_offset: int | None = None,
    codec: Codec | str = Codec.NONE,
    magic: int = 2,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    partition_leader_epoch: int = -1,
    last_offset: int | None = None,
    max_timestamp: int | None = None,
    delete_horizon_ms: int | None = None,
    level: int | None = None,
) -> bytes:
    """Write one batch. The offsets of the records ascend and may have gaps, as after compaction.

    Args: base_offset, last_offset: the offset range of the batch, by default that of its records.
        codec: or its name, such as "lz4". level: the compression level of the codec.
        max_timestamp: milliseconds; by default the largest of the records; LOG_APPEND_TIME gives it to all records.
        magic: 0 and 1 have no fields of v2; without compression they are one message per record.
    Returns: the bytes; of magic 0 and 1 without compression as many batches as there are records.
    Raises: InvalidValue for offsets, times and ids that do not fit; UnsupportedCodec for zstd before magic 2.
    """
    codec = _codec_by_name(codec)
    if magic != 2:
        v2_only = (producer_id, producer_epoch, base_sequence, partition_leader_epoch) != (-1, -1, -1, -1)
        if v2_only or transactional or control or last_offset is not None or delete_horizon_ms is not None:
            raise InvalidValue("batch", None, f"magic {magic} has no producer, epoch, transaction, control or horizon")
        return legacy_writer.write_messages(
            records, magic=magic, codec=codec, base_offset=base_offset, timestamp_type=timestamp_type,
            max_timestamp=max_timestamp, level=level,
        )  # fmt: skip
    attributes = (
        codec
        | APPEND_TIME_BIT * (timestamp_type is TimestampType.LOG_APPEND_TIME)
        | TRANSACTIONAL_BIT * transactional
        | CONTROL_BIT * control
        | DELETE_HORIZON_BIT * (delete_horizon_ms is not None)
    )
    if RECORD_CODEC is not None:
        span = (base_offset, last_offset, delete_horizon_ms, max_timestamp)
        other_fields = (partition_leader_epoch, attributes, producer_id, producer_epoch, base_sequence)
        written = _write_natively(RECORD_CODEC, records, span, other_fields, (codec, level))
        if written is not None:
            return written
    base_offset, last_offset = _offset_span(records, base_offset, last_offset)
    first_timestamp = records[0].timestamp if records else -1
    base_timestamp = first_timestamp if delete_horizon_ms is None else delete_horizon_ms
    if max_timestamp is None:
        max_timestamp = max((record.timestamp for record in records), default=-1)
    body = _encode_records(records, base_offset, base_timestamp)
    if codec is not Codec.NONE:
        body = [compress(codec, b"".join(body), level=level)]
    fields = (attributes, last_offset - base_offset, base_timestamp, max_timestamp,
              producer_id, producer_epoch, base_sequence, len(records))  # fmt: skip
    return _assemble_batch(base_offset, partition_leader_epoch, fields, body)


def _write_natively(
    native: RecordCodec, records: Sequence[Record], span: Span, fields: Fields, compression: tuple[Codec, int | None]
) -> bytes | None:
    """The batch; None where the Python code must write it, or raise. Args: compression: codec and level."""
    codec, level = compression
    if codec is Codec.NONE:
        return native.write_batch(records, span, fields, checksum.crc32c)
    written = native.write_body(records, span)
    if written is None:
        return None
    body, first, last, base_timestamp, max_timestamp = written
    epoch, attributes, *producer = fields
    rest = (attributes, last - first, base_timestamp, max_timestamp, *producer, len(records))
    return _assemble_batch(first, epoch, rest, [compress(codec, body, level=level)])


def _codec_by_name(codec: Codec | str) -> Codec:
    if isinstance(codec, Codec):
        return codec
    try:
        return Codec[codec.upper()]
    except KeyError:
        known = ", ".join(choice.label for choice in Codec)
        raise InvalidValue("batch.codec", None, f"{codec!r} is none of {known}") from None


def _offset_span(records: Sequence[Record], base_offset: int | None, last_offset: int | None) -> tuple[int, int]:
    """First and last offset of the batch; checks the order of the records."""
    if base_offset is None:
        base_offset = records[0].offset if records else 0
    previous = base_offset - 1
    for record in records:
        if record.offset <= previous:
            raise InvalidValue("records", None, f"offset {record.offset} where {previous + 1} or more must stand")
        previous = record.offset
    if last_offset is None:
        last_offset = max(previous, base_offset)
    if not max(previous, base_offset) <= last_offset <= base_offset + _INT32_MAX:
        what = f"last offset {last_offset}, where the base is {base_offset} and the last record {previous}"
        raise InvalidValue("records", None, what)
    return base_offset, last_offset


def _encode_records(records: Sequence[Record], base_offset: int, base_timestamp: int) -> list[bytes]:
    """The records as parts to join, so that every key and value is copied once.

    Short varints come from a table, which is larger for large batches: a call for each takes twice as long.
    """
    parts: list[bytes] = []
    short = one_and_two_byte_varints() if len(records) >= _LARGE_BATCH_COUNT else ONE_BYTE_VARINTS
    long = encode_unsigned
    limit = len(short)
    for record in records:
        key, value = record.key, record.value
        delta = record.timestamp - base_timestamp
        if not -_SAFE < delta < _SAFE:
            delta = _wide_timestamp_delta(record, base_timestamp)
        raw = delta << 1 if delta >= 0 else ~(delta << 1)
        time = short[raw] if raw < limit else long(raw)
        raw = (record.offset - base_offset) << 1
        offset = short[raw] if raw < limit else long(raw)
        head = b"\0" + time + offset
        if key is None:
            head += _NULL
        else:
            raw = len(key) << 1
            head += (short[raw] if raw < limit else long(raw)) + key
        tail = _encode_headers(record.headers) if record.headers else b"\0"
        if value is None:
            head += _NULL
            value = b""
        else:
            raw = len(value) << 1
            head += short[raw] if raw < limit else long(raw)
        raw = (len(head) + len(value) + len(tail)) << 1
        parts += (short[raw] if raw < limit else long(raw), head, value, tail)
    return parts


def _wide_timestamp_delta(record: Record, base_timestamp: int) -> int:
    """A timestamp delta of more than 62 bits; the sum of a reader wraps around to the timestamp."""
    if not -(1 << 63) <= record.timestamp < 1 << 63:
        raise InvalidValue("records", None, f"timestamp {record.timestamp} of offset {record.offset} is beyond 64 bits")
    return wrap_int64(record.timestamp - base_timestamp)


def _encode_headers(headers: Sequence[Header]) -> bytes:
    parts = [encode_unsigned(len(headers) << 1)]
    for name, value in headers:
        key = name.encode()
        parts += (encode_unsigned(len(key) << 1), key)
        parts += (_NULL,) if value is None else (encode_unsigned(len(value) << 1), value)
    return b"".join(parts)


def _assemble_batch(base_offset: int, epoch: int, fields: tuple[int, ...], body: list[bytes]) -> bytes:
    """Header and body with length and checksum.

    The header is written into the joined bytes in place: a BytesIO that is the only owner of its bytes allows that and
    returns them without a copy. Any other way copies the whole batch again.
    """
    stream = BytesIO(b"".join((bytes(HEADER_SIZE), *body)))
    with stream.getbuffer() as batch:
        try:
            HEADER.pack_into(batch, 0, base_offset, len(batch) - PREFIX_SIZE, epoch, 2, 0, *fields)
        except struct.error as error:
            raise InvalidValue("batch", None, f"a header field is out of its range: {error}") from None
        with batch[CRC_START:] as covered:
            struct.pack_into(">I", batch, CRC_START - 4, checksum.crc32c(covered))
    return stream.getvalue()
