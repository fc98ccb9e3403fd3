"""Finds tagged fields that are not in the schema, which a newer or faulty peer has sent."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import islice

import msgspec

from kwire.capture.kafka.message_fields import struct_type_in

# A message may contain as many unknown tags as it has bytes; the first ones are enough for a report.
REPORTED_TAGS_MAX = 8


def find_unknown_tags(message: msgspec.Struct, path: str) -> list[tuple[str, int, int]]:
    """Path, tag and size of the first unknown tagged fields of a message and its nested structs."""
    if not _has_unknown_tags(message):
        return []
    return list(islice(_walk(message, path), REPORTED_TAGS_MAX))


def _has_unknown_tags(struct: msgspec.Struct) -> bool:
    # Almost no message has one, so this check comes first; it builds no paths.
    if getattr(struct, "unknown_tagged_fields", None):
        return True
    for field in _struct_fields(type(struct)):
        value = getattr(struct, field)
        if isinstance(value, list):
            for item in value:
                if _has_unknown_tags(item):
                    return True
        elif value is not None and _has_unknown_tags(value):
            return True
    return False


def _walk(struct: msgspec.Struct, path: str) -> Iterator[tuple[str, int, int]]:
    for tag, content in getattr(struct, "unknown_tagged_fields", ()):
        yield path, tag, len(content)
    for field in _struct_fields(type(struct)):
        value = getattr(struct, field)
        if isinstance(value, list):
            for index, item in enumerate(value):
                yield from _walk(item, f"{path}.{field}[{index}]")
        elif value is not None:
            yield from _walk(value, f"{path}.{field}")


@cache
def _struct_fields(cls: type[msgspec.Struct]) -> tuple[str, ...]:
    """The fields of a class that contain structs, alone or in a list."""
    return tuple(field.name for field in msgspec.structs.fields(cls) if struct_type_in(field.type) is not None)
