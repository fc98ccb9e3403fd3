"""The messages that name topics: which they are, and the names that an exchange contains."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from kwire.capture.kafka.exchange import Exchange
from kwire.registry import DEFAULT_EDITION
from kwire.schema import library

if TYPE_CHECKING:
    from collections.abc import Iterator

    import msgspec

    from kwire.capture.kafka.exchange import Outcome
    from kwire.capture.kafka.topic_names import TopicNames
    from kwire.capture.options import Options
    from kwire.schema.spec import FieldSpec, MessageSpec


def learn_topic_names(outcome: Outcome, names: TopicNames, edition: str) -> None:
    """Store the topic names that the messages of an exchange contain, if their purpose is to name topics."""
    if isinstance(outcome, Exchange):
        for body in naming_bodies(outcome, edition):
            names.learn(body)


def naming_bodies(exchange: Exchange, edition: str) -> Iterator[msgspec.Struct]:
    """The bodies of an exchange whose purpose is to name topics."""
    naming_messages = topic_naming_messages(edition)
    for side in (exchange.request, exchange.response):
        if side is not None and side.name in naming_messages and side.body is not None:
            yield side.body


def options_for_topic_names(options: Options) -> Options:
    """The options for reading only topic names."""
    # After a SaslHandshake v0 come tokens without headers, which must not be read as requests.
    decoded = topic_naming_messages(options.edition) | {"SaslHandshakeRequest"}
    return replace(options, sessions=False, bodies=False, decoded_messages=decoded)


@cache
def topic_naming_messages(edition: str = DEFAULT_EDITION) -> frozenset[str]:
    """The messages that contain both name and id of a topic, as `MetadataResponse`, according to the schemas."""
    names = [name for name in library.message_names(edition) if library.schema_contains(name, '"TopicId"', edition)]
    specs = [library.load_schema(name, edition) for name in names]
    return frozenset(spec.name for spec in specs if _names_topics(spec, spec.fields))


def _names_topics(spec: MessageSpec, fields: tuple[FieldSpec, ...]) -> bool:
    # Produce and Fetch have both fields too, but in no version together.
    ids = [field.versions for field in fields if field.type == "uuid" and field.name == "TopicId"]
    names = [field.versions for field in fields if field.type == "string" and field.entity_type == "topicName"]
    if any(one.intersect(other).intersect(spec.versions) for one in ids for other in names):
        return spec.kind in {"request", "response"}  # Metadata records have an API key too.
    return any(_names_topics(spec, field.fields) for field in fields)
