"""A member of a consumer group (KIP-848), and how it gets from what it has to its target: revoke first, then assign.

Source: KIP-848 "Reconciliation of the group"; pinned by the conversations other-consumer-*.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field
from enum import Enum

from mockbroker.state.group_facts import ClassicSide
from mockbroker.state.group_kinds import Assignment

TopicPartition = tuple[bytes, int]

#: The epoch of a static member that left for a while.
LEFT_FOR_A_WHILE = -2


class MemberState(Enum):
    """Where a member is on the way to its target, in the order of Kafka's numbers for it."""

    STABLE = "has all of its target"
    UNREVOKED = "still has to give partitions up"
    UNRELEASED = "waits for partitions that others still have"


@dataclass(slots=True)
class ConsumerMember:
    """One member. assigned, revoking: partitions with the member epoch in which each was assigned.

    subscribed_topic_names: sorted, each once. subscribed_topic_regex: "" for none. classic: of a member that speaks
    the classic protocol.
    """

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    subscribed_topic_names: tuple[str, ...] = ()
    subscribed_topic_regex: str = ""
    member_epoch: int = 0
    previous_member_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: dict[TopicPartition, int] = field(default_factory=dict)
    revoking: dict[TopicPartition, int] = field(default_factory=dict)
    classic: ClassicSide | None = None

    def is_at(self, assignment_epoch: int) -> bool:
        """Say whether it has all of the target of this epoch."""
        return self.state is MemberState.STABLE and self.member_epoch == assignment_epoch

    def owns(self, partition: TopicPartition) -> bool:
        """Say whether nobody else may have the partition yet."""
        return partition in self.assigned or partition in self.revoking

    def move_to(self, epoch: int) -> None:
        """Enter an epoch; the one before stays acceptable, as its answer may have been lost."""
        self.previous_member_epoch, self.member_epoch = self.member_epoch, epoch


@dataclass(frozen=True, slots=True)
class ConsumerHeartbeat:
    """What a heartbeat is answered. assigned None: unchanged. resolve: regular expressions are to be resolved soon."""

    member: ConsumerMember
    assigned: frozenset[TopicPartition] | None
    resolve: bool


@dataclass(frozen=True, slots=True)
class Target:
    """What a member should have. wanted: the topics it subscribes to. taken: partitions that others still have.

    owned: what the heartbeat says the member has, None if it says nothing.
    """

    epoch: int
    partitions: frozenset[TopicPartition]
    wanted: frozenset[bytes]
    taken: Set[TopicPartition]
    owned: frozenset[TopicPartition] | None

    def still_owned(self, revoking: Set[TopicPartition]) -> bool:
        """Say whether the member has yet to give some of these up; saying nothing is no proof that it has."""
        return self.owned is None or not self.owned.isdisjoint(revoking)


def reconcile(member: ConsumerMember, target: Target, *, subscription_changed: bool) -> None:
    """Take one step towards the target, as far as the heartbeat's proof allows."""
    waits_for_revocation = member.state is MemberState.UNREVOKED and target.still_owned(member.revoking.keys())
    if waits_for_revocation or member.is_at(target.epoch):
        if subscription_changed:
            _drop_unwanted(member, target)
        return
    _advance(member, target)


def _drop_unwanted(member: ConsumerMember, target: Target) -> None:
    """Begin to revoke topics that the member has just dropped, without waiting for the next target."""
    dropped = {entry: epoch for entry, epoch in member.assigned.items() if entry[0] not in target.wanted}
    if not dropped:
        return
    member.assigned = {entry: epoch for entry, epoch in member.assigned.items() if entry not in dropped}
    revoking = member.revoking | dropped
    member.move_to(member.member_epoch)
    if target.still_owned(revoking.keys()):
        member.state = MemberState.UNREVOKED
        member.revoking = revoking


def _advance(member: ConsumerMember, target: Target) -> None:
    """Give up what the target has not; when that is done enter its epoch with all that is free."""
    goal = {entry for entry in target.partitions if entry[0] in target.wanted}
    revoking = {entry: epoch for entry, epoch in member.assigned.items() if entry not in goal}
    kept = {entry: epoch for entry, epoch in member.assigned.items() if entry in goal}
    if revoking and target.still_owned(revoking.keys()):
        member.state = MemberState.UNREVOKED
        member.revoking = revoking
        member.assigned = kept
        member.move_to(member.member_epoch)
        return
    missing = goal - kept.keys()
    unreleased = missing & target.taken
    member.state = MemberState.UNRELEASED if unreleased else MemberState.STABLE
    member.revoking = {}
    member.assigned = kept | dict.fromkeys(missing - unreleased, target.epoch)
    member.move_to(target.epoch)


def flat(assignment: Assignment) -> frozenset[TopicPartition]:
    """An assignment as (topic id, partition) pairs."""
    return frozenset((topic_id, index) for topic_id, indexes in assignment.items() for index in indexes)


def by_topic(partitions: Set[TopicPartition]) -> Assignment:
    """(topic id, partition) pairs as an assignment, topics in the order of their ids."""
    grouped: dict[bytes, set[int]] = {}
    for topic_id, index in sorted(partitions):
        grouped.setdefault(topic_id, set()).add(index)
    return {topic_id: frozenset(indexes) for topic_id, indexes in grouped.items()}
