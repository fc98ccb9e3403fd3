"""Messages of one edition as messages of another: fields of the same meaning, whatever they are called.

What the other side does not have is left out, what it alone has takes its default.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec

from kwire.registry import codec_of_name
from kwire.schema import FieldSpec, load

#: A field's name in drafts of KIP-932, and the one that was released.
_RELEASED_NAMES = {"BaseOffset": "FirstOffset", "State": "DeliveryState"}

Recast = Callable[[Any], Any]


@cache
def recast(name: str, source: str, target: str) -> Recast:
    """What turns the message of this name in edition `source` into that of edition `target`.

    Raises: UnsupportedVersion when one of them has no such message.
    """
    wanted, given = load(name, target), load(name, source)
    classes = codec_of_name(name, target)
    return _struct(classes.message, classes.structs, wanted.fields, given.fields)


def _struct(
    made: type[msgspec.Struct],
    structs: Any,
    wanted: tuple[FieldSpec, ...],
    given: tuple[FieldSpec, ...],
) -> Recast:
    sources = {_meaning(field): field for field in given}
    rows: list[tuple[str, str, Recast | None]] = []
    for field in wanted:
        source = sources.get(_meaning(field))
        if source is None or source.is_array != field.is_array or bool(source.struct) != bool(field.struct):
            continue
        inner = None
        if field.struct:
            inner = _struct(structs[field.struct.name], structs, field.fields, source.fields)
            inner = _each(inner) if field.is_array else inner
        rows.append((field.snake, source.snake, inner))

    def convert(value: Any) -> Any:
        content = {}
        for snake, source_snake, inner in rows:
            found = getattr(value, source_snake)
            content[snake] = found if inner is None or found is None else inner(found)
        return made(**content)

    return convert


def _meaning(field: FieldSpec) -> str:
    return _RELEASED_NAMES.get(field.name, field.name)


def _each(inner: Recast) -> Recast:
    return lambda values: [inner(value) for value in values]
