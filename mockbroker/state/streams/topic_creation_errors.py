"""Errors of creating internal topics of streams applications; failed topics are not retried for a while.

Source: Kafka's AutoTopicCreationManager, whose error cache belongs to the broker, for all groups.
"""

from __future__ import annotations

from collections.abc import Iterable


class TopicCreationErrors:
    """The errors of one broker."""

    def __init__(self) -> None:
        self._errors: dict[str, tuple[str, int]] = {}

    def add_error(self, name: str, reason: str, *, until_ms: int) -> None:
        """Store why a topic was not created, until a time."""
        self._errors[name] = (reason, until_ms)

    def find_errors(self, names: Iterable[str], *, now_ms: int) -> dict[str, str]:
        """The current errors of these topics; older ones are removed."""
        self._errors = {name: row for name, row in self._errors.items() if now_ms < row[1]}
        return {name: self._errors[name][0] for name in names if name in self._errors}
