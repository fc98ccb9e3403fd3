"""A fast scan of the records of a batch, without copies: the values that an append needs.

An append needs timestamps, offsets and the presence of keys, not keys and values; decoding everything costs three times
as much. The accelerator scans all valid records, the Python code those without headers and wide varints. The full
decoder handles the rest, and words the errors.
"""

from __future__ import annotations

import msgspec

from kwire.error_codes import ErrorCode
from kwire.errors import LimitExceeded
from kwire.records import Batch, Codec
from kwire.records.batch import HEADER_SIZE
from kwire.records.compression import decompress
from kwire.records.native_codec import SCAN_RECORDS
from kwire.records.varint import UnreadableVarintError, read_raw_varint
from mockbroker.config.limits import COMPRESSED_RECORDS, DECOMPRESSED_BYTES, BatchLimits
from mockbroker.kafka_error import KafkaError

_NO_LIMIT = 1 << 62


class RecordScan(msgspec.Struct, frozen=True, gc=False):
    """Properties of all records of a batch. Timestamps in milliseconds."""

    timestamp_min: int
    timestamp_max: int
    keyless: bool
    consecutive: bool


class BatchLimitError(KafkaError):
    """A compressed batch above a limit of this broker, which Kafka does not have: its message is sent.

    MESSAGE_TOO_LARGE: a Java producer then splits the batch, and sends its parts.
    """

    def __init__(self, what: str, property_name: str, limit: int) -> None:
        super().__init__(ErrorCode.MESSAGE_TOO_LARGE, f"{what}; {property_name} is {limit}")


def scan_records(batch: Batch, limits: BatchLimits, record_bytes_max: int) -> RecordScan | None:
    """Scan the records; None when they need the full decoder: invalid data, without the accelerator also headers and
    wide varints.

    record_bytes_max: of each record in a compressed batch.
    Raises: CorruptRecords for data that cannot be decompressed; BatchLimitError; INVALID_RECORD for a record above the
    limit.
    """
    codec = batch.codec
    if codec is Codec.NONE:
        return _scan(batch.raw[HEADER_SIZE:], batch, _NO_LIMIT, _NO_LIMIT)
    count_max, bytes_max = limits.compressed_records, limits.decompressed_bytes
    if batch.count > count_max:
        raise BatchLimitError(f"{batch.count} compressed records", COMPRESSED_RECORDS, count_max)
    try:
        data = decompress(codec, batch.raw[HEADER_SIZE:], bytes_max)
    except LimitExceeded:
        what = f"{batch.size} bytes decompress to more than is allowed"
        raise BatchLimitError(what, DECOMPRESSED_BYTES, bytes_max) from None
    return _scan(data, batch, count_max - batch.count, record_bytes_max)


def _scan(data: bytes | memoryview, batch: Batch, headers_max: int, record_bytes_max: int) -> RecordScan | None:
    if SCAN_RECORDS is None:
        if len(data) > record_bytes_max:
            _check_record_sizes(bytes(data), batch.count, record_bytes_max)
        return scan_payload(bytes(data), batch.count, batch.base_timestamp)
    found = SCAN_RECORDS(data, batch.count, batch.base_timestamp)
    if found is None:
        return None
    *scanned, header_count, size_max = found
    if size_max > record_bytes_max:
        _check_record_sizes(bytes(data), batch.count, record_bytes_max)
    if header_count > headers_max:
        what = f"{batch.count} compressed records with {header_count} headers"
        raise BatchLimitError(what, COMPRESSED_RECORDS, headers_max + batch.count)
    return RecordScan(*scanned)


def scan_payload(data: bytes, count: int, base_timestamp: int) -> RecordScan | None:
    """The scan in Python, of records without headers and wide varints; None for all others."""
    try:
        return _scan_bytes(data, count, base_timestamp)
    except IndexError:
        return None


def _check_record_sizes(data: bytes, count: int, size_max: int) -> None:
    """Source: a real 4.4.0 with max.decompressed.message.bytes 1000 takes records of 1000 bytes behind their length."""
    at = 0
    for index in range(count):
        try:
            raw, at = read_raw_varint(data, at, 32)
        except (IndexError, UnreadableVarintError):
            return  # The full decoder reports it.
        size = raw >> 1
        if size > size_max:
            message = f"record {index} has {size} bytes; max.decompressed.message.bytes is {size_max}"
            raise KafkaError(ErrorCode.INVALID_RECORD, message)
        at += size


def _scan_bytes(data: bytes, count: int, base_timestamp: int) -> RecordScan | None:  # noqa: C901, PLR0912
    """Varints here are zigzag-encoded; those of one and two bytes are read in place, wider ones only for lengths.

    One long loop, because a call for each varint would double its cost. `kwire.records.record_decoder` has the layout.
    """
    at, offsets, lowest, highest, keyless = 0, 0, 1 << 62, -1 << 62, False
    for index in range(count):
        raw, at = data[at], at + 1
        if raw > 127:
            raw, at = _read_varint_tail(data, raw, at)
        size, start = raw, at
        raw, at = data[at + 1], at + 2
        if raw > 127:
            raw, at = _read_varint_tail(data, raw, at)
        delta = (raw >> 1) ^ -(raw & 1)
        if delta < lowest:  # noqa: PLR1730 (min() would be a call)
            lowest = delta
        if delta > highest:  # noqa: PLR1730
            highest = delta
        raw, at = data[at], at + 1
        if raw > 127:
            raw, at = _read_varint_tail(data, raw, at)
        if raw == index << 1:
            offsets += 1
        raw, at = data[at], at + 1
        if raw == 1:
            keyless = True
        else:
            if raw > 127:
                raw, at = _read_varint_tail(data, raw, at)
            if raw & 1:
                return None
            at += raw >> 1
        raw, at = data[at], at + 1
        if raw != 1:
            if raw > 127:
                raw, at = _read_varint_tail(data, raw, at)
            if raw & 1:
                return None
            at += raw >> 1
        if data[at] or (at + 1 - start) << 1 != size:
            return None
        at += 1
    if at != len(data):
        return None
    return RecordScan(base_timestamp + lowest, base_timestamp + highest, keyless, offsets == count)


def _read_varint_tail(data: bytes, first: int, at: int) -> tuple[int, int]:
    """The rest of a varint of two to four bytes; longer ones need the full decoder."""
    raw, shift = first & 0x7F, 7
    while shift < 28:
        byte = data[at]
        at += 1
        raw |= (byte & 0x7F) << shift
        if byte < 128:
            return raw, at
        shift += 7
    raise IndexError
