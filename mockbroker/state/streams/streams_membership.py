"""Members of a streams group: how heartbeats find them, static members (KIP-1331), and the offsets of their tasks.

Source: Kafka's GroupMetadataManager; pinned by the conversations other-streams-44-static and -44-task-offsets.
"""

from __future__ import annotations

from dataclasses import replace

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.group.coordinator_records import AppendRecords
from mockbroker.state.group.coordinator_rules import GroupCoordinatorRules
from mockbroker.state.group.group import Topics
from mockbroker.state.streams.streams_join import StreamsJoin, TaskOffsets, owns_only
from mockbroker.state.streams.streams_members import AssignedTasks, StreamsMember, Tasks
from mockbroker.state.streams.streams_records import StreamsRecords
from mockbroker.state.streams.streams_rules import StreamsRules
from mockbroker.state.timers import Timers

#: The member epoch of a static member that has left for a while.
LEFT_FOR_A_WHILE = -2
#: The described epoch while a plugin stores or removes a description.
_UNCERTAIN = -2


class StreamsMembership(StreamsRecords):
    """The members of one group. task_offsets: what they reported; kept in memory only, as in Kafka."""

    def __init__(
        self,
        group_id: str,
        topics: Topics,
        timers: Timers,
        append_records: AppendRecords,
        rules: StreamsRules,
        *,
        coordinator_rules: GroupCoordinatorRules,
    ) -> None:
        super().__init__(group_id, topics, timers, append_records, coordinator_rules=coordinator_rules)
        self._rules = rules
        self.task_offsets: dict[str, TaskOffsets] = {}

    def _check_size(self, join: StreamsJoin, size_max: int) -> None:
        if not join.is_joining or len(self.members) < size_max:
            return
        is_known = join.member_id in self.members or self._find_static_member(join.instance_id) is not None
        if not (is_known and self._rules.lets_members_rejoin_full_group):
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, f"The group may have {size_max} members.")

    def _find_static_member(self, instance_id: str | None) -> StreamsMember | None:
        if instance_id is None:
            return None
        return next((member for member in self.members.values() if member.instance_id == instance_id), None)

    def _find_or_add_member(self, join: StreamsJoin) -> tuple[StreamsMember, StreamsMember | None]:
        """Find the member, or create it for epoch 0, and the former static member that it replaces."""
        former = self._find_static_member(join.instance_id)
        if not join.is_joining:
            return self._find_member_in_epoch(join, former), None
        if former is None:
            return self.members.get(join.member_id) or StreamsMember(join.member_id), None
        if former.member_epoch != LEFT_FOR_A_WHILE:
            text = f"Instance {join.instance_id} belongs to member {former.member_id}, which has not left."
            raise KafkaError(ErrorCode.UNRELEASED_INSTANCE_ID, text)
        return replace(former, member_id=join.member_id, member_epoch=0, previous_member_epoch=0), former

    def _find_member_in_epoch(self, join: StreamsJoin, static: StreamsMember | None) -> StreamsMember:
        if join.instance_id is None:
            member = self.find_member(join.member_id)
        else:
            member = require_static_member(static, join.instance_id, join.member_id)
        lost_answer = join.member_epoch == member.previous_member_epoch and join.member_epoch < member.member_epoch
        if join.member_epoch != member.member_epoch and not (lost_answer and owns_only(join.owned, member)):
            text = f"The member epoch is {member.member_epoch}, not {join.member_epoch}."
            text += " The member has to revoke its tasks and rejoin."
            raise KafkaError(ErrorCode.FENCED_MEMBER_EPOCH, text)
        return member

    def _replace_member(self, former_id: str, member_id: str) -> None:
        """Remove a static member that has returned, and give its target to its successor."""
        tasks = self.target.pop(former_id, Tasks())
        self._drop_member(former_id)
        self.task_offsets.pop(former_id, None)
        self._cancel_timers(former_id)
        self._record_removal(former_id)
        self.target[member_id] = tasks
        self._record_member_target(member_id)

    def _leave_for_a_while(self, member: StreamsMember, now_ms: int) -> None:
        """Let a static member keep its tasks, which others may not commit for, until it returns or its session ends."""
        kept = member.assigned._replace(active=dict.fromkeys(member.assigned.active, 0))
        left = replace(member, member_epoch=LEFT_FOR_A_WHILE, assigned=kept, revoking=AssignedTasks())
        self._store_member(left)
        self._record_current(left)
        self.records.flush(now_ms)

    def _store_offsets(self, join: StreamsJoin) -> None:
        if join.task_offsets is not None or join.task_end_offsets is not None:
            self.task_offsets[join.member_id] = join.update_offsets(self.offsets_of(join.member_id))

    def check_description(self, member_id: str, topology_epoch: int) -> None:
        """Check that a member may describe the topology. Raises: UNKNOWN_MEMBER_ID, INVALID_REQUEST."""
        self.find_member(member_id)
        current = None if self.topology is None else self.topology.epoch
        if topology_epoch != current:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"The topology has the epoch {current}, not {topology_epoch}.")

    def set_described_epoch(self, topology_epoch: int, *, now_ms: int) -> None:
        """Record that the description of a topology is stored, and before that, that it is uncertain, as Kafka does."""
        for epoch in (_UNCERTAIN, topology_epoch):
            self.described_epoch = epoch
            self._record_epoch()
            self.records.flush(now_ms)

    def offsets_of(self, member_id: str) -> TaskOffsets:
        """The offsets that a member has reported."""
        return self.task_offsets.get(member_id, TaskOffsets())


def require_static_member(member: StreamsMember | None, instance_id: str, member_id: str) -> StreamsMember:
    """The static member that a request names. Raises: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
    if member is None:
        raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"No member has the instance id {instance_id}.")
    if member.member_id != member_id:
        text = f"Instance {instance_id} belongs to member {member.member_id}, not to {member_id}."
        raise KafkaError(ErrorCode.FENCED_INSTANCE_ID, text)
    return member
