"""Classic groups: members join together, their leader assigns, and each member gets its part.

Source: Kafka's classic group protocol (KIP-62, KIP-345, KIP-394), and the conversations other-classic-*. A join or a
sync may wait for other members; then its `PendingResponse` is completed later and the key ("group", group_id) is woken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.group.classic_members import ClassicMember, JoinResult, PendingJoin, PendingSync, Protocols
from mockbroker.state.group.classic_rebalance import ClassicEvent, ClassicRebalance, ClassicState
from mockbroker.state.settings import Settings, read_int

#: The session timeout of a new member during its first join phase. Source: GroupCoordinatorConfig.
NEW_MEMBER_JOIN_TIMEOUT_MS = 300_000


@dataclass(frozen=True, slots=True)
class JoinRequest:
    """The fields of a JoinGroup request. new_member_id: the id for a client that has none yet.

    must_know_id: such a client has to join again with its new id (KIP-394, version 4).
    skips_assignment: the version can instruct a restarted leader to skip the assignment (version 9).
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

    def join(self, join: JoinRequest, *, broker: Settings, now_ms: int, is_new: bool = False) -> PendingJoin:
        """Join the group. The response is completed at once, or when the join phase ends.

        is_new: the group was created for this request, and is written even if nobody joins.
        """
        response = PendingJoin(self._wake)
        failure_count = self._failure_count
        error = self._check_join(join, size_max=read_int(broker, "group.max.size"))
        self._initial_delay_ms = read_int(broker, "group.initial.rebalance.delay.ms")
        if error is not None:
            response.complete(error)
        elif not join.member_id:
            self._join_new_member(join, response, now_ms)
        elif join.member_id in self.members.pending_ids:
            self._add_member(join.member_id, join, response, now_ms)
        else:
            self._rejoin_member(self.members.by_id[join.member_id], join, response, now_ms)
        if self._failure_count > failure_count:
            response.complete(JoinResult(ErrorCode.UNKNOWN_SERVER_ERROR))
        if is_new:
            self._write_if_empty(now_ms)
        return response

    def _check_join(self, join: JoinRequest, *, size_max: int) -> JoinResult | None:
        """The error of a join, or None."""
        if not self._has_capacity(join.member_id, size_max):
            self.members.remove_member(join.member_id)
            return JoinResult(ErrorCode.GROUP_MAX_SIZE_REACHED)
        if not self._supports_protocols(join):
            return JoinResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, join.member_id)
        if not join.member_id:
            return None
        if join.member_id in self.members.pending_ids:
            # Ids are pending for dynamic members only; Kafka's coordinator fails on others.
            return None if join.group_instance_id is None else JoinResult(ErrorCode.UNKNOWN_SERVER_ERROR)
        try:
            self.members.find_validated(join.member_id, join.group_instance_id)
        except KafkaError as error:
            return JoinResult(error.code, join.member_id)
        if self.state is ClassicState.EMPTY:
            return JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, join.member_id)
        return None

    def _has_capacity(self, member_id: str, size_max: int) -> bool:
        """Return whether the group has capacity; members that are in it stay."""
        if self.state is ClassicState.EMPTY:
            return True
        if self.state is ClassicState.PREPARING_REBALANCE:
            member = self.members.by_id.get(member_id)
            awaiting = sum(other.pending_join is not None for other in self.members.by_id.values())
            return (member is not None and member.pending_join is not None) or awaiting < size_max
        return member_id in self.members or len(self.members) < size_max

    def _supports_protocols(self, join: JoinRequest) -> bool:
        names = [name for name, _ in join.protocols]
        if self.state is ClassicState.EMPTY:
            return bool(join.protocol_type) and bool(names)
        return join.protocol_type == self.protocol_type_or_none and self.members.supports_any(names)

    def _join_new_member(self, join: JoinRequest, response: PendingJoin, now_ms: int) -> None:
        """Join without a member id: a static member is replaced, a dynamic one may have to join again."""
        instance_id = join.group_instance_id
        known_id = None if instance_id is None else self.members.by_instance.get(instance_id)
        if known_id is not None:
            self._replace_static_member(known_id, join, response, now_ms)
        elif instance_id is None and join.must_know_id:
            self.members.pending_ids.add(join.new_member_id)
            self._set_session(join.new_member_id, now_ms + join.session_timeout_ms)
            response.complete(JoinResult(ErrorCode.MEMBER_ID_REQUIRED, join.new_member_id))
        else:
            self._add_member(join.new_member_id, join, response, now_ms)

    def _add_member(self, member_id: str, join: JoinRequest, response: PendingJoin, now_ms: int) -> None:
        """Add a new member, which starts a new generation."""
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
            pending_join=response,
        )
        self.members.add_member(member)
        self._set_session(member_id, now_ms + NEW_MEMBER_JOIN_TIMEOUT_MS)
        self._prepare_or_complete(now_ms)

    def _rejoin_member(self, member: ClassicMember, join: JoinRequest, response: PendingJoin, now_ms: int) -> None:
        """Rejoin of a known member: without changes it gets the present generation."""
        # A leader that rejoins a stable group requests a new assignment.
        follows = self.state is ClassicState.STABLE and self.members.leader_id != member.member_id
        is_settled = self.state is ClassicState.COMPLETING_REBALANCE or follows
        if is_settled and member.protocols == join.protocols:
            response.complete(self._join_result(member))
        else:
            self._update_member(member, join, response)
            self._prepare_or_complete(now_ms)

    def _replace_static_member(self, known_id: str, join: JoinRequest, response: PendingJoin, now_ms: int) -> None:
        """Replace a restarted static member: without a rebalance, if the group is stable and its protocol stays."""
        leader_before = self.members.leader_id or ""
        self._timers.cancel_timer(("session", self.group_id, known_id))
        member = self.members.replace_member_id(known_id, join.new_member_id)
        self._update_member(member, join, response)
        self._set_session(member.member_id, now_ms + member.session_timeout_ms)
        if self.state is ClassicState.COMPLETING_REBALANCE:
            self._prepare(now_ms)
        elif self.state is not ClassicState.STABLE:
            self._complete_if_all_joined(now_ms)
        elif (protocol_name := self.members.select_protocol()) is None:
            response.complete(JoinResult(ErrorCode.UNKNOWN_SERVER_ERROR))
        elif protocol_name != self.protocol_name:
            self._prepare_or_complete(now_ms)
        else:
            result = self._join_result(member)
            if join.skips_assignment:
                result = replace(result, skip_assignment=self.members.leader_id == member.member_id)
            else:
                # Before version 9 it gets the former leader, so that it does not assign again by mistake.
                result = replace(result, leader=leader_before, members=())
            member.complete_join(result)
            self._write_group(now_ms)

    @staticmethod
    def _update_member(member: ClassicMember, join: JoinRequest, response: PendingJoin) -> None:
        member.protocols = join.protocols
        member.session_timeout_ms = join.session_timeout_ms
        member.rebalance_timeout_ms = join.rebalance_timeout_ms
        member.pending_join = response

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
    ) -> PendingSync:
        """Return a member's assignment; the leader sends all of them. A protocol of None was not sent.

        Raises: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL,
        REBALANCE_IN_PROGRESS.
        """
        member = self.check_member(member_id, group_instance_id, generation_id)
        if protocol_type not in (None, self.protocol_type_or_none) or protocol_name not in (None, self.protocol_name):
            in_force = f"{self.protocol_type} {self.protocol_name}"
            message = f"{protocol_type} {protocol_name} was sent, {in_force} is in force"
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, message)
        if self.state is ClassicState.PREPARING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS, "the members are rejoining")
        response = PendingSync(self._wake)
        self._pending_sync.discard(member_id)
        if not self._pending_sync:
            self._timers.cancel_timer(("sync", self.group_id))
        if self.state is ClassicState.STABLE:
            response.complete(self._sync_result(member))
            return response
        member.pending_sync = response
        if self.members.leader_id == member_id:
            for other in self.members.by_id.values():
                other.assignment = assignments.get(other.member_id, b"")
                if other.complete_sync(self._sync_result(other)):
                    self._set_session(other.member_id, now_ms + other.session_timeout_ms)
            self._write_group(now_ms)
            self._move(ClassicEvent.ASSIGNED, now_ms)
        return response

    def check_member(self, member_id: str, group_instance_id: str | None, generation_id: int) -> ClassicMember:
        """Return a member of the present generation.

        Raises: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION.
        """
        member = self.members.find_validated(member_id, group_instance_id)
        if generation_id != self.generation_id:
            message = f"generation {generation_id}; {self.generation_id} is in force"
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION, message)
        return member

    def heartbeat(self, member_id: str, group_instance_id: str | None, generation_id: int, *, now_ms: int) -> None:
        """Extend the member's session.

        Raises: as `check_member`, and REBALANCE_IN_PROGRESS when it should rejoin; its session is extended then too.
        """
        member = self.check_member(member_id, group_instance_id, generation_id)
        self._set_session(member_id, now_ms + member.session_timeout_ms)
        if self.state is ClassicState.PREPARING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS, "the members are rejoining")

    def leave(self, leavers: list[tuple[str, str | None]], *, now_ms: int) -> list[ErrorCode]:
        """Remove members on request: (member id, instance id) of each, a static one by instance id alone.

        Returns: one code for each.
        Raises: UNKNOWN_SERVER_ERROR when this ends a join phase whose members have no protocol in common.
        """
        failure_count = self._failure_count
        results = [self._leave_member(member_id, group_instance_id) for member_id, group_instance_id in leavers]
        if ErrorCode.NONE in results:
            if self.state in (ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE):
                self._prepare_or_complete(now_ms)
            else:
                self._complete_if_all_joined(now_ms)
        if self._failure_count > failure_count:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "the members have no protocol in common")
        return results

    def _leave_member(self, member_id: str, group_instance_id: str | None) -> ErrorCode:
        if member_id in self.members.pending_ids:
            self._remove_member(member_id)
            return ErrorCode.NONE
        if not member_id:
            known_id = None if group_instance_id is None else self.members.by_instance.get(group_instance_id)
            if known_id is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            member_id, group_instance_id = known_id, None
        try:
            self.members.find_validated(member_id, group_instance_id)
        except KafkaError as error:
            return error.code
        self._remove_member(member_id)
        return ErrorCode.NONE

    def check_commit(self, member_id: str, group_instance_id: str | None, generation_id: int, *, now_ms: int) -> None:
        """Check that a commit is allowed: for a member of the present generation, or without generation in an empty
        group.

        A commit extends the session of its sender, as a heartbeat does.
        Raises: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS.
        """
        if generation_id < 0 and self.state is ClassicState.EMPTY:
            return
        if generation_id < 0 and not member_id and group_instance_id is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"not a member of group {self.group_id}")
        member = self.check_member(member_id, group_instance_id, generation_id)
        if self.state is ClassicState.COMPLETING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS, "the leader has not assigned yet")
        self._set_session(member.member_id, now_ms + member.session_timeout_ms)
