"""Messages of versions that Kafka 4.0 removed, as the classes of the newest release: the rules read only those.

A broker reads all versions of a message into one class, too: a field that the version does not have has its default.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec

from kwire.capture.kafka.message_fields import struct_type_in
from kwire.errors import UnsupportedVersion
from kwire.registry import REMOVED_EDITION, codec_of_class, message_class

_Converter = Callable[[Any], Any]


def newest_form(message: msgspec.Struct | None) -> msgspec.Struct | None:
    """The message as its class of the newest release; the same one if it has that, or if there is none."""
    convert = None if message is None else _find_converter(type(message))
    return message if convert is None else convert(message)


@cache
def _find_converter(kind: type[msgspec.Struct]) -> _Converter | None:
    codec = codec_of_class(kind)
    if codec.edition != REMOVED_EDITION:
        return None
    try:
        return _converter(kind, message_class(codec.name))
    except UnsupportedVersion:
        return None


def _converter(source: type[msgspec.Struct], target: type[msgspec.Struct]) -> _Converter:
    sources = {field.name: struct_type_in(field.type) for field in msgspec.structs.fields(source)}
    inner: dict[str, _Converter | None] = {}
    for field in msgspec.structs.fields(target):
        if field.name in sources:
            below, struct = sources[field.name], struct_type_in(field.type)
            inner[field.name] = None if below is None or struct is None else _converter(below, struct)

    def convert(message: Any) -> Any:
        values = {}
        for name, convert_below in inner.items():
            value = getattr(message, name)
            if convert_below is not None and value is not None:
                value = [convert_below(item) for item in value] if isinstance(value, list) else convert_below(value)
            values[name] = value
        return target(**values)

    return convert
