"""Records of a streams group in the coordinator's log, and their replay."""

from __future__ import annotations

from dataclasses import replace

from mockbroker.state.group.coordinator_records import AppendRecords, CoordinatorRecord, RecordKind, TargetEpochValue
from mockbroker.state.group.coordinator_rules import GroupCoordinatorRules
from mockbroker.state.group.epoch_group import CommittingGroup
from mockbroker.state.group.group import Topics
from mockbroker.state.java.hash_order import JavaSet
from mockbroker.state.metadata.topics import java_hash
from mockbroker.state.streams.streams_members import AssignedTasks, MemberState, StreamsMember, TaskOwners, Tasks
from mockbroker.state.streams.streams_record_values import (
    StreamsCurrentValue,
    StreamsEpochValue,
    StreamsMemberValue,
    StreamsTargetValue,
)
from mockbroker.state.streams.streams_topology import Topology
from mockbroker.state.timers import Timers


class StreamsRecords(CommittingGroup[StreamsMember]):
    """Members, topology, epochs and target of one group."""

    def __init__(
        self,
        group_id: str,
        topics: Topics,
        timers: Timers,
        append_records: AppendRecords,
        *,
        coordinator_rules: GroupCoordinatorRules,
    ) -> None:
        super().__init__(group_id, topics, timers, append_records, coordinator_rules=coordinator_rules)
        self._owners = TaskOwners()
        self.topology: Topology | None = None
        self.target: dict[str, Tasks] = {}
        self.validated_topology_epoch = 0
        self.configs: tuple[tuple[str, str], ...] = ()
        self.described_epoch = -1

    def _store_member(self, member: StreamsMember) -> None:
        self._owners.replace_member(self.members.get(member.member_id), member)
        self.members[member.member_id] = member

    def _drop_member(self, member_id: str) -> None:
        self._owners.replace_member(self.members.pop(member_id, None), None)

    def _record_member(self, member: StreamsMember) -> None:
        value = StreamsMemberValue(
            member.instance_id,
            member.rack_id,
            member.client_id,
            member.client_host,
            member.rebalance_timeout_ms,
            member.topology_epoch,
            member.process_id,
            member.user_endpoint,
            member.client_tags,
        )
        self.records.set_if_changed(RecordKind.STREAMS_MEMBER, value, member.member_id)

    def _record_epoch(self) -> None:
        value = StreamsEpochValue(
            self.group_epoch, self._digest, self.validated_topology_epoch, self.configs, self.described_epoch
        )
        self.records.set_if_changed(RecordKind.STREAMS_EPOCH, value)

    def _record_target(self) -> None:
        for member_id in JavaSet(java_hash, self.target):
            self._record_member_target(member_id)
        self._record_target_epoch()

    def _record_member_target(self, member_id: str) -> None:
        value = StreamsTargetValue(*self.target[member_id])
        self.records.set_if_changed(RecordKind.STREAMS_TARGET, value, member_id)

    def _record_target_epoch(self) -> None:
        epoch = TargetEpochValue(self.assignment_epoch, self.assigned_at_ms or 0)
        self.records.set_if_changed(RecordKind.STREAMS_TARGET_EPOCH, epoch)

    def _record_current(self, member: StreamsMember) -> None:
        value = StreamsCurrentValue(
            member.member_epoch, member.previous_member_epoch, int(member.state), member.assigned, member.revoking
        )
        self.records.set_if_changed(RecordKind.STREAMS_CURRENT, value, member.member_id)

    def _record_removal(self, member_id: str) -> None:
        """Record that a member was removed; Kafka writes all tombstones, even without records."""
        for kind in (RecordKind.STREAMS_CURRENT, RecordKind.STREAMS_TARGET, RecordKind.STREAMS_MEMBER):
            self.records.add_tombstone(kind, member_id, anyway=True)

    def replay(self, record: CoordinatorRecord, *, now_ms: int) -> None:
        """Apply a record of the log; now_ms has no effect here."""
        self.records.replay_record(record)
        value = record.value
        if isinstance(value, StreamsEpochValue):
            self.group_epoch, self._digest, self.validated_topology_epoch, self.configs, self.described_epoch = value
        elif isinstance(value, TargetEpochValue):
            self.assignment_epoch, self.assigned_at_ms = value
        elif isinstance(value, StreamsTargetValue):
            self.target[record.name] = Tasks(*value)
        elif isinstance(value, Topology):
            self.topology = value
        elif isinstance(value, StreamsMemberValue):
            self._replay_member(record.name, value)
        elif isinstance(value, StreamsCurrentValue):
            self._replay_current(record.name, value)
        elif record.kind is RecordKind.STREAMS_MEMBER:
            self._drop_member(record.name)
        elif record.kind is RecordKind.STREAMS_TARGET:
            self.target.pop(record.name, None)

    def _replay_member(self, member_id: str, value: StreamsMemberValue) -> None:
        member = self.members.get(member_id, StreamsMember(member_id))
        self._store_member(replace(member, **value._asdict()))

    def _replay_current(self, member_id: str, value: StreamsCurrentValue) -> None:
        member = replace(
            self.members.get(member_id, StreamsMember(member_id)),
            member_epoch=value.member_epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=MemberState(value.state),
            assigned=AssignedTasks(*value.assigned),
            revoking=AssignedTasks(*value.revoking),
        )
        self._store_member(member)
