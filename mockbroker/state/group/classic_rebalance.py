"""Rebalances of a classic group: the join phase, the sync phase, and timeouts.

Source: Kafka's classic group protocol (KIP-62, KIP-134 for the initial delay, KIP-345 for static members).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import ClassVar

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.group.classic_members import ClassicMember, ClassicMembers, JoinResult, SyncResult
from mockbroker.state.group.coordinator_records import (
    AppendRecords,
    ClassicGroupValue,
    ClassicMemberValue,
    CoordinatorRecord,
    GroupRecords,
    RecordKind,
)
from mockbroker.state.group.group import GroupType
from mockbroker.state.settings import Settings, read_int
from mockbroker.state.timers import INITIAL_DELAY, Timers


class ClassicState(Enum):
    """The states, with the names that DescribeGroups shows."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"


class ClassicEvent(Enum):
    """The events that change the state of a group."""

    PREPARE = "members have to rejoin"
    ALL_LEFT = "the join phase ended without members"
    ALL_JOINED = "the join phase ended"
    ASSIGNED = "the leader sent the assignment"


TRANSITIONS: dict[ClassicState, dict[ClassicEvent, ClassicState]] = {
    ClassicState.EMPTY: {ClassicEvent.PREPARE: ClassicState.PREPARING_REBALANCE},
    ClassicState.PREPARING_REBALANCE: {
        ClassicEvent.ALL_JOINED: ClassicState.COMPLETING_REBALANCE,
        ClassicEvent.ALL_LEFT: ClassicState.EMPTY,
    },
    ClassicState.COMPLETING_REBALANCE: {
        ClassicEvent.PREPARE: ClassicState.PREPARING_REBALANCE,
        ClassicEvent.ASSIGNED: ClassicState.STABLE,
    },
    ClassicState.STABLE: {ClassicEvent.PREPARE: ClassicState.PREPARING_REBALANCE},
}


class ClassicRebalance:
    """The part of a classic group that implements its state transitions."""

    kind: ClassVar[GroupType] = GroupType.CLASSIC

    def __init__(self, group_id: str, timers: Timers, wake: Callable[[], None], append_records: AppendRecords) -> None:
        self.group_id = group_id
        self.records = GroupRecords(group_id, append_records)
        self.state_since_ms = -1
        self.state = ClassicState.EMPTY
        self.members = ClassicMembers()
        self.generation_id = 0
        self.protocol_type_or_none: str | None = None
        self.protocol_name: str | None = None
        #: The members' metadata in the last generation; None before the first one.
        self.subscriptions: tuple[bytes, ...] | None = None
        self._pending_sync: set[str] = set()
        self._previous_state = ClassicState.EMPTY
        self._new_member_added = False
        #: How many requests ended a join phase whose members have no protocol in common.
        self._failure_count = 0
        self._initial_delay_ms = 0
        self._timers = timers
        self._wake = wake

    @property
    def state_name(self) -> str:
        """The state in responses."""
        return self.state.value

    @property
    def protocol_type(self) -> str:
        """The type of application, "consumer" or "connect"; "" for a group that only has offsets."""
        return self.protocol_type_or_none or ""

    def is_deletable(self) -> bool:
        """Return whether the group has no members."""
        return self.state is ClassicState.EMPTY

    def reject_waiting_members(self, error: ErrorCode) -> None:
        """Complete all waiting requests with an error."""
        for member in self.members.in_map_order():
            member.complete_join(JoinResult(error, member.member_id))
            member.complete_sync(SyncResult(error))

    def start_stable(self, generation_id: int, protocol_name: str, *, rebalances: bool, now_ms: int) -> None:
        """Start as a stable group converted from a consumer group, whose members are there already."""
        self.generation_id, self.protocol_name, self.protocol_type_or_none = generation_id, protocol_name, "consumer"
        self.state, self.state_since_ms = ClassicState.STABLE, now_ms
        self._store_subscriptions()
        self._write_group(now_ms)
        for member in self.members.in_map_order():
            self._set_session(member.member_id, now_ms + member.session_timeout_ms)
        if rebalances:
            self._prepare(now_ms)

    def resume(self, *, settings: Settings, now_ms: int) -> None:
        """Continue after loading, from the last complete generation; sessions start again.

        A group above a maximum that was lowered meanwhile has to rejoin, and loses members in that way.
        """
        for member in self.members.in_map_order():
            self._set_session(member.member_id, now_ms + member.session_timeout_ms)
        if len(self.members) > read_int(settings, "group.max.size"):
            self._prepare(now_ms)

    def replay(self, fact: CoordinatorRecord, *, now_ms: int) -> None:
        """Restore the last complete generation; now_ms has no effect here.

        Members that joined later are unknown, and an unassigned generation does not exist: Kafka's GroupMetadataManager
        writes a group when it is new, when its leader has synced, and when it becomes empty.
        """
        self.records.replay_record(fact)
        value = fact.value
        assert isinstance(value, ClassicGroupValue)
        self.protocol_type_or_none = value.protocol_type or None
        self.generation_id, self.protocol_name = value.generation_id, value.protocol_name
        self.state_since_ms = value.state_since_ms
        self.members = ClassicMembers()
        for row in value.members:
            member = ClassicMember(
                row.member_id,
                row.group_instance_id,
                row.client_id,
                row.client_host,
                row.session_timeout_ms,
                row.rebalance_timeout_ms,
                value.protocol_type,
                ((value.protocol_name or "", row.subscription),),
                row.assignment,
            )
            self.members.add_member(member)
        self.members.leader_id = value.leader_id
        self.state = ClassicState.STABLE if value.members else ClassicState.EMPTY
        self._store_subscriptions()

    def _store_subscriptions(self) -> None:
        name = self.protocol_name or ""
        self.subscriptions = tuple(member.metadata(name) for member in self.members.in_map_order())

    def _write_group(self, now_ms: int) -> None:
        protocol = self.protocol_name or ""
        members = tuple(
            ClassicMemberValue(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.session_timeout_ms,
                member.metadata(protocol),
                member.assignment,
            )
            for member in self.members.in_map_order()
        )
        leader_id = self.members.leader_id
        value = ClassicGroupValue(
            self.protocol_type, self.generation_id, self.protocol_name, leader_id, self.state_since_ms, members
        )
        self.records.set_value(RecordKind.CLASSIC_GROUP, value)
        self.records.flush(now_ms)

    def _write_if_empty(self, now_ms: int) -> None:
        """Write an empty group if it has no record yet."""
        if self.records.is_empty:
            self.state_since_ms = max(self.state_since_ms, now_ms)
            value = ClassicGroupValue("", 0, None, None, self.state_since_ms, ())
            self.records.set_value(RecordKind.CLASSIC_GROUP, value)
            self.records.flush(now_ms)

    def _join_result(self, member: ClassicMember) -> JoinResult:
        protocol = self.protocol_name or ""
        leads = self.members.leader_id == member.member_id
        members = self.members.in_map_order() if leads else ()
        return JoinResult(
            member_id=member.member_id,
            generation_id=self.generation_id,
            protocol_type=self.protocol_type_or_none,
            protocol_name=self.protocol_name,
            leader=self.members.leader_id or "",
            members=tuple((other.member_id, other.group_instance_id, other.metadata(protocol)) for other in members),
        )

    def _sync_result(self, member: ClassicMember) -> SyncResult:
        return SyncResult(ErrorCode.NONE, self.protocol_type_or_none, self.protocol_name, member.assignment)

    def _move(self, event: ClassicEvent, now_ms: int) -> None:
        target = TRANSITIONS[self.state].get(event)
        assert target is not None, f"{event.name} in {self.state.name}"
        self._previous_state, self.state = self.state, target
        self.state_since_ms = now_ms

    def _prepare_or_complete(self, now_ms: int) -> None:
        if ClassicEvent.PREPARE in TRANSITIONS[self.state]:
            self._prepare(now_ms)
        else:
            self._complete_if_all_joined(now_ms)

    def _prepare(self, now_ms: int) -> None:
        """Start a join phase. The first one of a group is delayed a little, so that more members can join."""
        if self.state is ClassicState.COMPLETING_REBALANCE:
            for member in self.members.by_id.values():
                member.assignment = b""
                if member.complete_sync(SyncResult(ErrorCode.REBALANCE_IN_PROGRESS)):
                    self._set_session(member.member_id, now_ms + member.session_timeout_ms)
        self._pending_sync.clear()
        self._timers.cancel_timer(("sync", self.group_id))
        first = self.state is ClassicState.EMPTY
        self._move(ClassicEvent.PREPARE, now_ms)
        if first:
            delay_ms = self._initial_delay_ms
            self._delay_first_join(now_ms, delay_ms, max(self._rebalance_timeout_ms() - delay_ms, 0))
        elif self.members.all_joined():
            self._try_complete_join(now_ms)
        else:
            self._set_join_deadline(now_ms)

    def _delay_first_join(self, now_ms: int, delay_ms: int, remaining_ms: int) -> None:
        """Extend the first join phase while new members have joined in the last delay, up to a limit."""

        def on_delay_end(at_ms: int) -> None:
            if self._new_member_added and remaining_ms:
                self._new_member_added = False
                next_delay_ms = min(self._initial_delay_ms, remaining_ms)
                self._delay_first_join(at_ms, next_delay_ms, max(remaining_ms - delay_ms, 0))
            else:
                self._complete_join(at_ms)

        if delay_ms <= 0:
            on_delay_end(now_ms)
        else:
            self._timers.set_timer((INITIAL_DELAY, self.group_id), now_ms + delay_ms, on_delay_end)

    def _complete_if_all_joined(self, now_ms: int) -> None:
        preparing = self.state is ClassicState.PREPARING_REBALANCE and self._previous_state is not ClassicState.EMPTY
        if preparing and self.members.all_joined():
            self._try_complete_join(now_ms)

    def _try_complete_join(self, now_ms: int) -> None:
        """End the join phase for a request, which fails if the members have no protocol in common."""
        self._complete_join(now_ms)
        if self.state is ClassicState.PREPARING_REBALANCE and len(self.members):
            self._failure_count += 1

    def _complete_join(self, now_ms: int) -> None:
        """End the join phase: absent dynamic members are removed, and the next generation starts.

        Without a common protocol Kafka's coordinator fails: the members wait until one of them leaves.
        """
        for kind in ("join", INITIAL_DELAY):
            self._timers.cancel_timer((kind, self.group_id))
        for member in self.members.in_map_order():
            if member.pending_join is None and member.group_instance_id is None:
                self._remove_member(member.member_id)
        if not self.members.elect_joined_leader() and len(self.members):
            # Only static members are left and none of them joined: they get another rebalance timeout.
            self._set_join_deadline(now_ms)
            return
        self.generation_id += 1
        self._new_member_added = False
        if not len(self.members):
            self.protocol_name = None
            self._store_subscriptions()
            self._move(ClassicEvent.ALL_LEFT, now_ms)
            self._write_group(now_ms)
            return
        protocol_name = self.members.select_protocol()
        if protocol_name is None:
            return
        self.protocol_name = protocol_name
        self._store_subscriptions()
        self._move(ClassicEvent.ALL_JOINED, now_ms)
        for member in self.members.in_map_order():
            member.complete_join(self._join_result(member))
            self._set_session(member.member_id, now_ms + member.session_timeout_ms)
            member.is_new = False
            self._pending_sync.add(member.member_id)
        self._timers.set_timer(("sync", self.group_id), now_ms + self._rebalance_timeout_ms(), self._on_sync_timeout)

    def _on_sync_timeout(self, now_ms: int) -> None:
        """Remove members that joined and did not sync within the rebalance timeout."""
        if not self._pending_sync:
            return
        for member_id in sorted(self._pending_sync):
            self._remove_member(member_id)
        self._prepare(now_ms)

    def _rebalance_timeout_ms(self) -> int:
        return max((0, *(member.rebalance_timeout_ms for member in self.members.by_id.values())))

    def _set_join_deadline(self, now_ms: int) -> None:
        self._timers.set_timer(("join", self.group_id), now_ms + self._rebalance_timeout_ms(), self._complete_join)

    def _set_session(self, member_id: str, deadline_ms: int) -> None:
        key = ("session", self.group_id, member_id)
        self._timers.set_timer(key, deadline_ms, lambda now_ms: self._on_session_timeout(member_id, now_ms))

    def _on_session_timeout(self, member_id: str, now_ms: int) -> None:
        """Remove a member whose session has expired, or an id that was not used to join."""
        member = self.members.by_id.get(member_id)
        if member is None:
            self.members.remove_member(member_id)
            if self.state is ClassicState.PREPARING_REBALANCE and self.members.all_joined():
                self._complete_join(now_ms)
        elif not member.is_kept_alive_by_waiting:
            self.fence_member(member_id, now_ms=now_ms)

    def member_ids(self) -> list[str]:
        """The ids of its members."""
        return list(self.members.by_id)

    def fence_member(self, member_id: str, *, now_ms: int) -> None:
        """Remove a member as at the end of its session, also one that waits. Raises: UNKNOWN_MEMBER_ID."""
        if member_id not in self.members:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"{member_id} is no member of group {self.group_id}")
        self._remove_member(member_id)
        if self.state is not ClassicState.PREPARING_REBALANCE:
            self._prepare_or_complete(now_ms)
        elif self.members.all_joined():
            self._complete_join(now_ms)

    def _remove_member(self, member_id: str) -> None:
        """Remove a member; its waiting join gets UNKNOWN_MEMBER_ID."""
        member = self.members.by_id.get(member_id)
        if member is not None:
            member.complete_join(JoinResult(ErrorCode.UNKNOWN_MEMBER_ID))
        self.members.remove_member(member_id)
        self._pending_sync.discard(member_id)
        self._timers.cancel_timer(("session", self.group_id, member_id))
