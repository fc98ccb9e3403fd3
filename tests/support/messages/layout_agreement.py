"""Compares two independent readings of the same bytes: the tree and the message of the generated code."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kwire.layout import Tree


def disagreements(tree: Tree, message: msgspec.Struct) -> list[str]:
    """Every place where the two readings differ; a field that only one side has counts, unless it holds its default."""
    damage = tree.damage
    found = [f"{damage.path}: {damage.value!r}"] if damage else []
    return found + list(_struct(tree.values(), message, type(message).__name__))


def _struct(values: dict[str, object], message: object, path: str) -> Iterator[str]:
    if not isinstance(message, msgspec.Struct):
        yield f"{path}: a struct, and {message!r}"
        return
    fields = message.__struct_fields__
    fresh = type(message)()
    for name in values.keys() - set(fields):
        yield f"{path}.{name}: not in the message"
    for name in fields:
        theirs = getattr(message, name)
        if name in values:
            yield from _value(values[name], theirs, f"{path}.{name}")
        elif theirs != getattr(fresh, name):
            yield f"{path}.{name}: not in the tree, {theirs!r} in the message"


def _value(ours: object, theirs: object, path: str) -> Iterator[str]:
    if isinstance(ours, dict):
        yield from _struct(ours, theirs, path)
    elif isinstance(ours, list):
        if not isinstance(theirs, (list, tuple)) or len(ours) != len(theirs):
            yield f"{path}: {len(ours)} elements, and {theirs!r}"
            return
        for index, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from _value(mine, other, f"{path}[{index}]")
    else:
        plain = bytes(theirs) if isinstance(theirs, memoryview) else theirs
        # 1 == True and 0.0 == 0 in Python, but not on the wire.
        if type(ours) is not type(plain) or ours != plain:
            yield f"{path}: {ours!r}, and {plain!r}"
