"""Errors in single rows of a response: the request is split, and the rows of its faulty part are put into the answer.

Rows of topics and partitions are found by the fields of the generated classes: `kwire.capture.kafka.message_fields`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple, TypeVar, cast

import msgspec

from kwire.capture.kafka.message_fields import field_shape, message_topics, struct_type_in
from kwire.registry import response_class
from mockbroker.engine.dispatch import IncomingRequest
from mockbroker.journal.named_topics import NamedTopic
from mockbroker.kafka_error import KafkaError

S = TypeVar("S", bound=msgspec.Struct)
#: The fields that identify a row.
_IDENTITY = ("name", "topic", "topic_name", "topic_id", "group_id", "transactional_id")
#: Fields of an error row that have no value; Kafka sets them to -1.
_UNKNOWN_NUMBERS = ("_offset", "_watermark", "_timestamp", "_timestamp_ms")


class RowCondition(NamedTuple):
    """Which rows: those of a topic, by name and id, and of a partition; None for every one."""

    topic: str | None
    topic_id: bytes | None
    partition: int | None

    def includes_topic(self, name: str | None, topic_id: bytes | None) -> bool:
        """Whether a row of a topic is included; it has a name, an id or both."""
        if self.topic is None:
            return True
        return name == self.topic or (topic_id is not None and topic_id == self.topic_id)

    def includes_partition(self, index: int) -> bool:
        """Whether a row of a partition is included."""
        return self.partition is None or index == self.partition

    def includes_row(self, row: object) -> bool:
        """Whether any row of a message is included: one of a topic or of a partition is, if its own condition holds."""
        shape = field_shape(cast("type[msgspec.Struct]", type(row)))
        if shape.is_topic:
            name = getattr(row, shape.name) if shape.name else None
            return self.includes_topic(name, getattr(row, "topic_id", None))
        return shape.number is None or self.includes_partition(getattr(row, shape.number))


def select_rows(message: S, condition: RowCondition, *, matching: bool) -> S:
    """A copy of a message with only the matching rows, or only the others."""
    shape, changes = field_shape(type(message)), cast("dict[str, Any]", {})
    for field in shape.names:
        names = getattr(message, field)
        if names is not None:
            changes[field] = tuple(name for name in names if condition.includes_topic(name, None) == matching)
    for field in shape.topic_children:
        rows = getattr(message, field)
        if isinstance(rows, list):
            selected = (_select_in_row(row, condition, matching=matching) for row in rows)
            changes[field] = [row for row in selected if row is not None]
    return msgspec.structs.replace(message, **changes)


def _select_in_row(row: S, condition: RowCondition, *, matching: bool) -> S | None:
    """The part of a row that is selected, None if there is none."""
    shape = field_shape(type(row))
    if not shape.is_topic:
        selected = select_rows(row, condition, matching=matching)
        has_rows = any(getattr(selected, field) for field in shape.topic_children)
        return selected if has_rows else None
    name = getattr(row, shape.name) if shape.name else None
    if not condition.includes_topic(name, getattr(row, "topic_id", None)):
        return None if matching else row
    fields = [*shape.numbers, *(field for field in shape.children if isinstance(getattr(row, field), list))]
    if shape.number is not None:
        return row if condition.includes_partition(getattr(row, shape.number)) == matching else None
    if condition.partition is None or not fields:
        return row if matching else None
    changes = {
        field: type(getattr(row, field))(
            part for part in getattr(row, field) if condition.includes_partition(_partition_index(part)) == matching
        )
        for field in fields
    }
    return msgspec.structs.replace(row, **changes) if any(changes.values()) else None


def _partition_index(part: object) -> int:
    if isinstance(part, int):
        return part
    number = field_shape(cast("type[msgspec.Struct]", type(part))).number
    index: int = getattr(part, number) if number else -1
    return index


def build_error_rows(incoming: IncomingRequest, matching: msgspec.Struct, error: KafkaError) -> msgspec.Struct:
    """A response with an error row for each row of a request, which is a part of the received one."""
    if incoming.route.refuse is not None:
        return incoming.route.refuse(matching, error)
    return build_topic_rows(incoming, named_topics(matching), error)


def named_topics(request: msgspec.Struct) -> list[NamedTopic]:
    """The topics that a request names, with their partitions."""
    return [
        NamedTopic(topic.name, topic.topic_id, tuple(partition.number for partition in topic.partitions))
        for topic in message_topics(request)
    ]


def has_topic_rows(response_type: type[msgspec.Struct]) -> bool:
    """Whether a response lists topics at its top, as `build_topic_rows` needs it."""
    fields = field_shape(response_type).topic_children
    return bool(fields) and field_shape(_element_class(response_type, fields[0])).is_topic


def build_topic_rows(incoming: IncomingRequest, topics: Iterable[NamedTopic], error: KafkaError) -> msgspec.Struct:
    """A response with an error row for each of these partitions, for an API whose response lists topics at its top."""
    response = response_class(incoming.route.api_key)()
    field = field_shape(type(response)).topic_children[0]
    row_class = _element_class(type(response), field)
    setattr(response, field, [_error_topic(row_class, topic, error) for topic in topics])
    return response


def top_error_response(incoming: IncomingRequest, error: KafkaError) -> msgspec.Struct:
    """A response with an error at the top and no rows."""
    response = response_class(incoming.route.api_key)()
    set_error(response, error)
    return response


def _error_topic(row_class: type[msgspec.Struct], topic: NamedTopic, error: KafkaError) -> msgspec.Struct:
    row, shape = cast(Any, row_class()), field_shape(row_class)
    if shape.name is not None:
        setattr(row, shape.name, topic.name or "")
    if "topic_id" in row_class.__struct_fields__ and topic.topic_id is not None:
        row.topic_id = topic.topic_id
    for field in shape.children:
        part_class = _element_class(row_class, field)
        if field_shape(part_class).number is not None:
            setattr(row, field, [error_row(part_class, index, error) for index in topic.partitions])
    return cast(msgspec.Struct, row)


def error_row(row_class: type[msgspec.Struct], index: int, error: KafkaError) -> msgspec.Struct:
    """The row of a partition with an error and nothing else."""
    row, number = cast(Any, row_class()), field_shape(row_class).number
    assert number is not None
    setattr(row, number, index)
    for field in row_class.__struct_fields__:
        if field.endswith(_UNKNOWN_NUMBERS):
            setattr(row, field, -1)
    set_error(row, error)
    return cast(msgspec.Struct, row)


def set_error(row: msgspec.Struct, error: KafkaError) -> None:
    """Set the error code of a message or of a row, and the message where there is a field for it."""
    fields = cast(Any, row)
    code_field = next(name for name in field_shape(type(row)).errors)
    setattr(fields, code_field, int(error.code))
    if "error_message" in type(row).__struct_fields__:
        fields.error_message = error.message


def partition_rows(response: msgspec.Struct, condition: RowCondition) -> Iterator[msgspec.Struct]:
    """The rows of the partitions in a response that are included."""
    for topic in _topic_rows(response):
        shape = field_shape(type(topic))
        name = getattr(topic, shape.name) if shape.name else None
        if condition.includes_topic(name, getattr(topic, "topic_id", None)):
            parts = [part for field in shape.children for part in _rows(topic, field)]
            yield from (part for part in parts if condition.includes_partition(_partition_index(part)))


def set_topic_errors(response: msgspec.Struct, condition: RowCondition, error: KafkaError) -> None:
    """Set the error code of the topics in a response that are included, and remove their partitions."""
    for topic in _topic_rows(response):
        if condition.includes_row(topic):
            set_error(topic, error)
            for field in field_shape(type(topic)).children:
                setattr(topic, field, [])


def merge_rows(response: msgspec.Struct, errors: msgspec.Struct) -> None:
    """Put the rows of topics in `errors` into a response: in the place of rows of the same identity, or in addition."""
    for field in field_shape(type(errors)).topic_children:
        _merge(response, errors, field)


def _merge(target: msgspec.Struct, source: msgspec.Struct, field: str) -> None:
    rows = _rows(target, field)
    for row in _rows(source, field):
        index = next((at for at, other in enumerate(rows) if _is_same(other, row)), None)
        inner = [name for name in field_shape(type(row)).children if _rows(row, name)]
        if index is None:
            rows.append(row)
        elif inner:
            for name in inner:
                _merge(rows[index], row, name)
        else:
            rows[index] = row
    setattr(target, field, rows)


def _is_same(one: msgspec.Struct, other: msgspec.Struct) -> bool:
    number = field_shape(type(one)).number
    if number is not None and getattr(one, number) != getattr(other, number):
        return False
    names = [name for name in _IDENTITY if name in type(one).__struct_fields__]
    pairs = [(getattr(one, name), getattr(other, name)) for name in names]
    given = [(left, right) for left, right in pairs if _is_given(left) and _is_given(right)]
    return all(left == right for left, right in given) and (bool(given) or not names)


def _is_given(value: str | bytes | None) -> bool:
    """Whether an identity field has a value: the id of no topic is zero bytes."""
    return value is not None and any(value)


def _topic_rows(message: msgspec.Struct) -> list[msgspec.Struct]:
    found: list[msgspec.Struct] = []
    for field in field_shape(type(message)).topic_children:
        for row in _rows(message, field):
            found += [row] if field_shape(type(row)).is_topic else _topic_rows(row)
    return found


def _rows(message: msgspec.Struct, field: str) -> list[msgspec.Struct]:
    value = getattr(message, field)
    return list(value) if isinstance(value, list) else []


def _element_class(cls: type[msgspec.Struct], field: str) -> type[msgspec.Struct]:
    find: Callable[[object], type[msgspec.Struct] | None] = struct_type_in
    child = next(find(item.type) for item in msgspec.structs.fields(cls) if item.name == field)
    assert child is not None
    return child
