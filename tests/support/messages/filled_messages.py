"""Messages with a value in every field: many arrays of the golden vectors are empty."""

from __future__ import annotations

from base64 import b64encode
from functools import cache

import kwire
from kwire.schema import FieldSpec, MessageSpec, load_schema
from kwire.uuids import to_text
from tests.support.messages.golden_vectors import Vector

Json = dict[str, "Json"] | list["Json"] | str | int | float | bool | None


@cache
def filled_vectors(name: str, edition: str) -> tuple[Vector, ...]:
    """For each version a message with a value in every field, and for each depth one with nulls from there on."""
    spec = load_schema(name, edition)
    return tuple(
        Vector(edition, name, version, _encoded(spec, version, edition, values=values))
        for version in spec.versions.to_range()
        for values in range(_depth(spec.fields) + 1)
    )


def _depth(fields: tuple[FieldSpec, ...]) -> int:
    """The depth of nested structs."""
    return max((1 + _depth(field.fields) for field in fields), default=0)


def _encoded(spec: MessageSpec, version: int, edition: str, *, values: int) -> bytes:
    """The bytes of a message without nulls in this many outer levels, and with every possible null below them."""
    tree = _struct(spec.fields, version, values)
    return kwire.encode(kwire.from_json(spec.name, version, tree, edition=edition), version, edition=edition)


def _struct(fields: tuple[FieldSpec, ...], version: int, values: int) -> Json:
    return {
        field.json_name: _field(field, version, index, values)
        for index, field in enumerate(fields, start=1)
        if version in field.versions
    }


def _field(field: FieldSpec, version: int, index: int, values: int) -> Json:
    # A tagged field that is null by default would be omitted.
    if values <= 0 and version in field.nullable_versions and not (field.is_tagged(version) and field.default is None):
        return None
    if field.is_array:
        return [_value(field, version, index, values), _value(field, version, index + 1, values)]
    return _value(field, version, index, values)


def _value(field: FieldSpec, version: int, index: int, values: int) -> Json:
    """A value that differs from all defaults and from those of adjacent fields."""
    match field.element_type:
        case "string":
            return f"{field.name} {index}"
        case "bytes" | "records":
            return b64encode(bytes([index] * index)).decode()
        case "uuid":
            return to_text(bytes(range(index, index + 16)))
        case "bool":
            return field.default is not True
        case "float64":
            return index + 0.5
    return _struct(field.fields, version, values - 1) if field.struct else index + 16
