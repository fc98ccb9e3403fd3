"""The condition on topics and partitions that a request or its response names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from kwire import uuids
from kwire.capture.kafka.message_fields import field_shape, message_topics
from mockbroker.journal.condition import Condition, Subject, TopicNames, shorten
from mockbroker.journal.exchange import Exchange


def topic_condition(topic: object, partition: object, subject: Subject) -> Condition:
    """The condition that the request or its response names this topic, or partition, or both together; None: any.

    Raises: ValueError where neither names topics.
    """
    classes = [cls for request in subject.request_classes for cls in (request, getattr(request, "RESPONSE", request))]
    if classes and not any(_names_topics(cls) for cls in classes):
        raise ValueError(f"topic={topic!r}: {classes[0].__name__} and its response name no topic")
    parts = [f"topic={topic!r}"] if topic is not None else []
    parts += [f"partition={partition}"] if partition is not None else []

    def matches(exchange: Exchange[Any, Any]) -> bool:
        return any(
            topic in (None, name) and (partition is None or partition in partitions)
            for name, partitions in topic_partitions(exchange, subject.topic_names)
        )

    def actual(exchange: Exchange[Any, Any]) -> str:
        return f"topics {describe_topics(exchange, subject.topic_names) or 'none'}"

    return Condition(", ".join(parts), matches, actual)


def topic_partitions(exchange: Exchange[Any, Any], topic_names: TopicNames) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The topics that a request or its response names, each with its partitions; an unknown id is shown as text."""
    for message in (exchange.request, exchange.response):
        for topic in message_topics(message) if message is not None else ():
            name = topic.name
            if name is None and topic.topic_id is not None:
                name = topic_names.get(topic.topic_id) or uuids.to_text(topic.topic_id)
            yield name or "", tuple(partition.number for partition in topic.partitions)


def describe_topics(exchange: Exchange[Any, Any], topic_names: TopicNames) -> str:
    """The topics of an exchange with their partitions, as "orders[0, 1]"."""
    by_name: dict[str, set[int]] = {}
    for name, partitions in topic_partitions(exchange, topic_names):
        by_name.setdefault(name, set()).update(partitions)
    return shorten(
        ", ".join(
            f"{name}[{', '.join(map(str, sorted(numbers)))}]" if numbers else name for name, numbers in by_name.items()
        )
    )


def _names_topics(message_class: type[msgspec.Struct]) -> bool:
    shape = field_shape(message_class)
    return bool(shape.topic_children or shape.names)
