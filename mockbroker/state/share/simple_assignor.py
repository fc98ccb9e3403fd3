"""The share assignor "simple": assigns each partition to as many members as are needed so that no member is idle.

Source: share-semantics 5.9. Which member gets which partition follows Java's hash order, see `java_order`.
Balance comes before stickiness; a member never holds the same partition twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Generic, TypeVar

from mockbroker.state.group.group import Assignment, group_by_topic
from mockbroker.state.java.hash_order import JavaMap, JavaSet, int_hash, topic_partition_hash
from mockbroker.state.metadata.topics import java_hash

P = TypeVar("P", bound=Hashable)


def members_per_partition(member_count: int, partition_count: int) -> int:
    """How many members each partition should have: at least one, and enough that no member is idle."""
    return -(-member_count // partition_count) if partition_count else 0


def desired_counts(member_count: int, partition_count: int) -> list[int]:
    """How many partitions the members should have, by their index: the rounding is spread over the list."""
    if not member_count:
        return []
    precise = members_per_partition(member_count, partition_count) * partition_count / member_count
    return [math.ceil(precise * (index + 1)) - math.ceil(precise * index) for index in range(member_count)]


class _Distribution(Generic[P]):
    """One distribution of a set of partitions among the members that may have them.

    members: their indices, in the order that determines the desired counts. current: their partitions now.
    """

    def __init__(
        self, members: Sequence[int], partitions: list[P], current: dict[int, list[P]], hash_of: Callable[[P], int]
    ) -> None:
        self.desired = dict(zip(members, desired_counts(len(members), len(partitions)), strict=True))
        self.members_per_partition = members_per_partition(len(members), len(partitions))
        self.by_member: dict[int, JavaSet[P]] = {}
        self.by_partition: JavaMap[P, JavaSet[int]] = JavaMap(hash_of, mappings=len(partitions))
        self.hash_of = hash_of
        self.members = members
        for member, current_partitions in current.items():
            for partition in current_partitions:
                self._assign_partition(member, partition)
        self._revoke_surplus()
        self._revoke_oversharing()
        for partition in partitions:
            if partition not in self.by_partition:
                self.by_partition[partition] = JavaSet(int_hash)
        self._assign_remaining()

    def _assign_partition(self, member: int, partition: P) -> None:
        if partition not in self.by_partition:
            self.by_partition[partition] = JavaSet(int_hash)
        self.by_partition[partition].add(member)
        self.by_member.setdefault(member, JavaSet(self.hash_of)).add(partition)

    def _revoke_surplus(self) -> None:
        """Revoke from each member the partitions above its desired count; a former subscriber should have none."""
        for member, partitions in self.by_member.items():
            surplus = len(partitions) - self.desired.get(member, 0)
            for partition in list(partitions)[: max(surplus, 0)]:
                partitions.discard(partition)
                self.by_partition[partition].discard(member)

    def _revoke_oversharing(self) -> None:
        """Revoke each partition from the members above the desired number of members."""
        for partition in self.by_partition:
            members = self.by_partition[partition]
            surplus = len(members) - self.members_per_partition
            for member in list(members)[: max(surplus, 0)]:
                members.discard(member)
                self.by_member[member].discard(partition)

    def _is_unfilled(self, member: int) -> bool:
        return len(self.by_member.get(member, ())) < self.desired[member]

    def _assign_remaining(self) -> None:
        """Assign partitions that lack members to members that lack partitions, round-robin.

        A whole round in which no member could take the partition ends the assignment, for later partitions too: a
        slight imbalance that Kafka tolerates.
        """
        unfilled = JavaSet(int_hash, filter(self._is_unfilled, self.members), mappings=max(self.members, default=0) + 1)
        next_members = iter(unfilled)
        has_assigned = False
        for partition in self.by_partition:
            members = self.by_partition[partition]
            while unfilled and len(members) < self.members_per_partition:
                member = next(next_members, None)
                if member is None and not has_assigned:
                    return
                if member is None:
                    next_members, has_assigned = iter(unfilled), False
                elif member not in members:
                    self._assign_partition(member, partition)
                    has_assigned = True
                    if not self._is_unfilled(member):
                        unfilled.discard(member)


def assign_simple(
    subscriptions: Mapping[str, frozenset[bytes]],
    assignable: Mapping[bytes, frozenset[int]],
    current: Mapping[str, Assignment],
) -> dict[str, Assignment]:
    """Compute the target assignment of a share group.

    subscriptions: member id to the ids of the existing topics it subscribes to. assignable: topic id to its initialized
    partitions. current: the last target assignment.
    """
    member_ids = list(JavaSet(java_hash, subscriptions))
    topic_sets = set(subscriptions.values())
    if len(topic_sets) <= 1:
        return _assign_homogeneous(member_ids, next(iter(topic_sets), frozenset()), assignable, current)
    return _assign_by_topic(member_ids, subscriptions, assignable, current)


def _assign_homogeneous(
    member_ids: list[str],
    topic_ids: frozenset[bytes],
    assignable: Mapping[bytes, frozenset[int]],
    current: Mapping[str, Assignment],
) -> dict[str, Assignment]:
    """All members subscribe to the same topics: all partitions are distributed at once."""
    partitions = [(topic, index) for topic in sorted(topic_ids) for index in sorted(assignable.get(topic, ()))]
    current_by_position = {
        position: [(t, i) for t, indexes in current.get(member, {}).items() if t in topic_ids for i in sorted(indexes)]
        for position, member in enumerate(member_ids)
    }
    distributed = _Distribution(range(len(member_ids)), partitions, current_by_position, topic_partition_hash).by_member
    return {member: group_by_topic(distributed.get(position, ())) for position, member in enumerate(member_ids)}


def _assign_by_topic(
    member_ids: list[str],
    subscriptions: Mapping[str, frozenset[bytes]],
    assignable: Mapping[bytes, frozenset[int]],
    current: Mapping[str, Assignment],
) -> dict[str, Assignment]:
    """Members subscribe to different topics: each topic is distributed alone, and the results are combined.

    A topic without subscribers stays in the targets that contain it, as in Kafka; members filter their target by their
    subscription.
    """
    result = {member: dict(current.get(member, {})) for member in member_ids}
    for topic_id in sorted(set().union(*subscriptions.values())):
        subscribers = [position for position, member in enumerate(member_ids) if topic_id in subscriptions[member]]
        before = {
            position: sorted(result[member][topic_id])
            for position, member in enumerate(member_ids)
            if topic_id in result[member]
        }
        distribution = _Distribution(subscribers, sorted(assignable.get(topic_id, ())), before, int_hash)
        for position, partitions in distribution.by_member.items():
            result[member_ids[position]][topic_id] = frozenset(partitions)
    return {member: {t: indexes for t, indexes in topics.items() if indexes} for member, topics in result.items()}
