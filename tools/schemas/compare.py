"""Two schemas, key by key: everything that decides about bytes or about Python, but no prose."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

from kwire.schema.parse import without_comments

Json = dict[str, object]

#: Prose is ours to write, and lists are walked into.
_NOT_COMPARED = {"about", "fields", "commonStructs"}


class Difference(NamedTuple):
    """One key that the two sides do not agree on; None stands for a missing one."""

    file: str
    path: str
    key: str
    ours: object
    theirs: object

    def __str__(self) -> str:
        place = f"{self.file}: {self.path}" if self.path else self.file
        return f"{place}: {self.key}: ours {_shown(self.ours)}, Kafka's {_shown(self.theirs)}"


def compare(file: str, ours: str, theirs: str) -> list[Difference]:
    """All differences between two texts of one schema file.

    Raises: ValueError when a text is not JSON with comments.
    """
    return list(_objects(file, "", _parse(file, ours), _parse(file, theirs)))


def compare_all(ours: dict[str, str], theirs: dict[str, str]) -> list[Difference]:
    """All differences between two sets of schema files, missing files among them."""
    found = []
    for file in sorted(ours.keys() | theirs.keys()):
        if file not in theirs or file not in ours:
            found.append(Difference(file, "", "file", _there(file in ours), _there(file in theirs)))
        else:
            found += compare(file, ours[file], theirs[file])
    return found


def _parse(file: str, text: str) -> Json:
    try:
        tree = json.loads(without_comments(text))
    except ValueError as error:
        raise ValueError(f"{file}: is not JSON with comments: {error}") from error
    if not isinstance(tree, dict):
        raise ValueError(f"{file}: is not a JSON object")
    return tree


def _objects(file: str, path: str, ours: Json, theirs: Json) -> Iterator[Difference]:
    for key in sorted((ours.keys() | theirs.keys()) - _NOT_COMPARED):
        if _value(ours.get(key)) != _value(theirs.get(key)):
            yield Difference(file, path, key, ours.get(key), theirs.get(key))
    for key in ("fields", "commonStructs"):
        mine, other = _named(ours, key), _named(theirs, key)
        # On the wire the order of fields is their order in the file; that of shared structs means nothing.
        if key == "fields" and list(mine) != list(other) and mine.keys() == other.keys():
            yield Difference(file, path, "order of fields", list(mine), list(other))
        for name in mine | other:
            below = f"{path}.{name}" if path else name
            if name not in mine or name not in other:
                yield Difference(file, below, key, _there(name in mine), _there(name in other))
            else:
                yield from _objects(file, below, mine[name], other[name])


def _named(tree: Json, key: str) -> dict[str, Json]:
    items = tree.get(key) or []
    assert isinstance(items, list)
    return {str(item["name"]): item for item in items}


def _value(value: object) -> object:
    """Kafka's parser takes "true" and true, "-1" and -1 alike, so neither is a difference."""
    return value if isinstance(value, list) else str(value).lower() if isinstance(value, (bool, int)) else value


def _there(is_there: bool) -> str | None:
    return "there" if is_there else None


def _shown(value: object) -> str:
    return "missing" if value is None else value if isinstance(value, str) else json.dumps(value)
