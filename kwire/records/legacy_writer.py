"""Writes messages of magic 0 and 1, uncompressed or in one compressed wrapper."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

from kwire.errors import InvalidValue
from kwire.records.batch import APPEND_TIME_BIT
from kwire.records.compression import compress
from kwire.records.record import Codec, Record, TimestampType

_LENGTH = struct.Struct(">i")
_HEADS = (struct.Struct(">bb"), struct.Struct(">bbq"))
_PREFIX = struct.Struct(">qiI")
_NULL = _LENGTH.pack(-1)


def write_messages(
    records: Sequence[Record],
    *,
    magic: int,
    codec: Codec,
    base_offset: int | None,
    timestamp_type: TimestampType,
    max_timestamp: int | None,
    level: int | None,
) -> bytes:
    """Write the records as messages, or, with a codec, as one wrapper with the offset of the last record.

    Inside a wrapper of magic 1 offsets count from `base_offset`, by default the first record's; in magic 0 they are
    absolute.
    Raises: InvalidValue for headers, for a wrapper without records, and for numbers that do not fit.
    """
    if magic not in (0, 1):
        raise InvalidValue("batch.magic", None, f"magic {magic}, known are 0, 1 and 2")
    if any(record.headers for record in records):
        raise InvalidValue("records", None, f"magic {magic} has no headers")
    append_time = magic == 1 and timestamp_type is TimestampType.LOG_APPEND_TIME
    attributes = APPEND_TIME_BIT if append_time else 0
    if max_timestamp is None:
        max_timestamp = max((record.timestamp for record in records), default=-1)
    if codec is Codec.NONE:
        return b"".join(
            _encode_message(
                record, record.offset, magic, attributes, max_timestamp if append_time else record.timestamp
            )
            for record in records
        )
    if not records:
        raise InvalidValue("records", None, "a wrapper needs at least one record")
    shift = 0 if magic == 0 else (records[0].offset if base_offset is None else base_offset)
    inner = (_encode_message(record, record.offset - shift, magic, attributes, record.timestamp) for record in records)
    wrapper = Record(0, max_timestamp, None, compress(codec, b"".join(inner), magic=magic, level=level))
    return _encode_message(wrapper, records[-1].offset, magic, attributes | codec, max_timestamp)


def _encode_message(record: Record, offset: int, magic: int, attributes: int, timestamp: int) -> bytes:
    key, value = record.key, record.value
    try:
        head = _HEADS[1].pack(1, attributes, timestamp) if magic else _HEADS[0].pack(0, attributes)
        body = b"".join((
            head,
            _NULL if key is None else _LENGTH.pack(len(key)) + key,
            _NULL if value is None else _LENGTH.pack(len(value)) + value,
        ))  # fmt: skip
        return _PREFIX.pack(offset, len(body) + 4, zlib.crc32(body)) + body
    except struct.error as error:
        raise InvalidValue("message", None, f"a field is out of its range: {error}") from None
