"""What every level below `messages` begins with: the key of the exchange, and its partitions from both sides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from kwire.capture.facts import topics
from kwire.capture.rows import Row, conn_id
from kwire.payload import PLACES, Records

if TYPE_CHECKING:
    import msgspec

    from kwire.capture.bodies import Message
    from kwire.capture.exchange import Exchange
    from kwire.capture.facts import Topic
    from kwire.capture.topic_names import TopicNames


class Pair(NamedTuple):
    """What request and response say of one partition."""

    topic: str | None
    topic_id: str | None
    number: int
    asked: msgspec.Struct | None
    answered: msgspec.Struct | None

    def place(self) -> Row:
        """The columns that name the partition."""
        return {"topic": self.topic, "topic_id": self.topic_id, "partition": self.number}


class Pairs:
    """Reads the exchanges of one file."""

    def __init__(self, file: str, names: TopicNames) -> None:
        """`file` is what the column of that name says."""
        self._file = file
        self._names = names

    def key(self, exchange: Exchange) -> Row:
        """The columns that name the message."""
        request, response = exchange.request, exchange.response
        row: Row = {
            "file": self._file,
            "conn_id": conn_id(exchange.flow),
            "stream_epoch": exchange.flow.epoch,
            "req_packet": (request.frame.packet or None) if request is not None else None,
            "resp_packet": (response.frame.packet or None) if response is not None else None,
        }
        if request is None:
            row.update(dict.fromkeys(("client_id", "api_key", "api_name", "api_version")))
            row["correlation_id"] = None if response is None else response.correlation_id
        else:
            row.update(
                client_id=request.client_id,
                api_key=request.api_key,
                api_name=request.api_name,
                api_version=request.api_version,
                correlation_id=request.correlation_id,
            )
        return row

    def of(self, exchange: Exchange) -> Iterator[Pair]:
        """The partitions of both sides, joined; those of the response first, in its order."""
        asked = _by_partition(exchange.request)
        for key, (topic, answered) in _by_partition(exchange.response).items():
            yield self._pair(topic, key[1], asked.pop(key, (topic, None))[1], answered)
        for key, (topic, struct) in asked.items():
            yield self._pair(topic, key[1], struct, None)

    def _pair(self, topic: Topic, number: int, asked: msgspec.Struct | None, answered: msgspec.Struct | None) -> Pair:
        name, topic_id = self._names.name_and_id(topic)
        return Pair(name, topic_id, number, asked, answered)


def records_of(message: Message | None, struct: msgspec.Struct | None) -> Records:
    """The record batches that the message carries for this partition."""
    place = None if message is None else PLACES.get(message.name)
    return getattr(struct, place.records[0], None) if place is not None else None


def placed_at(answered: msgspec.Struct | None) -> int | None:
    """Where a Produce response says that the records went."""
    return or_none(getattr(answered, "base_offset", None))


def or_none(value: int | None) -> int | None:
    """Kafka writes -1 where there is nothing."""
    return None if value is None or value < 0 else value


def int64(value: int) -> int | None:
    """Sums of hostile offsets may not fit their column."""
    return value if -(2**63) <= value < 2**63 else None


def _by_partition(
    message: Message | None,
) -> dict[tuple[bytes | str | None, int], tuple[Topic, msgspec.Struct | None]]:
    if message is None or message.body is None:
        return {}
    return {
        (topic.topic_id or topic.name, partition.number): (topic, partition.struct)
        for topic in topics(message.body)
        for partition in topic.partitions
    }
