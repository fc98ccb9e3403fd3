"""The topics of a message: all that its request, its response and its session name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.capture.exchange import Exchange
from kwire.capture.facts import topics

if TYPE_CHECKING:
    from kwire.capture.exchange import Outcome
    from kwire.capture.topic_names import TopicNames


def topics_of(outcome: Outcome, names: TopicNames) -> list[str]:
    """The names of all topics that request, response and session name; their ids where no name is known."""
    if not isinstance(outcome, Exchange):
        return []
    found: dict[str, None] = {}
    for side in (outcome.request, outcome.response):
        for topic in topics(side.body) if side is not None and side.body is not None else ():
            name, topic_id = names.name_and_id(topic)
            found[name or topic_id or ""] = None
    session = outcome.session
    if session is not None and session.partitions is not None:
        found.update(dict.fromkeys(session.partitions.named(names)))
    return list(found)
