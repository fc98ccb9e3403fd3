"""The topics and partitions that a message names: for questions to the history, and for faults."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import msgspec

from kwire.capture.kafka.message_fields import message_topics

#: Completes the name and the id of a topic, of which a message has one.
ResolveTopic = Callable[[str | None, bytes | None], tuple[str | None, bytes | None]]


class NamedTopic(NamedTuple):
    """A topic of a message. partitions: those that are named; empty for the whole topic."""

    name: str | None
    topic_id: bytes | None
    partitions: tuple[int, ...]


def read_topics(message: msgspec.Struct, resolve: ResolveTopic) -> Iterator[NamedTopic]:
    """The topics that a message names, each with its name and id where they are known."""
    for topic in message_topics(message):
        name, topic_id = resolve(topic.name, topic.topic_id)
        yield NamedTopic(name, topic_id, tuple(partition.number for partition in topic.partitions))


def name_topic(topics: Iterable[NamedTopic], topic: object, partition: object) -> bool:
    """Whether these topics include this one, with this partition of it; None: any."""
    return any(topic in (None, named.name) and (partition is None or partition in named.partitions) for named in topics)
