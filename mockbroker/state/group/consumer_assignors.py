"""Server-side assignors of consumer groups (KIP-848): "uniform" and "range"; a partition has one member at most.

Uniform keeps assigned partitions and evens out the total, range gives adjacent partitions of every topic to the same
member.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice

from mockbroker.state.group.group import Assignment, group_by_topic
from mockbroker.state.group.heterogeneous_assignment import HeterogeneousAssignment
from mockbroker.state.java.hash_order import JavaMap, JavaSet, uuid_hash
from mockbroker.state.metadata.topics import TopicPartitionKey, java_hash


@dataclass(frozen=True, slots=True)
class AssignmentRequest:
    """A member as an assignor sees it. topics: the ids of its existing subscribed topics. current: its last target."""

    topics: frozenset[bytes]
    current: Assignment
    instance_id: str | None = None


#: Requests by member id.
Requests = Mapping[str, AssignmentRequest]
#: Requests, partitions of each topic, and whether all members have the same subscription.
Assignor = Callable[[Requests, Mapping[bytes, int], bool], dict[str, Assignment]]


def assign_range(
    requests: Requests, partition_counts: Mapping[bytes, int], _homogeneous: bool
) -> dict[str, Assignment]:
    """Assign each member a run of partitions of every subscribed topic; members with an instance id come first, in its
    order.

    The first members get one more where it does not come out even. Nothing is kept from before.
    """
    ordered = sorted(requests, key=lambda member_id: _range_order(member_id, requests[member_id]))
    result: dict[str, Assignment] = {member_id: {} for member_id in requests}
    for topic_id, count in partition_counts.items():
        subscribers = [member_id for member_id in ordered if topic_id in requests[member_id].topics]
        start = 0
        for index, member_id in enumerate(subscribers):
            size = count // len(subscribers) + (index < count % len(subscribers))
            if size:
                result[member_id][topic_id] = frozenset(range(start, start + size))
            start += size
    return result


def _range_order(member_id: str, request: AssignmentRequest) -> tuple[bool, str]:
    return (request.instance_id is None, request.instance_id if request.instance_id is not None else member_id)


def assign_uniform(
    requests: Requests, partition_counts: Mapping[bytes, int], homogeneous: bool
) -> dict[str, Assignment]:
    """Even out the number of partitions of members, with as few moves as possible."""
    member_ids = list(JavaSet(java_hash, requests))
    if homogeneous:
        assignment = _HomogeneousAssignment(requests, partition_counts)
        assignment.assign_partitions(member_ids)
        return {
            member_id: _in_map_order(request.current, group_by_topic(assignment.assigned[member_id]))
            for member_id, request in requests.items()
        }
    ordered = [requests[member_id] for member_id in member_ids]
    mixed = HeterogeneousAssignment(
        [request.topics for request in ordered], partition_counts, [request.current for request in ordered]
    )
    assigned = dict(zip(member_ids, mixed.compute(), strict=True))
    return {member_id: group_by_topic(assigned[member_id]) for member_id in requests}


def _in_map_order(before: Assignment, assignment: Assignment) -> Assignment:
    """The new assignment of a member with its topics in the order of Kafka's map, which is a copy of the one before."""
    order = list(JavaSet(uuid_hash, before))
    if assignment == before:
        return {topic_id: assignment[topic_id] for topic_id in order}
    changed: JavaMap[bytes, None] = JavaMap(uuid_hash, buckets=len(before))
    for topic_id in order:
        changed[topic_id] = None
    for topic_id in assignment:
        if topic_id not in changed:
            changed.add_computed(topic_id, None)
    return {topic_id: assignment[topic_id] for topic_id in changed if topic_id in assignment}


class _HomogeneousAssignment:
    """An assignment in progress: current partitions that are still subscribed, and unassigned ones."""

    def __init__(self, requests: Requests, partition_counts: Mapping[bytes, int]) -> None:
        subscribed = frozenset[bytes]().union(*(request.topics for request in requests.values()))
        counts = {topic: count for topic, count in partition_counts.items() if topic in subscribed}
        all_partitions = [(topic, index) for topic in JavaSet(uuid_hash, counts) for index in range(counts[topic])]
        self.total = len(all_partitions)
        free = set(all_partitions)
        self.assigned: dict[str, list[TopicPartitionKey]] = {}
        for member_id, request in requests.items():
            current = request.current
            before = ((topic, index) for topic in JavaSet(uuid_hash, current) for index in sorted(current[topic]))
            retained = [entry for entry in before if entry[0] in request.topics and entry in free]
            free.difference_update(retained)
            self.assigned[member_id] = retained
        self.unassigned = [entry for entry in all_partitions if entry in free]

    def assign_partitions(self, member_ids: list[str]) -> None:
        """Every member gets the quota, and those with the most keep the extra partitions."""
        quota, extra = divmod(self.total, len(member_ids))
        unfilled: list[tuple[str, int]] = []
        for index, member_id in enumerate(member_ids):
            limit = quota + (extra > 0)
            partitions = self.assigned[member_id]
            self.unassigned += partitions[limit:]
            del partitions[limit:]
            # An extra partition is reserved only for members that have it, or when the rest of the members need it.
            if len(partitions) < limit and extra and len(member_ids) - index > extra:
                limit = quota
            if extra and limit > quota:
                extra -= 1
            unfilled.append((member_id, limit))
        free = iter(self.unassigned)
        for member_id, limit in unfilled:
            partitions = self.assigned[member_id]
            partitions += islice(free, max(limit - len(partitions), 0))


#: The assignors by the names of group.consumer.assignors.
ASSIGNORS: Mapping[str, Assignor] = {"uniform": assign_uniform, "range": assign_range}
