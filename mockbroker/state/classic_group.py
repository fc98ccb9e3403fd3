"""A classic group: members join together, their leader assigns, and everybody gets its part.

Source: Kafka's classic group protocol (KIP-62, KIP-345, KIP-394), and the conversations other-classic-*.
A join or a sync may wait for others; then its `Promise` is kept later and the key ("group", group_id) is woken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.classic_members import ClassicMember, JoinAnswer, Promise, Protocols, SyncAnswer
from mockbroker.state.classic_rebalance import ClassicEvent, ClassicRebalance, ClassicState
from mockbroker.state.group_kinds import Settings, number

#: How long a new member may wait in its first join phase. Source: GroupCoordinatorConfig.
NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000


@dataclass(frozen=True, slots=True)
class Join:
    """What a JoinGroup says. new_member_id: the id for a sender that has none yet.

    must_know_id: such a sender is sent back once to join with its new id (KIP-394, version 4).
    skips_assignment: the version can tell a leader that came back to leave the assignment as it is (version 9).
    """

    member_id: str
    new_member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    must_know_id: bool = True
    skips_assignment: bool = True


class ClassicGroup(ClassicRebalance):
    """One classic group on its coordinator. A group that only has offsets is one without protocol type."""

    def join(self, join: Join, *, broker: Settings, now_ms: int) -> Promise[JoinAnswer]:
        """Take part in the group. The promise is kept at once, or when the join phase ends."""
        promise: Promise[JoinAnswer] = Promise(self._wake)
        error = self._refusal(join, size_max=number(broker, "group.max.size"))
        self._initial_delay_ms = number(broker, "group.initial.rebalance.delay.ms")
        if error is not None:
            promise.keep(error)
        elif not join.member_id:
            self._join_new(join, promise, now_ms)
        elif join.member_id in self.members.pending:
            self._add(join.member_id, join, promise, now_ms)
        else:
            self._join_again(self.members.by_id[join.member_id], join, promise, now_ms)
        self._write_if_new(now_ms)
        return promise

    def _refusal(self, join: Join, *, size_max: int) -> JoinAnswer | None:
        """Say why a join cannot be, or None."""
        if not self._accepts(join.member_id, size_max):
            self.members.remove(join.member_id)
            return JoinAnswer(ErrorCode.GROUP_MAX_SIZE_REACHED)
        if not self._supports(join):
            return JoinAnswer(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, join.member_id)
        if not join.member_id or join.member_id in self.members.pending:
            return None
        try:
            self.members.validated(join.member_id, join.group_instance_id)
        except KafkaError as stranger:
            return JoinAnswer(stranger.code, join.member_id)
        if self.state is ClassicState.EMPTY:
            return JoinAnswer(ErrorCode.UNKNOWN_MEMBER_ID, join.member_id)
        return None

    def _accepts(self, member_id: str, size_max: int) -> bool:
        """Say whether there is room; those that hold a place keep it."""
        if self.state is ClassicState.EMPTY:
            return True
        if self.state is ClassicState.PREPARING_REBALANCE:
            member = self.members.by_id.get(member_id)
            awaiting = sum(other.joining is not None for other in self.members.by_id.values())
            return (member is not None and member.joining is not None) or awaiting < size_max
        return member_id in self.members or len(self.members) < size_max

    def _supports(self, join: Join) -> bool:
        names = [name for name, _ in join.protocols]
        if self.state is ClassicState.EMPTY:
            return bool(join.protocol_type) and bool(names)
        if len(self.members) == 0:
            return bool(names)
        return join.protocol_type == self.protocol_type_or_none and self.members.supports(names)

    def _join_new(self, join: Join, promise: Promise[JoinAnswer], now_ms: int) -> None:
        """Somebody without a member id: a static member takes its place back, a dynamic one may be sent back once."""
        if join.group_instance_id is not None:
            known = self.members.by_instance.get(join.group_instance_id)
            if known is not None:
                self._take_back(known, join, promise, now_ms)
            else:
                self._add(join.new_member_id, join, promise, now_ms)
        elif join.must_know_id:
            self.members.pending.add(join.new_member_id)
            self._set_session(join.new_member_id, now_ms + join.session_timeout_ms)
            promise.keep(JoinAnswer(ErrorCode.MEMBER_ID_REQUIRED, join.new_member_id))
        else:
            self._add(join.new_member_id, join, promise, now_ms)

    def _add(self, member_id: str, join: Join, promise: Promise[JoinAnswer], now_ms: int) -> None:
        """A new member, and so a new generation."""
        if self.state is ClassicState.PREPARING_REBALANCE and self._previous_state is ClassicState.EMPTY:
            self._new_member_added = True
        if len(self.members) == 0:
            self.protocol_type_or_none = join.protocol_type
        member = ClassicMember(
            member_id,
            join.group_instance_id,
            join.client_id,
            join.client_host,
            join.session_timeout_ms,
            join.rebalance_timeout_ms,
            join.protocol_type,
            join.protocols,
            is_new=True,
            joining=promise,
        )
        self.members.add(member)
        self._set_session(member_id, now_ms + NEW_MEMBER_JOIN_TIMEOUT_MS)
        self._prepare_or_complete(now_ms)

    def _join_again(self, member: ClassicMember, join: Join, promise: Promise[JoinAnswer], now_ms: int) -> None:
        """A known member: answered with what there is, unless its joining changes something."""
        leads = self.members.leader_id == member.member_id
        same = member.protocols == join.protocols
        # A leader that joins a stable group anew asks for a new assignment.
        settled = self.state is ClassicState.COMPLETING_REBALANCE or (self.state is ClassicState.STABLE and not leads)
        if same and settled:
            promise.keep(self._joined(member))
        else:
            self._update(member, join, promise)
            self._prepare_or_complete(now_ms)

    def _take_back(self, known_id: str, join: Join, promise: Promise[JoinAnswer], now_ms: int) -> None:
        """A static member came back under a new id: without a rebalance, if the group is stable and stays as it is."""
        leader_before = self.members.leader_id or ""
        self._timers.cancel(("session", self.group_id, known_id))
        member = self.members.replace(known_id, join.new_member_id)
        self._update(member, join, promise)
        self._set_session(member.member_id, now_ms + member.session_timeout_ms)
        if self.state is ClassicState.COMPLETING_REBALANCE:
            self._prepare(now_ms)
        elif self.state is not ClassicState.STABLE:
            self._complete_if_all_joined(now_ms)
        elif self.members.select_protocol() != self.protocol_name:
            self._prepare_or_complete(now_ms)
        elif join.skips_assignment:
            leads = self.members.leader_id == member.member_id
            member.answer_join(self._joined(member, skip_assignment=leads))
            self._write(now_ms)
        else:
            # Before version 9 it is told of the leader of before, so that it does not assign anew by mistake.
            member.answer_join(
                JoinAnswer(
                    member_id=member.member_id,
                    generation_id=self.generation_id,
                    protocol_type=self.protocol_type_or_none,
                    protocol_name=self.protocol_name,
                    leader=leader_before,
                )
            )
            self._write(now_ms)

    @staticmethod
    def _update(member: ClassicMember, join: Join, promise: Promise[JoinAnswer]) -> None:
        member.protocols = join.protocols
        member.session_timeout_ms = join.session_timeout_ms
        member.rebalance_timeout_ms = join.rebalance_timeout_ms
        member.joining = promise

    def sync(
        self,
        member_id: str,
        group_instance_id: str | None,
        generation_id: int,
        *,
        protocol_type: str | None,
        protocol_name: str | None,
        assignments: Mapping[str, bytes],
        now_ms: int,
    ) -> Promise[SyncAnswer]:
        """Ask for one's assignment; the leader brings all of them. None for a protocol: not said.

        Raises: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL,
        REBALANCE_IN_PROGRESS.
        """
        member = self.check(member_id, group_instance_id, generation_id)
        if protocol_type not in (None, self.protocol_type_or_none) or protocol_name not in (None, self.protocol_name):
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
                f"{protocol_type} {protocol_name} was said, {self.protocol_type} {self.protocol_name} is in force",
            )
        if self.state is ClassicState.PREPARING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS, "the members are joining anew")
        promise: Promise[SyncAnswer] = Promise(self._wake)
        self._synced(member_id)
        if self.state is ClassicState.STABLE:
            promise.keep(self._assigned(member))
            return promise
        member.syncing = promise
        if self.members.leader_id == member_id:
            for other in self.members.by_id.values():
                other.assignment = assignments.get(other.member_id, b"")
                if other.answer_sync(self._assigned(other)):
                    self._set_session(other.member_id, now_ms + other.session_timeout_ms)
            self._write(now_ms)
            self._move(ClassicEvent.ASSIGNED, now_ms)
        return promise

    def _synced(self, member_id: str) -> None:
        self._pending_sync.discard(member_id)
        if not self._pending_sync:
            self._timers.cancel(("sync", self.group_id))

    def _assigned(self, member: ClassicMember) -> SyncAnswer:
        return SyncAnswer(
            protocol_type=self.protocol_type_or_none,
            protocol_name=self.protocol_name,
            assignment=member.assignment,
        )

    def check(self, member_id: str, group_instance_id: str | None, generation_id: int) -> ClassicMember:
        """Find a member of the generation in force.

        Raises: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION.
        """
        member = self.members.validated(member_id, group_instance_id)
        if generation_id != self.generation_id:
            raise KafkaError(
                ErrorCode.ILLEGAL_GENERATION, f"generation {generation_id}; {self.generation_id} is in force"
            )
        return member

    def heartbeat(self, member_id: str, group_instance_id: str | None, generation_id: int, *, now_ms: int) -> None:
        """Stay in the group.

        Raises: as `check`, and REBALANCE_IN_PROGRESS when the member should join anew; its session goes on then too.
        """
        member = self.check(member_id, group_instance_id, generation_id)
        self._set_session(member_id, now_ms + member.session_timeout_ms)
        if self.state is ClassicState.PREPARING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS, "the members are joining anew")

    def leave(self, leavers: list[tuple[str, str | None]], *, now_ms: int) -> list[ErrorCode]:
        """Take members out at their own wish: (member id, instance id) of each, a static one by instance id alone.

        Returns: one code for each.
        """
        results = [self._leave_one(member_id, group_instance_id) for member_id, group_instance_id in leavers]
        if ErrorCode.NONE in results:
            if self.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
                self._prepare_or_complete(now_ms)
            else:
                self._complete_if_all_joined(now_ms)
        return results

    def _leave_one(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        if member_id in self.members.pending:
            self._forget(member_id)
            return ErrorCode.NONE
        if not member_id:
            member_id = self.members.by_instance.get(group_instance_id or "", "")
            group_instance_id = None
        try:
            self.members.validated(member_id, group_instance_id)
        except KafkaError as stranger:
            return stranger.code
        self._forget(member_id)
        return ErrorCode.NONE

    def check_commit(self, member_id: str, group_instance_id: str | None, generation_id: int, *, now_ms: int) -> None:
        """Let a member of the generation in force commit, and anybody without a generation when nobody is in.

        A commit keeps its sender's session going, as in the first days of consumer groups.
        Raises: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS.
        """
        if generation_id < 0 and self.state is ClassicState.EMPTY:
            return
        if generation_id < 0 and not member_id and group_instance_id is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"none of the members of group {self.group_id}")
        member = self.check(member_id, group_instance_id, generation_id)
        if self.state is ClassicState.COMPLETING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS, "the leader has not assigned yet")
        self._set_session(member.member_id, now_ms + member.session_timeout_ms)
