"""The records inside a v2 batch, read fast: good data costs one loop, all else goes to the careful pass.

A record: its size (varint), attributes int8 (unused), timestamp delta (varint of 64 bits), offset delta (varint), key
and value (a varint length, -1 for null, and the bytes), a header count (varint), and per header a key and a value so.
All these varints are zigzagged, so an odd raw value is a negative number.
"""

from __future__ import annotations

import msgspec

from kwire.records.careful import read_carefully
from kwire.records.faults import corrupt
from kwire.records.record import Base, Header, Record
from kwire.records.varint import OddVarintError, read_raw, wrapped

# Below this, no sum of a base and a delta that is not wide leaves 64 bits.
_SAFE = 1 << 62


class _OddError(Exception):
    """The fast loop met something that the careful pass must look at."""


def decode(data: bytes, base: Base, *, strict: bool = True) -> list[Record]:
    """Decode all records of a batch: of the batch itself, or when it was compressed of the uncompressed bytes.

    Raises: WireErrors only, with a path such as `records[3].value` and the offset in the data.
    """
    if base.count > len(data) - base.starts_at:
        # A record has 7 bytes at least; this count would only make the loop find the end of the data.
        raise corrupt(f"{base.count} records in {len(data) - base.starts_at} bytes", base.starts_at, "batch.count")
    try:
        records, wide = _read(data, base)
    except (IndexError, OddVarintError, _OddError, UnicodeDecodeError):
        records, wide = read_carefully(data, base, strict=strict), True
    if wide or not -_SAFE < base.timestamp < _SAFE or not -_SAFE < base.offset < _SAFE:
        return [_within_int64(record) for record in records]
    return records


def _read(data: bytes, base: Base) -> tuple[list[Record], bool]:
    """Read good records, and say whether any timestamp delta was wide.

    Varints of one and two bytes are read in place: a function call for each would take 1.6 to 1.8 times as long.
    Slices may fall short here; then the positions do not meet in the end.
    """
    base_offset, base_timestamp, append_time = base.offset, base.timestamp, base.append_time
    records: list[Record] = []
    add = records.append
    at, wide = base.starts_at, False
    for _ in range(base.count):
        # The size of the record: where it must end.
        raw, at = data[at], at + 1
        if raw > 127:
            raw, at = (raw + (data[at] << 7) - 128, at + 1) if data[at] < 128 else read_raw(data, at - 1, 32)
        end, negative = at + (raw >> 1), raw
        # The timestamp delta, behind the attributes: no version has used them (KIP-98).
        raw, at = data[at + 1], at + 2
        if raw > 127:
            raw, at = (raw + (data[at] << 7) - 128, at + 1) if data[at] < 128 else read_raw(data, at - 1, 64)
            wide = wide or raw >= _SAFE
        timestamp = base_timestamp + ((raw >> 1) ^ -(raw & 1)) if append_time is None else append_time
        # The offset delta; compaction leaves gaps.
        raw, at = data[at], at + 1
        if raw > 127:
            raw, at = (raw + (data[at] << 7) - 128, at + 1) if data[at] < 128 else read_raw(data, at - 1, 32)
        offset = base_offset + ((raw >> 1) ^ -(raw & 1))
        # Key and value; 1 is the varint of -1, which is null.
        raw, at = data[at], at + 1
        key = value = None
        if raw != 1:
            if raw > 127:
                raw, at = (raw + (data[at] << 7) - 128, at + 1) if data[at] < 128 else read_raw(data, at - 1, 32)
            negative |= raw
            start, at = at, at + (raw >> 1)
            key = data[start:at]
        raw, at = data[at], at + 1
        if raw != 1:
            if raw > 127:
                raw, at = (raw + (data[at] << 7) - 128, at + 1) if data[at] < 128 else read_raw(data, at - 1, 32)
            negative |= raw
            start, at = at, at + (raw >> 1)
            value = data[start:at]
        headers: tuple[Header, ...] = ()
        if data[at]:
            headers, at = _read_headers(data, at)
        else:
            at += 1
        if at != end or negative & 1:
            raise _OddError
        add(Record(offset, timestamp, key, value, headers))
    if at != len(data):
        raise _OddError
    return records, wide


def _read_headers(data: bytes, at: int) -> tuple[tuple[Header, ...], int]:
    raw, at = data[at], at + 1
    if raw > 127:
        raw, at = read_raw(data, at - 1, 32)
    if raw & 1:
        raise _OddError
    headers: list[Header] = []
    for _ in range(raw >> 1):
        raw, at = data[at], at + 1
        if raw > 127:
            raw, at = read_raw(data, at - 1, 32)
        if raw & 1:
            raise _OddError
        start, at = at, at + (raw >> 1)
        key = data[start:at].decode()
        raw, at = data[at], at + 1
        if raw == 1:
            headers.append((key, None))
            continue
        if raw > 127:
            raw, at = read_raw(data, at - 1, 32)
        if raw & 1:
            raise _OddError
        start, at = at, at + (raw >> 1)
        headers.append((key, data[start:at]))
    return tuple(headers), at


def _within_int64(record: Record) -> Record:
    """Sums of base and delta wrap around as they do in Kafka, so that nobody meets a number beyond 64 bits."""
    return msgspec.structs.replace(record, offset=wrapped(record.offset), timestamp=wrapped(record.timestamp))
