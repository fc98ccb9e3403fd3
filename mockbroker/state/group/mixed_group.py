"""Consumer groups with members of the classic protocol, which use JoinGroup, SyncGroup and Heartbeat.

Source: KIP-848 "Online migration", Kafka's GroupMetadataManager.classicGroupJoinToConsumerGroup and related methods.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.group.classic_members import JoinResult
from mockbroker.state.group.consumer_group import ConsumerGroup
from mockbroker.state.group.consumer_members import ConsumerJoin, ConsumerMember, MemberState, flatten_assignment
from mockbroker.state.group.coordinator_records import AppendRecords, ClassicProtocolMetadata, PartitionEpochs
from mockbroker.state.group.coordinator_rules import RULES_4_3, GroupCoordinatorRules
from mockbroker.state.group.group import Assignment, Topics
from mockbroker.state.metadata.topics import TopicPartitionKey
from mockbroker.state.settings import Settings
from mockbroker.state.timers import INITIAL_DELAY, Timers

CONSUMER_PROTOCOL = "consumer"


@dataclass(frozen=True, slots=True)
class DowngradeRequest:
    """A request to convert a group to a classic one. rebalances: its members have to rejoin at once."""

    group: MixedGroup
    leaving: frozenset[str]
    rebalances: bool
    now_ms: int


#: Converts a group to a classic one, when only members of that protocol are left; returns whether it did.
Downgrade = Callable[[DowngradeRequest], bool]


class MixedGroup(ConsumerGroup):
    """One consumer group on its coordinator, with members of either protocol."""

    def __init__(
        self,
        group_id: str,
        topics: Topics,
        timers: Timers,
        append_records: AppendRecords,
        downgrade: Downgrade,
        *,
        coordinator_rules: GroupCoordinatorRules = RULES_4_3,
    ) -> None:
        super().__init__(group_id, topics, timers, append_records, coordinator_rules=coordinator_rules)
        self._downgrade = downgrade

    # Members of the classic protocol.

    def check_join(
        self, member_id: str, protocol_type: str, names: Sequence[str], *, instance_id: str | None, broker: Settings
    ) -> None:
        """Check that a member may join with the classic protocol.

        Raises: GROUP_MAX_SIZE_REACHED, INCONSISTENT_GROUP_PROTOCOL.
        """
        migrates = str(broker["group.consumer.migration.policy"]).lower() != "disabled"
        if not migrates and self._coordinator_rules.refuses_classic_members:
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, f"Group {self.group_id} takes no classic members.")
        self._check_size(member_id, instance_id, broker)
        classic = [member.classic for member in self.members.values() if member.classic is not None]
        common = set(names).intersection(*({name for name, _ in metadata.protocols} for metadata in classic))
        if protocol_type != CONSUMER_PROTOCOL or not common:
            message = f"Member {member_id}'s protocols are not supported."
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, message)

    def join_classic(
        self, join: ConsumerJoin, *, settings: Settings, broker: Settings, assignor: str, now_ms: int
    ) -> JoinResult:
        """Join; the response is immediate, the assignment comes with SyncGroup."""
        classic = join.classic
        assert classic is not None
        replaced = self.members.get(self.static_members.get(join.instance_id or "", ""))
        is_last = replaced is not None and replaced.classic is None and self._are_all_classic_except(replaced.member_id)
        member = self._apply_heartbeat(join, settings, broker, assignor, now_ms).member
        self._timers.cancel_timer(("join", self.group_id, member.member_id))
        name = classic.protocols[0][0]
        answer = JoinResult(ErrorCode.NONE, member.member_id, member.member_epoch, CONSUMER_PROTOCOL, name)
        is_behind = self.assignment_epoch < self.group_epoch
        if is_last and self._downgrade(DowngradeRequest(self, frozenset(), is_behind, now_ms)):
            return answer
        self._remove_at("sync", member.member_id, now_ms + member.rebalance_timeout_ms)
        self.records.flush(now_ms)
        return answer

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
        """The member whose assignment a SyncGroup returns.

        Raises: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, INCONSISTENT_GROUP_PROTOCOL,
        REBALANCE_IN_PROGRESS.
        """
        member, classic = self._classic_member(member_id, instance_id, generation_id)
        if protocol_type not in (None, CONSUMER_PROTOCOL) or protocol_name not in (None, classic.protocols[0][0]):
            message = f"{protocol_type} {protocol_name} is not what it joined with."
            raise KafkaError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, message)
        if member.member_epoch < self.assignment_epoch and member.state is not MemberState.UNREVOKED:
            raise self._request_rejoin(member, now_ms)
        self._timers.cancel_timer(("sync", self.group_id, member_id))
        self._remove_at("session", member_id, now_ms + classic.session_timeout_ms)
        return member

    def heartbeat_classic(self, member_id: str, instance_id: str | None, generation_id: int, *, now_ms: int) -> None:
        """Extend the session.

        Raises: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION, and REBALANCE_IN_PROGRESS when the member
        should rejoin: for a new target, to revoke partitions, or when the partitions that it waits for are free.
        """
        member, classic = self._classic_member(member_id, instance_id, generation_id)
        self._remove_at("session", member_id, now_ms + classic.session_timeout_ms)
        has_free_partitions = member.state is MemberState.UNRELEASED and not self._waits_for_others(member)
        if member.member_epoch < self.assignment_epoch or member.state is MemberState.UNREVOKED or has_free_partitions:
            raise self._request_rejoin(member, now_ms)

    def leave_classic(self, leavers: Sequence[tuple[str, str | None]], *, now_ms: int) -> list[ErrorCode]:
        """Remove members on request, of either protocol; returns one code for each."""
        codes: list[ErrorCode] = []
        member_ids: dict[str, None] = {}
        for member_id, instance_id in leavers:
            try:
                if instance_id is None:
                    member_ids[self.find_member(member_id).member_id] = None
                else:
                    known_id = self.static_members.get(instance_id, "")
                    member_ids[self.find_static_member(instance_id, member_id or known_id).member_id] = None
                codes.append(ErrorCode.NONE)
            except KafkaError as error:
                codes.append(error.code)
        if member_ids:
            self._remove_members(list(member_ids), now_ms)
        return codes

    def _classic_member(
        self, member_id: str, instance_id: str | None, generation_id: int
    ) -> tuple[ConsumerMember, ClassicProtocolMetadata]:
        member = self.find_member(member_id) if instance_id is None else self.find_static_member(instance_id, member_id)
        if member.classic is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"Member {member_id} does not use the classic protocol.")
        if generation_id != member.member_epoch:
            message = f"generation {generation_id}; it is in {member.member_epoch}"
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION, message)
        return member, member.classic

    def _waits_for_others(self, member: ConsumerMember) -> bool:
        missing = flatten_assignment(self.target.get(member.member_id, {})) - member.assigned.keys()
        return any(other.owns(partition) for other in self.members.values() for partition in missing)

    # The conversion from a classic group.

    def add_migrated_member(self, member: ConsumerMember, target: Assignment) -> None:
        """Add a member that was in the group under the other protocol, with its target."""
        self.members[member.member_id] = member
        self.target[member.member_id] = target
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    # Deadlines.

    def start_classic_sessions(self, *, now_ms: int) -> None:
        """The group was converted from a classic one: its members have their own session timeouts."""
        for key in (("join", self.group_id), (INITIAL_DELAY, self.group_id), ("sync", self.group_id)):
            self._timers.cancel_timer(key)
        for member in self.members.values():
            if member.classic is not None:
                self._remove_at("session", member.member_id, now_ms + member.classic.session_timeout_ms)

    def _request_rejoin(self, member: ConsumerMember, now_ms: int) -> KafkaError:
        """The error that has a member rejoin, which it must do within its rebalance timeout."""
        if not self._timers.has_timer(("join", self.group_id, member.member_id)):
            self._remove_at("join", member.member_id, now_ms + member.rebalance_timeout_ms)
        return KafkaError(ErrorCode.REBALANCE_IN_PROGRESS, f"member {member.member_id} should rejoin")

    def _set_timers(self, member: ConsumerMember, before: PartitionEpochs, session_ms: int, now_ms: int) -> None:
        if member.classic is None:
            super()._set_timers(member, before, session_ms, now_ms)
        else:
            self._timers.cancel_timer(("rebalance", self.group_id, member.member_id))
            self._remove_at("session", member.member_id, now_ms + member.classic.session_timeout_ms)

    def _cancel_timers(self, member_id: str) -> None:
        super()._cancel_timers(member_id)
        for kind in ("join", "sync"):
            self._timers.cancel_timer((kind, self.group_id, member_id))

    # Differences for members of the classic protocol.

    def _find_or_add_static_member(self, join: ConsumerJoin, instance_id: str) -> ConsumerMember:
        """A static member may change its protocol, and with the classic one it need not have left before."""
        member = self.members.get(self.static_members.get(instance_id, ""))
        if member is not None and join.member_epoch == 0 and (join.classic is not None or member.classic is not None):
            return member
        return super()._find_or_add_static_member(join, instance_id)

    def _are_all_classic_except(self, *member_ids: str) -> bool:
        return all(member.classic is not None for member in self.members.values() if member.member_id not in member_ids)

    def _remove_members(self, member_ids: Sequence[str], now_ms: int) -> None:
        leaving = frozenset(member_ids)
        can_downgrade = len(leaving) < len(self.members) and self._are_all_classic_except(*leaving)
        if not can_downgrade or not self._downgrade(DowngradeRequest(self, leaving, True, now_ms)):
            super()._remove_members(member_ids, now_ms)

    def check_commit(
        self, member_id: str, member_epoch: int, partition: TopicPartitionKey | None, *, version: int
    ) -> None:
        """As in any consumer group; for a classic member a stale epoch is ILLEGAL_GENERATION.

        Raises: UNKNOWN_MEMBER_ID, UNSUPPORTED_VERSION, STALE_MEMBER_EPOCH, ILLEGAL_GENERATION.
        """
        member = self.members.get(member_id)
        if member is None or member.classic is None:
            super().check_commit(member_id, member_epoch, partition, version=version)
            return
        try:
            super().check_commit(member_id, member_epoch, partition, version=_ANY_VERSION)
        except KafkaError as error:
            raise _to_classic_error(error) from None

    def check_member(self, member_id: str, member_epoch: int) -> None:
        """As in any consumer group. Raises: UNKNOWN_MEMBER_ID, STALE_MEMBER_EPOCH, ILLEGAL_GENERATION."""
        try:
            super().check_member(member_id, member_epoch)
        except KafkaError as error:
            member = self.members.get(member_id)
            raise error if member is None or member.classic is None else _to_classic_error(error) from None


#: A version of OffsetCommit that members of every protocol may use.
_ANY_VERSION = 9


def _to_classic_error(error: KafkaError) -> KafkaError:
    stale = error.code is ErrorCode.STALE_MEMBER_EPOCH
    return KafkaError(ErrorCode.ILLEGAL_GENERATION, error.message) if stale else error
