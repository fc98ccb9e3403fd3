"""Descriptions of the topologies of streams groups, and when their members are asked for one (KIP-1331).

Kafka leaves the storage to a plugin; here descriptions are kept in memory. Source: Kafka's
StreamsGroupTopologyDescriptionManager and its backoff; pinned by the conversation other-streams-44-descriptions.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

from mockbroker.state.random_source import RandomSource

D = TypeVar("D")

#: The delay after the first request, its factor, and its maximum; it varies by 20 percent.
_FIRST_DELAY_MS, _FACTOR, _DELAY_MAX_MS = 30_000, 2, 3_600_000
_PERCENT_MIN, _PERCENT_MAX = 80, 120


class _Request(NamedTuple):
    """The last request for a description of a topology's epoch; it is not repeated until a time."""

    topology_epoch: int
    attempt: int
    next_ms: int


class TopologyDescriptions(Generic[D]):
    """The stored descriptions by group, and the requests for others."""

    def __init__(self) -> None:
        self._stored: dict[str, D] = {}
        self._requests: dict[str, _Request] = {}

    def find(self, group_id: str) -> D | None:
        """The description of a group's topology, or None."""
        return self._stored.get(group_id)

    def store(self, group_id: str, description: D) -> None:
        """Store the description that a member has sent."""
        self._stored[group_id] = description
        self._requests.pop(group_id, None)

    def remove(self, group_id: str) -> None:
        """Remove the description of a group that is deleted or becomes one of another type."""
        self._stored.pop(group_id, None)
        self._requests.pop(group_id, None)

    def request(self, group_id: str, topology_epoch: int, *, now_ms: int, rng: RandomSource) -> bool:
        """Return whether a member is to be asked now: once, and again after a delay that doubles each time."""
        last = self._requests.get(group_id)
        if last is not None and last.topology_epoch != topology_epoch:
            last = None
        if last is not None and now_ms < last.next_ms:
            return False
        attempt = 0 if last is None else last.attempt + 1
        percent = rng.randrange(_PERCENT_MIN, _PERCENT_MAX + 1)
        delay_ms = min(_FIRST_DELAY_MS * _FACTOR**attempt * percent // 100, _DELAY_MAX_MS)
        self._requests[group_id] = _Request(topology_epoch, attempt, now_ms + delay_ms)
        return True
