"""Streams groups (KIP-1071): the broker creates the application's internal topics, and assigns its tasks.

Source: Kafka's GroupMetadataManager.streamsGroupHeartbeat and StreamsGroup; pinned by conversations, other-streams-*.
What differs between releases is in StreamsRules.
The first join sets the epochs to 2, as in the other groups of the newer protocols.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, NamedTuple

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.group.coordinator_records import AppendRecords, RecordKind
from mockbroker.state.group.coordinator_rules import RULES_4_3, GroupCoordinatorRules
from mockbroker.state.group.group import GroupType, Topics, is_assignment_due, metadata_digest
from mockbroker.state.metadata.topics import TopicPartitionKey
from mockbroker.state.settings import Settings, read_int
from mockbroker.state.streams.assignment_configs import (
    AssignmentConfigs,
    assignment_configs,
    missing_tag_statuses,
    standby_count,
)
from mockbroker.state.streams.streams_assignor import AssignmentHistory, TaskCount, assign_tasks
from mockbroker.state.streams.streams_endpoints import EndpointPartitions, endpoint_partitions
from mockbroker.state.streams.streams_join import (
    StreamsJoin,
    changes_assignment,
    check_tasks,
    update_member,
)
from mockbroker.state.streams.streams_members import (
    MemberState,
    StreamsMember,
    Tasks,
    reconcile_member,
)
from mockbroker.state.streams.streams_membership import StreamsMembership, require_static_member
from mockbroker.state.streams.streams_rules import DEFAULT_STREAMS_RULES, StreamsRules
from mockbroker.state.streams.streams_topics import ConfiguredTopology, StatusCode, StreamsStatus, configure
from mockbroker.state.streams.streams_topology import StreamsInternalTopic, Topology
from mockbroker.state.timers import INITIAL_DELAY, Timers


class StreamsHeartbeat(NamedTuple):
    """The result of a heartbeat.

    includes_tasks: the response lists the tasks. endpoints: None when the member has them. missing: topics to create.
    """

    member: StreamsMember
    includes_tasks: bool
    statuses: list[StreamsStatus]
    endpoints: list[EndpointPartitions] | None
    endpoint_epoch: int
    missing: tuple[StreamsInternalTopic, ...]
    topology_epoch: int


@dataclass(slots=True)
class _HeartbeatStep:
    """The changes of one heartbeat, before all of its checks have passed.

    validated_epoch: the topology's epoch if its topics are valid, else -1. has_new_target: the target is a new one.
    replaced: the former static member of the same instance, whose tasks this one has.
    delay_ms: how long the group has to wait for more members, from now.
    """

    member: StreamsMember
    configured: ConfiguredTopology
    digest: int
    validated_epoch: int
    configs: AssignmentConfigs
    epoch: int
    target_epoch: int = 0
    replaced: StreamsMember | None = None
    target: dict[str, Tasks] = field(default_factory=dict)
    has_new_target: bool = False
    delay_ms: int = 0
    statuses: list[StreamsStatus] = field(default_factory=list)


class StreamsGroup(StreamsMembership):
    """One streams group on its coordinator."""

    kind: ClassVar[GroupType] = GroupType.STREAMS
    protocol_type = "streams"

    def __init__(
        self,
        group_id: str,
        topics: Topics,
        timers: Timers,
        append_records: AppendRecords,
        rules: StreamsRules = DEFAULT_STREAMS_RULES,
        *,
        coordinator_rules: GroupCoordinatorRules = RULES_4_3,
        replaces: bool = False,
    ) -> None:
        """replaces: an empty classic group has had the id until now."""
        super().__init__(group_id, topics, timers, append_records, rules, coordinator_rules=coordinator_rules)
        self._replaces = replaces
        self.configured: ConfiguredTopology | None = None
        self._shutdown_by: str | None = None
        self._endpoint_epoch = 0
        self._delay_key = (INITIAL_DELAY, group_id)

    @property
    def state_name(self) -> str:
        """The state in responses."""
        is_ready = self.topology is not None and self.topology.epoch == self.validated_topology_epoch
        return super().state_name if is_ready or not self.members else "NotReady"

    def is_subscribed_to(self, topic_name: str) -> bool:
        """Return whether a member reads the topic, as a source or as a repartition topic."""
        return bool(self.members) and self._reading_subtopology(topic_name) is not None

    def _reading_subtopology(self, topic_name: str) -> str | None:
        return None if self.topology is None else self.topology.find_reading_subtopology(topic_name)

    def heartbeat(self, join: StreamsJoin, *, settings: Settings, broker: Settings, now_ms: int) -> StreamsHeartbeat:
        """Join the group or extend the session; see `leave` for the epoch -1.

        Raises: GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, UNRELEASED_INSTANCE_ID,
        FENCED_INSTANCE_ID, INVALID_REQUEST, STREAMS_INVALID_TOPOLOGY, and UNKNOWN_SERVER_ERROR where Kafka fails. Then
        nothing is changed.
        """
        is_new = self.records.is_empty
        self._check_size(join, read_int(broker, "group.streams.max.size"))
        before, replaced = self._find_or_add_member(join)
        keeps_endpoint = not (self._rules.counts_changed_endpoints and join.is_joining)
        updated = update_member(before, join, keeps_endpoint=keeps_endpoint)
        topology = self._resolve_topology(join)
        step = self._start_step(before, updated, topology, join, settings)
        step.replaced = replaced
        self._store_offsets(join)
        self.configured = step.configured  # Not before: a refused heartbeat changes nothing.
        self._plan_target(step, settings, now_ms)
        owned = join.owned.tasks() if join.owned is not None else None
        step.member = member = reconcile_member(
            step.member,
            step.target_epoch,
            step.target.get(before.member_id, Tasks()),
            owned,
            self._owners,
            changes_roles_in_place=self._rules.changes_roles_in_place,
        )
        if join.shutdown:
            self._shutdown_by = self._shutdown_by or member.member_id
        includes_tasks = join.is_joining or member.assigned != before.assigned
        endpoints = self._changed_endpoints(step, before, join)
        statuses = [*step.statuses, *self._group_statuses(step.configured), *missing_tag_statuses(member, step.configs)]
        # Kafka returns no epoch while it has no group of this id; pinned by other-streams-after-simple-commit.
        endpoint_epoch = 0 if is_new and not self._replaces else self._endpoint_epoch
        self._apply_step(step, topology, now_ms)
        self._set_timers(step, before, settings, now_ms)
        if is_new:
            # Kafka rebuilds the group from its records, and so loses state that has no record.
            self.configured, self._shutdown_by, self._endpoint_epoch = None, None, 0
            self.task_offsets.clear()
        missing = step.configured.missing
        return StreamsHeartbeat(member, includes_tasks, statuses, endpoints, endpoint_epoch, missing, topology.epoch)

    def _resolve_topology(self, join: StreamsJoin) -> Topology:
        """The group's topology, which the first member sends; an older one is accepted, a different one is not."""
        current = self.topology
        if join.topology is None:
            if current is None:
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
            return current
        join.topology.check_ids()
        if current is None:
            return join.topology
        if current.epoch <= join.topology.epoch and not current.is_equivalent_to(join.topology):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "The group has a different topology, which cannot be changed.")
        return current

    def _start_step(
        self, before: StreamsMember, member: StreamsMember, topology: Topology, join: StreamsJoin, settings: Settings
    ) -> _HeartbeatStep:
        """Determine the effect of the heartbeat on the group's epoch."""
        digest = metadata_digest(topology.required_topics(), self.topics)
        configured = self.configured
        if configured is None or self.topology is None or digest != self._digest:
            configured = configure(topology, self.topics)
        if configured.is_ready and configured.subtopologies is not None and join.owned is not None:
            check_tasks(configured.subtopologies, join.owned)
        validated = topology.epoch if configured.is_ready else -1
        configs = assignment_configs(settings)
        is_changed = before != member if join.instance_id is None else changes_assignment(before, member)
        previous = (self._digest, self.validated_topology_epoch, self.configs)
        bumped = is_changed or previous != (digest, validated, configs)
        step = _HeartbeatStep(member, configured, digest, validated, configs, self.group_epoch + bumped)
        if self.topology is not None and member.topology_epoch < self.topology.epoch:
            text = f"The member has the topology of epoch {member.topology_epoch}, the group {self.topology.epoch}."
            step.statuses.append(StreamsStatus(StatusCode.STALE_TOPOLOGY, text))
        return step

    def _plan_target(self, step: _HeartbeatStep, settings: Settings, now_ms: int) -> None:
        """Determine the member's target: a new one, the last one, or none while joins are awaited."""
        step.target_epoch = self.assignment_epoch
        step.delay_ms = 0 if self.members else read_int(settings, "streams.initial.rebalance.delay.ms")
        if step.delay_ms > 0 or self._timers.has_timer(self._delay_key):
            step.statuses.append(StreamsStatus(StatusCode.ASSIGNMENT_DELAYED, "The group waits for its first members."))
            return
        step.target = self._target_of_members(step)
        if self.assignment_epoch >= step.epoch:
            return
        if not self._is_due(settings, now_ms):
            step.statuses.append(StreamsStatus(StatusCode.ASSIGNMENT_DELAYED, "The last assignment is too recent."))
            return
        members = self.members.in_map_order()
        if step.replaced is not None:
            del members[step.replaced.member_id]
        members[step.member.member_id] = step.member
        step.target = self._compute_assignment(members, step.target, step.configured, step.configs)
        step.target_epoch, step.has_new_target = step.epoch, True

    def _target_of_members(self, step: _HeartbeatStep) -> dict[str, Tasks]:
        """The present target, in which a returning static member has its former tasks."""
        if step.replaced is None:
            return self.target
        target = dict(self.target)
        target[step.member.member_id] = target.pop(step.replaced.member_id, Tasks())
        return target

    def _is_due(self, settings: Settings, now_ms: int) -> bool:
        interval_ms = read_int(settings, "streams.assignment.interval.ms")
        return is_assignment_due(last_ms=self.assigned_at_ms, interval_ms=interval_ms, now_ms=now_ms)

    def _compute_assignment(
        self,
        members: Mapping[str, StreamsMember],
        previous: Mapping[str, Tasks],
        configured: ConfiguredTopology,
        configs: AssignmentConfigs,
    ) -> dict[str, Tasks]:
        if not configured.is_ready or configured.subtopologies is None:
            return dict.fromkeys(members, Tasks())
        rows = configured.subtopologies.values()
        processes = {member_id: member.process_id for member_id, member in members.items()}
        counts = [TaskCount(row.subtopology_id, row.task_count, bool(row.changelogs)) for row in rows]
        history = AssignmentHistory(previous)
        if self._rules.continues_from_current_tasks:
            tasks = {member_id: member.assigned.tasks() for member_id, member in members.items()}
            offsets = {member_id: self.offsets_of(member_id).offsets for member_id in members}
            history = AssignmentHistory(tasks, offsets)
        return assign_tasks(processes, history, counts, standbys=standby_count(configs), rules=self._rules)

    def _group_statuses(self, configured: ConfiguredTopology) -> list[StreamsStatus]:
        """The statuses that apply to all members."""
        statuses = [] if configured.problem is None else [configured.problem]
        if self._shutdown_by is not None:
            text = f"Member {self._shutdown_by} has requested a shutdown of the whole application."
            statuses.append(StreamsStatus(StatusCode.SHUTDOWN_APPLICATION, text))
        return statuses

    def _changed_endpoints(
        self, step: _HeartbeatStep, before: StreamsMember, join: StreamsJoin
    ) -> list[EndpointPartitions] | None:
        member = step.member
        is_changed = member.assigned != before.assigned and member.user_endpoint is not None
        if self._rules.counts_changed_endpoints:
            is_changed = is_changed or member.user_endpoint != before.user_endpoint
        else:
            is_changed = is_changed or (join.is_joining and member.user_endpoint is not None)
        self._endpoint_epoch += is_changed
        if self._endpoint_epoch == join.endpoint_epoch:
            return None
        former_id = None if step.replaced is None else step.replaced.member_id
        others = [other for other in self.members.values() if other.member_id not in (member.member_id, former_id)]
        lists_existing = self._rules.lists_existing_partitions
        rows = (
            endpoint_partitions(each, step.configured, self.topics, lists_existing=lists_existing)
            for each in (*others, member)
        )
        return [row for row in rows if row is not None]

    def _apply_step(self, step: _HeartbeatStep, topology: Topology, now_ms: int) -> None:
        """Apply the changes of a heartbeat, and record them in Kafka's order."""
        member = step.member
        if step.replaced is not None:
            self._replace_member(step.replaced.member_id, member.member_id)
        # In Kafka the record of the member comes before that of its tasks, which matters to a changed process.
        stored = self.members.get(member.member_id)
        if stored is not None:
            self._store_member(replace(stored, process_id=member.process_id))
        self._store_member(member)
        self._record_member(member)
        if self.topology is None:
            self.topology = topology
            self.records.set_value(RecordKind.STREAMS_TOPOLOGY, topology)
        if step.epoch != self.group_epoch:
            self.group_epoch, self._digest = step.epoch, step.digest
            self.validated_topology_epoch, self.configs = step.validated_epoch, step.configs
            self._record_epoch()
        if step.has_new_target:
            self._store_target(step.target, step.target_epoch, now_ms)
        self._record_current(member)
        self.records.flush(now_ms)

    def _store_target(self, target: dict[str, Tasks], epoch: int, now_ms: int) -> None:
        self.target, self.assignment_epoch, self.assigned_at_ms = target, epoch, now_ms
        self._record_target()

    def _set_timers(self, step: _HeartbeatStep, before: StreamsMember, settings: Settings, now_ms: int) -> None:
        """Restart the session timer; a member with tasks to revoke has its rebalance timeout for each step."""
        if step.delay_ms > 0 and not self._timers.has_timer(self._delay_key):
            due_ms = now_ms + step.delay_ms
            self._timers.set_timer(self._delay_key, due_ms, lambda at_ms: self._end_delay(settings, at_ms))
        member = step.member
        self._start_session(member.member_id, settings, now_ms)
        if member.state is not MemberState.UNREVOKED:
            self._timers.cancel_timer(("rebalance", self.group_id, member.member_id))
        elif member.has_changed_since(before):
            self._start_rebalance(member, now_ms)

    def _start_session(self, member_id: str, settings: Settings, now_ms: int) -> None:
        self._remove_at("session", member_id, now_ms + read_int(settings, "streams.session.timeout.ms"))

    def _start_rebalance(self, member: StreamsMember, now_ms: int) -> None:
        """Remove the member unless its epoch has changed by then."""

        def expire(at_ms: int) -> None:
            if self.members[member.member_id].member_epoch == member.member_epoch:
                self._remove_member(member.member_id, at_ms)

        key = ("rebalance", self.group_id, member.member_id)
        self._timers.set_timer(key, now_ms + member.rebalance_timeout_ms, expire)

    def _end_delay(self, settings: Settings, now_ms: int) -> None:
        """The initial delay is over: assign tasks to all members, which get them with a later heartbeat."""
        waits = self.members and self.group_epoch > self.assignment_epoch and self._is_due(settings, now_ms)
        # Without a heartbeat since the first one the topics are unknown, and the next one assigns.
        if waits and self.configured is not None:
            members = self.members.in_map_order()
            target = self._compute_assignment(members, self.target, self.configured, self.configs)
            self._store_target(target, self.group_epoch, now_ms)
            self.records.flush(now_ms)

    def resume(self, *, settings: Settings, now_ms: int) -> None:
        """Continue after loading: session and rebalance timeouts start again."""
        for member in self.members.values():
            self._start_session(member.member_id, settings, now_ms)
            if member.state is MemberState.UNREVOKED:
                self._start_rebalance(member, now_ms)

    def leave(
        self, member_id: str, *, shutdown: bool, now_ms: int, instance_id: str | None = None, for_a_while: bool = False
    ) -> None:
        """Remove a member on request; even an unknown member can shut the application down.

        for_a_while: the static member keeps its tasks until its session ends, or until it returns.
        Raises: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
        """
        if shutdown:
            self._shutdown_by = self._shutdown_by or member_id
        if instance_id is None:
            self.find_member(member_id)
        else:
            member = require_static_member(self._find_static_member(instance_id), instance_id, member_id)
            if for_a_while:
                self._leave_for_a_while(member, now_ms)
                return
        self._remove_member(member_id, now_ms)

    def _remove_member(self, member_id: str, now_ms: int) -> None:
        """Remove a member that left or timed out; later heartbeats assign its tasks to others."""
        self._drop_member(member_id)
        self.target.pop(member_id, None)
        self.task_offsets.pop(member_id, None)
        self._cancel_timers(member_id)
        self.group_epoch += 1
        if not self.members:
            self._shutdown_by = None
        self._record_removal(member_id)
        self._record_epoch()
        self._assign_if_emptied(RecordKind.STREAMS_TARGET_EPOCH)
        self.records.flush(now_ms)

    def _assigned_since(self, member: StreamsMember, partition: TopicPartitionKey) -> int | None:
        topic = self.topics.topic_by_id(partition[0])
        reader = None if topic is None else self._reading_subtopology(topic.name)
        if reader is None:
            return None
        task = (reader, partition[1])
        return member.assigned.active.get(task, member.revoking.active.get(task))
