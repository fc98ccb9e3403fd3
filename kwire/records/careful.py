"""The careful pass over records that the fast loop would not read: what is wrong, and where?"""

from __future__ import annotations

from kwire.errors import InvalidLength, InvalidUtf8, InvalidVarint, Truncated, UnexpectedNull
from kwire.records.faults import corrupt
from kwire.records.record import Base, Header, Record
from kwire.records.varint import OddVarintError, read_raw, zigzag


def read_carefully(data: bytes, base: Base, *, strict: bool) -> list[Record]:
    """Decode records field by field.

    Args: strict: False takes what Kafka takes: any negative length is null, malformed UTF-8 becomes U+FFFD.
    Raises: WireErrors only.
    """
    cursor = _Cursor(data, base.starts_at, strict)
    records = [_record(cursor, base, f"records[{index}]") for index in range(base.count)]
    if cursor.at != len(data):
        raise corrupt(f"{len(data) - cursor.at} bytes follow the last of {base.count} records", cursor.at)
    return records


def _record(cursor: _Cursor, base: Base, path: str) -> Record:
    start = cursor.at
    size = cursor.number(f"{path}.size", 32)
    if size < 0:
        raise InvalidLength(f"{path}.size", start, f"is {size}")
    begin = cursor.at
    cursor.take(f"{path}.attributes", 1)
    timestamp = base.timestamp + cursor.number(f"{path}.timestamp_delta", 64)
    offset = base.offset + cursor.number(f"{path}.offset_delta", 32)
    key = cursor.blob(f"{path}.key")
    value = cursor.blob(f"{path}.value")
    headers = _headers(cursor, f"{path}.headers")
    if cursor.at - begin != size:
        raise corrupt(f"says it has {size} bytes, but its fields have {cursor.at - begin}", start, path)
    return Record(offset, timestamp if base.append_time is None else base.append_time, key, value, headers)


def _headers(cursor: _Cursor, path: str) -> tuple[Header, ...]:
    start = cursor.at
    count = cursor.number(path, 32)
    if count < 0:
        raise InvalidLength(path, start, f"{count} headers")
    cursor.need(path, count)
    return tuple(_header(cursor, f"{path}[{index}]") for index in range(count))


def _header(cursor: _Cursor, path: str) -> Header:
    start = cursor.at
    key = cursor.blob(f"{path}.key")
    if key is None:
        raise UnexpectedNull(f"{path}.key", start, "a header's key cannot be null")
    try:
        name = str(key, "utf-8", "strict" if cursor.strict else "replace")
    except UnicodeDecodeError as error:
        raise InvalidUtf8(f"{path}.key", start, f"is not UTF-8: {error.reason}") from None
    return name, cursor.blob(f"{path}.value")


class _Cursor:
    """A position in the records' bytes that knows how to complain."""

    def __init__(self, data: bytes, at: int, strict: bool) -> None:
        self.data = data
        self.at = at
        self.strict = strict

    def need(self, path: str, size: int) -> None:
        """Raise Truncated unless so many bytes are left."""
        left = len(self.data) - self.at
        if size > left:
            raise Truncated(path, self.at, size, left)

    def take(self, path: str, size: int) -> bytes:
        """The next bytes."""
        self.need(path, size)
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, path: str, bits: int) -> int:
        """The next varint."""
        try:
            raw, self.at = read_raw(self.data, self.at, bits)
        except IndexError:
            left = len(self.data) - self.at
            raise Truncated(path, self.at, left + 1, left) from None
        except OddVarintError as error:
            raise InvalidVarint(path, self.at, str(error)) from None
        return zigzag(raw)

    def blob(self, path: str) -> bytes | None:
        """The next bytes with their length before them."""
        start = self.at
        size = self.number(path, 32)
        if size >= 0:
            return self.take(path, size)
        if size != -1 and self.strict:
            raise InvalidLength(path, start, f"a length of {size}, null is -1")
        return None
