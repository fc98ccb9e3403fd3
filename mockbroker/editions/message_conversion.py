"""Conversion of messages between editions, by fields of the same meaning.

Fields that the target does not have are omitted; fields that only the target has get their default.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec

from kwire.registry import codec_of_name
from kwire.schema import FieldSpec, load_schema

#: A field's name in drafts of KIP-932, and its released name.
_RELEASED_NAMES = {"BaseOffset": "FirstOffset", "State": "DeliveryState"}

Converter = Callable[[Any], Any]


@cache
def message_converter(name: str, source: str, target: str) -> Converter:
    """A converter of the message of this name from edition `source` to edition `target`.

    Raises: UnsupportedVersion if one of them has no such message.
    """
    target_schema, source_schema = load_schema(name, target), load_schema(name, source)
    classes = codec_of_name(name, target)
    return _struct_converter(classes.message, classes.structs, target_schema.fields, source_schema.fields)


def _struct_converter(
    target_class: type[msgspec.Struct],
    structs: Any,
    target_fields: tuple[FieldSpec, ...],
    source_fields: tuple[FieldSpec, ...],
) -> Converter:
    sources = {_released_name(field): field for field in source_fields}
    rows: list[tuple[str, str, Converter | None]] = []
    for field in target_fields:
        source = sources.get(_released_name(field))
        if source is None or source.is_array != field.is_array or bool(source.struct) != bool(field.struct):
            continue
        inner = None
        if field.struct:
            inner = _struct_converter(structs[field.struct.name], structs, field.fields, source.fields)
            inner = _list_converter(inner) if field.is_array else inner
        rows.append((field.snake_name, source.snake_name, inner))

    def convert(value: Any) -> Any:
        content = {}
        for snake, source_snake, inner in rows:
            item = getattr(value, source_snake)
            content[snake] = item if inner is None or item is None else inner(item)
        return target_class(**content)

    return convert


def _released_name(field: FieldSpec) -> str:
    return _RELEASED_NAMES.get(field.name, field.name)


def _list_converter(inner: Converter) -> Converter:
    return lambda values: [inner(value) for value in values]
