"""Messages of which only the first fields are read at once; the others are decoded when they are used."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from struct import Struct, calcsize
from typing import Any

from kwire.primitives import read_uvarint
from kwire.registry import DEFAULT_EDITION, codec_of_name
from kwire.schema import load_schema
from kwire.schema.spec import STRUCT_CODES

#: Returns the first fields of a message at an offset, by name.
HeadReader = Callable[[bytes, int], dict[str, Any]]

_TEXT_SIZE = Struct(">h").unpack_from


class LazyMessage:
    """A valid message in bytes, with the attributes of the decoded message."""

    def __init__(self, name: str, version: int, data: bytes, at: int) -> None:
        """Read the numbers and strings before the first other field. Raises: one of `FAILURES` of `kwire.primitives`"""
        self._place = name, version, data, at
        self.__dict__.update(head_reader(name, version)(data, at))

    def __getattr__(self, field: str) -> Any:
        """A field that has not been read: decodes the message."""
        name, version, data, at = self._place
        message, _ = codec_of_name(name).readers[version](data, at)
        value = getattr(message, field)
        self.__dict__[field] = value
        return value


@cache
def head_reader(name: str, version: int) -> HeadReader:
    """The function that reads the numbers and strings before the first other field of a message."""
    spec = load_schema(name, DEFAULT_EDITION)
    # Each step reads numbers, and a string after them unless it is the last step.
    steps: list[tuple[Callable[..., tuple[Any, ...]], int, list[str], str, bool]] = []
    codes, names = "", list[str]()
    for field in spec.fields:
        if version not in field.versions or field.is_tagged(version):
            continue
        if field.type in STRUCT_CODES and field.type != "bool":
            codes, names = codes + STRUCT_CODES[field.type], [*names, field.snake_name]
        elif field.type == "string":
            is_compact = field.is_flexible(version, spec.is_flexible(version))
            steps.append((Struct(">" + codes).unpack_from, calcsize(">" + codes), names, field.snake_name, is_compact))
            codes, names = "", []
        else:
            break
    last = Struct(">" + codes).unpack_from

    def read(data: bytes, at: int) -> dict[str, Any]:
        """The fields by name."""
        values: dict[str, Any] = {}
        for unpack, size, numbers, string, is_compact in steps:
            values.update(zip(numbers, unpack(data, at), strict=True))
            at += size
            if is_compact:
                length, at = read_uvarint(data, at)
                length -= 1
            else:
                (length,), at = _TEXT_SIZE(data, at), at + 2
            values[string] = None if length < 0 else data[at : at + length].decode()
            at += max(length, 0)
        values.update(zip(names, last(data, at), strict=True))
        return values

    return read
