"""Records of a consumer group in the coordinator's log, and their replay."""

from __future__ import annotations

from mockbroker.state.group.consumer_members import ConsumerMember, MemberState
from mockbroker.state.group.coordinator_records import (
    AppendRecords,
    ConsumerCurrentValue,
    CoordinatorRecord,
    GroupEpochValue,
    MemberMetadataValue,
    RecordKind,
    RegexValue,
    TargetAssignmentValue,
    TargetEpochValue,
)
from mockbroker.state.group.coordinator_rules import RULES_4_3, GroupCoordinatorRules
from mockbroker.state.group.epoch_group import CommittingGroup
from mockbroker.state.group.group import Assignment, Topics
from mockbroker.state.timers import Timers

#: The states by the numbers that records have for them.
_STATES = tuple(MemberState)


class ConsumerRecords(CommittingGroup[ConsumerMember]):
    """Members, epochs, target and resolved expressions of one group."""

    def __init__(
        self,
        group_id: str,
        topics: Topics,
        timers: Timers,
        append_records: AppendRecords,
        *,
        coordinator_rules: GroupCoordinatorRules = RULES_4_3,
    ) -> None:
        super().__init__(group_id, topics, timers, append_records, coordinator_rules=coordinator_rules)
        self.static_members: dict[str, str] = {}
        self.target: dict[str, Assignment] = {}
        self.resolved: dict[str, frozenset[str]] = {}
        self._resolved_at_ms: int | None = None
        self._resolved_version = 0
        self._resolving: frozenset[str] = frozenset()
        self._watched: tuple[tuple[str, ...], int, int] | None = None
        self.records.assume_written(RecordKind.CONSUMER_EPOCH, GroupEpochValue(self.group_epoch, self._digest))

    def _record_heartbeat(self, member: ConsumerMember, *, assigned: bool) -> None:
        """Record the changes of a heartbeat, in Kafka's order. assigned: the assignor has run."""
        self._record_member(member)
        self._record_epoch()
        if assigned:
            self._record_targets()
        self._record_current(member)

    def _record_targets(self) -> None:
        for member_id in self.target:
            self._record_target(member_id)
        epoch = TargetEpochValue(self.assignment_epoch, self.assigned_at_ms or 0)
        self.records.set_if_changed(RecordKind.CONSUMER_TARGET_EPOCH, epoch)

    def _record_replacement(self, old_id: str, member: ConsumerMember) -> None:
        """Record that a static member has a new id, before the changes of its heartbeat."""
        self._record_removal(old_id)
        self._record_member(member)
        self._record_target(member.member_id)
        self._record_current(member)

    def _record_member(self, member: ConsumerMember) -> None:
        value = MemberMetadataValue(
            member.rack_id,
            member.client_id,
            member.client_host,
            member.subscribed_topic_names,
            member.instance_id,
            member.subscribed_topic_regex,
            member.rebalance_timeout_ms,
            member.server_assignor,
            member.classic,
        )
        self.records.set_if_changed(RecordKind.CONSUMER_MEMBER, value, member.member_id)

    def _record_target(self, member_id: str) -> None:
        target = TargetAssignmentValue(self.target[member_id])
        self.records.set_if_changed(RecordKind.CONSUMER_TARGET, target, member_id)

    def _record_epoch(self) -> None:
        self.records.set_if_changed(RecordKind.CONSUMER_EPOCH, GroupEpochValue(self.group_epoch, self._digest))

    def _record_current(self, member: ConsumerMember) -> None:
        state = _STATES.index(member.state)
        value = ConsumerCurrentValue(
            member.member_epoch, member.previous_member_epoch, state, member.assigned, member.revoking
        )
        self.records.set_if_changed(RecordKind.CONSUMER_CURRENT, value, member.member_id)

    def _record_regexes(self, now_ms: int) -> None:
        for regex, names in self.resolved.items():
            self.records.set_value(RecordKind.CONSUMER_REGEX, RegexValue(names, self._resolved_version, now_ms), regex)

    def _record_removal(self, member_id: str) -> None:
        for kind in (RecordKind.CONSUMER_CURRENT, RecordKind.CONSUMER_TARGET, RecordKind.CONSUMER_MEMBER):
            self.records.add_tombstone(kind, member_id)

    def _drop_unused_regexes(self, regexes: set[str]) -> None:
        """Remove expressions without subscribers."""
        for regex in self.resolved.keys() - regexes:
            self._forget_regex(regex)
            self.records.add_tombstone(RecordKind.CONSUMER_REGEX, regex)

    def _forget_regex(self, regex: str) -> None:
        """Remove an expression; without any, the next one is resolved at once (other-consumer-regex-resubscribed)."""
        self.resolved.pop(regex, None)
        if not self.resolved:
            self._resolved_at_ms, self._resolved_version = None, 0

    def replay(self, record: CoordinatorRecord, *, now_ms: int) -> None:
        """Apply a record of the log; now_ms has no effect here."""
        self.records.replay_record(record)
        value = record.value
        if isinstance(value, GroupEpochValue):
            self.group_epoch, self._digest = value
        elif isinstance(value, TargetEpochValue):
            self.assignment_epoch, self.assigned_at_ms = value
        elif isinstance(value, TargetAssignmentValue):
            self.target[record.name] = dict(value.partitions)
        elif isinstance(value, RegexValue):
            self.resolved[record.name], self._resolved_version, self._resolved_at_ms = value
        elif isinstance(value, MemberMetadataValue):
            self._replay_member(record.name, value)
        elif isinstance(value, ConsumerCurrentValue):
            member = self.members.setdefault(record.name, ConsumerMember(record.name))
            member.member_epoch, member.previous_member_epoch = value[:2]
            member.state = _STATES[value.state]
            member.assigned, member.revoking = dict(value.assigned), dict(value.revoking)
        else:
            self._replay_tombstone(record)

    def _replay_member(self, member_id: str, value: MemberMetadataValue) -> None:
        member = self.members.setdefault(member_id, ConsumerMember(member_id))
        member.rack_id, member.client_id, member.client_host, member.subscribed_topic_names = value[:4]
        self._map_instance(member, value.instance_id)
        member.instance_id, member.subscribed_topic_regex = value.instance_id, value.subscribed_topic_regex
        member.rebalance_timeout_ms, member.server_assignor = value.rebalance_timeout_ms, value.server_assignor
        member.classic = value.classic

    def _map_instance(self, member: ConsumerMember, instance_id: str | None) -> None:
        """Map an instance id to its member, which may have another one until now."""
        if member.instance_id is not None and self._coordinator_rules.frees_former_instances:
            self.static_members.pop(member.instance_id, None)
        if instance_id is not None:
            self.static_members[instance_id] = member.member_id

    def _replay_tombstone(self, record: CoordinatorRecord) -> None:
        if record.kind is RecordKind.CONSUMER_MEMBER:
            member = self.members.pop(record.name, None)
            instance_id = None if member is None else member.instance_id
            if instance_id is not None and self.static_members.get(instance_id) == record.name:
                del self.static_members[instance_id]
        elif record.kind is RecordKind.CONSUMER_TARGET:
            self.target.pop(record.name, None)
        elif record.kind is RecordKind.CONSUMER_REGEX:
            self._forget_regex(record.name)
