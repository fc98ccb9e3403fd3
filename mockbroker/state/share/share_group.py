"""Share group: members, epochs and the target assignment.

A member jumps straight to its target, without revoking anything first: two members may share a partition.
Source: share-semantics 5.1 to 5.5; the timeline of 5.3 is the table to read first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.group.coordinator_records import (
    AppendRecords,
    CoordinatorRecord,
    GroupEpochValue,
    MemberMetadataValue,
    RecordKind,
    ShareCurrentValue,
    SharePartitionStatesValue,
    SubscribedTopicsValue,
    TargetAssignmentValue,
    TargetEpochValue,
)
from mockbroker.state.group.coordinator_rules import RULES_4_3, GroupCoordinatorRules
from mockbroker.state.group.epoch_group import EpochGroup
from mockbroker.state.group.group import (
    Assignment,
    GroupType,
    Topics,
    existing_topics,
    is_assignment_due,
    metadata_digest,
    recorded_metadata_digest,
    subscribed_topics_value,
    topic_ids_of,
)
from mockbroker.state.settings import Settings, read_int
from mockbroker.state.share.share_group_initialization import InitializationRequest, ShareGroupStates
from mockbroker.state.share.share_rules import ShareRules
from mockbroker.state.share.simple_assignor import assign_simple
from mockbroker.state.timers import Timers

#: The only share assignor of Kafka 4.3.
ASSIGNOR_NAME = "simple"


@dataclass(slots=True)
class ShareMember:
    """One member; its assigned partitions are those it has received, its target may be newer.

    subscribed_topic_names: sorted, each once.
    """

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: tuple[str, ...] = ()
    member_epoch: int = 0
    previous_member_epoch: int = -1
    assigned: Assignment = field(default_factory=dict)

    def check_epoch(self, epoch: int) -> None:
        """Check that an epoch is the present one, or the previous one (its response may have been lost).

        Raises: FENCED_MEMBER_EPOCH. Source: share-semantics 5.1 rule 13.
        """
        current, previous = self.member_epoch, self.previous_member_epoch
        if epoch > current:
            problem = f"larger than the current one, {current}"
        elif epoch not in (current, previous):
            problem = f"neither the current one, {current}, nor the previous one, {previous}"
        else:
            return
        raise KafkaError(ErrorCode.FENCED_MEMBER_EPOCH, f"The member epoch {epoch} is {problem}.")


@dataclass(frozen=True, slots=True)
class ShareJoin:
    """The sender's data in a heartbeat. None for rack or topics: unchanged."""

    member_id: str
    member_epoch: int
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class ShareHeartbeat:
    """The result of a heartbeat. assignment None: unchanged. initialization: to be requested after the response."""

    member: ShareMember
    assignment: Assignment | None
    initialization: InitializationRequest | None


class ShareGroup(EpochGroup[ShareMember]):
    """One share group on its coordinator.

    A new group of 4.3.0 has the epochs 1 and 1, and the first join makes them 2.
    """

    kind: ClassVar[GroupType] = GroupType.SHARE
    protocol_type = "share"

    def __init__(
        self,
        group_id: str,
        topics: Topics,
        timers: Timers,
        append_records: AppendRecords,
        rules: ShareRules,
        *,
        coordinator_rules: GroupCoordinatorRules = RULES_4_3,
    ) -> None:
        super().__init__(group_id, topics, timers, append_records, coordinator_rules=coordinator_rules)
        self.group_epoch = self.assignment_epoch = rules.groups.epoch_bumps_on_join - 1
        self.target: dict[str, Assignment] = {}
        self.empty_since_ms: int | None = None
        self.partition_states = ShareGroupStates(records_initializing=rules.group_records.lists_initializing_partitions)
        self._has_epoch_record = False
        self._unknown_epochs: set[str] = set()  # Members of a load; they supply their own epoch.
        self.records.assume_written(RecordKind.SHARE_EPOCH, GroupEpochValue(self.group_epoch, self._digest))
        self.records.assume_written(RecordKind.SHARE_TOPICS, SubscribedTopicsValue(()))
        self._rules = rules

    @property
    def state_name(self) -> str:
        """The state's name in responses."""
        empty, stable, _ = self._rules.groups.state_names
        return stable if self.members else empty

    def is_expired(self, *, retention_ms: int, now_ms: int) -> bool:
        """Whether it has been empty for the retention time, and no partition has stored state."""
        if self.members or self.partition_states.topic_ids_with_state() or not self._rules.groups.expires_empty_groups:
            return False
        if self.empty_since_ms is None:
            self.empty_since_ms = now_ms
        return now_ms - self.empty_since_ms >= retention_ms

    def next_expiration_ms(self, *, retention_ms: int) -> int | None:
        """When it is expired, unless something is written before; None: never, as it has members or stored state."""
        is_empty = not self.members and not self.partition_states.topic_ids_with_state()
        if not is_empty or self.empty_since_ms is None or not self._rules.groups.expires_empty_groups:
            return None
        return self.empty_since_ms + retention_ms

    def subscribed_topic_names(self) -> tuple[str, ...]:
        """The topics that any member subscribes to, sorted."""
        return tuple(sorted({name for member in self.members.values() for name in member.subscribed_topic_names}))

    def heartbeat(self, join: ShareJoin, *, settings: Settings, broker: Settings, now_ms: int) -> ShareHeartbeat:
        """Join, or stay in the group; see `leave` for the epoch -1.

        settings: those of the group. broker: those of the broker.
        Raises: GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, in this order.
        """
        size_max = read_int(broker, "group.share.max.size")
        if len(self.members) >= size_max and join.member_id not in self.members:
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, f"The share group is full: it has {size_max} members.")
        member = self._find_or_add_member(join)
        self.empty_since_ms = None
        assigned_before = member.assigned
        bumped = self._bump_group_epoch(subscription_changed=self._update_member(member, join))
        assigned = self._compute_target(settings, now_ms=now_ms)
        if bumped or member.member_epoch != self.assignment_epoch:
            self._reconcile_member(member)
        self._remove_at("session", member.member_id, now_ms + read_int(settings, "share.session.timeout.ms"))
        names_topics = self._rules.groups.sends_assignment_on_subscription and join.subscribed_topic_names is not None
        must_send = join.member_epoch == 0 or names_topics or member.assigned != assigned_before
        initialise = self._start_initialization(broker=broker, now_ms=now_ms)
        self._record_member(member, assigned=assigned)
        self.write_records(now_ms)
        return ShareHeartbeat(member, member.assigned if must_send else None, initialise)

    def leave(self, member_id: str, *, now_ms: int) -> None:
        """Remove a member that leaves. Raises: UNKNOWN_MEMBER_ID."""
        self.find_member(member_id)
        self._remove_member(member_id, now_ms)

    def _find_or_add_member(self, join: ShareJoin) -> ShareMember:
        """Find the member, or create it for epoch 0; an existing member may send epoch 0 again at any time."""
        if join.member_epoch == 0:
            member = self.members.setdefault(join.member_id, ShareMember(join.member_id))
            if self._rules.groups.accepts_rejoin_at_epoch_zero:
                return member
        member = self.find_member(join.member_id)
        if join.member_id in self._unknown_epochs:
            self._unknown_epochs.discard(join.member_id)
            member.member_epoch = join.member_epoch
            self.group_epoch = max(self.group_epoch, join.member_epoch)
        member.check_epoch(join.member_epoch)
        return member

    def _update_member(self, member: ShareMember, join: ShareJoin) -> bool:
        """Apply the data of a heartbeat. Returns: whether the set of topics has changed."""
        member.client_id = join.client_id
        member.client_host = join.client_host
        if join.rack_id is not None:
            member.rack_id = join.rack_id
        if join.subscribed_topic_names is None:
            return False
        names = tuple(sorted(set(join.subscribed_topic_names)))
        changed = names != member.subscribed_topic_names
        member.subscribed_topic_names = names
        return changed

    def _bump_group_epoch(self, *, subscription_changed: bool) -> bool:
        """Raise the group epoch by one if anything requires a new assignment; at most once for each heartbeat."""
        self.partition_states.remove_deleted_topics(self.topics)
        pending = self.assignment_epoch >= self.group_epoch and self._has_unassigned_partitions()
        digest = metadata_digest(self.subscribed_topic_names(), self.topics)
        if not (subscription_changed or pending or digest != self._digest):
            return False
        self.group_epoch += 1
        self._digest = digest
        return True

    def _has_unassigned_partitions(self) -> bool:
        """Whether a subscribed topic has initialized partitions that the target does not cover exactly."""
        assigned: dict[bytes, frozenset[int]] = {}
        for target in self.target.values():
            for topic_id, indexes in target.items():
                assigned[topic_id] = assigned.get(topic_id, frozenset()) | indexes
        subscribed = topic_ids_of(self.subscribed_topic_names(), self.topics)
        return any(
            topic_id in subscribed and assigned.get(topic_id, frozenset()) != indexes
            for topic_id, indexes in self.partition_states.initialized.items()
        )

    def _compute_target(self, settings: Settings, *, now_ms: int) -> bool:
        """Run the assignor if the target is older than the group epoch and the interval has passed; whether it ran."""
        distributes = self._rules.groups.distributes_partitions
        interval_ms = read_int(settings, "share.assignment.interval.ms") if distributes else 0
        behind = self.assignment_epoch < self.group_epoch
        if not behind or not is_assignment_due(last_ms=self.assigned_at_ms, interval_ms=interval_ms, now_ms=now_ms):
            return False
        assignable = self._assignable_partitions()
        members = self.members.values()
        subscriptions = {one.member_id: topic_ids_of(one.subscribed_topic_names, self.topics) for one in members}
        if distributes:
            self.target = assign_simple(subscriptions, assignable, self.target)
        else:
            self.target = {
                member_id: {topic_id: assignable[topic_id] for topic_id in sorted(topic_ids)}
                for member_id, topic_ids in subscriptions.items()
            }
        self.assignment_epoch = self.group_epoch
        self.assigned_at_ms = now_ms
        return True

    def _assignable_partitions(self) -> Assignment:
        if self._rules.state.initialized_before_assignment:
            return self.partition_states.initialized
        topics = existing_topics(self.subscribed_topic_names(), self.topics)
        return {topic.topic_id: frozenset(range(len(topic.partitions))) for topic in topics}

    def _reconcile_member(self, member: ShareMember) -> None:
        """Move a member to its target, without topics that it does not subscribe to."""
        subscribed_ids = topic_ids_of(member.subscribed_topic_names, self.topics)
        target = self.target.get(member.member_id, {})
        member.assigned = {topic_id: indexes for topic_id, indexes in target.items() if topic_id in subscribed_ids}
        if member.member_epoch != self.assignment_epoch:
            member.previous_member_epoch = member.member_epoch
            member.member_epoch = self.assignment_epoch

    def _start_initialization(self, *, broker: Settings, now_ms: int) -> InitializationRequest | None:
        if not self._rules.state.initialized_before_assignment:
            return None
        # Kafka waits at least as long as a write to the coordinator's log may take.
        timeouts = ("group.share.initialize.retry.interval.ms", "offsets.commit.timeout.ms")
        retry_ms = max(read_int(broker, name) for name in timeouts)
        topics = existing_topics(self.subscribed_topic_names(), self.topics)
        missing = self.partition_states.missing_partitions(topics, retry_ms=retry_ms, now_ms=now_ms)
        if not missing:
            return None
        known = self.partition_states.initialized.keys() | self.partition_states.initializing.keys()
        self.partition_states.start_initializing(missing, now_ms=now_ms)
        return InitializationRequest(self.group_id, self.group_epoch, missing, frozenset(known))

    def bump_group_epoch(self, *, now_ms: int) -> None:
        """Raise the group epoch, so that later initializations have a new state epoch."""
        self.group_epoch += 1
        self._record_epoch()
        self.write_records(now_ms)

    def resume(self, *, settings: Settings, now_ms: int) -> None:
        """Restart every member's session after a load."""
        self.empty_since_ms = None if self.members else now_ms
        for member_id in self.members:
            self._remove_at("session", member_id, now_ms + read_int(settings, "share.session.timeout.ms"))

    def _remove_member(self, member_id: str, now_ms: int) -> None:
        """Remove a member that left or whose session timed out; the others get its partitions at a later heartbeat."""
        del self.members[member_id]
        self._unknown_epochs.discard(member_id)
        self.empty_since_ms = None if self.members else now_ms
        self.target.pop(member_id, None)
        self._cancel_timers(member_id)
        self.group_epoch += 1
        self._digest = metadata_digest(self.subscribed_topic_names(), self.topics)
        for kind in (RecordKind.SHARE_CURRENT, RecordKind.SHARE_TARGET, RecordKind.SHARE_MEMBER):
            self.records.add_tombstone(kind, member_id)
        self._record_epoch()
        self._assign_if_emptied(RecordKind.SHARE_TARGET_EPOCH)
        self.write_records(now_ms)

    def _record_epoch(self) -> None:
        if self._rules.group_records.lists_topics:
            topics = subscribed_topics_value(self.subscribed_topic_names(), self.topics)
            self.records.set_if_changed(RecordKind.SHARE_TOPICS, topics)
        if self._rules.group_records.writes_every_epoch or not self._has_epoch_record:
            self._has_epoch_record = True
            self.records.set_if_changed(RecordKind.SHARE_EPOCH, GroupEpochValue(self.group_epoch, self._digest))

    def _record_member(self, member: ShareMember, *, assigned: bool) -> None:
        """Record what a heartbeat may have changed, in Kafka's order."""
        record = self.records.set_if_changed
        names = member.subscribed_topic_names
        metadata = MemberMetadataValue(member.rack_id, member.client_id, member.client_host, names)
        record(RecordKind.SHARE_MEMBER, metadata, member.member_id)
        self._record_epoch()
        if assigned:
            for member_id, target in self.target.items():
                record(RecordKind.SHARE_TARGET, TargetAssignmentValue(target), member_id)
            record(RecordKind.SHARE_TARGET_EPOCH, TargetEpochValue(self.assignment_epoch, self.assigned_at_ms or 0))
        current = ShareCurrentValue(member.member_epoch, member.previous_member_epoch, member.assigned)
        record(RecordKind.SHARE_CURRENT, current, member.member_id)

    def write_records(self, now_ms: int) -> None:
        """Write all changed records, the lists of share-partitions included."""
        if self.partition_states.is_changed:
            states = self.partition_states.build_record(now_ms, self.group_epoch)
            self.records.set_value(RecordKind.SHARE_STATES, states)
        self.records.flush(now_ms)

    def replay(self, record: CoordinatorRecord, *, now_ms: int) -> None:
        """Apply a record of the log."""
        self.records.replay_record(record)
        value, member_id = record.value, record.name
        if isinstance(value, GroupEpochValue):
            self.group_epoch = max(self.group_epoch, value.epoch)
            self._digest = self._digest if self._rules.group_records.lists_topics else value.digest
            self._has_epoch_record = True
        elif isinstance(value, SubscribedTopicsValue):
            self._digest = recorded_metadata_digest(value, self.topics)
        elif isinstance(value, TargetEpochValue):
            self.assignment_epoch, self.assigned_at_ms = value
        elif isinstance(value, TargetAssignmentValue):
            self.target[member_id] = dict(value.partitions)
        elif isinstance(value, MemberMetadataValue):
            member = self.members.setdefault(member_id, ShareMember(member_id))
            member.rack_id, member.client_id, member.client_host, member.subscribed_topic_names = value[:4]
            if not self._rules.group_records.persists_assignments:
                self._unknown_epochs.add(member_id)
        elif isinstance(value, ShareCurrentValue):
            member = self.members.setdefault(member_id, ShareMember(member_id))
            member.member_epoch, member.previous_member_epoch = value[:2]
            member.assigned = dict(value.assigned)
        elif isinstance(value, SharePartitionStatesValue) or record.kind is RecordKind.SHARE_STATES:
            states = value if isinstance(value, SharePartitionStatesValue) else None
            self.group_epoch = max(self.group_epoch, states.epoch if states is not None else 0)
            self.partition_states.replay(states, now_ms=now_ms)
        elif record.kind is RecordKind.SHARE_MEMBER:
            self.members.pop(member_id, None)
            self._unknown_epochs.discard(member_id)
        elif record.kind is RecordKind.SHARE_TARGET:
            self.target.pop(member_id, None)
