"""The forms of single values on the wire, as `construct` constructs: numbers, lengths, strings, bytes."""

from __future__ import annotations

import codecs
import struct
from typing import TYPE_CHECKING

import construct

from kwire.errors import InvalidBoolean, InvalidLength, InvalidUtf8, InvalidVarint, Truncated, UnexpectedNull
from kwire.primitives import TEXT_BYTES_MAX
from kwire.schema.spec import STRUCT_CODES
from kwire.schema_codec.reader import Reader

if TYPE_CHECKING:

    class Construct:
        """The part of construct.Construct that is used here; construct itself has no types."""

        def parse(self, data: bytes, *, reader: Reader, at_path: str) -> object:
            """Read the value by the reader."""

else:
    Construct = construct.Construct

_VARINT_BYTES_MAX = 5


class Form(Construct):
    """A construct that reads at the position of a `Reader`."""

    def _parse(self, stream: object, context: object, path: str) -> object:
        parameters = context._params  # type: ignore[attr-defined]
        return self.read(parameters.reader, parameters.at_path)

    def read(self, reader: Reader, path: str) -> object:
        """The value; moves the reader behind its last byte.

        Args: path: the path of the field, for errors, warnings and nodes.
        Raises: WireError with path and offset.
        """
        raise NotImplementedError


class Number(Form):
    """A value of fixed size, described by a struct code: an integer, a float, a UUID."""

    def __init__(self, code: str) -> None:
        super().__init__()
        self.code = code
        self.single = struct.Struct(f">{code}")
        self.size = self.single.size

    def read(self, reader: Reader, path: str) -> int | float | bytes:
        """The value."""
        reader.need(self.size, path)
        (value,) = self.single.unpack_from(reader.data, reader.at)
        reader.at += self.size
        number: int | float | bytes = value
        return number

    def read_many(self, reader: Reader, count: int, path: str) -> tuple[int | float | bytes, ...]:
        """Values one after the other."""
        whole = reader.left // self.size
        if count > whole:
            # The first incomplete element is the one to name.
            reader.at += whole * self.size
            raise Truncated(f"{path}[{whole}]" if count > 1 else path, reader.at, self.size, reader.left)
        code = self.code * count if self.size == 16 else f"{count}{self.code}"
        values = struct.unpack_from(f">{code}", reader.data, reader.at)
        reader.at += count * self.size
        return values


#: Numbers by the name of the type in the schemas.
NUMBERS = {name: Number(code) for name, code in STRUCT_CODES.items() if name != "bool"}


class Boolean(Form):
    """One byte: 0 is false. Kafka reads every other byte as true, and writes 1."""

    def read(self, reader: Reader, path: str) -> bool:
        """True or false."""
        start = reader.at
        (byte,) = reader.take(1, path)
        if byte > 1:
            reader.warn(InvalidBoolean(path, start, f"a boolean is 0 or 1, not {byte}"), "read as true")
        return byte != 0


class UnsignedVarint(Form):
    """Seven bits a byte, the lowest first; at most five bytes and 32 bits."""

    def read(self, reader: Reader, path: str) -> int:
        """The number."""
        start = reader.at
        value = 0
        for index in range(_VARINT_BYTES_MAX):
            (byte,) = reader.take(1, path)
            value |= (byte & 127) << (7 * index)
            if byte < 128:
                if value >= 1 << 32:
                    reader.warn(InvalidVarint(path, start, "a varint has more than 32 bits"), "the upper bits are lost")
                    value &= 0xFFFFFFFF
                return value
        raise InvalidVarint(path, start, "a varint goes on after five bytes")


VARINT = UnsignedVarint()


class Length(Form):
    """A length or count: a signed integer with -1 for null, or a varint of the length + 1 with 0 for null.

    Args: form: the integer; None for the varint.
    """

    def __init__(self, form: Number | None, *, nullable: bool) -> None:
        super().__init__()
        self.form = form
        self.nullable = nullable

    def read(self, reader: Reader, path: str) -> int | None:
        """The length, None for null."""
        start = reader.at
        if self.form is not None:
            length = int(self.form.read(reader, path))
        else:
            length = VARINT.read(reader, path) - 1
            if reader.lenient and length >= 1 << 31:
                # Kafka computes with int32, so what does not fit becomes negative, and negative is null.
                length -= 1 << 32
        if length < -1:
            reader.warn(InvalidLength(path, start, f"length {length} is negative"), "read as null")
        if length < 0:
            if not self.nullable:
                raise UnexpectedNull(path, start, "is null, which this version does not allow")
            return None
        return length


class Blob(Form):
    """Bytes behind their length."""

    def __init__(self, length: Length) -> None:
        super().__init__()
        self.length = length

    def read(self, reader: Reader, path: str) -> bytes | memoryview | None:
        """The bytes, None for null."""
        size = self.length.read(reader, path)
        return None if size is None else reader.take(size, path)


class Text(Form):
    """A string of UTF-8 behind its length in bytes."""

    def __init__(self, length: Length) -> None:
        super().__init__()
        self.length = length

    def read(self, reader: Reader, path: str) -> str | None:
        """The string, None for null."""
        start = reader.at
        size = self.length.read(reader, path)
        if size is None:
            return None
        if size > TEXT_BYTES_MAX:
            raise InvalidLength(path, start, f"a string has {TEXT_BYTES_MAX} bytes at most, not {size}")
        start = reader.at
        raw = reader.take(size, path)
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            what = f"byte 0x{raw[error.start]:02x} is not UTF-8: {error.reason}"
            reader.warn(InvalidUtf8(path, start + error.start, what), "read as U+FFFD")
            return raw.decode(errors="kwire-replace")


class Numbers(Form):
    """An array of values of fixed size."""

    def __init__(self, length: Length, element: Number) -> None:
        super().__init__()
        self.length = length
        self.element = element

    def read(self, reader: Reader, path: str) -> tuple[int | float | bytes, ...] | None:
        """The values, None for null."""
        count = read_count(self.length, reader, path)
        return None if count is None else self.element.read_many(reader, count, path)


def read_count(length: Length, reader: Reader, path: str) -> int | None:
    """The number of elements of an array, None for null.

    Raises: Truncated when fewer bytes than elements are left, as in Kafka: an element takes at least one byte.
    """
    start = reader.at
    count = length.read(reader, path)
    if count is not None and count > reader.left:
        raise Truncated(path, start, count, reader.left)
    return count


def _replace_like_java(error: UnicodeError) -> tuple[str, int]:
    """U+FFFD as Java's String puts it: one for a whole surrogate half, for which Python would put two or three."""
    assert isinstance(error, UnicodeDecodeError)
    tail = error.object[error.start : error.start + 3]
    end = error.end
    if len(tail) > 1 and tail[0] == 0xED and tail[1] & 0xE0 == 0xA0:
        end = error.start + (3 if len(tail) == 3 and tail[2] & 0xC0 == 0x80 else 2)
    return "\ufffd", end


codecs.register_error("kwire-replace", _replace_like_java)
