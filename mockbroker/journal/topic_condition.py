"""The condition on topics and partitions that a request or its response names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from kwire import uuids
from kwire.capture.kafka.message_fields import field_shape
from mockbroker.journal.condition import Condition, Subject, TopicNames, shorten
from mockbroker.journal.exchange import Exchange
from mockbroker.journal.named_topics import NamedTopic, name_topic, read_topics


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
        return name_topic(exchange_topics(exchange, subject.topic_names), topic, partition)

    def actual(exchange: Exchange[Any, Any]) -> str:
        return describe_topics(exchange, subject.topic_names, "topics ") or "no topics"

    return Condition(", ".join(parts), matches, actual)


def exchange_topics(exchange: Exchange[Any, Any], topic_names: TopicNames) -> Iterator[NamedTopic]:
    """The topics that a request or its response names, each with its partitions; an unknown id is shown as text."""

    def resolve(name: str | None, topic_id: bytes | None) -> tuple[str, bytes | None]:
        if name is None and topic_id is not None:
            name = topic_names.get(topic_id) or uuids.to_text(topic_id)
        return name or "", topic_id

    for message in (exchange.request, exchange.response):
        if message is not None:
            yield from read_topics(message, resolve)


def describe_topics(exchange: Exchange[Any, Any], topic_names: TopicNames, word: str = "") -> str:
    """The topics of an exchange with their partitions, as "orders[0, 1]"; "all topics"; empty without topics.

    word: stands before names.
    """
    by_name: dict[str, set[int]] = {}
    for topic in exchange_topics(exchange, topic_names):
        by_name.setdefault(topic.name or "", set()).update(topic.partitions)
    if not by_name:
        return "all topics" if _asks_for_all_topics(exchange) else ""
    texts = (
        f"{name}[{', '.join(map(str, sorted(numbers)))}]" if numbers else name for name, numbers in by_name.items()
    )
    return word + shorten(", ".join(texts))


def _names_topics(message_class: type[msgspec.Struct]) -> bool:
    shape = field_shape(message_class)
    return bool(shape.topic_children or shape.names)


def _asks_for_all_topics(exchange: Exchange[Any, Any]) -> bool:
    """Whether a request names no topics since it asks for all: by null, in Metadata 0 by an empty list.

    Source: the schemas of the requests with a field `Topics` that can be null.
    """
    topics = getattr(exchange.request, "topics", ())
    if exchange.api_name == "Metadata" and exchange.api_version == 0:
        return not topics
    return exchange.request is not None and topics is None
