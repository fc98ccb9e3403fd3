"""Messages of which only the first fields are read at once; the others are decoded when they are used."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from struct import Struct, calcsize
from typing import Any, NamedTuple

from kwire.primitives import read_uvarint
from kwire.registry import codec_of_version
from kwire.schema import load_schema
from kwire.schema.spec import STRUCT_CODES

_TEXT_SIZE = Struct(">h").unpack_from


class LazyMessage:
    """A valid message in bytes, with the attributes of the decoded message."""

    def __init__(self, name: str, version: int, data: bytes, at: int) -> None:
        """Nothing is read yet."""
        self._place = name, version, data, at
        self._message: Any = None

    def __getattr__(self, field: str) -> Any:
        """A field that has not been read: reads all of the head, or decodes the message. Raises: AttributeError."""
        name, version, data, at = self._place
        head = head_reader(name, version)
        if field in head.fields:
            self.__dict__.update(zip(head.fields, head.read(data, at), strict=True))
            return self.__dict__[field]
        if self._message is None:
            self._message, _ = codec_of_version(name, version).readers[version](data, at)
        return getattr(self._message, field)


class HeadReader(NamedTuple):
    """Reads the first fields of a message at an offset: their names, and a function that returns their values."""

    fields: tuple[str, ...]
    read: Callable[[bytes, int], list[Any]]


@cache
def head_reader(name: str, version: int) -> HeadReader:
    """The function that reads the numbers and strings before the first other field of a message."""
    spec = load_schema(name, codec_of_version(name, version).edition)
    # Each step reads numbers and a string after them.
    steps: list[tuple[Callable[..., tuple[Any, ...]], int, bool]] = []
    codes, fields = ">", list[str]()
    for field in spec.fields:
        if version not in field.versions or field.is_tagged(version):
            continue
        if field.type in STRUCT_CODES and field.type != "bool":
            codes += STRUCT_CODES[field.type]
        elif field.type == "string":
            steps.append(
                (Struct(codes).unpack_from, calcsize(codes), field.is_flexible(version, spec.is_flexible(version)))
            )
            codes = ">"
        else:
            break
        fields.append(field.snake_name)
    last = Struct(codes).unpack_from

    def read(data: bytes, at: int) -> list[Any]:
        """The values of the fields."""
        values: list[Any] = []
        for unpack, size, is_compact in steps:
            values += unpack(data, at)
            at += size
            if is_compact:
                length, at = read_uvarint(data, at)
                length -= 1
            else:
                (length,), at = _TEXT_SIZE(data, at), at + 2
            values.append(None if length < 0 else data[at : at + length].decode())
            at += max(length, 0)
        values += last(data, at)
        return values

    return HeadReader(tuple(fields), read)
