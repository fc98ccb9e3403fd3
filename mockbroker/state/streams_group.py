"""A streams group (KIP-1071): the broker makes the application's topics, and assigns its tasks.

Source: Kafka's GroupMetadataManager.streamsGroupHeartbeat and StreamsGroup; pinned by conversations, other-streams-*.
The first join makes the epochs 2, as in the other groups of the newer protocols.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.group_facts import FactKind, Record, keep_no_record
from mockbroker.state.group_kinds import GroupType, Settings, Topics, is_due, metadata_digest, number
from mockbroker.state.group_timers import Timers
from mockbroker.state.streams_assignor import TaskCount, assign
from mockbroker.state.streams_endpoints import EndpointPartitions, endpoint_partitions
from mockbroker.state.streams_facts import StreamsFacts
from mockbroker.state.streams_join import StreamsJoin, check_tasks, has_only, updated
from mockbroker.state.streams_members import Holders, MemberState, StreamsMember, Tasks, reconcile
from mockbroker.state.streams_topics import Configured, Status, StatusCode, configure
from mockbroker.state.streams_topology import InternalTopic, Topology

#: The one setting that the assignor knows; its name and its value are kept with the epoch.
_STANDBYS = "num.standby.replicas"

#: From this version OffsetCommit knows member epochs.
_EPOCHS_SINCE = 9


class StreamsHeartbeat(NamedTuple):
    """What a heartbeat is answered.

    tells_tasks: the member hears of its tasks. endpoints: None when it knows them. missing: topics to be made.
    """

    member: StreamsMember
    tells_tasks: bool
    statuses: list[Status]
    endpoints: list[EndpointPartitions] | None
    endpoint_epoch: int
    missing: tuple[InternalTopic, ...]


@dataclass(slots=True)
class _Step:
    """What one heartbeat makes of the group, before it is known that nothing refuses it.

    validated: the topology's epoch if its topics are in order, else -1. assigns: the target is a new one.
    delay_ms: how long the group is to wait for more members, from now.
    """

    member: StreamsMember
    configured: Configured
    digest: int
    validated: int
    configs: tuple[tuple[str, str], ...]
    epoch: int
    target_epoch: int = 0
    target: dict[str, Tasks] = field(default_factory=dict)
    assigns: bool = False
    delay_ms: int = 0
    statuses: list[Status] = field(default_factory=list)


class StreamsGroup(StreamsFacts):
    """One streams group on its coordinator."""

    kind: ClassVar[GroupType] = GroupType.STREAMS
    protocol_type = "streams"

    def __init__(self, group_id: str, topics: Topics, timers: Timers, record: Record = keep_no_record) -> None:
        super().__init__(group_id, record)
        self.topics = topics
        self.configured: Configured | None = None
        self._timers = timers
        self._shutdown_by: str | None = None
        self._endpoint_epoch = 0
        self._delay_key = ("streams delay", group_id)

    @property
    def state_name(self) -> str:
        """The state as the wire says it."""
        if not self.members:
            return "Empty"
        if self.topology is None or self.topology.epoch != self.validated_topology_epoch:
            return "NotReady"
        if self.group_epoch > self.assignment_epoch:
            return "Assigning"
        settled = all(member.is_at(self.assignment_epoch) for member in self.members.values())
        return "Stable" if settled else "Reconciling"

    def is_deletable(self) -> bool:
        """Say whether nobody is in it."""
        return not self.members

    def is_subscribed_to(self, topic_name: str) -> bool:
        """Say whether a member reads the topic, as a source or as a repartition topic."""
        return bool(self.members) and self.topology is not None and self.topology.reader_of(topic_name) is not None

    def heartbeat(self, join: StreamsJoin, *, settings: Settings, broker: Settings, now_ms: int) -> StreamsHeartbeat:
        """Join, or stay; see `leave` for the epoch -1.

        Raises: GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, INVALID_REQUEST,
        STREAMS_INVALID_TOPOLOGY, and UNKNOWN_SERVER_ERROR where Kafka stumbles. Nothing is noted then.
        """
        is_new = self.ledger.is_empty
        before = self._admit(join, number(broker, "group.streams.max.size"))
        topology = self._topology_after(join)
        step = self._step(before, updated(before, join), topology, join, settings)
        self._plan_target(step, settings, now_ms)
        owned = join.owned.tasks() if join.owned is not None else None
        target = step.target.get(before.member_id, Tasks())
        holders = Holders(self.members.values())
        step.member = member = reconcile(step.member, step.target_epoch, target, owned, holders)
        if join.shutdown:
            self._shutdown_by = self._shutdown_by or member.member_id
        tells = join.member_epoch == 0 or member.assigned != before.assigned
        endpoints = self._endpoints(member, step.configured, join, bumped=tells)
        statuses = [*step.statuses, *self._problems(step.configured)]
        endpoint_epoch = 0 if is_new else self._endpoint_epoch
        self._take(step, topology, now_ms)
        self._set_timers(step, before, settings, now_ms)
        if is_new:
            # Kafka makes the group anew from its records, and so forgets what is in none of them.
            self.configured, self._shutdown_by, self._endpoint_epoch = None, None, 0
        return StreamsHeartbeat(member, tells, statuses, endpoints, endpoint_epoch, step.configured.missing)

    def _admit(self, join: StreamsJoin, size_max: int) -> StreamsMember:
        """Find the member, or make it for epoch 0. A full group takes nobody in, not even who is there."""
        if join.member_epoch == 0:
            if len(self.members) >= size_max:
                raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, f"The group may have {size_max} members.")
            return self.members.get(join.member_id) or StreamsMember(join.member_id)
        member = self.member(join.member_id)
        lost_answer = join.member_epoch == member.previous_member_epoch and join.member_epoch < member.member_epoch
        if join.member_epoch != member.member_epoch and not (lost_answer and has_only(join.owned, member)):
            raise KafkaError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                f"The member epoch is {member.member_epoch}, not {join.member_epoch}. "
                "The member has to give up its tasks and join anew.",
            )
        return member

    def member(self, member_id: str) -> StreamsMember:
        """Find a member.

        Raises: UNKNOWN_MEMBER_ID.
        """
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}."
            )
        return member

    def _topology_after(self, join: StreamsJoin) -> Topology:
        """The group's topology, which the first member brings; an older one passes, and another one does not."""
        known = self.topology
        if join.topology is None:
            if known is None:
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
            return known
        join.topology.check()
        if known is None:
            return join.topology
        if known.epoch <= join.topology.epoch and not known.is_like(join.topology):
            raise KafkaError(ErrorCode.INVALID_REQUEST, "The group has another topology, which cannot be changed.")
        return known

    def _step(
        self, before: StreamsMember, member: StreamsMember, topology: Topology, join: StreamsJoin, settings: Settings
    ) -> _Step:
        """Find out what the heartbeat means for the group's epoch."""
        digest = metadata_digest(topology.required_topics(), self.topics)
        if self.configured is None or self.topology is None or digest != self._digest:
            self.configured = configure(topology, self.topics)
        configured = self.configured
        if configured.is_ready and configured.subtopologies is not None and join.owned is not None:
            check_tasks(configured.subtopologies, join.owned)
        validated = topology.epoch if configured.is_ready else -1
        configs = ((_STANDBYS, str(number(settings, "streams.num.standby.replicas"))),)
        known = (before, self._digest, self.validated_topology_epoch, self.configs)
        bumped = known != (member, digest, validated, configs) or before.member_id not in self.members
        step = _Step(member, configured, digest, validated, configs, self.group_epoch + bumped)
        if self.topology is not None and member.topology_epoch < self.topology.epoch:
            text = f"The member has the topology of epoch {member.topology_epoch}, the group {self.topology.epoch}."
            step.statuses.append(Status(StatusCode.STALE_TOPOLOGY, text))
        return step

    def _plan_target(self, step: _Step, settings: Settings, now_ms: int) -> None:
        """Find out which target the member is to get to: a new one, the last one, or none while joins are awaited."""
        step.target_epoch = self.assignment_epoch
        step.delay_ms = 0 if self.members else number(settings, "streams.initial.rebalance.delay.ms")
        if step.delay_ms > 0 or self._timers.is_set(self._delay_key):
            step.statuses.append(Status(StatusCode.ASSIGNMENT_DELAYED, "The group waits for more members at first."))
            return
        step.target = self.target
        if self.assignment_epoch >= step.epoch:
            return
        if not self._is_due(settings, now_ms):
            step.statuses.append(Status(StatusCode.ASSIGNMENT_DELAYED, "The last assignment is too recent."))
            return
        members = {**self._walk(), step.member.member_id: step.member}
        step.target = self._assigned(members, step.configured, step.configs)
        step.target_epoch, step.assigns = step.epoch, True

    def _is_due(self, settings: Settings, now_ms: int) -> bool:
        interval_ms = number(settings, "streams.assignment.interval.ms")
        return is_due(last_ms=self.assigned_at_ms, interval_ms=interval_ms, now_ms=now_ms)

    def _assigned(
        self, members: Mapping[str, StreamsMember], configured: Configured, configs: tuple[tuple[str, str], ...]
    ) -> dict[str, Tasks]:
        if not configured.is_ready or configured.subtopologies is None:
            return dict.fromkeys(members, Tasks())
        return assign(
            {member_id: member.process_id for member_id, member in members.items()},
            self.target,
            [
                TaskCount(each.subtopology_id, each.task_count, bool(each.changelogs))
                for each in configured.subtopologies.values()
            ],
            standbys=int(dict(configs)[_STANDBYS]),
        )

    def _problems(self, configured: Configured) -> list[Status]:
        """What stands in the way of all members alike."""
        found = [] if configured.problem is None else [configured.problem]
        if self._shutdown_by is not None:
            text = f"Member {self._shutdown_by} has asked for the whole application to shut down."
            found.append(Status(StatusCode.SHUTDOWN_APPLICATION, text))
        return found

    def _endpoints(
        self, member: StreamsMember, configured: Configured, join: StreamsJoin, *, bumped: bool
    ) -> list[EndpointPartitions] | None:
        if bumped and member.user_endpoint is not None:
            self._endpoint_epoch += 1
        if self._endpoint_epoch == join.endpoint_epoch:
            return None
        others = [other for other in self.members.values() if other.member_id != member.member_id]
        rows = (endpoint_partitions(each, configured, self.topics) for each in (*others, member))
        return [row for row in rows if row is not None]

    def _take(self, step: _Step, topology: Topology, now_ms: int) -> None:
        """Let what the heartbeat has changed be so, and note it in Kafka's order."""
        member = step.member
        self._put(member)
        self._note_member(member)
        if self.topology is None:
            self.topology = topology
            self.ledger.put(FactKind.STREAMS_TOPOLOGY, topology)
        if step.epoch != self.group_epoch:
            self.group_epoch, self._digest = step.epoch, step.digest
            self.validated_topology_epoch, self.configs = step.validated, step.configs
            self._note_epoch()
        if step.assigns:
            self._take_target(step.target, step.target_epoch, now_ms)
        self._note_current(member)
        self.ledger.write(now_ms)

    def _take_target(self, target: dict[str, Tasks], epoch: int, now_ms: int) -> None:
        self.target, self.assignment_epoch, self.assigned_at_ms = target, epoch, now_ms
        self._note_target()

    def _set_timers(self, step: _Step, before: StreamsMember, settings: Settings, now_ms: int) -> None:
        """Restart the session; who has to give tasks up has its rebalance timeout for each step of it."""
        if step.delay_ms > 0 and not self._timers.is_set(self._delay_key):
            due_ms = now_ms + step.delay_ms
            self._timers.set(self._delay_key, due_ms, lambda at_ms: self._end_delay(settings, at_ms))
        member = step.member
        self._start_session(member.member_id, settings, now_ms)
        if member.state is not MemberState.UNREVOKED:
            self._timers.cancel(("rebalance", self.group_id, member.member_id))
        elif member.has_moved(before):
            self._start_rebalance(member, now_ms)

    def _start_session(self, member_id: str, settings: Settings, now_ms: int) -> None:
        due_ms = now_ms + number(settings, "streams.session.timeout.ms")
        self._timers.set(("session", self.group_id, member_id), due_ms, lambda at_ms: self._remove(member_id, at_ms))

    def _start_rebalance(self, member: StreamsMember, now_ms: int) -> None:
        """Remove the member unless it is in another epoch by then."""

        def expire(at_ms: int) -> None:
            if self.members[member.member_id].member_epoch == member.member_epoch:
                self._remove(member.member_id, at_ms)

        self._timers.set(("rebalance", self.group_id, member.member_id), now_ms + member.rebalance_timeout_ms, expire)

    def _end_delay(self, settings: Settings, now_ms: int) -> None:
        """The time for first joins is over: assign to all who are there; members hear of it by a later heartbeat."""
        waits = self.members and self.group_epoch > self.assignment_epoch and self._is_due(settings, now_ms)
        # Without a heartbeat since the first one nothing is known of the topics, and the next one assigns.
        if waits and self.configured is not None:
            target = self._assigned(self._walk(), self.configured, self.configs)
            self._take_target(target, self.group_epoch, now_ms)
            self.ledger.write(now_ms)

    def resume(self, *, settings: Settings, now_ms: int) -> None:
        """Go on after a load: sessions, and the time to give tasks up, begin anew."""
        for member in self.members.values():
            self._start_session(member.member_id, settings, now_ms)
            if member.state is MemberState.UNREVOKED:
                self._start_rebalance(member, now_ms)

    def leave(self, member_id: str, *, shutdown: bool, now_ms: int) -> None:
        """Take a member out at its own wish; even a stranger's wish to shut down is heard.

        Raises: UNKNOWN_MEMBER_ID.
        """
        if shutdown:
            self._shutdown_by = self._shutdown_by or member_id
        self.member(member_id)
        self._remove(member_id, now_ms)

    def _remove(self, member_id: str, now_ms: int) -> None:
        """Forget a member that left, fell silent or was too slow; a later heartbeat gives others what it had."""
        del self.members[member_id]
        self.target.pop(member_id, None)
        for kind in ("session", "rebalance"):
            self._timers.cancel((kind, self.group_id, member_id))
        self.group_epoch += 1
        if not self.members:
            self._shutdown_by = None
        self._strike(member_id)
        self._note_epoch()
        self.ledger.write(now_ms)

    def check_commit(
        self, member_id: str, member_epoch: int, partition: tuple[bytes, int], *, api_version: int
    ) -> None:
        """Let a member commit; for a task that it got in a later epoch, or has not, an older epoch is stale.

        Raises: UNKNOWN_MEMBER_ID, UNSUPPORTED_VERSION, STALE_MEMBER_EPOCH.
        """
        if member_epoch < 0 and not self.members:
            return
        member = self.member(member_id)
        if api_version < _EPOCHS_SINCE:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "members of this protocol need OffsetCommit version 9")
        if member_epoch == member.member_epoch:
            return
        topic = self.topics.topic_by_id(partition[0])
        reader = None if topic is None or self.topology is None else self.topology.reader_of(topic.name)
        task = (reader or "", partition[1])
        since = member.assigned.active.get(task, member.revoking.active.get(task))
        if member_epoch > member.member_epoch or reader is None or since is None or member_epoch < since:
            raise _stale(member_epoch, member)

    def check_member(self, member_id: str, member_epoch: int) -> None:
        """Let a member of the epoch in force read offsets.

        Raises: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH.
        """
        member = self.member(member_id)
        if member_epoch != member.member_epoch:
            raise _stale(member_epoch, member)


def _stale(member_epoch: int, member: StreamsMember) -> KafkaError:
    return KafkaError(ErrorCode.STALE_MEMBER_EPOCH, f"epoch {member_epoch}; the member is in {member.member_epoch}")
