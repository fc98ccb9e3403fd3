"""Members of a consumer group (KIP-848), and their reconciliation with the target: revoke first, then assign.

Source: KIP-848 "Reconciliation of the group"; pinned by the conversations other-consumer-*.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field
from enum import Enum

from mockbroker.state.group.coordinator_records import ClassicProtocolMetadata
from mockbroker.state.group.group import Assignment
from mockbroker.state.metadata.topics import TopicPartitionKey

#: The epoch of a static member that has left temporarily.
LEAVE_GROUP_STATIC_MEMBER_EPOCH = -2


class MemberState(Enum):
    """The reconciliation states of a member, in the order of Kafka's numbers."""

    STABLE = "has all of its target"
    UNREVOKED = "still has to revoke partitions"
    UNRELEASED = "waits for partitions that others still have"


@dataclass(slots=True)
class ConsumerMember:
    """One member. assigned, revoking: partitions with the member epoch in which each was assigned.

    subscribed_topic_names: sorted, each once. subscribed_topic_regex: "" for none. classic: of a member that uses the
    classic protocol.
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
    assigned: dict[TopicPartitionKey, int] = field(default_factory=dict)
    revoking: dict[TopicPartitionKey, int] = field(default_factory=dict)
    classic: ClassicProtocolMetadata | None = None

    def is_at(self, assignment_epoch: int) -> bool:
        """Return whether it has the whole target of this epoch."""
        return self.state is MemberState.STABLE and self.member_epoch == assignment_epoch

    def owns(self, partition: TopicPartitionKey) -> bool:
        """Return whether the member has the partition, or still has to revoke it."""
        return partition in self.assigned or partition in self.revoking

    def advance_epoch(self, epoch: int) -> None:
        """Set the epoch; the previous one stays acceptable, as its response may have been lost."""
        self.previous_member_epoch, self.member_epoch = self.member_epoch, epoch


@dataclass(frozen=True, slots=True)
class ConsumerJoin:
    """The fields of a heartbeat. None (or -1 for the timeout): unchanged. classic: of a JoinGroup.

    owned_topic_ids: the topics of the rows of `owned`, those without partitions included.
    """

    member_id: str
    member_epoch: int
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    subscribed_topic_names: tuple[str, ...] | None
    subscribed_topic_regex: str | None
    server_assignor: str | None
    owned: frozenset[TopicPartitionKey] | None
    classic: ClassicProtocolMetadata | None = None
    owned_topic_ids: frozenset[bytes] = frozenset()

    def owns_only(self, partitions: Set[TopicPartitionKey]) -> bool:
        """Return whether it lists owned partitions, and no others, nor other topics."""
        is_subset = self.owned is not None and self.owned <= partitions
        return is_subset and self.owned_topic_ids <= {topic_id for topic_id, _ in partitions}

    @property
    def is_full(self) -> bool:
        """Return whether all fields are set, as after an error: then the response has all fields too."""
        subscribed = self.subscribed_topic_names is not None or self.subscribed_topic_regex is not None
        return self.member_epoch == 0 or (self.rebalance_timeout_ms != -1 and subscribed and self.owned is not None)


@dataclass(frozen=True, slots=True)
class ConsumerHeartbeat:
    """The result of a heartbeat. assigned: None when unchanged.

    needs_regex_resolution: regular expressions have to be resolved after this heartbeat.
    """

    member: ConsumerMember
    assigned: frozenset[TopicPartitionKey] | None
    needs_regex_resolution: bool


@dataclass(frozen=True, slots=True)
class MemberTarget:
    """The target assignment of a member. subscribed_topics: ids of the topics it subscribes to.

    held_by_others: partitions that other members still have. owned: the partitions that the heartbeat lists as owned,
    None if it lists none.
    """

    epoch: int
    partitions: frozenset[TopicPartitionKey]
    subscribed_topics: frozenset[bytes]
    held_by_others: Set[TopicPartitionKey]
    owned: frozenset[TopicPartitionKey] | None

    def has_unrevoked(self, revoking: Set[TopicPartitionKey]) -> bool:
        """Return whether the member still has to revoke some of these; without a list it is assumed to."""
        return self.owned is None or not self.owned.isdisjoint(revoking)


def reconcile_member(member: ConsumerMember, target: MemberTarget, *, subscription_changed: bool) -> None:
    """Take one step towards the target, as far as the heartbeat's owned partitions allow."""
    waits_for_revocation = member.state is MemberState.UNREVOKED and target.has_unrevoked(member.revoking.keys())
    if not waits_for_revocation and not member.is_at(target.epoch):
        _advance_member(member, target)
    elif subscription_changed:
        _revoke_unsubscribed(member, target)


def _revoke_unsubscribed(member: ConsumerMember, target: MemberTarget) -> None:
    """Start to revoke unsubscribed topics at once, without waiting for the next target."""
    dropped = {entry: epoch for entry, epoch in member.assigned.items() if entry[0] not in target.subscribed_topics}
    if not dropped:
        return
    member.assigned = {entry: epoch for entry, epoch in member.assigned.items() if entry not in dropped}
    revoking = member.revoking | dropped
    member.advance_epoch(member.member_epoch)
    if target.has_unrevoked(revoking.keys()):
        member.state = MemberState.UNREVOKED
        member.revoking = revoking


def _advance_member(member: ConsumerMember, target: MemberTarget) -> None:
    """Revoke partitions that are not in the target; after that enter its epoch with all free partitions."""
    target_partitions = {entry for entry in target.partitions if entry[0] in target.subscribed_topics}
    revoking = {entry: epoch for entry, epoch in member.assigned.items() if entry not in target_partitions}
    retained = {entry: epoch for entry, epoch in member.assigned.items() if entry in target_partitions}
    if revoking and target.has_unrevoked(revoking.keys()):
        member.state = MemberState.UNREVOKED
        member.revoking = revoking
        member.assigned = retained
        member.advance_epoch(member.member_epoch)
        return
    missing = target_partitions - retained.keys()
    unreleased = missing & target.held_by_others
    member.state = MemberState.UNRELEASED if unreleased else MemberState.STABLE
    member.revoking = {}
    member.assigned = retained | dict.fromkeys(missing - unreleased, target.epoch)
    member.advance_epoch(target.epoch)


def flatten_assignment(assignment: Assignment) -> frozenset[TopicPartitionKey]:
    """An assignment as (topic id, partition) pairs."""
    return frozenset((topic_id, index) for topic_id, indexes in assignment.items() for index in indexes)
