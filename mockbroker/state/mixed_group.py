"""A consumer group with members that speak the classic protocol: to them it answers JoinGroup, SyncGroup and Heartbeat.

Source: KIP-848 "Online migration", Kafka's GroupMetadataManager.classicGroupJoinToConsumerGroup and its neighbours.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.classic_members import JoinAnswer
from mockbroker.state.consumer_group import ConsumerGroup, ConsumerJoin
from mockbroker.state.consumer_members import ConsumerMember, MemberState, TopicPartition, flat
from mockbroker.state.group_facts import ClassicSide, Record, keep_no_record
from mockbroker.state.group_kinds import Settings, Topics, metadata_digest, number
from mockbroker.state.group_timers import Timers

CONSUMER_PROTOCOL = "consumer"


@dataclass(frozen=True, slots=True)
class Downgrade:
    """The wish that a group be a classic one. rebalances: its members are to join anew at once."""

    group: MixedGroup
    leaving: frozenset[str]
    rebalances: bool
    now_ms: int


class MixedGroup(ConsumerGroup):
    """One consumer group on its coordinator, whatever its members speak.

    downgrade: makes the group a classic one when only such members are left, and says whether it did.
    """

    def __init__(
        self,
        group_id: str,
        topics: Topics,
        timers: Timers,
        record: Record = keep_no_record,
        *,
        downgrade: Callable[[Downgrade], bool] = lambda wish: False,
    ) -> None:
        super().__init__(group_id, topics, timers, record)
        self._downgrade = downgrade

    # Members of the classic protocol.

    def check_join(self, member_id: str, protocol_type: str, names: Sequence[str], *, broker: Settings) -> None:
        """Let pass who may join with the classic protocol.

        Raises: GROUP_MAX_SIZE_REACHED, INCONSISTENT_GROUP_PROTOCOL.
        """
        size_max = number(broker, "group.consumer.max.size")
        if len(self.members) >= size_max and member_id not in self.members:
            raise KafkaError(ErrorCode.GROUP_MAX_SIZE_REACHED, f"The group has {size_max} members, and is full.")
        offered = [{name for name, _ in side.protocols} for side in self._classic_sides()]
        if protocol_type != CONSUMER_PROTOCOL or not any(all(name in some for some in offered) for name in names):
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"Member {member_id}'s protocols are not supported."
            )

    def _classic_sides(self) -> list[ClassicSide]:
        return [member.classic for member in self.members.values() if member.classic is not None]

    def join_classic(
        self, join: ConsumerJoin, *, is_new: bool, settings: Settings, broker: Settings, assignor: str, now_ms: int
    ) -> JoinAnswer:
        """Take part; the answer comes at once, and the assignment by SyncGroup. is_new: the sender had no member id.

        Raises: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
        """
        classic = join.classic
        assert classic is not None
        if join.instance_id is not None and not is_new:
            self.static_member(join.instance_id, join.member_id)
        replaced = self.members.get(self.static.get(join.instance_id or "", ""))
        downgrades = replaced is not None and replaced.classic is None and self._are_classic_but({replaced.member_id})
        member = self._admit(join)
        self._step(member, join, settings=settings, broker=broker, default_assignor=assignor, now_ms=now_ms)
        self._timers.cancel(("join", self.group_id, member.member_id))
        name = classic.protocols[0][0]
        answer = JoinAnswer(ErrorCode.NONE, member.member_id, member.member_epoch, CONSUMER_PROTOCOL, name)
        if downgrades and self._downgrade(Downgrade(self, frozenset(), self._is_behind, now_ms)):
            return answer
        self._fence_later("sync", member, now_ms)
        self.ledger.write(now_ms)
        return answer

    @property
    def _is_behind(self) -> bool:
        return self.assignment_epoch < self.group_epoch

    def sync_classic(
        self,
        member_id: str,
        instance_id: str | None,
        generation_id: int,
        *,
        protocol_type: str | None,
        protocol_name: str | None,
        now_ms: int,
    ) -> ConsumerMember:
        """The member whose assignment a SyncGroup is answered.

        Raises: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL,
        REBALANCE_IN_PROGRESS.
        """
        member, classic = self._classic_member(member_id, instance_id, generation_id)
        if protocol_type not in (None, CONSUMER_PROTOCOL) or protocol_name not in (None, classic.protocols[0][0]):
            raise KafkaError(
                ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"{protocol_type} {protocol_name} is not what it joined with."
            )
        if member.member_epoch < self.assignment_epoch and member.state is not MemberState.UNREVOKED:
            self._expect_join(member, now_ms)
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS, f"member {member_id} should join anew")
        self._timers.cancel(("sync", self.group_id, member_id))
        self._set_session(member, classic, now_ms)
        return member

    def heartbeat_classic(self, member_id: str, instance_id: str | None, generation_id: int, *, now_ms: int) -> None:
        """Stay in the group.

        Raises: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, and REBALANCE_IN_PROGRESS when the member
        should join anew: for a new target, to give partitions up, or as those it waits for are free.
        """
        member, classic = self._classic_member(member_id, instance_id, generation_id)
        self._set_session(member, classic, now_ms)
        free = member.state is MemberState.UNRELEASED and not self._waits_for_others(member)
        if member.member_epoch < self.assignment_epoch or member.state is MemberState.UNREVOKED or free:
            self._expect_join(member, now_ms)
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS, f"member {member_id} should join anew")

    def leave_classic(self, leavers: Sequence[tuple[str, str | None]], *, now_ms: int) -> list[ErrorCode]:
        """Take members out at their own wish, of whatever protocol; returns one code for each."""
        codes: list[ErrorCode] = []
        found: dict[str, None] = {}
        for member_id, instance_id in leavers:
            try:
                if instance_id is None:
                    found[self.member(member_id).member_id] = None
                else:
                    known = self.static.get(instance_id, "")
                    found[self.static_member(instance_id, member_id or known).member_id] = None
                codes.append(ErrorCode.NONE)
            except KafkaError as stranger:
                codes.append(stranger.code)
        if found:
            self._fence(list(found), now_ms)
        return codes

    def _classic_member(
        self, member_id: str, instance_id: str | None, generation_id: int
    ) -> tuple[ConsumerMember, ClassicSide]:
        member = self.member(member_id) if instance_id is None else self.static_member(instance_id, member_id)
        if member.classic is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} does not use the classic protocol.")
        if generation_id != member.member_epoch:
            raise KafkaError(
                ErrorCode.ILLEGAL_GENERATION, f"generation {generation_id}; it is in {member.member_epoch}"
            )
        return member, member.classic

    def _waits_for_others(self, member: ConsumerMember) -> bool:
        missing = flat(self.target.get(member.member_id, {})) - member.assigned.keys()
        return any(other.owns(place) for other in self.members.values() for place in missing)

    def _seen_now(self) -> int:
        return metadata_digest(self.subscribed_topic_names(), self.topics)

    # Deadlines.

    def begin_sessions(self, *, now_ms: int) -> None:
        """The group has been made of a classic one: its members have their own session timeouts."""
        for key in (("join", self.group_id), ("sync", self.group_id)):
            self._timers.cancel(key)
        for member in self.members.values():
            if member.classic is not None:
                self._set_session(member, member.classic, now_ms)

    def _set_session(self, member: ConsumerMember, classic: ClassicSide, now_ms: int) -> None:
        member_id = member.member_id
        key = ("session", self.group_id, member_id)
        self._timers.set(key, now_ms + classic.session_timeout_ms, lambda at_ms: self._remove(member_id, at_ms))

    def _fence_later(self, what: str, member: ConsumerMember, now_ms: int) -> None:
        """Take the member out unless it joins or syncs within its rebalance timeout."""
        member_id = member.member_id
        key = (what, self.group_id, member_id)
        self._timers.set(key, now_ms + member.rebalance_timeout_ms, lambda at_ms: self._remove(member_id, at_ms))

    def _expect_join(self, member: ConsumerMember, now_ms: int) -> None:
        if not self._timers.is_set(("join", self.group_id, member.member_id)):
            self._fence_later("join", member, now_ms)

    def _set_timers(
        self, member: ConsumerMember, revoking_before: dict[TopicPartition, int], session_ms: int, now_ms: int
    ) -> None:
        if member.classic is None:
            super()._set_timers(member, revoking_before, session_ms, now_ms)
        else:
            self._timers.cancel(("rebalance", self.group_id, member.member_id))
            self._set_session(member, member.classic, now_ms)

    def _cancel_timers(self, member_id: str) -> None:
        super()._cancel_timers(member_id)
        for kind in ("join", "sync"):
            self._timers.cancel((kind, self.group_id, member_id))

    # What differs for members of the classic protocol.

    def _admit_static(self, join: ConsumerJoin, instance_id: str) -> ConsumerMember:
        """A static member may change its protocol, and one that speaks the classic one need not have left before."""
        known = self.members.get(self.static.get(instance_id, ""))
        if known is not None and join.member_epoch == 0 and (join.classic is not None or known.classic is not None):
            return known
        return super()._admit_static(join, instance_id)

    def _are_classic_but(self, member_ids: set[str]) -> bool:
        return all(member.classic is not None for member in self.members.values() if member.member_id not in member_ids)

    def _fence(self, member_ids: Sequence[str], now_ms: int) -> None:
        leaving = frozenset(member_ids)
        may = len(leaving) < len(self.members) and self._are_classic_but(set(leaving))
        if not may or not self._downgrade(Downgrade(self, leaving, True, now_ms)):
            super()._fence(member_ids, now_ms)

    def check_commit(self, member_id: str, member_epoch: int, partition: TopicPartition, *, api_version: int) -> None:
        """As of any consumer group; to a classic member a stale epoch is a wrong generation.

        Raises: UNKNOWN_MEMBER_ID, UNSUPPORTED_VERSION, STALE_MEMBER_EPOCH, ILLEGAL_GENERATION.
        """
        member = self.members.get(member_id)
        if member is None or member.classic is None:
            super().check_commit(member_id, member_epoch, partition, api_version=api_version)
            return
        try:
            super().check_commit(member_id, member_epoch, partition, api_version=_ANY_VERSION)
        except KafkaError as error:
            raise _as_classic(error) from None

    def check_member(self, member_id: str, member_epoch: int) -> None:
        """As of any consumer group.

        Raises: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH, ILLEGAL_GENERATION.
        """
        try:
            super().check_member(member_id, member_epoch)
        except KafkaError as error:
            member = self.members.get(member_id)
            raise error if member is None or member.classic is None else _as_classic(error) from None


#: A version of OffsetCommit that members of every protocol may use.
_ANY_VERSION = 9


def _as_classic(error: KafkaError) -> KafkaError:
    stale = error.code is ErrorCode.STALE_MEMBER_EPOCH
    return KafkaError(ErrorCode.ILLEGAL_GENERATION, error.message) if stale else error
