"""Values in decoded messages, found by the names of their fields or by a path of names."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from functools import cache
from typing import NamedTuple

import msgspec

from kwire.capture.kafka.message_fields import field_shape, struct_type_in

#: Fields of requests that name a group, a member or a transactional id, at any depth.
REQUEST_NAMES = {
    "group": frozenset({"group_id", "group_ids", "groups", "groups_names"}),
    "member": frozenset({"member_id", "member_ids"}),
    "transactional_id": frozenset(
        {"transactional_id", "transactional_ids", "v3_and_below_transactional_id", "transactional_id_filters"}
    ),
}


class _Fields(NamedTuple):
    """The fields of a class with one of the names, and those with structs that contain such fields."""

    values: tuple[str, ...]
    children: tuple[str, ...]


def find_values(message: msgspec.Struct, names: frozenset[str]) -> Iterator[object]:
    """Every value of a field with one of these names, at any depth; the elements of a field that is an array."""
    fields = _find_fields(type(message), names)
    for field in fields.values:
        value = getattr(message, field)
        if isinstance(value, tuple | list):
            yield from value
        else:
            yield value
    for field in fields.children:
        for item in _as_list(getattr(message, field)):
            yield from find_values(item, names)


def has_field(message_class: type[msgspec.Struct], names: frozenset[str]) -> bool:
    """Whether messages of this class have a field with one of these names, at any depth."""
    return any(_find_fields(message_class, names))


def error_codes(message: msgspec.Struct) -> Iterator[int]:
    """Every error code of a response, of the whole and of its parts; 0 included."""
    shape = field_shape(type(message))
    for field in shape.errors:
        yield getattr(message, field)
    for field in shape.error_children:
        for item in _as_list(getattr(message, field)):
            yield from error_codes(item)


def failure_codes(message: msgspec.Struct | None) -> list[int]:
    """The different error codes of a response, in ascending order, without 0; none without a response."""
    return [] if message is None else sorted({code for code in error_codes(message) if code})


def values_at(message: msgspec.Struct, path: tuple[str, ...]) -> Iterator[object]:
    """The values at a path of field names; a path through an array continues in each of its elements."""
    values: list[object] = [message]
    for name in path[:-1]:
        values = [item for value in values for item in _as_list(getattr(value, name, None))]
    for value in values:
        if hasattr(value, path[-1]):
            yield getattr(value, path[-1])


def type_at(message_class: type[msgspec.Struct], path: tuple[str, ...]) -> object:
    """The type of the field at a path of names.

    Raises: ValueError for a field that the class does not have, with the nearest names.
    """
    current: type[msgspec.Struct] = message_class
    kind: object = current
    for depth, name in enumerate(path):
        types = {field.name: field.type for field in msgspec.structs.fields(current)}
        if name not in types:
            place = ".".join([message_class.__name__, *path[:depth]])
            raise ValueError(f"{place} has no field {name!r}; {_suggest(name, list(types))}")
        kind = types[name]
        child = struct_type_in(kind)
        if depth < len(path) - 1:
            if child is None:
                raise ValueError(f"{'.'.join([message_class.__name__, *path[: depth + 1]])} has no fields of its own")
            current = child
    return kind


def _suggest(name: str, known: list[str]) -> str:
    known = [field for field in known if field != "unknown_tagged_fields"]
    nearest = get_close_matches(name, known, n=3)
    if nearest:
        return f"did you mean {' or '.join(map(repr, nearest))}?"
    return f"its fields are {', '.join(known)}" if known else "it has no fields"


@cache
def _find_fields(cls: type[msgspec.Struct], names: frozenset[str]) -> _Fields:
    values, children = [], []
    for field in msgspec.structs.fields(cls):
        child = struct_type_in(field.type)
        if child is None:
            if field.name in names:
                values.append(field.name)
        elif any(_find_fields(child, names)):
            children.append(field.name)
    return _Fields(tuple(values), tuple(children))


def _as_list(value: object) -> list[msgspec.Struct]:
    if isinstance(value, list):
        return value
    return [value] if isinstance(value, msgspec.Struct) else []
