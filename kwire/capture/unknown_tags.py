"""Tagged fields that no schema knows: what a newer peer, or a broken one, has put into a message."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import msgspec

from kwire.capture.facts import _struct_in

# One message may hold as many as it has bytes; some tell what the others are.
TOLD_MAX = 8


def unknown_tags(message: msgspec.Struct, path: str) -> list[tuple[str, int, int]]:
    """Path, tag and size of the first unknown tagged fields of a message and its parts."""
    if not _has_any(message):
        return []
    found = []
    for each in _walk(message, path):
        found.append(each)
        if len(found) == TOLD_MAX:
            break
    return found


def _has_any(struct: msgspec.Struct) -> bool:
    # Nearly no message has one: so this is asked first, and builds no path.
    if getattr(struct, "unknown_tagged_fields", None):
        return True
    for field in _parts(type(struct)):
        value = getattr(struct, field)
        if isinstance(value, list):
            for item in value:
                if _has_any(item):
                    return True
        elif value is not None and _has_any(value):
            return True
    return False


def _walk(struct: msgspec.Struct, path: str) -> Iterator[tuple[str, int, int]]:
    for tag, content in getattr(struct, "unknown_tagged_fields", ()):
        yield path, tag, len(content)
    for field in _parts(type(struct)):
        value = getattr(struct, field)
        if isinstance(value, list):
            for index, item in enumerate(value):
                yield from _walk(item, f"{path}.{field}[{index}]")
        elif value is not None:
            yield from _walk(value, f"{path}.{field}")


@cache
def _parts(cls: type[msgspec.Struct]) -> tuple[str, ...]:
    """The fields of a class that hold structs, alone or in a list."""
    return tuple(each.name for each in msgspec.structs.fields(cls) if _struct_in(each.type) is not None)
