"""The share assignor "simple": every partition to as many members as it takes to keep all of them busy.

Source: share-semantics 5.9. Which member gets which partition follows Java's hash order, see `java_order`.
Balance comes before stickiness; a member never holds the same partition twice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Generic, TypeVar

from mockbroker.state.java_order import JavaMap, JavaSet, int_hash, topic_partition_hash
from mockbroker.state.topics import java_hash

#: Topic id to the partitions of it that somebody has.
Assignment = dict[bytes, frozenset[int]]
P = TypeVar("P", bound=Hashable)


def sharing(member_count: int, partition_count: int) -> int:
    """How many members each partition should have: at least one, and enough that no member need be idle."""
    return -(-member_count // partition_count) if partition_count else 0


def desired_counts(member_count: int, partition_count: int) -> list[int]:
    """How many partitions the members should have, by their index: the rounding is spread over the list."""
    if not member_count:
        return []
    precise = sharing(member_count, partition_count) * partition_count / member_count
    return [math.ceil(precise * (index + 1)) - math.ceil(precise * index) for index in range(member_count)]


class _Round(Generic[P]):
    """One computation over one set of partitions and the members that may have them.

    members: their indices, in the order that decides the desired counts. held: what they have now.
    """

    def __init__(
        self,
        members: Sequence[int],
        partitions: Sequence[P],
        held: Mapping[int, Iterable[P]],
        hash_of: Callable[[P], int],
    ) -> None:
        counts = desired_counts(len(members), len(partitions))
        self.desired = dict(zip(members, counts, strict=True))
        self.sharing = sharing(len(members), len(partitions))
        self.by_member: dict[int, JavaSet[P]] = {}
        self.by_partition: JavaMap[P, JavaSet[int]] = JavaMap(hash_of, mappings=len(partitions))
        self.hash_of = hash_of
        self.members = members
        for member, held_partitions in held.items():
            for partition in held_partitions:
                self._give(member, partition)
        self._revoke_surplus()
        self._revoke_oversharing()
        for partition in partitions:
            if partition not in self.by_partition:
                self.by_partition[partition] = JavaSet(int_hash)
        self._give_the_rest()

    def _give(self, member: int, partition: P) -> None:
        if partition not in self.by_partition:
            self.by_partition[partition] = JavaSet(int_hash)
        self.by_partition[partition].add(member)
        self.by_member.setdefault(member, JavaSet(self.hash_of)).add(partition)

    def _revoke_surplus(self) -> None:
        """Take from each member what it has above its desired count; a former subscriber should have none."""
        for member, partitions in self.by_member.items():
            surplus = len(partitions) - self.desired.get(member, 0)
            for partition in list(partitions)[: max(surplus, 0)]:
                partitions.discard(partition)
                self.by_partition[partition].discard(member)

    def _revoke_oversharing(self) -> None:
        """Take members from each partition that more of them have than should."""
        for partition in self.by_partition:
            members = self.by_partition[partition]
            surplus = len(members) - self.sharing
            for member in list(members)[: max(surplus, 0)]:
                members.discard(member)
                self.by_member[member].discard(partition)

    def _is_unfilled(self, member: int) -> bool:
        return len(self.by_member.get(member, ())) < self.desired[member]

    def _give_the_rest(self) -> None:
        """Deal partitions that lack members to members that lack partitions, round and round.

        A whole round in which nobody could take the partition ends the dealing, for later partitions too: a slight
        imbalance that Kafka tolerates.
        """
        unfilled = JavaSet(int_hash, filter(self._is_unfilled, self.members), mappings=max(self.members, default=0) + 1)
        turn = iter(unfilled)
        given = False
        for partition in self.by_partition:
            members = self.by_partition[partition]
            while unfilled and len(members) < self.sharing:
                member = next(turn, None)
                if member is None and not given:
                    return
                if member is None:
                    turn, given = iter(unfilled), False
                elif member not in members:
                    self._give(member, partition)
                    given = True
                    if not self._is_unfilled(member):
                        unfilled.discard(member)


def assign_simple(
    subscriptions: Mapping[str, frozenset[bytes]],
    assignable: Mapping[bytes, frozenset[int]],
    held: Mapping[str, Assignment],
) -> dict[str, Assignment]:
    """Compute the target assignment of a share group.

    subscriptions: member id to the ids of the existing topics it wants. assignable: topic id to its initialised
    partitions. held: the last target assignment.
    """
    ordered: JavaMap[str, None] = JavaMap(java_hash)
    for member_id in subscriptions:
        ordered[member_id] = None
    member_ids = list(ordered)
    wanted = set(subscriptions.values())
    if len(wanted) <= 1:
        return _assign_alike(member_ids, next(iter(wanted), frozenset()), assignable, held)
    return _assign_by_topic(member_ids, subscriptions, assignable, held)


def _assign_alike(
    member_ids: list[str],
    topic_ids: frozenset[bytes],
    assignable: Mapping[bytes, frozenset[int]],
    held: Mapping[str, Assignment],
) -> dict[str, Assignment]:
    """All members want the same topics: all partitions are dealt at once."""
    partitions = [(topic, index) for topic in sorted(topic_ids) for index in sorted(assignable.get(topic, ()))]
    before = {
        position: [(t, i) for t, indexes in held.get(member, {}).items() if t in topic_ids for i in sorted(indexes)]
        for position, member in enumerate(member_ids)
    }
    dealt = _Round(range(len(member_ids)), partitions, before, topic_partition_hash).by_member
    return {member: _by_topic(dealt.get(position, ())) for position, member in enumerate(member_ids)}


def _by_topic(topic_partitions: Iterable[tuple[bytes, int]]) -> Assignment:
    grouped: dict[bytes, set[int]] = {}
    for topic_id, partition_index in topic_partitions:
        grouped.setdefault(topic_id, set()).add(partition_index)
    return {topic_id: frozenset(indexes) for topic_id, indexes in grouped.items()}


def _assign_by_topic(
    member_ids: list[str],
    subscriptions: Mapping[str, frozenset[bytes]],
    assignable: Mapping[bytes, frozenset[int]],
    held: Mapping[str, Assignment],
) -> dict[str, Assignment]:
    """Members want different topics: each topic is dealt alone, and the results are put together.

    A topic that nobody wants any more is left in the targets that have it, as Kafka leaves it there; members
    filter their target by what they subscribe to.
    """
    result = {member: dict(held.get(member, {})) for member in member_ids}
    for topic_id in sorted(set().union(*subscriptions.values())):
        subscribers = [position for position, member in enumerate(member_ids) if topic_id in subscriptions[member]]
        before = {
            position: sorted(result[member][topic_id])
            for position, member in enumerate(member_ids)
            if topic_id in result[member]
        }
        dealt = _Round(subscribers, sorted(assignable.get(topic_id, ())), before, int_hash).by_member
        for position, partitions in dealt.items():
            result[member_ids[position]][topic_id] = frozenset(partitions)
    return {member: {t: indexes for t, indexes in topics.items() if indexes} for member, topics in result.items()}
