"""The server-side assignors of consumer groups (KIP-848): "uniform" and "range"; a partition has one member at most.

Counts are as in Kafka: uniform keeps what members have and evens out the total, range gives neighbours of every
topic to the same member. Which member gets a partition that several could have is our own choice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice

from mockbroker.state.group_kinds import Assignment
from mockbroker.state.java_order import JavaSet
from mockbroker.state.topics import java_hash

TopicPartition = tuple[bytes, int]


@dataclass(frozen=True, slots=True)
class Wish:
    """What an assignor knows of a member. topics: the ids of the existing topics it wants. held: its last target."""

    topics: frozenset[bytes]
    held: Assignment
    instance_id: str | None = None


Assignor = Callable[[Mapping[str, Wish], Mapping[bytes, int]], dict[str, Assignment]]


def assign_range(wishes: Mapping[str, Wish], partition_counts: Mapping[bytes, int]) -> dict[str, Assignment]:
    """Give each member a run of every topic it wants; members with an instance id come first, in its order.

    The first members get one more where it does not come out even. Nothing is kept from before.
    """
    ordered = sorted(wishes, key=lambda member_id: _range_place(member_id, wishes[member_id]))
    result: dict[str, Assignment] = {member_id: {} for member_id in wishes}
    for topic_id, count in partition_counts.items():
        takers = [member_id for member_id in ordered if topic_id in wishes[member_id].topics]
        start = 0
        for place, member_id in enumerate(takers):
            size = count // len(takers) + (place < count % len(takers))
            if size:
                result[member_id][topic_id] = frozenset(range(start, start + size))
            start += size
    return result


def _range_place(member_id: str, wish: Wish) -> tuple[bool, str]:
    return (wish.instance_id is None, wish.instance_id if wish.instance_id is not None else member_id)


def assign_uniform(wishes: Mapping[str, Wish], partition_counts: Mapping[bytes, int]) -> dict[str, Assignment]:
    """Even out how many partitions members have, moving as few as that takes."""
    member_ids = list(JavaSet(java_hash, wishes))
    holdings = _Holdings(wishes, partition_counts)
    if len({wish.topics for wish in wishes.values()}) <= 1:
        holdings.deal_alike(member_ids)
    else:
        holdings.deal_differently(member_ids)
    return {member_id: _by_topic(holdings.held[member_id]) for member_id in wishes}


def _by_topic(partitions: list[TopicPartition]) -> Assignment:
    grouped: dict[bytes, set[int]] = {}
    for topic_id, partition_index in partitions:
        grouped.setdefault(topic_id, set()).add(partition_index)
    return {topic_id: frozenset(indexes) for topic_id, indexes in grouped.items()}


class _Holdings:
    """Who has what while it is dealt: first what was held and is still wanted, the rest is free."""

    def __init__(self, wishes: Mapping[str, Wish], partition_counts: Mapping[bytes, int]) -> None:
        self.wishes = wishes
        wanted = frozenset[bytes]().union(*(wish.topics for wish in wishes.values()))
        counts = {topic: count for topic, count in partition_counts.items() if topic in wanted}
        every = [(topic, index) for topic, count in counts.items() for index in range(count)]
        self.total = len(every)
        existing = set(every)
        taken: set[TopicPartition] = set()
        self.held: dict[str, list[TopicPartition]] = {}
        for member_id, wish in wishes.items():
            before = ((topic, index) for topic, indexes in wish.held.items() for index in sorted(indexes))
            kept = [entry for entry in before if entry[0] in wish.topics and entry in existing and entry not in taken]
            taken.update(kept)
            self.held[member_id] = kept
        self.free = [entry for entry in every if entry not in taken]

    def deal_alike(self, member_ids: list[str]) -> None:
        """All want the same: everybody gets the quota, and those that have most keep the odd ones."""
        quota, extra = divmod(self.total, len(member_ids))
        unfilled: list[tuple[str, int]] = []
        for place, member_id in enumerate(member_ids):
            limit = quota + (extra > 0)
            held = self.held[member_id]
            self.free += held[limit:]
            del held[limit:]
            # The odd partition is promised only to those that have it, or when as many members as odd ones are left.
            if len(held) < limit and extra and len(member_ids) - place > extra:
                limit = quota
            if extra and limit > quota:
                extra -= 1
            unfilled.append((member_id, limit))
        free = iter(self.free)
        for member_id, limit in unfilled:
            held = self.held[member_id]
            held += islice(free, max(limit - len(held), 0))

    def deal_differently(self, member_ids: list[str]) -> None:
        """Members want different topics: give each free partition to who has least, then move while it helps."""
        takers = {
            topic: [member_id for member_id in member_ids if topic in self.wishes[member_id].topics]
            for topic in frozenset[bytes]().union(*(wish.topics for wish in self.wishes.values()))
        }
        # Partitions that few members can have are dealt first, as the others can still even out.
        for entry in sorted(self.free, key=lambda entry: len(takers[entry[0]])):
            least = min(takers[entry[0]], key=lambda member_id: len(self.held[member_id]))
            self.held[least].append(entry)
        while self._move_one(takers):
            pass

    def _move_one(self, takers: Mapping[bytes, list[str]]) -> bool:
        """Move one partition to a member that has at least two fewer than its holder, if there is such a pair."""
        for holder in sorted(self.held, key=lambda member_id: -len(self.held[member_id])):
            for entry in self.held[holder]:
                least = min(takers[entry[0]], key=lambda member_id: len(self.held[member_id]))
                if len(self.held[holder]) - len(self.held[least]) > 1:
                    self.held[holder].remove(entry)
                    self.held[least].append(entry)
                    return True
        return False


#: The assignors by the names of group.consumer.assignors.
ASSIGNORS: Mapping[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}
