"""The common columns of the levels below `messages`: those of the exchange, and its partitions from both sides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from kwire.capture.kafka.message_fields import message_topics
from kwire.capture.model import Row, connection_columns
from kwire.capture.rows.columns import MESSAGE_KEY
from kwire.capture.rows.header_values import header_values
from kwire.payload import RECORDS_FIELDS, Records

if TYPE_CHECKING:
    import msgspec

    from kwire.capture.kafka.exchange import Exchange
    from kwire.capture.kafka.message_fields import MessageTopic
    from kwire.capture.kafka.topic_names import TopicNames

    # A topic by id or name, and a partition index.
    _PartitionKey = tuple[bytes | str | None, int]
    _Structs = dict[_PartitionKey, tuple[MessageTopic, msgspec.Struct | None]]


class PartitionPair(NamedTuple):
    """One partition with its struct in the request and in the response."""

    topic: str | None
    topic_id: str | None
    number: int
    requested: msgspec.Struct | None
    responded: msgspec.Struct | None

    def columns(self) -> Row:
        """The columns that identify the partition."""
        return {"topic": self.topic, "topic_id": self.topic_id, "partition": self.number}


class PartitionPairer:
    """Pairs the partitions of requests and responses of one capture."""

    def __init__(self, file: str, names: TopicNames) -> None:
        """`file` is the value of that column."""
        self._file = file
        self._names = names

    def message_columns(self, exchange: Exchange) -> Row:
        """The columns that identify the exchange."""
        values = connection_columns(self._file, exchange.flow) | header_values(exchange)
        return {column.name: values[column.name] for column in MESSAGE_KEY}

    def partition_columns(self, topic: MessageTopic, number: int) -> Row:
        """The columns that identify a partition."""
        name, topic_id = self._names.name_and_id(topic)
        return {"topic": name, "topic_id": topic_id, "partition": number}

    def pair_partitions(self, exchange: Exchange) -> Iterator[PartitionPair]:
        """The partitions of both sides, joined; those of the response first, in its order."""
        bodies = (None if side is None else side.body for side in (exchange.request, exchange.response))
        for topic, number, requested, responded in pair_structs(*bodies):
            yield PartitionPair(*self._names.name_and_id(topic), number, requested, responded)


def pair_structs(
    request: msgspec.Struct | None, response: msgspec.Struct | None
) -> Iterator[tuple[MessageTopic, int, msgspec.Struct | None, msgspec.Struct | None]]:
    """The partitions of two bodies, joined, those of the response first: topic, number, and the struct of each side."""
    requested = _structs_by_partition(request)
    for key, (topic, struct) in _structs_by_partition(response).items():
        request_struct = requested.pop(key, (topic, None))[1]
        yield topic, key[1], request_struct, struct
    for key, (topic, struct) in requested.items():
        yield topic, key[1], struct, None


def partition_records(message_name: str | None, struct: msgspec.Struct | None) -> Records:
    """The record batches of this partition in a message of this name."""
    fields = None if message_name is None else RECORDS_FIELDS.get(message_name)
    return getattr(struct, fields.records[0], None) if fields is not None else None


def none_if_negative(value: int | None) -> int | None:
    """The value, or None for -1, which Kafka writes for an absent value."""
    return None if value is None or value < 0 else value


def none_if_not_int64(value: int) -> int | None:
    """The value, or None if it does not fit the column, as sums of invalid offsets may not."""
    return value if -(2**63) <= value < 2**63 else None


def _structs_by_partition(
    body: msgspec.Struct | None,
) -> dict[_PartitionKey, tuple[MessageTopic, msgspec.Struct | None]]:
    if body is None:
        return {}
    return {
        (topic.topic_id or topic.name, partition.number): (topic, partition.struct)
        for topic in message_topics(body)
        for partition in topic.partitions
    }
