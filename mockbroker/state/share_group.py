"""A share group: members, epochs and the target assignment.

A member jumps straight to its target, without revoking anything first: two members may share a partition.
Source: share-semantics 5.1 to 5.5; the timeline of 5.3 is the table to read first.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.assignors_simple import assign_simple
from mockbroker.state.group_facts import (
    EpochFact,
    Fact,
    FactKind,
    Ledger,
    MemberFact,
    Record,
    ShareCurrentFact,
    StatesFact,
    TargetEpochFact,
    TargetFact,
    TopicsFact,
    keep_no_record,
)
from mockbroker.state.group_kinds import (
    Assignment,
    GroupType,
    Settings,
    Topics,
    check_member_epoch,
    digest_of,
    is_due,
    metadata_digest,
    number,
    seen_topics,
)
from mockbroker.state.group_timers import Timers
from mockbroker.state.share_group_init import Initialise, ShareGroupStates
from mockbroker.state.share_rules import RELEASED, ShareRules

#: The only share assignor of Kafka 4.3.
ASSIGNOR_NAME = "simple"


@dataclass(slots=True)
class ShareMember:
    """One member; its assigned partitions are what it was told, its target may be ahead of it.

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


@dataclass(frozen=True, slots=True)
class ShareJoin:
    """What a heartbeat says of its sender. None for rack or topics: as before."""

    member_id: str
    member_epoch: int
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class ShareHeartbeat:
    """What a heartbeat is answered. assignment None: unchanged. initialise: to be sent after the answer."""

    member: ShareMember
    assignment: Assignment | None
    initialise: Initialise | None


class ShareGroup:
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
        record: Record = keep_no_record,
        rules: ShareRules = RELEASED,
    ) -> None:
        self.group_id = group_id
        self.ledger = Ledger(group_id, record)
        self.topics = topics
        self.members: dict[str, ShareMember] = {}
        self.group_epoch = self.assignment_epoch = rules.joining_bumps - 1
        self.assigned_at_ms: int | None = None
        self.target: dict[str, Assignment] = {}
        self.empty_since_ms: int | None = None
        self.states = ShareGroupStates(notes_starts=rules.notes_initialising)
        self._is_reserved = False
        self._returning: set[str] = set()  # Members of a load, at an epoch that only they know.
        self._digest = 0
        self.ledger.presume(FactKind.SHARE_EPOCH, EpochFact(self.group_epoch, self._digest))
        self.ledger.presume(FactKind.SHARE_TOPICS, TopicsFact(()))
        self._timers = timers
        self._rules = rules

    @property
    def state_name(self) -> str:
        """The state as the wire says it."""
        empty, stable, _ = self._rules.state_names
        return stable if self.members else empty

    def is_deletable(self) -> bool:
        """Say whether nobody is in it."""
        return not self.members

    def has_died(self, *, retention_ms: int, now_ms: int) -> bool:
        """Say whether it has been empty for so long, and has no state anywhere, so that nothing is lost with it."""
        if self.members or self.states.topic_ids() or not self._rules.empty_groups_die:
            return False
        if self.empty_since_ms is None:
            self.empty_since_ms = now_ms
        return now_ms - self.empty_since_ms >= retention_ms

    def subscribed_topic_names(self) -> tuple[str, ...]:
        """The topics that any member wants, sorted."""
        return tuple(sorted({name for member in self.members.values() for name in member.subscribed_topic_names}))

    def heartbeat(self, join: ShareJoin, *, settings: Settings, broker: Settings, now_ms: int) -> ShareHeartbeat:
        """Join, or stay; see `leave` for the epoch -1.

        settings: those of the group. broker: those of the broker.
        Raises: GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, in this order.
        """
        size_max = number(broker, "group.share.max.size")
        if len(self.members) >= size_max and join.member_id not in self.members:
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, f"The share group has {size_max} members, and is full.")
        member = self._find_or_make(join)
        self.empty_since_ms = None
        assigned_before = member.assigned
        bumped = self._bump(subscription_changed=self._update(member, join))
        interval_ms = number(settings, "share.assignment.interval.ms") if self._rules.shares_out else 0
        assigned = self._assign(interval_ms=interval_ms, now_ms=now_ms)
        if bumped or member.member_epoch != self.assignment_epoch:
            self._reconcile(member)
        self._restart_session(member.member_id, now_ms + number(settings, "share.session.timeout.ms"))
        names_topics = self._rules.tells_on_subscribing and join.subscribed_topic_names is not None
        full = join.member_epoch == 0 or names_topics
        tell = full or member.assigned != assigned_before
        initialise = self._initialise(broker=broker, now_ms=now_ms) if self._rules.state_first else None
        self._note(member, assigned=assigned)
        self.write(now_ms)
        return ShareHeartbeat(member, member.assigned if tell else None, initialise)

    def leave(self, member_id: str, *, now_ms: int) -> None:
        """Take a member out at its own wish.

        Raises: UNKNOWN_MEMBER_ID.
        """
        self._member(member_id)
        self._remove(member_id, now_ms)

    def _member(self, member_id: str) -> ShareMember:
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}."
            )
        return member

    def _find_or_make(self, join: ShareJoin) -> ShareMember:
        """Find the member, and make it for epoch 0; an existing member may come with epoch 0 again at any time."""
        if join.member_epoch == 0:
            member = self.members.setdefault(join.member_id, ShareMember(join.member_id))
            if self._rules.rejoins_freely:
                return member
        member = self._member(join.member_id)
        if join.member_id in self._returning:
            self._returning.discard(join.member_id)
            member.member_epoch = join.member_epoch
            self.group_epoch = max(self.group_epoch, join.member_epoch)
        check_member_epoch(
            member_epoch=join.member_epoch, current=member.member_epoch, previous=member.previous_member_epoch
        )
        return member

    def _update(self, member: ShareMember, join: ShareJoin) -> bool:
        """Take over what the heartbeat says, and say whether the set of topics is another one."""
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

    def _bump(self, *, subscription_changed: bool) -> bool:
        """Raise the group epoch by one if anything asks for a new assignment; one at most for each heartbeat."""
        self.states.prune(self.topics)
        pending = self.assignment_epoch >= self.group_epoch and self._has_unassigned()
        digest = metadata_digest(self.subscribed_topic_names(), self.topics)
        if not (subscription_changed or pending or digest != self._digest):
            return False
        self.group_epoch += 1
        self._digest = digest
        return True

    def _has_unassigned(self) -> bool:
        """Say whether a subscribed topic has initialised partitions that the target does not cover exactly."""
        assigned: dict[bytes, frozenset[int]] = {}
        for target in self.target.values():
            for topic_id, indexes in target.items():
                assigned[topic_id] = assigned.get(topic_id, frozenset()) | indexes
        subscribed = self._topic_ids(self.subscribed_topic_names())
        return any(
            topic_id in subscribed and assigned.get(topic_id, frozenset()) != indexes
            for topic_id, indexes in self.states.initialized.items()
        )

    def _topic_ids(self, names: tuple[str, ...]) -> frozenset[bytes]:
        return frozenset(topic.topic_id for topic in map(self.topics.topic, names) if topic is not None)

    def _assign(self, *, interval_ms: int, now_ms: int) -> bool:
        """Run the assignor if the target is behind and the last run is long enough ago, and say whether it ran."""
        behind = self.assignment_epoch < self.group_epoch
        if not behind or not is_due(last_ms=self.assigned_at_ms, interval_ms=interval_ms, now_ms=now_ms):
            return False
        subscriptions = {
            member.member_id: self._topic_ids(member.subscribed_topic_names) for member in self.members.values()
        }
        if self._rules.shares_out:
            self.target = assign_simple(subscriptions, self._assignable(), self.target)
        else:
            self.target = {
                member_id: {topic_id: self._assignable()[topic_id] for topic_id in topic_ids}
                for member_id, topic_ids in subscriptions.items()
            }
        self.assignment_epoch = self.group_epoch
        self.assigned_at_ms = now_ms
        return True

    def _assignable(self) -> Assignment:
        if self._rules.state_first:
            return self.states.initialized
        topics = [topic for topic in map(self.topics.topic, self.subscribed_topic_names()) if topic is not None]
        return {topic.topic_id: frozenset(range(len(topic.partitions))) for topic in topics}

    def _reconcile(self, member: ShareMember) -> None:
        """Move a member to its target, less the topics that it does not want."""
        wanted = self._topic_ids(member.subscribed_topic_names)
        target = self.target.get(member.member_id, {})
        member.assigned = {topic_id: indexes for topic_id, indexes in target.items() if topic_id in wanted}
        if member.member_epoch != self.assignment_epoch:
            member.previous_member_epoch = member.member_epoch
            member.member_epoch = self.assignment_epoch

    def _initialise(self, *, broker: Settings, now_ms: int) -> Initialise | None:
        # Kafka waits at least as long as a write to the coordinator's log may take.
        retry_ms = max(
            number(broker, "group.share.initialize.retry.interval.ms"), number(broker, "offsets.commit.timeout.ms")
        )
        missing = self.states.missing(self.subscribed_topic_names(), self.topics, retry_ms=retry_ms, now_ms=now_ms)
        if not missing:
            return None
        self.states.start(missing, now_ms=now_ms)
        return Initialise(self.group_id, self.group_epoch, missing)

    def bump(self, *, now_ms: int) -> None:
        """Raise the group epoch, so that what is initialised from now on belongs to another one."""
        self.group_epoch += 1
        self._note_epoch()
        self.write(now_ms)

    def resume(self, *, settings: Settings, now_ms: int) -> None:
        """Go on after a load: every member's session begins anew."""
        self.empty_since_ms = None if self.members else now_ms
        for member_id in self.members:
            self._restart_session(member_id, now_ms + number(settings, "share.session.timeout.ms"))

    def _restart_session(self, member_id: str, deadline_ms: int) -> None:
        self._timers.set(
            ("session", self.group_id, member_id), deadline_ms, lambda now_ms: self._remove(member_id, now_ms)
        )

    def _remove(self, member_id: str, now_ms: int) -> None:
        """Forget a member that left or fell silent; the others get its partitions at a later heartbeat."""
        del self.members[member_id]
        self._returning.discard(member_id)
        self.empty_since_ms = None if self.members else now_ms
        self.target.pop(member_id, None)
        self._timers.cancel(("session", self.group_id, member_id))
        self.group_epoch += 1
        self._digest = metadata_digest(self.subscribed_topic_names(), self.topics)
        for kind in (FactKind.SHARE_CURRENT, FactKind.SHARE_TARGET, FactKind.SHARE_MEMBER):
            self.ledger.strike(kind, member_id)
        self._note_epoch()
        self.write(now_ms)

    def _note_epoch(self) -> None:
        if self._rules.lists_topics:
            self.ledger.note(FactKind.SHARE_TOPICS, seen_topics(self.subscribed_topic_names(), self.topics))
        if self._rules.writes_each_epoch or not self._is_reserved:
            self._is_reserved = True
            self.ledger.note(FactKind.SHARE_EPOCH, EpochFact(self.group_epoch, self._digest))

    def _note(self, member: ShareMember, *, assigned: bool) -> None:
        """Note what a heartbeat may have changed, in Kafka's order."""
        note = self.ledger.note
        says = MemberFact(member.rack_id, member.client_id, member.client_host, member.subscribed_topic_names)
        note(FactKind.SHARE_MEMBER, says, member.member_id)
        self._note_epoch()
        if assigned:
            for member_id, target in self.target.items():
                note(FactKind.SHARE_TARGET, TargetFact(target), member_id)
            note(FactKind.SHARE_TARGET_EPOCH, TargetEpochFact(self.assignment_epoch, self.assigned_at_ms or 0))
        has = ShareCurrentFact(member.member_epoch, member.previous_member_epoch, member.assigned)
        note(FactKind.SHARE_CURRENT, has, member.member_id)

    def write(self, now_ms: int) -> None:
        """Have everything written that has changed, the lists of share-partitions included."""
        if self.states.is_changed:
            self.ledger.put(FactKind.SHARE_STATES, self.states.written(now_ms, self.group_epoch))
        self.ledger.write(now_ms)

    def replay(self, fact: Fact, *, now_ms: int) -> None:
        """Take over a fact from the log."""
        self.ledger.replay(fact)
        value, member_id = fact.value, fact.name
        if isinstance(value, EpochFact):
            self.group_epoch = max(self.group_epoch, value.epoch)
            self._digest = self._digest if self._rules.lists_topics else value.digest
            self._is_reserved = True
        elif isinstance(value, TopicsFact):
            self._digest = digest_of(value, self.topics)
        elif isinstance(value, TargetEpochFact):
            self.assignment_epoch, self.assigned_at_ms = value
        elif isinstance(value, TargetFact):
            self.target[member_id] = dict(value.partitions)
        elif isinstance(value, MemberFact):
            member = self.members.setdefault(member_id, ShareMember(member_id))
            member.rack_id, member.client_id, member.client_host, member.subscribed_topic_names = value[:4]
            if not self._rules.keeps_assignments:
                self._returning.add(member_id)
        elif isinstance(value, ShareCurrentFact):
            member = self.members.setdefault(member_id, ShareMember(member_id))
            member.member_epoch, member.previous_member_epoch = value[:2]
            member.assigned = dict(value.assigned)
        elif isinstance(value, StatesFact) or fact.kind is FactKind.SHARE_STATES:
            states = value if isinstance(value, StatesFact) else None
            self.group_epoch = max(self.group_epoch, states.epoch if states is not None else 0)
            self.states.replay(states, now_ms=now_ms)
        elif fact.kind is FactKind.SHARE_MEMBER:
            self.members.pop(member_id, None)
            self._returning.discard(member_id)
        elif fact.kind is FactKind.SHARE_TARGET:
            self.target.pop(member_id, None)
