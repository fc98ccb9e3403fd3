"""What can be read from any message without knowing its API: topics, partitions, error codes.

The shapes are found once for each class, by the names of its fields, and only those fields are visited.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple, cast, get_args, get_origin

import msgspec

from kwire import uuids

_PARTITION_FIELDS = ("partition_index", "partition", "index", "partition_id")
_PARTITION_LISTS = frozenset({"partitions", "partition_indexes"})
_TOPIC_NAME_LISTS = frozenset({"topic_names", "subscribed_topic_names"})
# What a request takes out of its session is not what it is about; where to go on is not a topic of the answer.
PASSED_OVER = frozenset({"forgotten_topics_data", "cursor", "next_cursor"})


class Partition(NamedTuple):
    """A partition that a message names; `struct` is what it says of it, None where it only gives the number."""

    number: int
    struct: msgspec.Struct | None


class Topic(NamedTuple):
    """A topic that a message names, by name, id or both."""

    name: str | None
    topic_id: bytes | None
    partitions: list[Partition]
    partition_count: int


class Shape(NamedTuple):
    """Which fields of a class matter."""

    name: str | None
    is_topic: bool
    number: str | None
    numbers: tuple[str, ...]
    names: tuple[str, ...]
    errors: tuple[str, ...]
    children: tuple[str, ...]
    topic_children: tuple[str, ...]
    error_children: tuple[str, ...]


def topics(message: msgspec.Struct) -> Iterator[Topic]:
    """Every topic that the message names, with its partitions, in the message's order."""
    shape = shape_of(type(message))
    for field in shape.names:
        for name in getattr(message, field) or ():
            yield Topic(name, None, [], 0)
    for field in shape.topic_children:
        for item in _items(getattr(message, field)):
            inner = shape_of(type(item))
            if inner.is_topic:
                yield _topic(item, inner)
            yield from topics(item)


def error_code(message: msgspec.Struct) -> int:
    """The message's own error code; where that is 0 or absent, the first other one inside it, else 0."""
    shape = shape_of(type(message))
    for field in shape.errors:
        code: int = getattr(message, field)
        if code:
            return code
    for field in shape.error_children:
        for item in _items(getattr(message, field)):
            code = error_code(item)
            if code:
                return code
    return 0


def _topic(item: msgspec.Struct, shape: Shape) -> Topic:
    name = getattr(item, shape.name) if shape.name else None
    topic_id: bytes | None = getattr(item, "topic_id", None)
    partitions = [Partition(each, None) for field in shape.numbers for each in getattr(item, field) or ()]
    for field in shape.children:
        for child in _items(getattr(item, field)):
            number = shape_of(type(child)).number
            if number is not None:
                partitions.append(Partition(getattr(child, number), child))
    # CreateTopics says how many partitions there shall be, and lists them only when it also places them.
    count = len(partitions) or max(getattr(item, "num_partitions", 0), 0)
    return Topic(name or None, topic_id if topic_id and topic_id != uuids.ZERO else None, partitions, count)


def _items(value: object) -> list[msgspec.Struct]:
    if isinstance(value, list):
        return value
    return [cast("msgspec.Struct", value)] if value is not None else []


@cache
def shape_of(cls: type[msgspec.Struct]) -> Shape:
    """What matters of a class of messages or of their parts."""
    children: dict[str, type[msgspec.Struct]] = {}
    fields = {each.name: each.type for each in msgspec.structs.fields(cls)}
    for field, kind in fields.items():
        inner = _struct_in(kind)
        if inner is not None and field not in PASSED_OVER:
            children[field] = inner
    name: str | None = next((each for each in ("topic", "topic_name") if each in fields), None)
    if name is None and "name" in fields and "Topic" in cls.__name__ and "value" not in fields:
        name = "name"
    shapes = {field: shape_of(inner) for field, inner in children.items()}
    return Shape(
        name=name,
        is_topic=name is not None or "topic_id" in fields,
        number=next((each for each in _PARTITION_FIELDS if each in fields), None),
        numbers=tuple(each for each, kind in fields.items() if each in _PARTITION_LISTS and _is_plain_array(kind)),
        names=tuple(each for each, kind in fields.items() if each in _TOPIC_NAME_LISTS and _is_plain_array(kind)),
        errors=tuple(each for each in fields if each.endswith("error_code")),
        children=tuple(children),
        topic_children=tuple(
            each for each, shape in shapes.items() if shape.is_topic or shape.topic_children or shape.names
        ),
        error_children=tuple(each for each, shape in shapes.items() if shape.errors or shape.error_children),
    )


def _is_plain_array(kind: object) -> bool:
    """Whether a field of this type is an array of numbers or strings, nullable or not."""
    return get_origin(kind) is tuple or any(get_origin(each) is tuple for each in get_args(kind))


def _struct_in(kind: object) -> type[msgspec.Struct] | None:
    """The struct that a field of this type holds: itself, in a list, or nullable."""
    if isinstance(kind, type) and get_origin(kind) is None:
        return kind if issubclass(kind, msgspec.Struct) else None
    for inner in get_args(kind):
        found = _struct_in(inner)
        if found is not None:
            return found
    return None
