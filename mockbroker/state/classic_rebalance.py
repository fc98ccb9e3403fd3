"""How a classic group goes from one generation to the next: the join phase, the sync phase, and who is left behind.

Source: Kafka's classic group protocol (KIP-62, KIP-134 for the initial delay, KIP-345 for static members).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import ClassVar

from kwire.error_codes import ErrorCode
from mockbroker.state.classic_members import ClassicMember, ClassicMembers, JoinAnswer, SyncAnswer
from mockbroker.state.group_facts import (
    ClassicGroupFact,
    ClassicMemberFact,
    Fact,
    FactKind,
    Ledger,
    Record,
    keep_no_record,
)
from mockbroker.state.group_kinds import GroupType, Settings, number
from mockbroker.state.group_timers import Timers


class ClassicState(Enum):
    """The states, with the names that DescribeGroups shows."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"


class ClassicEvent(Enum):
    """What moves a group."""

    PREPARE = "members are to join anew"
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
    """The part of a classic group that moves it through its states."""

    kind: ClassVar[GroupType] = GroupType.CLASSIC

    def __init__(
        self, group_id: str, timers: Timers, wake: Callable[[], None], record: Record = keep_no_record
    ) -> None:
        self.group_id = group_id
        self.ledger = Ledger(group_id, record)
        self.state_since_ms = -1
        self.state = ClassicState.EMPTY
        self.members = ClassicMembers()
        self.generation_id = 0
        self.protocol_type_or_none: str | None = None
        self.protocol_name: str | None = None
        self._pending_sync: set[str] = set()
        self._previous_state = ClassicState.EMPTY
        self._new_member_added = False
        self._initial_delay_ms = 0
        self._timers = timers
        self._wake = wake

    @property
    def state_name(self) -> str:
        """The state as the wire says it."""
        return self.state.value

    @property
    def protocol_type(self) -> str:
        """The kind of application, "consumer" or "connect"; "" for a group that only has offsets."""
        return self.protocol_type_or_none or ""

    def is_deletable(self) -> bool:
        """Say whether nobody is in it."""
        return self.state is ClassicState.EMPTY

    def give_up(self) -> None:
        """This node coordinates the group no more: who waits is sent to the one that does."""
        for member in self.members.all():
            member.answer_join(JoinAnswer(ErrorCode.NOT_COORDINATOR, member.member_id))
            member.answer_sync(SyncAnswer(ErrorCode.NOT_COORDINATOR))

    def interrupt(self) -> None:
        """The group is about to change its protocol: whoever waits is told to join anew."""
        for member in self.members.all():
            member.answer_join(JoinAnswer(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
            member.answer_sync(SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS))

    def begin_at(self, generation_id: int, protocol_name: str, *, rebalances: bool, now_ms: int) -> None:
        """Go on as a stable group from what a consumer group was; its members are there already."""
        self.generation_id, self.protocol_name, self.protocol_type_or_none = generation_id, protocol_name, "consumer"
        self.state, self.state_since_ms = ClassicState.STABLE, now_ms
        self._write(now_ms)
        for member in self.members.all():
            self._set_session(member.member_id, now_ms + member.session_timeout_ms)
        if rebalances:
            self._prepare(now_ms)

    def resume(self, *, settings: Settings, now_ms: int) -> None:
        """Go on after a load, from the last generation that was complete; sessions begin anew.

        A group above a maximum that has been lowered meanwhile has to join anew, and to shed members so.
        """
        for member in self.members.all():
            self._set_session(member.member_id, now_ms + member.session_timeout_ms)
        if len(self.members) > number(settings, "group.max.size"):
            self._prepare(now_ms)

    def replay(self, fact: Fact, *, now_ms: int) -> None:
        """Take over the last complete generation; of now_ms, when that is, nothing depends here.

        Whoever joined since then is unknown, and a generation that was not assigned never was: Kafka's
        GroupMetadataManager writes a group when it is new, when its leader has synced, and when nobody is left.
        """
        self.ledger.replay(fact)
        value = fact.value
        assert isinstance(value, ClassicGroupFact)
        self.protocol_type_or_none = value.protocol_type or None
        self.generation_id, self.protocol_name = value.generation_id, value.protocol_name
        self.state_since_ms = value.state_since_ms
        self.members = ClassicMembers()
        for row in value.members:
            self.members.add(
                ClassicMember(
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
            )
        self.members.leader_id = value.leader_id
        self.state = ClassicState.STABLE if value.members else ClassicState.EMPTY

    def _write(self, now_ms: int) -> None:
        """Have the group written as it is."""
        protocol = self.protocol_name or ""
        members = tuple(
            ClassicMemberFact(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.session_timeout_ms,
                member.metadata(protocol),
                member.assignment,
            )
            for member in self.members.all()
        )
        fact = ClassicGroupFact(
            self.protocol_type,
            self.generation_id,
            self.protocol_name,
            self.members.leader_id,
            self.state_since_ms,
            members,
        )
        self.ledger.put(FactKind.CLASSIC_GROUP, fact)
        self.ledger.write(now_ms)

    def _write_if_new(self, now_ms: int) -> None:
        """Have a group written that is not in the log yet: there is one, and nothing is known of it."""
        if self.ledger.is_empty:
            self.state_since_ms = max(self.state_since_ms, now_ms)
            self.ledger.put(FactKind.CLASSIC_GROUP, ClassicGroupFact("", 0, None, None, self.state_since_ms, ()))
            self.ledger.write(now_ms)

    def _joined(self, member: ClassicMember, *, skip_assignment: bool = False) -> JoinAnswer:
        protocol = self.protocol_name or ""
        leads = self.members.leader_id == member.member_id
        others = tuple(
            (other.member_id, other.group_instance_id, other.metadata(protocol)) for other in self.members.all()
        )
        return JoinAnswer(
            member_id=member.member_id,
            generation_id=self.generation_id,
            protocol_type=self.protocol_type_or_none,
            protocol_name=self.protocol_name,
            leader=self.members.leader_id or "",
            skip_assignment=skip_assignment,
            members=others if leads else (),
        )

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
        """Begin a join phase. The first one of a group waits a little, so that its members come together."""
        if self.state is ClassicState.COMPLETING_REBALANCE:
            for member in self.members.by_id.values():
                member.assignment = b""
                if member.answer_sync(SyncAnswer(ErrorCode.REBALANCE_IN_PROGRESS)):
                    self._set_session(member.member_id, now_ms + member.session_timeout_ms)
        self._pending_sync.clear()
        self._timers.cancel(("sync", self.group_id))
        first = self.state is ClassicState.EMPTY
        self._move(ClassicEvent.PREPARE, now_ms)
        if first:
            delay_ms = self._initial_delay_ms
            self._wait_for_more(now_ms, delay_ms, max(self._rebalance_timeout_ms() - delay_ms, 0))
        elif self.members.all_joined():
            self._complete_join(now_ms)
        else:
            self._set_join_deadline(now_ms)

    def _wait_for_more(self, now_ms: int, delay_ms: int, remaining_ms: int) -> None:
        """Put the end of the first join phase off as long as new members came in the last delay, but not for ever."""

        def over(at_ms: int) -> None:
            if self._new_member_added and remaining_ms:
                self._new_member_added = False
                self._wait_for_more(at_ms, min(self._initial_delay_ms, remaining_ms), max(remaining_ms - delay_ms, 0))
            else:
                self._complete_join(at_ms)

        if delay_ms <= 0:
            over(now_ms)
        else:
            self._timers.set(("join", self.group_id), now_ms + delay_ms, over)

    def _complete_if_all_joined(self, now_ms: int) -> None:
        preparing = self.state is ClassicState.PREPARING_REBALANCE and self._previous_state is not ClassicState.EMPTY
        if preparing and self.members.all_joined():
            self._complete_join(now_ms)

    def _complete_join(self, now_ms: int) -> None:
        """End the join phase: dynamic members that did not come are out, and the next generation begins."""
        self._timers.cancel(("join", self.group_id))
        for member in self.members.all():
            if member.joining is None and member.group_instance_id is None:
                self._forget(member.member_id)
        if not self.members.elect_joined_leader() and len(self.members):
            # Only static members are left and none of them came: they get another rebalance timeout.
            self._set_join_deadline(now_ms)
            return
        self.generation_id += 1
        self._new_member_added = False
        if not len(self.members):
            self.protocol_name = None
            self._move(ClassicEvent.ALL_LEFT, now_ms)
            self._write(now_ms)
            return
        self.protocol_name = self.members.select_protocol()
        self._move(ClassicEvent.ALL_JOINED, now_ms)
        for member in self.members.all():
            member.answer_join(self._joined(member))
            self._set_session(member.member_id, now_ms + member.session_timeout_ms)
            member.is_new = False
            self._pending_sync.add(member.member_id)
        self._timers.set(("sync", self.group_id), now_ms + self._rebalance_timeout_ms(), self._sync_over)

    def _sync_over(self, now_ms: int) -> None:
        """Take out those that joined and did not sync within the rebalance timeout."""
        if not self._pending_sync:
            return
        for member_id in sorted(self._pending_sync):
            self._forget(member_id)
        self._prepare(now_ms)

    def _rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self.members.by_id.values()), default=0)

    def _set_join_deadline(self, now_ms: int) -> None:
        self._timers.set(("join", self.group_id), now_ms + self._rebalance_timeout_ms(), self._complete_join)

    def _set_session(self, member_id: str, deadline_ms: int) -> None:
        self._timers.set(
            ("session", self.group_id, member_id), deadline_ms, lambda now_ms: self._session_over(member_id, now_ms)
        )

    def _session_over(self, member_id: str, now_ms: int) -> None:
        """Take out a member that fell silent, or an id that nobody joined with."""
        member = self.members.by_id.get(member_id)
        if member is None:
            self.members.remove(member_id)
            if self.state is ClassicState.PREPARING_REBALANCE and self.members.all_joined():
                self._complete_join(now_ms)
        elif not member.waiting_keeps_alive:
            self._forget(member_id)
            if self.state is not ClassicState.PREPARING_REBALANCE:
                self._prepare_or_complete(now_ms)
            elif self.members.all_joined():
                self._complete_join(now_ms)

    def _forget(self, member_id: str) -> None:
        """Remove a member; what it waits for is answered as for a stranger."""
        member = self.members.by_id.get(member_id)
        if member is not None:
            member.answer_join(JoinAnswer(ErrorCode.UNKNOWN_MEMBER_ID))
        self.members.remove(member_id)
        self._pending_sync.discard(member_id)
        self._timers.cancel(("session", self.group_id, member_id))
