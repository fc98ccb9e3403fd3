"""Internal topics of streams applications that could not be made, and why; they are not tried again for a while.

Source: Kafka's AutoTopicCreationManager, whose cache of errors is the broker's own, for all groups.
"""

from __future__ import annotations

from collections.abc import Iterable


class RefusedTopics:
    """The refusals of one broker."""

    def __init__(self) -> None:
        self._refused: dict[str, tuple[str, int]] = {}

    def refuse(self, name: str, why: str, *, until_ms: int) -> None:
        """Remember why a topic was not made, until a time."""
        self._refused[name] = (why, until_ms)

    def among(self, names: Iterable[str], *, now_ms: int) -> dict[str, str]:
        """Those of the topics that are refused now, with the reasons; what is older is forgotten."""
        self._refused = {name: row for name, row in self._refused.items() if now_ms < row[1]}
        return {name: self._refused[name][0] for name in names if name in self._refused}
