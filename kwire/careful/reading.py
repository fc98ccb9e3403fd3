"""Reads any message field by field as its schema says, knowing at each step where it is.

Slow, and only run when the generated code has refused: to name the first wrong field, or, for a lenient decode, to read
on as Kafka does. Rules for Kafka: its generated `read` methods and `ByteBufferAccessor` in 4.3.0.
"""

from __future__ import annotations

import codecs
import struct
from collections.abc import Callable
from typing import Any

import msgspec

from kwire.codec_table import Codec
from kwire.errors import (
    InvalidBoolean,
    InvalidLength,
    InvalidTag,
    InvalidUtf8,
    InvalidVarint,
    TrailingBytes,
    Truncated,
    UnexpectedNull,
    WireError,
)
from kwire.oddities import Lenient, Oddity, ignored_tail
from kwire.primitives import TEXT_BYTES_MAX, Tags
from kwire.schema import FieldSpec, MessageSpec, load
from kwire.schema.spec import FIXED_SIZES

_CODES = {
    "int8": "b",
    "uint8": "B",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "uint32": "I",
    "int64": "q",
    "float64": "d",
    "uuid": "16s",
    "bool": "B",
}


_SINGLES = {name: struct.Struct(f">{code}") for name, code in _CODES.items()}

#: A field, its name, its struct if it is a number alone, and else what reads it.
_Row = tuple[FieldSpec, str, struct.Struct | None, Callable[[FieldSpec, str], object]]


def read(codec: Codec, version: int, data: bytes, at: int) -> msgspec.Struct:
    """The message in the bytes from `at` on, all of them.

    Raises: WireError with path and offset.
    """
    reader = _Reader(codec, version, data, at, lenient=False)
    message = reader.message()
    if reader.at != len(data):
        raise TrailingBytes(reader.spec.name, reader.at, f"{len(data) - reader.at} bytes behind the end of the message")
    return message


def read_lenient(codec: Codec, version: int, data: bytes, at: int) -> Lenient[msgspec.Struct]:
    """The message as Kafka reads it, with notes on what a strict decode refuses.

    Raises: WireError where Kafka fails too.
    """
    reader = _Reader(codec, version, data, at, lenient=True)
    message = reader.message()
    tail = ignored_tail(reader.spec.name, reader.at, len(data))
    return Lenient(message, (*reader.oddities, *tail), reader.at - at)


def read_head(codec: Codec, version: int, data: bytes, *, lenient: bool) -> tuple[Any, int, tuple[Oddity, ...]]:
    """A message at the start of the bytes, such as a header; the offset behind it; what was odd.

    Raises: as `read` or `read_lenient`.
    """
    reader = _Reader(codec, version, data, 0, lenient=lenient)
    return reader.message(), reader.at, tuple(reader.oddities)


def _replace_as_java(error: UnicodeError) -> tuple[str, int]:
    """U+FFFD as Java's String has it: one for a whole surrogate half, for which Python would put two or three."""
    assert isinstance(error, UnicodeDecodeError)
    tail = error.object[error.start : error.start + 3]
    end = error.end
    if len(tail) > 1 and tail[0] == 0xED and tail[1] & 0xE0 == 0xA0:
        end = error.start + (3 if len(tail) == 3 and tail[2] & 0xC0 == 0x80 else 2)
    return "\ufffd", end


codecs.register_error("kwire-replace", _replace_as_java)


class _Reader:
    """A position in the bytes of one message."""

    def __init__(self, codec: Codec, version: int, data: bytes, at: int, *, lenient: bool) -> None:
        self.codec = codec
        self.version = version
        self.data = data
        self.at = at
        self.lenient = lenient
        self.oddities: list[Oddity] = []
        #: By the identity of a struct's fields, which the schema keeps alive.
        self.known_rows: dict[int, list[_Row]] = {}
        self.spec: MessageSpec = load(codec.name, codec.edition)
        self.flexible = self.spec.is_flexible(version)

    def note(self, path: str, at: int, what: str) -> None:
        """Keep what is odd at this place."""
        self.oddities.append(Oddity(path, at, what))

    def odd(self, error: WireError, taken_for: str) -> None:
        """Raise an error, or, where Kafka does not mind, note it and what Kafka takes it for."""
        if not self.lenient:
            raise error
        self.note(error.path, error.at or 0, f"{error.what}; {taken_for}")

    def message(self) -> msgspec.Struct:
        """The message from its first field on."""
        return self.struct(self.codec.message, self.spec.fields, self.spec.name)

    def struct(self, made: type[msgspec.Struct], fields: tuple[FieldSpec, ...], path: str) -> msgspec.Struct:
        """All fields that a struct has in this version."""
        values: dict[str, object] = {}
        for field, snake, single, read in self.rows(fields):
            if single is not None:
                # A number alone, as most fields are.
                if self.at + single.size > len(self.data):
                    self.need(single.size, f"{path}.{snake}")
                (values[snake],) = single.unpack_from(self.data, self.at)
                self.at += single.size
            else:
                values[snake] = read(field, f"{path}.{snake}")
        if self.flexible:
            values["unknown_tagged_fields"] = self.tagged(fields, path, values)
        return made(**values)

    def rows(self, fields: tuple[FieldSpec, ...]) -> list[_Row]:
        """The fields of a struct that this version has in its body, looked up once for each message."""
        rows = self.known_rows.get(id(fields))
        if rows is None:
            rows = [
                (field, field.snake, None if field.type == "bool" else _SINGLES.get(field.type), self.field)
                for field in fields
                if self.version in field.versions and not field.is_tagged(self.version)
            ]
            self.known_rows[id(fields)] = rows
        return rows

    def tagged(self, fields: tuple[FieldSpec, ...], path: str, values: dict[str, object]) -> Tags:
        """The tagged fields: known ones go to `values`, the others are returned."""
        known = {field.tag: field for field in fields if field.tag is not None}
        unknown: list[tuple[int, bytes]] = []
        here = f"{path}.tagged_fields"
        previous = -1
        start = self.at
        count = self.uvarint(here)
        if count >= 1 << 31:
            # Kafka counts up to it as an int32, so it never begins.
            self.odd(InvalidLength(here, start, f"{count} tagged fields cannot be"), "read as none")
            count = 0
        for _ in range(count):
            start = self.at
            tag = self.uvarint(here)
            size = self.uvarint(here)
            if tag >= 1 << 31:
                self.odd(InvalidTag(here, start, f"tag {tag} does not fit int32"), "kept all the same")
            if tag <= previous:
                self.odd(InvalidTag(here, start, f"tag {tag} comes after tag {previous}"), "read all the same")
            previous = tag
            field = known.get(tag)
            if field is None:
                self.need(size, f"{here}[{tag}]")
                unknown.append((tag, self.data[self.at : self.at + size]))
                self.at += size
                continue
            name = f"{path}.{field.snake}"
            if not field.is_tagged(self.version):
                raise InvalidTag(name, start, f"tag {tag} does not exist in version {self.version}")
            content = self.at
            values[field.snake] = self.field(field, name)
            if self.at - content != size:
                what = f"tag {tag} claims {size} bytes, but its field takes {self.at - content}"
                self.odd(InvalidTag(name, start, what), "the claim is ignored")
        return tuple(unknown)

    # Fields

    def field(self, field: FieldSpec, path: str) -> object:
        """The value of one field: an array, a struct or a primitive."""
        nullable = self.version in field.nullable_versions
        flexible = field.is_flexible(self.version, self.flexible)
        if field.is_array:
            return self.array(field, path, nullable, flexible)
        if field.struct:
            if nullable and not self.present(path, tagged=field.is_tagged(self.version)):
                return None
            return self.struct(self.codec.structs[field.struct.name], field.fields, path)
        return self.primitive(field.type, path, nullable, flexible)

    def primitive(self, type_name: str, path: str, nullable: bool, flexible: bool) -> object:
        """A value without parts."""
        if type_name == "bool":
            return self.boolean(path)
        if type_name in FIXED_SIZES:
            return self.numbers(type_name, 1, path)[0]
        if type_name == "string":
            return self.text(path, nullable, flexible)
        return self.bytes(type_name, path, nullable, flexible)

    def present(self, path: str, *, tagged: bool) -> bool:
        """What stands before a struct that may be null: a byte, but in a tagged field a varint with another null."""
        start = self.at
        if tagged:
            marker = self.uvarint(path)
            null, present = 0, 0 < marker < 1 << 31
        else:
            (marker,) = self.numbers("int8", 1, path)
            null, present = -1, marker >= 0
        if marker not in {1, null}:
            error = InvalidLength(path, start, f"before a struct is 1, or {null} for null, not {marker}")
            self.odd(error, "read as present" if present else "read as null")
        return bool(present)

    def array(self, field: FieldSpec, path: str, nullable: bool, flexible: bool) -> object:
        """The elements behind a count that the bytes left can hold."""
        start = self.at
        count = self.length("int32", path, nullable, flexible)
        if count is None:
            return None
        left = len(self.data) - self.at
        # As Kafka does: an element takes a byte at least, so more elements than bytes cannot be.
        if count > left:
            raise Truncated(path, start, count, left)
        element = field.element_type
        if field.struct:
            made = self.codec.structs[field.struct.name]
            return [self.struct(made, field.fields, f"{path}[{index}]") for index in range(count)]
        if element in FIXED_SIZES and element != "bool":
            return self.numbers(element, count, path)
        return tuple(self.primitive(element, f"{path}[{index}]", False, flexible) for index in range(count))

    def numbers(self, type_name: str, count: int, path: str) -> tuple[int, ...]:
        """Values of fixed size, one after the other."""
        size = FIXED_SIZES[type_name]
        if count * size > len(self.data) - self.at and count > 1:
            # The first element that is not whole is the one to name.
            whole = (len(self.data) - self.at) // size
            self.at += whole * size
            path = f"{path}[{whole}]"
            count = 1
        self.need(count * size, path)
        code = _CODES[type_name]
        values = struct.unpack_from(">" + (code * count if size == 16 else f"{count}{code}"), self.data, self.at)
        self.at += count * size
        return values

    def boolean(self, path: str) -> bool:
        """One byte."""
        start = self.at
        (byte,) = self.numbers("bool", 1, path)
        if byte > 1:
            self.odd(InvalidBoolean(path, start, f"a boolean is 0 or 1, not {byte}"), "read as true")
        return bool(byte)

    def text(self, path: str, nullable: bool, flexible: bool) -> str | None:
        """A string of UTF-8."""
        start = self.at
        length = self.length("int16", path, nullable, flexible)
        if length is None:
            return None
        if length > TEXT_BYTES_MAX:
            raise InvalidLength(path, start, f"a string has {TEXT_BYTES_MAX} bytes at most, not {length}")
        self.need(length, path)
        raw = self.data[self.at : self.at + length]
        try:
            text = raw.decode()
        except UnicodeDecodeError as error:
            what = f"byte 0x{raw[error.start]:02x} is not UTF-8: {error.reason}"
            self.odd(InvalidUtf8(path, self.at + error.start, what), "read as U+FFFD")
            text = raw.decode(errors="kwire-replace")
        self.at += length
        return text

    def bytes(self, type_name: str, path: str, nullable: bool, flexible: bool) -> object:
        """Bytes as they are; a record batch is a view of the frame."""
        length = self.length("int32", path, nullable, flexible)
        if length is None:
            return None
        self.need(length, path)
        source = memoryview(self.data) if type_name == "records" else self.data
        found = source[self.at : self.at + length]
        self.at += length
        return found

    # Lengths

    def length(self, type_name: str, path: str, nullable: bool, flexible: bool) -> int | None:
        """A length or count in either form; None when it stands for null and null is allowed."""
        start = self.at
        if flexible:
            length = self.uvarint(path) - 1
            if self.lenient:
                # Kafka computes with int32, so what does not fit wraps round, and below zero it is null.
                length = (length + 1 + (1 << 31)) % (1 << 32) - (1 << 31) - 1
                if length < -(1 << 31):
                    length = (1 << 31) - 1
        else:
            (length,) = self.numbers(type_name, 1, path)
        if length < -1:
            self.odd(InvalidLength(path, start, f"length {length} is negative"), "read as null")
        if length < 0:
            if not nullable:
                raise UnexpectedNull(path, start, "is null, which this version does not allow")
            return None
        return length

    def uvarint(self, path: str) -> int:
        """An unsigned number in groups of seven bits."""
        start = self.at
        value = 0
        for shift in range(0, 35, 7):
            self.need(1, path)
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                if value >= 1 << 32:
                    self.odd(InvalidVarint(path, start, "a varint has more than 32 bits"), "the upper bits are lost")
                    value &= 0xFFFFFFFF
                return value
        raise InvalidVarint(path, start, "a varint goes on after five bytes")

    def need(self, count: int, path: str) -> None:
        """Refuse to go on where fewer bytes are left than a value takes."""
        have = len(self.data) - self.at
        if count > have:
            raise Truncated(path, self.at, count, max(have, 0))
