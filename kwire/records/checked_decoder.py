"""Decodes single records field by field where the fast decoder fails, and reports what is wrong and where."""

from __future__ import annotations

from kwire.errors import InvalidLength, InvalidUtf8, InvalidVarint, LimitExceeded, Truncated, UnexpectedNull
from kwire.records.failures import corrupt_error
from kwire.records.record import BatchBase, Header, Record
from kwire.records.varint import UnreadableVarintError, decode_zigzag, read_raw_varint


class RecordReader:
    """A position in the bytes of the records of a batch; its methods raise errors with the path of the field.

    at: where the next record begins. headers_left: how many headers the rest of the records may have.
    strict: False reads as Kafka does: any negative length is null, malformed UTF-8 becomes U+FFFD.
    """

    __slots__ = ("at", "base", "data", "headers_left", "index", "strict")

    def __init__(self, data: bytes, base: BatchBase, *, strict: bool, headers_max: int) -> None:
        self.data = data
        self.base = base
        self.at = base.starts_at
        self.strict = strict
        self.headers_left = headers_max
        self.index = 0

    def read_record(self, index: int) -> Record:
        """Read the next record, whose number is `index`. Raises: WireErrors only."""
        self.index = index
        base, start = self.base, self.at
        size = self._read_varint("size", 32)
        if size < 0:
            raise InvalidLength(self._path("size"), start, f"is {size}")
        begin = self.at
        self._read_bytes("attributes", 1)
        timestamp = base.timestamp + self._read_varint("timestamp_delta", 64)
        offset = base.offset + self._read_varint("offset_delta", 32)
        key = self._read_blob("key")
        value = self._read_blob("value")
        headers = self._read_headers()
        if self.at - begin != size:
            what = f"declares {size} bytes, but its fields have {self.at - begin}"
            raise corrupt_error(what, start, f"records[{index}]")
        return Record(offset, timestamp if base.append_time is None else base.append_time, key, value, headers)

    def check_end(self) -> None:
        """Raise CorruptRecords if bytes follow the last record."""
        if self.at != len(self.data):
            left = len(self.data) - self.at
            raise corrupt_error(f"{left} bytes follow the last of {self.base.count} records", self.at)

    def _read_headers(self) -> tuple[Header, ...]:
        start = self.at
        count = self._read_varint("headers", 32)
        if count < 0:
            raise InvalidLength(self._path("headers"), start, f"{count} headers")
        self._need("headers", count)
        if count > self.headers_left:
            raise LimitExceeded(self._path("headers"), start, f"{count} headers, {self.headers_left} more are allowed")
        self.headers_left -= count
        return tuple([self._read_header(number) for number in range(count)])

    def _read_header(self, number: int) -> Header:
        start = self.at
        key = self._read_blob("headers", number, "key")
        if key is None:
            raise UnexpectedNull(self._path("headers", number, "key"), start, "a header's key cannot be null")
        try:
            name = str(key, "utf-8", "strict" if self.strict else "replace")
        except UnicodeDecodeError as error:
            raise InvalidUtf8(self._path("headers", number, "key"), start, f"is not UTF-8: {error.reason}") from None
        return name, self._read_blob("headers", number, "value")

    def _path(self, field: str, number: int | None = None, part: str = "") -> str:
        """The path of a field; only errors need it."""
        return f"records[{self.index}].{field}" + ("" if number is None else f"[{number}].{part}")

    def _need(self, field: str, size: int, number: int | None = None, part: str = "") -> None:
        """Raise Truncated unless this many bytes are left."""
        left = len(self.data) - self.at
        if size > left:
            raise Truncated(self._path(field, number, part), self.at, size, left)

    def _read_bytes(self, field: str, size: int, number: int | None = None, part: str = "") -> bytes:
        self._need(field, size, number, part)
        self.at += size
        return self.data[self.at - size : self.at]

    def _read_varint(self, field: str, bits: int, number: int | None = None, part: str = "") -> int:
        try:
            raw, self.at = read_raw_varint(self.data, self.at, bits)
        except IndexError:
            left = len(self.data) - self.at
            raise Truncated(self._path(field, number, part), self.at, left + 1, left) from None
        except UnreadableVarintError as error:
            raise InvalidVarint(self._path(field, number, part), self.at, str(error)) from None
        return decode_zigzag(raw)

    def _read_blob(self, field: str, number: int | None = None, part: str = "") -> bytes | None:
        """The next bytes, behind their length."""
        start = self.at
        size = self._read_varint(field, 32, number, part)
        if size >= 0:
            return self._read_bytes(field, size, number, part)
        if size != -1 and self.strict:
            raise InvalidLength(self._path(field, number, part), start, f"a length of {size}, null is -1")
        return None
