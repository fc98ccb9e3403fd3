"""A consumer group of the new protocol (KIP-848): the broker assigns, members reconcile one by one.

Source: KIP-848; pinned by the conversations other-consumer-*. The first join makes the epochs 2, as in share groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.assignors_consumer import ASSIGNORS, Wish
from mockbroker.state.consumer_facts import ConsumerFacts
from mockbroker.state.consumer_members import (
    LEFT_FOR_A_WHILE,
    ConsumerHeartbeat,
    ConsumerMember,
    MemberState,
    Target,
    TopicPartition,
    flat,
    reconcile,
)
from mockbroker.state.consumer_regex import compiled, matching
from mockbroker.state.group_facts import ClassicSide, Record, keep_no_record
from mockbroker.state.group_kinds import GroupType, Settings, Topics, is_due, metadata_digest, number
from mockbroker.state.group_timers import Timers

#: Expressions are resolved again at most this often. Source: GroupMetadataManager.
_REGEX_PAUSE_MS = 10_000


@dataclass(frozen=True, slots=True)
class ConsumerJoin:
    """What a heartbeat says of its sender. None (or -1 for the timeout): as before. classic: of a JoinGroup."""

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
    owned: frozenset[TopicPartition] | None
    classic: ClassicSide | None = None

    @property
    def is_full(self) -> bool:
        """Say whether it tells everything, as after an error: then it is answered with everything."""
        subscribed = self.subscribed_topic_names is not None or self.subscribed_topic_regex is not None
        return self.member_epoch == 0 or (self.rebalance_timeout_ms != -1 and subscribed and self.owned is not None)


class ConsumerGroup(ConsumerFacts):
    """One consumer group on its coordinator."""

    kind: ClassVar[GroupType] = GroupType.CONSUMER
    protocol_type = "consumer"

    def __init__(self, group_id: str, topics: Topics, timers: Timers, record: Record = keep_no_record) -> None:
        super().__init__(group_id, record)
        self.topics = topics
        self._resolving = False
        self._timers = timers

    @property
    def state_name(self) -> str:
        """The state as the wire says it."""
        if not self.members:
            return "Empty"
        if self.group_epoch > self.assignment_epoch:
            return "Assigning"
        if all(member.is_at(self.assignment_epoch) for member in self.members.values()):
            return "Stable"
        return "Reconciling"

    def is_deletable(self) -> bool:
        """Say whether nobody is in it."""
        return not self.members

    def subscribed_topic_names(self) -> tuple[str, ...]:
        """The topics that any member wants by name or by expression, sorted."""
        return tuple(sorted({name for member in self.members.values() for name in self._names(member)}))

    def _names(self, member: ConsumerMember) -> frozenset[str]:
        return self.resolved.get(member.subscribed_topic_regex, frozenset()).union(member.subscribed_topic_names)

    def _topic_ids(self, member: ConsumerMember) -> frozenset[bytes]:
        found = map(self.topics.topic, self._names(member))
        return frozenset(topic.topic_id for topic in found if topic is not None)

    def assignor_name(self, default: str) -> str:
        """The assignor that most members ask for; the broker's first one when nobody does."""
        votes = Counter(member.server_assignor for member in self.members.values() if member.server_assignor)
        return max(votes, key=votes.__getitem__) if votes else default

    def heartbeat(
        self, join: ConsumerJoin, *, settings: Settings, broker: Settings, default_assignor: str, now_ms: int
    ) -> ConsumerHeartbeat:
        """Join, or stay; see `leave` for the epochs below 0.

        Raises: GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, UNRELEASED_INSTANCE_ID, FENCED_INSTANCE_ID,
        FENCED_MEMBER_EPOCH, INVALID_REGULAR_EXPRESSION.
        """
        size_max = number(broker, "group.consumer.max.size")
        if len(self.members) >= size_max and join.member_id not in self.members:
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, f"The group has {size_max} members, and is full.")
        heartbeat = self._step(
            self._admit(join), join, settings=settings, broker=broker, default_assignor=default_assignor, now_ms=now_ms
        )
        self.ledger.write(now_ms)
        return heartbeat

    def _step(
        self,
        member: ConsumerMember,
        join: ConsumerJoin,
        *,
        settings: Settings,
        broker: Settings,
        default_assignor: str,
        now_ms: int,
    ) -> ConsumerHeartbeat:
        """Take over what a member says, assign if it is time, and bring the member nearer to its target."""
        before = member.assigned, member.revoking
        names_changed, regex_changed = self._update(member, join)
        regex = member.subscribed_topic_regex
        resolved = regex_changed and (not regex or regex in self.resolved)
        resolve = self._needs_resolving(number(broker, "group.consumer.regex.refresh.interval.ms"), now_ms)
        self._bump(subscription_changed=names_changed or resolved)
        interval_ms = number(settings, "consumer.assignment.interval.ms")
        assigned = self._assign(default_assignor, interval_ms=interval_ms, now_ms=now_ms)
        self._reconcile(member, join.owned, subscription_changed=names_changed or regex_changed)
        self._set_timers(member, before[1], number(settings, "consumer.session.timeout.ms"), now_ms)
        self._note(member, assigned=assigned)
        tell = join.is_full or member.assigned != before[0]
        return ConsumerHeartbeat(member, frozenset(member.assigned) if tell else None, resolve)

    def _admit(self, join: ConsumerJoin) -> ConsumerMember:
        """Find the member, or make it for epoch 0, once everything about the heartbeat is known to be right."""
        if join.instance_id is not None:
            member = self._admit_static(join, join.instance_id)
        elif join.member_epoch == 0:
            member = self.members.get(join.member_id) or ConsumerMember(join.member_id)
        else:
            member = self.member(join.member_id)
        if join.member_epoch > 0:
            self._check_epoch(member, join)
        if join.subscribed_topic_regex:
            compiled(join.subscribed_topic_regex)
        if member.member_id != join.member_id:
            self._replace(member, join.member_id)
        self.members[join.member_id] = member
        if join.instance_id is not None:
            self.static[join.instance_id] = join.member_id
        return member

    def _admit_static(self, join: ConsumerJoin, instance_id: str) -> ConsumerMember:
        """A static member keeps its place under a new id, if its former self has left for a while."""
        known = self.static.get(instance_id)
        if join.member_epoch != 0:
            return self.static_member(instance_id, join.member_id)
        if known is None:
            return self.members.get(join.member_id) or ConsumerMember(join.member_id)
        member = self.members[known]
        if member.member_epoch != LEFT_FOR_A_WHILE:
            raise KafkaError(
                ErrorCode.UNRELEASED_INSTANCE_ID,
                f"Member {join.member_id} cannot be instance {instance_id}, which is member {known}.",
            )
        return member

    def _replace(self, member: ConsumerMember, new_id: str) -> None:
        """Move a static member's place, target and all, to its new id."""
        old_id = member.member_id
        del self.members[old_id]
        self._cancel_timers(old_id)
        self.target[new_id] = self.target.pop(old_id, {})
        member.member_id = new_id
        member.member_epoch = member.previous_member_epoch = 0
        self._note_replacement(old_id, member)

    def member(self, member_id: str) -> ConsumerMember:
        """Find a member.

        Raises: UNKNOWN_MEMBER_ID.
        """
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} is not a member of group {self.group_id}."
            )
        return member

    def static_member(self, instance_id: str, member_id: str) -> ConsumerMember:
        """Find a static member by both of its ids.

        Raises: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
        """
        known = self.static.get(instance_id)
        if known is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
        if known != member_id:
            raise KafkaError(
                ErrorCode.FENCED_INSTANCE_ID, f"Instance {instance_id} is member {known} now, and not {member_id}."
            )
        return self.members[known]

    @staticmethod
    def _check_epoch(member: ConsumerMember, join: ConsumerJoin) -> None:
        """Let pass the epoch in force, or the one before if the member has nothing that it should not have."""
        if join.member_epoch == member.member_epoch:
            return
        lost_answer = join.member_epoch == member.previous_member_epoch and join.member_epoch < member.member_epoch
        if not lost_answer or join.owned is None or not join.owned <= member.assigned.keys():
            raise KafkaError(
                ErrorCode.FENCED_MEMBER_EPOCH,
                f"The member epoch is {member.member_epoch}, not {join.member_epoch}. "
                "The member has to give up its partitions and join anew.",
            )

    @staticmethod
    def _update(member: ConsumerMember, join: ConsumerJoin) -> tuple[bool, bool]:
        """Take over what the heartbeat says, and say whether names and expression are others now."""
        member.client_id, member.client_host, member.classic = join.client_id, join.client_host, join.classic
        member.instance_id = join.instance_id if join.instance_id is not None else member.instance_id
        member.rack_id = join.rack_id if join.rack_id is not None else member.rack_id
        member.server_assignor = join.server_assignor if join.server_assignor is not None else member.server_assignor
        if join.rebalance_timeout_ms != -1:
            member.rebalance_timeout_ms = join.rebalance_timeout_ms
        before = member.subscribed_topic_names, member.subscribed_topic_regex
        if join.subscribed_topic_names is not None:
            member.subscribed_topic_names = tuple(sorted(set(join.subscribed_topic_names)))
        if join.subscribed_topic_regex is not None:
            member.subscribed_topic_regex = join.subscribed_topic_regex
        return before[0] != member.subscribed_topic_names, before[1] != member.subscribed_topic_regex

    def _regexes(self) -> set[str]:
        return {member.subscribed_topic_regex for member in self.members.values()} - {""}

    def _needs_resolving(self, refresh_ms: int, now_ms: int) -> bool:
        """Say whether expressions should be resolved now, and remember that they will be."""
        regexes = self._regexes()
        self._keep_resolved(regexes)
        last = self._resolved_at_ms
        if not regexes or self._resolving or (last is not None and now_ms <= last + _REGEX_PAUSE_MS):
            return False
        outdated = last is None or now_ms > last + refresh_ms
        self._resolving = outdated or len(self.resolved) != len(regexes) or self._resolved_version < self.topics.version
        return self._resolving

    def resolve(self, *, now_ms: int, is_shown: Callable[[str], bool] | None = None) -> None:
        """Look up which topics the members' expressions match; members hear of it by a later heartbeat.

        is_shown: whether whoever asked may know of a topic of this name; without it all are known.
        """
        self._resolving = False
        self._resolved_at_ms = now_ms
        self._resolved_version = self.topics.version
        names = [topic.name for topic in self.topics.topics() if is_shown is None or is_shown(topic.name)]
        before = self.resolved
        self.resolved = {regex: matching(regex, names) for regex in self._regexes()}
        self._note_resolved(now_ms)
        if any(found != before.get(regex, frozenset()) for regex, found in self.resolved.items()):
            self._bump(subscription_changed=True)
            self._note_epoch()
        self.ledger.write(now_ms)

    def _bump(self, *, subscription_changed: bool) -> None:
        """Raise the group epoch by one if anything asks for a new assignment."""
        digest = metadata_digest(self.subscribed_topic_names(), self.topics)
        if subscription_changed or digest != self._digest:
            self.group_epoch += 1
            self._digest = digest

    def _assign(self, default_assignor: str, *, interval_ms: int, now_ms: int) -> bool:
        """Run the assignor if the target is behind and the last run is long enough ago, and say whether it ran."""
        behind = self.assignment_epoch < self.group_epoch
        if not behind or not is_due(last_ms=self.assigned_at_ms, interval_ms=interval_ms, now_ms=now_ms):
            return False
        wishes = {
            member_id: Wish(self._topic_ids(member), self.target.get(member_id, {}), member.instance_id)
            for member_id, member in self.members.items()
        }
        found = map(self.topics.topic, self.subscribed_topic_names())
        counts = {topic.topic_id: len(topic.partitions) for topic in found if topic is not None}
        self.target = ASSIGNORS[self.assignor_name(default_assignor)](wishes, counts)
        self.assignment_epoch = self.group_epoch
        self.assigned_at_ms = now_ms
        return True

    def _reconcile(
        self, member: ConsumerMember, owned: frozenset[TopicPartition] | None, *, subscription_changed: bool
    ) -> None:
        others = (other for other in self.members.values() if other is not member)
        taken = {partition for other in others for partition in (*other.assigned, *other.revoking)}
        target = Target(
            self.assignment_epoch,
            flat(self.target.get(member.member_id, {})),
            self._topic_ids(member),
            taken,
            owned,
        )
        reconcile(member, target, subscription_changed=subscription_changed)

    def _set_timers(
        self, member: ConsumerMember, revoking_before: dict[TopicPartition, int], session_ms: int, now_ms: int
    ) -> None:
        """Restart the session; a member that has to give partitions up has its rebalance timeout for it."""
        member_id = member.member_id
        self._timers.set(
            ("session", self.group_id, member_id), now_ms + session_ms, lambda at_ms: self._remove(member_id, at_ms)
        )
        key = ("rebalance", self.group_id, member_id)
        if member.state is not MemberState.UNREVOKED:
            self._timers.cancel(key)
        elif member.revoking != revoking_before or not self._timers.is_set(key):
            self._timers.set(key, now_ms + member.rebalance_timeout_ms, lambda at_ms: self._remove(member_id, at_ms))

    def resume(self, *, settings: Settings, now_ms: int) -> None:
        """Go on after a load: sessions, and the time to give partitions up, begin anew."""
        session_ms = number(settings, "consumer.session.timeout.ms")
        for member in self.members.values():
            self._set_timers(member, member.revoking, session_ms, now_ms)

    def _cancel_timers(self, member_id: str) -> None:
        for kind in ("session", "rebalance"):
            self._timers.cancel((kind, self.group_id, member_id))

    def leave(self, member_id: str, instance_id: str | None, member_epoch: int, *, now_ms: int) -> None:
        """Take a member out at its own wish; with the epoch -2 a static one keeps its place until its session ends.

        Raises: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
        """
        if instance_id is None:
            self.member(member_id)
        else:
            member = self.static_member(instance_id, member_id)
            if member_epoch == LEFT_FOR_A_WHILE:
                member.member_epoch = LEFT_FOR_A_WHILE
                member.revoking = {}
                member.assigned = dict.fromkeys(member.assigned, 0)
                self._note_current(member)
                self.ledger.write(now_ms)
                return
        self._remove(member_id, now_ms)

    def _remove(self, member_id: str, now_ms: int) -> None:
        self._fence([member_id], now_ms)

    def _fence(self, member_ids: Sequence[str], now_ms: int) -> None:
        """Forget members that left, fell silent or were too slow; a later heartbeat gives others what they had."""
        for member_id in member_ids:
            member = self.members.pop(member_id)
            if member.instance_id is not None:
                self.static.pop(member.instance_id, None)
            self.target.pop(member_id, None)
            self._cancel_timers(member_id)
            self._strike(member_id)
        self.group_epoch += 1
        self._digest = metadata_digest(self.subscribed_topic_names(), self.topics)
        self._keep_resolved(self._regexes())
        self._note_epoch()
        self.ledger.write(now_ms)

    def check_commit(self, member_id: str, member_epoch: int, partition: TopicPartition, *, api_version: int) -> None:
        """Let a member commit what it has; an offset of a partition that it had in an older epoch is stale.

        Raises: UNKNOWN_MEMBER_ID, UNSUPPORTED_VERSION, STALE_MEMBER_EPOCH.
        """
        if member_epoch < 0 and not self.members:
            return
        member = self.member(member_id)
        if api_version < 9:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, "members of this protocol need OffsetCommit version 9")
        if member_epoch == member.member_epoch:
            return
        assigned_in = member.assigned.get(partition, member.revoking.get(partition))
        if member_epoch > member.member_epoch or assigned_in is None or member_epoch < assigned_in:
            raise KafkaError(
                ErrorCode.STALE_MEMBER_EPOCH, f"epoch {member_epoch}; the member is in {member.member_epoch}"
            )

    def check_member(self, member_id: str, member_epoch: int) -> None:
        """Let a member of the epoch in force read offsets.

        Raises: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH.
        """
        member = self.member(member_id)
        if member_epoch != member.member_epoch:
            raise KafkaError(
                ErrorCode.STALE_MEMBER_EPOCH, f"epoch {member_epoch}; the member is in {member.member_epoch}"
            )
