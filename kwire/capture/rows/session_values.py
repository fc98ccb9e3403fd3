"""The columns of messages that depend on the session of a fetch."""

from __future__ import annotations

from collections.abc import Callable

from kwire.capture.kafka.fetch_sessions import FetchSession
from kwire.capture.kafka.topic_names import TopicNames


def _partitions_json(session: FetchSession, names: TopicNames) -> str | None:
    return None if session.partitions is None else session.partitions.as_json(names)


SESSION_VALUES: dict[str, Callable[[FetchSession, TopicNames], object]] = {
    "session_id": lambda session, names: session.id,
    "session_epoch": lambda session, names: session.epoch,
    "session_partitions": _partitions_json,
}
"""The value of each column of the phase `SESSION`."""


def session_value(name: str, session: FetchSession | None, names: TopicNames) -> object:
    """The value of one of these columns; None without a session."""
    return None if session is None else SESSION_VALUES[name](session, names)
