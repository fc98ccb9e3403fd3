"""The topic names of an outcome: those of its request, its response and its session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.capture.kafka.exchange import Exchange
from kwire.capture.kafka.message_fields import message_topics

if TYPE_CHECKING:
    from kwire.capture.kafka.exchange import Outcome
    from kwire.capture.kafka.topic_names import TopicNames


def outcome_topic_names(outcome: Outcome, names: TopicNames) -> list[str]:
    """The names of all topics of request, response and session, without duplicates; ids of topics without a name."""
    if not isinstance(outcome, Exchange):
        return []
    topic_names: dict[str, None] = {}
    for side in (outcome.request, outcome.response):
        for topic in message_topics(side.body) if side is not None and side.body is not None else ():
            name, topic_id = names.name_and_id(topic)
            topic_names[name or topic_id or ""] = None
    session = outcome.session
    if session is not None and session.partitions is not None:
        topic_names.update(dict.fromkeys(session.partitions.by_topic_name(names)))
    return list(topic_names)
