"""Compares two schemas key by key: everything but documentation texts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

from kwire.schema.parse import strip_comments

Json = dict[str, object]

#: The texts are the project's; lists are compared element by element.
_NOT_COMPARED = {"about", "fields", "commonStructs"}


class Difference(NamedTuple):
    """One key with different values; None means a missing one."""

    file: str
    path: str
    key: str
    ours: object
    theirs: object

    def __str__(self) -> str:
        place = f"{self.file}: {self.path}" if self.path else self.file
        return f"{place}: {self.key}: ours {_to_text(self.ours)}, Kafka's {_to_text(self.theirs)}"


def compare_schemas(file: str, ours: str, theirs: str) -> list[Difference]:
    """All differences between two texts of one schema file.

    Raises: ValueError when a text is not JSON with comments.
    """
    return list(_compare_objects(file, "", parse_schema(file, ours), parse_schema(file, theirs)))


def compare_schema_sets(ours: dict[str, str], theirs: dict[str, str]) -> list[Difference]:
    """All differences between two sets of schema files, including missing files."""
    differences = []
    for file in sorted(ours.keys() | theirs.keys()):
        if file not in theirs or file not in ours:
            differences.append(Difference(file, "", "file", _presence(file in ours), _presence(file in theirs)))
        else:
            differences += compare_schemas(file, ours[file], theirs[file])
    return differences


def parse_schema(file: str, text: str) -> Json:
    """A schema as JSON. Raises: ValueError that names the file when it is not an object with lists of named fields."""
    try:
        tree = json.loads(strip_comments(text))
    except ValueError as error:
        raise ValueError(f"{file}: is not JSON with comments: {error}") from error
    if not isinstance(tree, dict):
        raise ValueError(f"{file}: is not a JSON object")
    _check_lists(file, "", tree)
    return tree


def _check_lists(file: str, path: str, tree: Json) -> None:
    for key in ("fields", "commonStructs"):
        items = tree.get(key, [])
        if not isinstance(items, list):
            raise ValueError(f"{file}: {path}{key}: is not a list")
        for index, item in enumerate(items):
            if not isinstance(item, dict) or not isinstance(item.get("name"), str):
                raise ValueError(f"{file}: {path}{key}[{index}]: is not an object with a name")
            _check_lists(file, f"{path}{key}[{index}].", item)


def _compare_objects(file: str, path: str, ours: Json, theirs: Json) -> Iterator[Difference]:
    for key in sorted((ours.keys() | theirs.keys()) - _NOT_COMPARED):
        if _normalize(ours.get(key)) != _normalize(theirs.get(key)):
            yield Difference(file, path, key, ours.get(key), theirs.get(key))
    for key in ("fields", "commonStructs"):
        mine, other = _objects_by_name(ours, key), _objects_by_name(theirs, key)
        # The order of fields determines the encoding; the order of shared structs does not matter.
        if key == "fields" and list(mine) != list(other) and mine.keys() == other.keys():
            yield Difference(file, path, "order of fields", list(mine), list(other))
        for name in mine | other:
            below = f"{path}.{name}" if path else name
            if name not in mine or name not in other:
                yield Difference(file, below, key, _presence(name in mine), _presence(name in other))
            else:
                yield from _compare_objects(file, below, mine[name], other[name])


def _objects_by_name(tree: Json, key: str) -> dict[str, Json]:
    items = tree.get(key) or []
    assert isinstance(items, list)
    return {str(item["name"]): item for item in items}


def _normalize(value: object) -> object:
    """A value for comparison: Kafka's parser treats "true" as true and "-1" as -1."""
    return value if isinstance(value, list) else str(value).lower() if isinstance(value, (bool, int)) else value


def _presence(is_present: bool) -> str | None:
    return "present" if is_present else None


def _to_text(value: object) -> str:
    return "missing" if value is None else value if isinstance(value, str) else json.dumps(value)
