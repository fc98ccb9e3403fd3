"""The order in which Kafka lists groups: partition by partition, and in each one as its hash map iterates.

Source: CoordinatorRuntime.scheduleReadAllOperation and GroupMetadataManager.listGroups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from mockbroker.state.java.hash_order import JavaSet, signed32, timeline_order
from mockbroker.state.metadata.topics import java_hash

if TYPE_CHECKING:
    from mockbroker.state.group.group import Group

_PRIME = 31


class ListingOrder:
    """Sorts groups for a listing. topic: of the coordinator's partitions. shard_of: the partition of a group id."""

    def __init__(self, topic: str, shard_of: Callable[[str], int]) -> None:
        self._topic_hash = java_hash(topic)
        self._shard_of = shard_of
        # The map of a partition grows with its groups, and never shrinks. Those deleted between two listings are not
        # counted.
        self._largest: dict[int, int] = {}

    def sort_groups(self, groups: Iterable[Group]) -> list[Group]:
        """The groups in Kafka's order. groups: in the order in which they were created."""
        by_shard: dict[int, dict[str, Group]] = {}
        for group in groups:
            by_shard.setdefault(self._shard_of(group.group_id), {})[group.group_id] = group
        ordered: list[Group] = []
        for shard in JavaSet(self._hash_shard, by_shard):
            named = by_shard[shard]
            self._largest[shard] = max(self._largest.get(shard, 0), len(named))
            ordered += (named[group_id] for group_id in timeline_order(named, java_hash, most=self._largest[shard]))
        return ordered

    def _hash_shard(self, shard: int) -> int:
        """The hash of a TopicPartition."""
        return signed32(_PRIME * (_PRIME + shard) + self._topic_hash)
