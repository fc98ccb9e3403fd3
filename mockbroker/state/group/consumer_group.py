"""Consumer groups of the new protocol (KIP-848): the broker assigns, members reconcile one by one.

Source: KIP-848; pinned by the conversations other-consumer-*. The first join sets the epochs to 2, as in share groups.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.group.consumer_assignors import ASSIGNORS, AssignmentRequest
from mockbroker.state.group.consumer_members import (
    LEAVE_GROUP_STATIC_MEMBER_EPOCH,
    ConsumerHeartbeat,
    ConsumerJoin,
    ConsumerMember,
    MemberState,
    MemberTarget,
    flatten_assignment,
    reconcile_member,
)
from mockbroker.state.group.consumer_records import ConsumerRecords
from mockbroker.state.group.consumer_regex import compile_regex, match_names
from mockbroker.state.group.coordinator_records import GroupRecords, PartitionEpochs, RecordKind
from mockbroker.state.group.group import (
    Assignment,
    GroupType,
    existing_topics,
    is_assignment_due,
    metadata_digest,
    topic_ids_of,
)
from mockbroker.state.java.hash_order import JavaSet, timeline_order
from mockbroker.state.metadata.topics import TopicPartitionKey, java_hash
from mockbroker.state.settings import Settings, read_int

#: Expressions are resolved again at most this often. Source: GroupMetadataManager.
_REGEX_PAUSE_MS = 10_000


class ConsumerGroup(ConsumerRecords):
    """One consumer group on its coordinator."""

    kind: ClassVar[GroupType] = GroupType.CONSUMER
    protocol_type = "consumer"

    def subscribed_topic_names(self) -> tuple[str, ...]:
        """The topics that members subscribe to by name or by expression, sorted."""
        return tuple(sorted({name for member in self.members.values() for name in self._subscribed_names(member)}))

    def _subscribed_names(self, member: ConsumerMember) -> frozenset[str]:
        return self.resolved.get(member.subscribed_topic_regex, frozenset()).union(member.subscribed_topic_names)

    def _subscribed_topic_ids(self, member: ConsumerMember) -> frozenset[bytes]:
        return topic_ids_of(self._subscribed_names(member), self.topics)

    def assignor_name(self, default: str) -> str:
        """The assignor that most members request, of two the first in the table; without requests the broker's."""
        return _most_requested(self._assignor_votes()) or default

    def _assignor_votes(self) -> dict[str, int]:
        """The number of members that request each assignor, in the order of Kafka's map."""
        votes = Counter(member.server_assignor for member in self.members.values() if member.server_assignor)
        return {name: votes[name] for name in ASSIGNORS if name in votes}

    @staticmethod
    def _elect_assignor(votes: dict[str, int], former: str | None, member: ConsumerMember) -> str | None:
        """The assignor of the next target: of two with equal votes the one that only the updated member requests.

        votes: before this heartbeat. former: the assignor that the member requested before it.
        Source: Kafka's ConsumerGroup.computePreferredServerAssignor, and the conversation other-consumer-assignor-ties.
        """
        others = {name: count - (name == former) for name, count in votes.items()}
        others = {name: count for name, count in others.items() if count}
        name = member.server_assignor
        if not name:
            return _most_requested(others)
        # Kafka's map has a new name before the others.
        return _most_requested({name: 1} | others if name not in others else others | {name: others[name] + 1})

    def heartbeat(
        self, join: ConsumerJoin, *, settings: Settings, broker: Settings, default_assignor: str, now_ms: int
    ) -> ConsumerHeartbeat:
        """Join the group or extend the session; see `leave` for the epochs below 0.

        Raises: GROUP_MAX_SIZE_REACHED, UNKNOWN_MEMBER_ID, UNRELEASED_INSTANCE_ID, FENCED_INSTANCE_ID,
        FENCED_MEMBER_EPOCH, INVALID_REGULAR_EXPRESSION.
        """
        self._check_size(join.member_id, join.instance_id, broker)
        heartbeat = self._apply_heartbeat(join, settings, broker, default_assignor, now_ms)
        self.records.flush(now_ms)
        return heartbeat

    def _apply_heartbeat(
        self, join: ConsumerJoin, settings: Settings, broker: Settings, default_assignor: str, now_ms: int
    ) -> ConsumerHeartbeat:
        """Find and update the member, compute a new target if it is due, and reconcile the member."""
        is_new_instance = join.instance_id is not None and join.instance_id not in self.static_members
        member = self._find_or_add_member(join)
        before = member.assigned, member.revoking
        votes, former_assignor = self._assignor_votes(), member.server_assignor
        names_changed, regex_changed = self._update_member(member, join)
        regex = member.subscribed_topic_regex
        is_resolved = regex_changed and (not regex or regex in self.resolved)
        refresh_ms = read_int(broker, "group.consumer.regex.refresh.interval.ms")
        needs_resolution = self._should_resolve_regexes(refresh_ms, now_ms)
        elected = self._elect_assignor(votes, former_assignor, member) or default_assignor
        is_other_assignor = elected != (_most_requested(votes) or default_assignor)
        is_changed = (
            names_changed or is_resolved or (is_other_assignor and self._coordinator_rules.assignor_change_bumps_epoch)
        )
        if is_changed or self._has_seen_change():
            self._bump_group_epoch(subscription_changed=is_changed)
        interval_ms = read_int(settings, "consumer.assignment.interval.ms")
        assigned = self._compute_target(elected, interval_ms=interval_ms, now_ms=now_ms)
        # Kafka looks up the former target by instance id; pinned by other-consumer-dynamic-becomes-static.
        target = {} if is_new_instance and not assigned else self.target.get(member.member_id, {})
        self._reconcile_member(member, join, target, subscription_changed=names_changed or regex_changed)
        self._set_timers(member, before[1], read_int(settings, "consumer.session.timeout.ms"), now_ms)
        self._record_heartbeat(member, assigned=assigned)
        self._watch_topics()
        includes_assignment = join.is_full or member.assigned != before[0]
        return ConsumerHeartbeat(member, frozenset(member.assigned) if includes_assignment else None, needs_resolution)

    def _check_size(self, member_id: str, instance_id: str | None, broker: Settings) -> None:
        """Raises: GROUP_MAX_SIZE_REACHED."""
        size_max = read_int(broker, "group.consumer.max.size")
        is_known = instance_id in self.static_members and self._coordinator_rules.readmits_known_instances
        if len(self.members) >= size_max and member_id not in self.members and not is_known:
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, f"The group is full: it has {size_max} members.")

    def _find_or_add_member(self, join: ConsumerJoin) -> ConsumerMember:
        """Find the member, or create it for epoch 0, after the whole heartbeat is validated."""
        if join.instance_id is not None:
            member = self._find_or_add_static_member(join, join.instance_id)
        elif join.member_epoch == 0:
            member = self.members.get(join.member_id) or ConsumerMember(join.member_id)
        else:
            member = self.find_member(join.member_id)
        if join.member_epoch > 0:
            self._check_epoch(member, join)
        if join.subscribed_topic_regex:
            compile_regex(join.subscribed_topic_regex)
        if member.member_id != join.member_id:
            self._replace_member_id(member, join.member_id)
        self.members[join.member_id] = member
        if join.instance_id is not None:
            self._map_instance(member, join.instance_id)
        return member

    def _find_or_add_static_member(self, join: ConsumerJoin, instance_id: str) -> ConsumerMember:
        """A static member gets its former assignment under a new id, if it has left temporarily."""
        known_id = self.static_members.get(instance_id)
        if join.member_epoch != 0:
            return self.find_static_member(instance_id, join.member_id)
        if known_id is None:
            return self.members.get(join.member_id) or ConsumerMember(join.member_id)
        member = self.find_member(known_id)
        if member.member_epoch != LEAVE_GROUP_STATIC_MEMBER_EPOCH:
            message = f"Member {join.member_id} cannot be instance {instance_id}, which is member {known_id}."
            raise KafkaError(ErrorCode.UNRELEASED_INSTANCE_ID, message)
        return member

    def _replace_member_id(self, member: ConsumerMember, new_id: str) -> None:
        """Move a static member with its target to its new id."""
        old_id = member.member_id
        del self.members[old_id]
        self._cancel_timers(old_id)
        self.target[new_id] = self.target.pop(old_id, {})
        member.member_id = new_id
        member.member_epoch = member.previous_member_epoch = 0
        self._record_replacement(old_id, member)

    def find_static_member(self, instance_id: str, member_id: str) -> ConsumerMember:
        """Return a static member by both of its ids. Raises: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID."""
        known_id = self.static_members.get(instance_id)
        if known_id is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
        member = self.find_member(known_id)  # It may have left with another instance id.
        if known_id != member_id:
            message = f"Instance {instance_id} is member {known_id} now, and not {member_id}."
            raise KafkaError(ErrorCode.FENCED_INSTANCE_ID, message)
        return member

    @staticmethod
    def _check_epoch(member: ConsumerMember, join: ConsumerJoin) -> None:
        """Accept the present epoch, or the previous one if the member owns nothing unassigned."""
        if join.member_epoch == member.member_epoch:
            return
        lost_answer = join.member_epoch == member.previous_member_epoch and join.member_epoch < member.member_epoch
        if not lost_answer or not join.owns_only(member.assigned.keys()):
            text = f"The member epoch is {member.member_epoch}, not {join.member_epoch}."
            text += " The member has to revoke its partitions and rejoin."
            raise KafkaError(ErrorCode.FENCED_MEMBER_EPOCH, text)

    @staticmethod
    def _update_member(member: ConsumerMember, join: ConsumerJoin) -> tuple[bool, bool]:
        """Update the member, and return whether names and expression have changed."""
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

    def _subscribed_regexes(self) -> set[str]:
        return {member.subscribed_topic_regex for member in self.members.values()} - {""}

    def _should_resolve_regexes(self, refresh_ms: int, now_ms: int) -> bool:
        """Return whether expressions have to be resolved now, and mark that as in progress."""
        regexes = self._subscribed_regexes()
        # Kafka removes expressions with the records of this heartbeat, and decides before that.
        last, version, resolved = self._resolved_at_ms, self._resolved_version, set(self.resolved)
        self._drop_unused_regexes(regexes)
        if not regexes or self._resolving or (last is not None and now_ms <= last + _REGEX_PAUSE_MS):
            return False
        outdated = last is None or now_ms > last + refresh_ms
        if outdated or resolved != regexes or version < self.topics.created_version:
            self._resolving = frozenset(regexes)
        return bool(self._resolving)

    def resolve_regexes(self, *, now_ms: int, is_shown: Callable[[str], bool] | None = None) -> None:
        """Resolve the members' expressions to topics; members get new topics with a later heartbeat.

        is_shown: whether the client may describe a topic; without it all topics are visible.
        """
        regexes, self._resolving = self._resolving & self._subscribed_regexes(), frozenset()
        names = [topic.name for topic in self.topics.topics() if is_shown is None or is_shown(topic.name)]
        before = self.resolved
        self.resolved = {regex: match_names(regex, names) for regex in sorted(regexes)}
        if self.resolved:
            self._resolved_at_ms, self._resolved_version = now_ms, self.topics.version
        self._record_regexes(now_ms)
        has_changed = any(topics != before.get(regex, frozenset()) for regex, topics in self.resolved.items())
        self._bump_group_epoch(subscription_changed=has_changed)
        self._watch_topics()
        self._record_epoch()
        self.records.flush(now_ms)

    def _watch_topics(self) -> None:
        """Store the metadata of the subscribed topics, of which the next heartbeat detects changes."""
        names = self.subscribed_topic_names()
        self._watched = names, metadata_digest(names, self.topics), self.topics.version

    def _has_seen_change(self) -> bool:
        """Return whether a subscribed topic was created, deleted or extended since the last operation.

        Topics of an expression that lost its last subscriber do not count. Source: the conversation
        other-consumer-regex-resubscribed.
        """
        if self._watched is None:
            return True
        names, digest, version = self._watched
        return version != self.topics.version and digest != metadata_digest(names, self.topics)

    def _bump_group_epoch(self, *, subscription_changed: bool) -> None:
        """Increment the group epoch if subscriptions or the metadata of subscribed topics have changed."""
        digest = metadata_digest(self.subscribed_topic_names(), self.topics)
        if subscription_changed or digest != self._digest:
            self.group_epoch += 1
            self._digest = digest

    def _is_homogeneous(self) -> bool:
        """Return whether all members subscribe to the same names, or to the same expression and no names.

        Names of missing topics count. Source: Kafka's ConsumerGroup.subscriptionType.
        """
        members = self.members.values()
        regexes = {member.subscribed_topic_regex for member in members}
        if regexes == {""}:
            return len({member.subscribed_topic_names for member in members}) == 1
        return len(regexes) == 1 and not any(member.subscribed_topic_names for member in members)

    def _compute_target(self, assignor: str, *, interval_ms: int, now_ms: int) -> bool:
        """Run the assignor if the target is outdated and the interval has passed; returns whether it ran."""
        behind = self.assignment_epoch < self.group_epoch
        if not behind or not is_assignment_due(last_ms=self.assigned_at_ms, interval_ms=interval_ms, now_ms=now_ms):
            return False
        requests = {}
        for member_id in timeline_order(self.members, java_hash, most=len(self.members)):
            member = self.members[member_id]
            topic_ids = self._subscribed_topic_ids(member)
            requests[member_id] = AssignmentRequest(topic_ids, self.target.get(member_id, {}), member.instance_id)
        topics = existing_topics(JavaSet(java_hash, self.subscribed_topic_names()), self.topics)
        counts = {topic.topic_id: len(topic.partitions) for topic in topics}
        self.target = ASSIGNORS[assignor](requests, counts, self._is_homogeneous())
        self.assignment_epoch = self.group_epoch
        self.assigned_at_ms = now_ms
        return True

    def _reconcile_member(
        self, member: ConsumerMember, join: ConsumerJoin, assignment: Assignment, *, subscription_changed: bool
    ) -> None:
        others = (other for other in self.members.values() if other is not member)
        taken = {partition for other in others for partition in (*other.assigned, *other.revoking)}
        partitions = flatten_assignment(assignment)
        topic_ids = self._subscribed_topic_ids(member)
        target = MemberTarget(self.assignment_epoch, partitions, topic_ids, taken, join.owned)
        reconcile_member(member, target, subscription_changed=subscription_changed)

    def _set_timers(self, member: ConsumerMember, before: PartitionEpochs, session_ms: int, now_ms: int) -> None:
        """Restart the session timer; a member with partitions to revoke has its rebalance timeout for that.

        before: the partitions that it had to revoke until now.
        """
        member_id = member.member_id
        self._remove_at("session", member_id, now_ms + session_ms)
        key = ("rebalance", self.group_id, member_id)
        if member.state is not MemberState.UNREVOKED:
            self._timers.cancel_timer(key)
        elif member.revoking != before or not self._timers.has_timer(key):
            self._remove_at("rebalance", member_id, now_ms + member.rebalance_timeout_ms)

    def start_from_group(self, epoch: int, former: GroupRecords) -> None:
        """Continue from the last generation of a classic group: tombstones of it and the new records are written."""
        self.records.add_tombstones_of(former, RecordKind.CLASSIC_GROUP)
        self.group_epoch = self.assignment_epoch = epoch
        self.assigned_at_ms = 0
        self._digest = metadata_digest(self.subscribed_topic_names(), self.topics)
        for member in self.members.values():
            self._record_member(member)
        self._record_epoch()
        self._record_targets()
        for member in self.members.values():
            self._record_current(member)

    def resume(self, *, settings: Settings, now_ms: int) -> None:
        """Continue after loading: session and rebalance timeouts start again."""
        session_ms = read_int(settings, "consumer.session.timeout.ms")
        for member in self.members.values():
            self._set_timers(member, member.revoking, session_ms, now_ms)

    def leave(self, member_id: str, instance_id: str | None, member_epoch: int, *, now_ms: int) -> None:
        """Remove a member on request; with the epoch -2 a static one keeps its assignment until its session ends.

        Raises: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
        """
        if instance_id is None:
            self.find_member(member_id)
        else:
            member = self.find_static_member(instance_id, member_id)
            if member_epoch == LEAVE_GROUP_STATIC_MEMBER_EPOCH:
                member.member_epoch = LEAVE_GROUP_STATIC_MEMBER_EPOCH
                member.revoking = {}
                member.assigned = dict.fromkeys(member.assigned, 0)
                self._record_current(member)
                self.records.flush(now_ms)
                return
        self._remove_member(member_id, now_ms)

    def _remove_member(self, member_id: str, now_ms: int) -> None:
        self._remove_members([member_id], now_ms)

    def _remove_members(self, member_ids: Sequence[str], now_ms: int) -> None:
        """Remove members that left or timed out; later heartbeats assign their partitions to others."""
        for member_id in member_ids:
            member = self.members.pop(member_id)
            if member.instance_id is not None:
                self.static_members.pop(member.instance_id, None)
            self.target.pop(member_id, None)
            self._cancel_timers(member_id)
            self._record_removal(member_id)
        self.group_epoch += 1
        self._digest = metadata_digest(self.subscribed_topic_names(), self.topics)
        self._drop_unused_regexes(self._subscribed_regexes())
        self._watch_topics()
        self._record_epoch()
        self._assign_if_emptied(RecordKind.CONSUMER_TARGET_EPOCH)
        self.records.flush(now_ms)

    def _assigned_since(self, member: ConsumerMember, partition: TopicPartitionKey) -> int | None:
        return member.assigned.get(partition, member.revoking.get(partition))


def _most_requested(votes: Mapping[str, int]) -> str | None:
    """The first assignor with the most votes, or None without votes."""
    return max(votes, key=votes.__getitem__, default=None)
