"""Decodes records field by field where the fast decoder fails, and reports what is wrong and where."""

from __future__ import annotations

from kwire.errors import InvalidLength, InvalidUtf8, InvalidVarint, Truncated, UnexpectedNull
from kwire.records.failures import corrupt_error
from kwire.records.record import BatchBase, Header, Record
from kwire.records.varint import UnreadableVarintError, decode_zigzag, read_raw_varint


def decode_records_checked(data: bytes, base: BatchBase, *, strict: bool) -> list[Record]:
    """Decode records field by field.

    Args: strict: False reads as Kafka does: any negative length is null, malformed UTF-8 becomes U+FFFD.
    Raises: WireErrors only.
    """
    cursor = _Cursor(data, base.starts_at, strict)
    records = [_read_record(cursor, base, f"records[{index}]") for index in range(base.count)]
    if cursor.at != len(data):
        raise corrupt_error(f"{len(data) - cursor.at} bytes follow the last of {base.count} records", cursor.at)
    return records


def _read_record(cursor: _Cursor, base: BatchBase, path: str) -> Record:
    start = cursor.at
    size = cursor.read_varint(f"{path}.size", 32)
    if size < 0:
        raise InvalidLength(f"{path}.size", start, f"is {size}")
    begin = cursor.at
    cursor.read_bytes(f"{path}.attributes", 1)
    timestamp = base.timestamp + cursor.read_varint(f"{path}.timestamp_delta", 64)
    offset = base.offset + cursor.read_varint(f"{path}.offset_delta", 32)
    key = cursor.read_blob(f"{path}.key")
    value = cursor.read_blob(f"{path}.value")
    headers = _read_headers(cursor, f"{path}.headers")
    if cursor.at - begin != size:
        raise corrupt_error(f"declares {size} bytes, but its fields have {cursor.at - begin}", start, path)
    return Record(offset, timestamp if base.append_time is None else base.append_time, key, value, headers)


def _read_headers(cursor: _Cursor, path: str) -> tuple[Header, ...]:
    start = cursor.at
    count = cursor.read_varint(path, 32)
    if count < 0:
        raise InvalidLength(path, start, f"{count} headers")
    cursor.need(path, count)
    return tuple(_read_header(cursor, f"{path}[{index}]") for index in range(count))


def _read_header(cursor: _Cursor, path: str) -> Header:
    start = cursor.at
    key = cursor.read_blob(f"{path}.key")
    if key is None:
        raise UnexpectedNull(f"{path}.key", start, "a header's key cannot be null")
    try:
        name = str(key, "utf-8", "strict" if cursor.strict else "replace")
    except UnicodeDecodeError as error:
        raise InvalidUtf8(f"{path}.key", start, f"is not UTF-8: {error.reason}") from None
    return name, cursor.read_blob(f"{path}.value")


class _Cursor:
    """A position in the bytes of the records; its methods raise errors with the path of the field."""

    def __init__(self, data: bytes, at: int, strict: bool) -> None:
        self.data = data
        self.at = at
        self.strict = strict

    def need(self, path: str, size: int) -> None:
        """Raise Truncated unless this many bytes are left."""
        left = len(self.data) - self.at
        if size > left:
            raise Truncated(path, self.at, size, left)

    def read_bytes(self, path: str, size: int) -> bytes:
        self.need(path, size)
        self.at += size
        return self.data[self.at - size : self.at]

    def read_varint(self, path: str, bits: int) -> int:
        try:
            raw, self.at = read_raw_varint(self.data, self.at, bits)
        except IndexError:
            left = len(self.data) - self.at
            raise Truncated(path, self.at, left + 1, left) from None
        except UnreadableVarintError as error:
            raise InvalidVarint(path, self.at, str(error)) from None
        return decode_zigzag(raw)

    def read_blob(self, path: str) -> bytes | None:
        """The next bytes, behind their length."""
        start = self.at
        size = self.read_varint(path, 32)
        if size >= 0:
            return self.read_bytes(path, size)
        if size != -1 and self.strict:
            raise InvalidLength(path, start, f"a length of {size}, null is -1")
        return None
