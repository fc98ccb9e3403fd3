"""Size of a record of format v2 as it is stored in a batch without compression."""

from __future__ import annotations

from kwire.records import Record


def record_size(record: Record, *, offset_delta: int, base: int) -> int:
    """Bytes of the record with its length. Args: offset_delta: in its batch. base: the batch's first timestamp."""
    size = 1 + _varint_size(record.timestamp - base) + _varint_size(offset_delta) + _varint_size(len(record.headers))
    for data in (record.key, record.value):
        size += _field_size(data)
    for name, value in record.headers:
        size += _field_size(name.encode()) + _field_size(value)
    return size + _varint_size(size)


def _field_size(data: bytes | None) -> int:
    return 1 if data is None else _varint_size(len(data)) + len(data)


def _varint_size(value: int) -> int:
    zigzag = value << 1 if value >= 0 else ~(value << 1)
    return max(1, -(-zigzag.bit_length() // 7))
