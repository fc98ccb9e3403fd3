"""Groups of the newer protocols: the members, the group and its target assignment have epochs."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.group.coordinator_records import AppendRecords, GroupRecords, RecordKind, TargetEpochValue
from mockbroker.state.group.coordinator_rules import RULES_4_3, GroupCoordinatorRules
from mockbroker.state.group.group import Topics
from mockbroker.state.java.timeline_map import TimelineMap
from mockbroker.state.metadata.topics import TopicPartitionKey, java_hash
from mockbroker.state.timers import Timers

#: From this version on OffsetCommit has member epochs.
_EPOCHS_SINCE = 9


class CommittingMember(Protocol):
    """A member that commits offsets."""

    @property
    def member_epoch(self) -> int:
        """The epoch of the last assignment that the member has received."""

    def is_at(self, assignment_epoch: int) -> bool:
        """Return whether it has the whole target of this epoch."""


M = TypeVar("M")
C = TypeVar("C", bound=CommittingMember)


class EpochGroup(Generic[M]):
    """Members by id, the epochs of the group and its target, and timers that remove members."""

    def __init__(
        self,
        group_id: str,
        topics: Topics,
        timers: Timers,
        append_records: AppendRecords,
        *,
        coordinator_rules: GroupCoordinatorRules = RULES_4_3,
    ) -> None:
        self.group_id = group_id
        self.topics = topics
        self.records = GroupRecords(group_id, append_records)
        self.members: TimelineMap[str, M] = TimelineMap(java_hash)
        self.group_epoch = self.assignment_epoch = 1
        self.assigned_at_ms: int | None = None
        self._digest = 0
        self._timers = timers
        self._coordinator_rules = coordinator_rules

    def is_deletable(self) -> bool:
        """Return whether the group has no members."""
        return not self.members

    def find_member(self, member_id: str) -> M:
        """Return a member. Raises: UNKNOWN_MEMBER_ID."""
        member = self.members.get(member_id)
        if member is None:
            message = f"Member {member_id} is not a member of group {self.group_id}."
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, message)
        return member

    def member_ids(self) -> list[str]:
        """The ids of its members."""
        return list(self.members)

    def fence_member(self, member_id: str, *, now_ms: int) -> None:
        """Remove a member as at the end of its session. Raises: UNKNOWN_MEMBER_ID."""
        self.find_member(member_id)
        self._remove_member(member_id, now_ms)

    def _remove_member(self, member_id: str, now_ms: int) -> None:
        """Remove a member that left or timed out."""
        raise NotImplementedError

    def _assign_if_emptied(self, kind: RecordKind) -> None:
        """After a removal: the empty target of a group without members. kind: of the record of a target's epoch."""
        if not self.members and self._coordinator_rules.assigns_emptied_groups:
            self.assignment_epoch, self.assigned_at_ms = self.group_epoch, 0
            self.records.set_value(kind, TargetEpochValue(self.assignment_epoch, 0))

    def _remove_at(self, kind: str, member_id: str, at_ms: int) -> None:
        """Remove the member at this time, unless its timer of this kind is cancelled or set again before."""
        key = (kind, self.group_id, member_id)
        self._timers.set_timer(key, at_ms, lambda now_ms: self._remove_member(member_id, now_ms))

    def _cancel_timers(self, member_id: str) -> None:
        for kind in ("session", "rebalance"):
            self._timers.cancel_timer((kind, self.group_id, member_id))


class CommittingGroup(EpochGroup[C]):
    """A group whose members commit offsets."""

    @property
    def state_name(self) -> str:
        """The state in responses."""
        if not self.members:
            return "Empty"
        if self.group_epoch > self.assignment_epoch:
            return "Assigning"
        is_stable = all(member.is_at(self.assignment_epoch) for member in self.members.values())
        return "Stable" if is_stable else "Reconciling"

    def _assigned_since(self, member: C, partition: TopicPartitionKey) -> int | None:
        """The epoch in which a partition was assigned to the member; None if it is not assigned to it."""
        raise NotImplementedError

    def check_commit(
        self, member_id: str, member_epoch: int, partition: TopicPartitionKey | None, *, version: int
    ) -> None:
        """Check that a member may commit; an epoch before the one in which it got the partition is stale.

        partition: None for a commit of which nothing is stored. version: of the request.
        Raises: UNKNOWN_MEMBER_ID, UNSUPPORTED_VERSION, STALE_MEMBER_EPOCH.
        """
        if member_epoch < 0 and not self.members:
            return
        member = self.find_member(member_id)
        if version < _EPOCHS_SINCE:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "members of this protocol need OffsetCommit version 9")
        if member_epoch == member.member_epoch:
            return
        if member_epoch > member.member_epoch:
            raise _stale_epoch_error(member_epoch, member)
        if partition is not None:
            since = self._assigned_since(member, partition)
            if since is None or member_epoch < since:
                raise _stale_epoch_error(member_epoch, member)

    def check_member(self, member_id: str, member_epoch: int) -> None:
        """Check that a member of the present epoch may read offsets. Raises: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH."""
        member = self.find_member(member_id)
        if member_epoch != member.member_epoch:
            raise _stale_epoch_error(member_epoch, member)


def _stale_epoch_error(member_epoch: int, member: CommittingMember) -> KafkaError:
    return KafkaError(ErrorCode.STALE_MEMBER_EPOCH, f"epoch {member_epoch}; the member is in {member.member_epoch}")
