"""The fields of a message that are no structs, by their paths, and their values."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kwire.capture.kafka.message_fields import struct_type_in

FieldPath = tuple[str, ...]


def leaf_fields(cls: type[msgspec.Struct], prefix: FieldPath = ()) -> Iterator[tuple[FieldPath, object]]:
    """Every field that is no struct, with its type, by its path from the class."""
    for field in msgspec.structs.fields(cls):
        child = struct_type_in(field.type)
        if child is not None:
            yield from leaf_fields(child, (*prefix, field.name))
        elif field.name != "unknown_tagged_fields":
            yield (*prefix, field.name), field.type


def read_values(value: object, path: FieldPath) -> Iterator[object]:
    """The values of a field in a message; of arrays each element. Null is no value."""
    if isinstance(value, list | tuple):
        for item in value:
            yield from read_values(item, path)
    elif value is None:
        return
    elif path:
        yield from read_values(getattr(value, path[0]), path[1:])
    else:
        yield value
