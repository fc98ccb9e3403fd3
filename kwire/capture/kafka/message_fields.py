"""Reads topics, partitions and error codes of any message without API-specific code.

The relevant fields are found once for each class, by their names, and only these fields are visited.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple, cast, get_args, get_origin

import msgspec

from kwire import uuids

_PARTITION_FIELDS = ("partition_index", "partition", "index", "partition_id")
_PARTITION_LISTS = frozenset({"partitions", "partition_indexes"})
_TOPIC_NAME_LISTS = frozenset({"topic_names", "subscribed_topic_names"})
# The topics that a request removes from its session are not its topics; a cursor is not a topic of the response.
SKIPPED_FIELDS = frozenset({"forgotten_topics_data", "cursor", "next_cursor"})


class MessagePartition(NamedTuple):
    """A partition that a message names. `struct` has its fields; None if the message contains only the index."""

    number: int
    struct: msgspec.Struct | None


class MessageTopic(NamedTuple):
    """A topic that a message names, by name, id or both."""

    name: str | None
    topic_id: bytes | None
    partitions: list[MessagePartition]
    partition_count: int


class FieldShape(NamedTuple):
    """The fields of a class that contain topics, partitions, error codes or structs with them."""

    name: str | None
    is_topic: bool
    number: str | None
    numbers: tuple[str, ...]
    names: tuple[str, ...]
    errors: tuple[str, ...]
    children: tuple[str, ...]
    topic_children: tuple[str, ...]
    error_children: tuple[str, ...]


def message_topics(message: msgspec.Struct) -> Iterator[MessageTopic]:
    """Every topic that the message names, with its partitions, in the order of the message."""
    shape = field_shape(type(message))
    for field in shape.names:
        for name in getattr(message, field) or ():
            yield MessageTopic(name, None, [], 0)
    for field in shape.topic_children:
        for item in _as_list(getattr(message, field)):
            item_shape = field_shape(type(item))
            if item_shape.is_topic:
                yield _make_topic(item, item_shape)
            yield from message_topics(item)


class _TopicPath(NamedTuple):
    """The fields down to the partition numbers of a message whose only topics are one list. `name`: None for none."""

    topics: str
    name: str | None
    has_id: bool
    partitions: str
    number: str


def topic_numbers(message: msgspec.Struct) -> Iterable[tuple[str | None, bytes | None, list[int]]]:
    """The name, the id and the partition numbers of every topic of `message_topics`, in a fraction of its time."""
    path = _topic_path(type(message))
    if path is None:
        topics_found = message_topics(message)
        return ((one.name, one.topic_id, [partition.number for partition in one.partitions]) for one in topics_found)
    topics, name, has_id, partitions, number = path
    return [
        (
            getattr(topic, name) if name else None,
            topic.topic_id if has_id else None,
            [getattr(partition, number) for partition in getattr(topic, partitions) or ()],
        )
        for topic in getattr(message, topics) or ()
    ]


@cache
def _topic_path(cls: type[msgspec.Struct]) -> _TopicPath | None:
    """The path of a class of messages; None if its topics may be in several fields, or in each other."""
    shape = field_shape(cls)
    if shape.names or len(shape.topic_children) != 1:
        return None
    topic = _list_item(cls, shape.topic_children[0])
    if topic is None:
        return None
    inner = field_shape(topic)
    if not inner.is_topic or inner.numbers or inner.names or inner.topic_children or len(inner.children) != 1:
        return None
    partition = _list_item(topic, inner.children[0])
    number = None if partition is None else field_shape(partition).number
    has_id = "topic_id" in topic.__struct_fields__
    return (
        None if number is None else _TopicPath(shape.topic_children[0], inner.name, has_id, inner.children[0], number)
    )


def _list_item(cls: type[msgspec.Struct], name: str) -> type[msgspec.Struct] | None:
    """The class of the structs in a field that is a list; None for another field."""
    kind = next(field.type for field in msgspec.structs.fields(cls) if field.name == name)
    is_list = get_origin(kind) is list or any(get_origin(argument) is list for argument in get_args(kind))
    return struct_type_in(kind) if is_list else None


def first_error_code(message: msgspec.Struct) -> int:
    """The message's own error code; if it is 0 or absent, the first nonzero one of a nested struct, else 0."""
    shape = field_shape(type(message))
    for field in shape.errors:
        code: int = getattr(message, field)
        if code:
            return code
    for field in shape.error_children:
        for item in _as_list(getattr(message, field)):
            code = first_error_code(item)
            if code:
                return code
    return 0


def _make_topic(item: msgspec.Struct, shape: FieldShape) -> MessageTopic:
    name = getattr(item, shape.name) if shape.name else None
    topic_id: bytes | None = getattr(item, "topic_id", None)
    partitions = [MessagePartition(number, None) for field in shape.numbers for number in getattr(item, field) or ()]
    for field in shape.children:
        for child in _as_list(getattr(item, field)):
            number_field = field_shape(type(child)).number
            if number_field is not None:
                partitions.append(MessagePartition(getattr(child, number_field), child))
    # CreateTopics has a number of partitions, and lists partitions only with a replica assignment.
    count = len(partitions) or max(getattr(item, "num_partitions", 0), 0)
    return MessageTopic(name or None, topic_id if topic_id and topic_id != uuids.ZERO else None, partitions, count)


def _as_list(value: object) -> list[msgspec.Struct]:
    if isinstance(value, list):
        return value
    return [cast("msgspec.Struct", value)] if value is not None else []


@cache
def field_shape(cls: type[msgspec.Struct]) -> FieldShape:
    """The relevant fields of a class of messages or of nested structs."""
    children: dict[str, type[msgspec.Struct]] = {}
    types = {field.name: field.type for field in msgspec.structs.fields(cls)}
    for field, kind in types.items():
        child = struct_type_in(kind)
        if child is not None and field not in SKIPPED_FIELDS:
            children[field] = child
    name: str | None = next((field for field in ("topic", "topic_name") if field in types), None)
    if name is None and "name" in types and "Topic" in cls.__name__ and "value" not in types:
        name = "name"
    shapes = {field: field_shape(child) for field, child in children.items()}
    return FieldShape(
        name=name,
        is_topic=name is not None or "topic_id" in types,
        number=next((field for field in _PARTITION_FIELDS if field in types), None),
        numbers=tuple(field for field, kind in types.items() if field in _PARTITION_LISTS and _is_plain_array(kind)),
        names=tuple(field for field, kind in types.items() if field in _TOPIC_NAME_LISTS and _is_plain_array(kind)),
        errors=tuple(field for field in types if field.endswith("error_code")),
        children=tuple(children),
        topic_children=tuple(
            field for field, shape in shapes.items() if shape.is_topic or shape.topic_children or shape.names
        ),
        error_children=tuple(field for field, shape in shapes.items() if shape.errors or shape.error_children),
    )


def _is_plain_array(kind: object) -> bool:
    """Whether a field of this type is an array of numbers or strings, nullable or not."""
    return get_origin(kind) is tuple or any(get_origin(argument) is tuple for argument in get_args(kind))


def struct_type_in(kind: object) -> type[msgspec.Struct] | None:
    """The struct class in the type of a field: the type itself, the element of a list, or of a nullable type."""
    if isinstance(kind, type) and get_origin(kind) is None:
        return kind if issubclass(kind, msgspec.Struct) else None
    for argument in get_args(kind):
        struct = struct_type_in(argument)
        if struct is not None:
            return struct
    return None
