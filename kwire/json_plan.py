"""Messages to Kafka's JSON form, fast: what the schema says is looked up once for each message and version.

For good values only; anything else raises one of `FAILURES`, and `kwire.json_shape` then finds the field.
"""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Callable
from functools import cache
from typing import Any

from kwire import uuids
from kwire.codec_table import Codec
from kwire.primitives import Refused
from kwire.registry import codec_of_name
from kwire.schema import FieldSpec, load

#: Turns a value into JSON; None where JSON has the same value.
Convert = Callable[[Any], Any] | None

#: Values that a field need not be written for; none where it is always written.
_NEVER: tuple[object, ...] = ()


@cache
def plan(name: str, edition: str, version: int, *, records: bool) -> Callable[[Any], dict[str, Any]]:
    """The function that makes the JSON form of a message."""
    return _struct(codec_of_name(name, edition), load(name, edition).fields, version, records)


def _struct(
    codec: Codec, fields: tuple[FieldSpec, ...], version: int, records: bool
) -> Callable[[Any], dict[str, Any]]:
    foreign = [each for each in fields if version not in each.versions and not each.ignorable]
    absent = [(each.snake, _defaults(codec, each)) for each in foreign]
    rows = [
        (
            each.snake,
            each.camel,
            _field(codec, each, version, records),
            version in each.nullable_versions,
            _defaults(codec, each) if each.is_tagged(version) else _NEVER,
        )
        for each in fields
        if version in each.versions
    ]

    def convert(value: Any) -> dict[str, Any]:
        """The object of one struct."""
        for snake, defaults in absent:
            if getattr(value, snake) not in defaults:
                raise Refused
        tree: dict[str, Any] = {}
        for snake, camel, one, nullable, defaults in rows:
            content = getattr(value, snake)
            if defaults and content in defaults:
                continue
            if content is None:
                if not nullable:
                    raise Refused
            elif one is not None:
                content = one(content)
            tree[camel] = content
        return tree

    return convert


def _defaults(codec: Codec, field: FieldSpec) -> tuple[object, ...]:
    """What a field holds that nobody has set; an empty array in either of its forms, as `careful.writing` has it."""
    if field.default == () and field.is_array:
        return [], ()
    if field.default == () and field.struct:
        return (codec.structs[field.struct.name](),)
    return (field.default,)


def _field(codec: Codec, field: FieldSpec, version: int, records: bool) -> Convert:
    one = _element(codec, field, version, records)
    if not field.is_array:
        return one
    if one is None:
        return list
    return lambda values: [one(value) for value in values]


def _element(codec: Codec, field: FieldSpec, version: int, records: bool) -> Convert:
    if field.struct:
        return _struct(codec, field.fields, version, records)
    match field.element_type:
        case "uuid":
            return uuids.to_text
        case "bytes":
            return _base64
        case "records":
            return _base64 if records else _empty
        case "float64":
            return float_to_json
        case "string":
            return _text
        case _:
            return None


def _base64(value: bytes) -> str:
    return b64encode(value).decode("ascii")


def _empty(value: object) -> str:
    return ""


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise Refused
    return value


def float_to_json(value: float) -> float | str:
    """A float; JSON has no names for the special ones, so they are written as Jackson does, which Kafka uses."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
