"""Decodes the records of a v2 batch: valid data by the accelerator or in one fast loop, else by `checked_decoder`.

A record: its size (varint), attributes int8 (unused), timestamp delta (varint of 64 bits), offset delta (varint), key
and value (a varint length, -1 for null, and the bytes), a header count (varint), and for each header a key
and a value in the same form. All these varints are zigzag-encoded: an odd raw value is a negative number.
"""

from __future__ import annotations

import msgspec

from kwire.records.checked_decoder import RecordReader
from kwire.records.failures import Data, corrupt_error
from kwire.records.native_codec import RECORD_CODEC, SCAN_RECORDS
from kwire.records.record import BatchBase, Header, Record
from kwire.records.varint import UnreadableVarintError, read_raw_varint, wrap_int64

# Below this, the sum of a base and a delta that is not wide fits 64 bits.
_SAFE = 1 << 62
#: The lengths of an empty key and of a null value.
_HEADER_SIZE_MIN = 2
#: How many headers the records of a batch may have together, if nothing limits them.
NO_LIMIT = 1 << 62


class _FastDecodeError(Exception):
    """The fast loop cannot read a record; the checked decoder reads it, or reports the error."""


def _as_bytes(data: Data) -> bytes:
    """The data as bytes, which are faster to index than a view; a copy, unless a view is of bytes as a whole."""
    if isinstance(data, memoryview) and type(data.obj) is bytes and len(data.obj) == len(data):
        return data.obj
    return bytes(data)


def decode_records_pure(
    data: Data, base: BatchBase, *, strict: bool = True, headers_max: int = NO_LIMIT
) -> list[Record]:
    """`decode_records` without the accelerator. headers_max: of all records; above it LimitExceeded is raised."""
    data = _as_bytes(data)
    if base.count > len(data) - base.starts_at:
        # A record has at least 7 bytes, so the loop would only reach the end of the data.
        what = f"{base.count} records in {len(data) - base.starts_at} bytes"
        raise corrupt_error(what, base.starts_at, "batch.count")
    records: list[Record] = []
    wide = False
    reader = RecordReader(data, base, strict=strict, headers_max=headers_max)
    while len(records) < base.count:
        is_wide = _decode_fast(reader, records)
        wide = wide or is_wide
        if len(records) < base.count:
            records.append(reader.read_record(len(records)))
            wide = True
    reader.check_end()
    if wide or not -_SAFE < base.timestamp < _SAFE or not -_SAFE < base.offset < _SAFE:
        return [_within_int64(record) for record in records]
    return records


def _decode_natively(data: Data, base: BatchBase, *, strict: bool = True, headers_max: int = NO_LIMIT) -> list[Record]:
    assert RECORD_CODEC is not None
    # Only many bytes can hold too many headers, and these are counted before an object is made for each.
    if (len(data) - base.starts_at) // _HEADER_SIZE_MIN <= headers_max or _has_few_headers(data, base, headers_max):
        records = RECORD_CODEC.read(data, base, strict)
        if records is not None:
            return records
    return decode_records_pure(data, base, strict=strict, headers_max=headers_max)


def _has_few_headers(data: Data, base: BatchBase, headers_max: int) -> bool:
    """Whether the records are valid and have at most so many headers."""
    assert SCAN_RECORDS is not None
    found = SCAN_RECORDS(memoryview(data)[base.starts_at :], base.count, base.timestamp)
    return found is not None and found[4] <= headers_max


#: decode_records(data, base, *, strict=True, headers_max=NO_LIMIT): all records of a batch: of the batch itself, or
#: when it was compressed of the uncompressed bytes. Raises WireErrors only, with a path such as
#: `records[3].value` and the offset in the data.
decode_records = decode_records_pure if RECORD_CODEC is None else _decode_natively


def _decode_fast(reader: RecordReader, records: list[Record]) -> bool:
    """Add valid records up to the first one that is not; returns whether any timestamp delta was wide.

    reader: is moved to the first record that is not read.
    """
    try:
        return _decode_loop(reader, records)
    except (IndexError, UnreadableVarintError, _FastDecodeError, UnicodeDecodeError):
        return True


def _decode_loop(reader: RecordReader, records: list[Record]) -> bool:
    """Read valid records, and move the reader to where the one begins that is being read.

    Varints of one and two bytes are read in place: a function call for each would take 1.6 to 1.8 times as long.
    Slices may be too short here; then the final offset does not match.
    """
    data, base = reader.data, reader.base
    base_offset, base_timestamp, append_time = base.offset, base.timestamp, base.append_time
    add = records.append
    at, wide = reader.at, False
    for _ in range(base.count - len(records)):
        reader.at = at
        # The size of the record determines where it must end.
        raw, at = data[at], at + 1
        if raw > 127:
            raw, at = (raw + (data[at] << 7) - 128, at + 1) if data[at] < 128 else read_raw_varint(data, at - 1, 32)
        end, negative = at + (raw >> 1), raw
        # The timestamp delta, behind the attributes: no version has used them (KIP-98).
        raw, at = data[at + 1], at + 2
        if raw > 127:
            raw, at = (raw + (data[at] << 7) - 128, at + 1) if data[at] < 128 else read_raw_varint(data, at - 1, 64)
            wide = wide or raw >= _SAFE
        timestamp = base_timestamp + ((raw >> 1) ^ -(raw & 1)) if append_time is None else append_time
        # The offset delta; compaction leaves gaps.
        raw, at = data[at], at + 1
        if raw > 127:
            raw, at = (raw + (data[at] << 7) - 128, at + 1) if data[at] < 128 else read_raw_varint(data, at - 1, 32)
        offset = base_offset + ((raw >> 1) ^ -(raw & 1))
        # Key and value; 1 is the varint of -1, null.
        raw, at = data[at], at + 1
        key = value = None
        if raw != 1:
            if raw > 127:
                raw, at = (raw + (data[at] << 7) - 128, at + 1) if data[at] < 128 else read_raw_varint(data, at - 1, 32)
            negative |= raw
            start, at = at, at + (raw >> 1)
            key = data[start:at]
        raw, at = data[at], at + 1
        if raw != 1:
            if raw > 127:
                raw, at = (raw + (data[at] << 7) - 128, at + 1) if data[at] < 128 else read_raw_varint(data, at - 1, 32)
            negative |= raw
            start, at = at, at + (raw >> 1)
            value = data[start:at]
        headers: tuple[Header, ...] = ()
        if data[at]:
            headers, at = _read_headers(data, at, reader.headers_left)
        else:
            at += 1
        if at != end or negative & 1:
            raise _FastDecodeError
        if headers:
            reader.headers_left -= len(headers)
        add(Record(offset, timestamp, key, value, headers))
    reader.at = at
    return wide


def _read_headers(data: bytes, at: int, count_max: int) -> tuple[tuple[Header, ...], int]:
    raw, at = data[at], at + 1
    if raw > 127:
        raw, at = read_raw_varint(data, at - 1, 32)
    if raw & 1 or raw >> 1 > count_max:
        raise _FastDecodeError
    headers: list[Header] = []
    for _ in range(raw >> 1):
        raw, at = data[at], at + 1
        if raw > 127:
            raw, at = read_raw_varint(data, at - 1, 32)
        if raw & 1:
            raise _FastDecodeError
        start, at = at, at + (raw >> 1)
        key = data[start:at].decode()
        raw, at = data[at], at + 1
        if raw == 1:
            headers.append((key, None))
            continue
        if raw > 127:
            raw, at = read_raw_varint(data, at - 1, 32)
        if raw & 1:
            raise _FastDecodeError
        start, at = at, at + (raw >> 1)
        headers.append((key, data[start:at]))
    return tuple(headers), at


def _within_int64(record: Record) -> Record:
    """Sums of base and delta wrap around as in Kafka, so that no number exceeds 64 bits."""
    return msgspec.structs.replace(record, offset=wrap_int64(record.offset), timestamp=wrap_int64(record.timestamp))
