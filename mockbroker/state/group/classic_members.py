"""Members of a classic group, and the selection of their common protocol."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.java.hash_order import JavaSet
from mockbroker.state.metadata.topics import java_hash

T = TypeVar("T")
#: Name and metadata of each protocol that a member supports, in its order of preference.
Protocols = tuple[tuple[str, bytes], ...]


class PendingResponse(Generic[T]):
    """A response that is completed when the other members have joined or the leader has synced."""

    __slots__ = ("_on_complete", "response")

    def __init__(self, on_complete: Callable[[], None] | None = None) -> None:
        self.response: T | None = None
        self._on_complete = on_complete

    def complete(self, response: T) -> None:
        """Set the response, once, and call `on_complete`."""
        if self.response is None:
            self.response = response
            if self._on_complete is not None:
                self._on_complete()


@dataclass(frozen=True, slots=True)
class JoinResult:
    """The content of a JoinGroup response. members: id, instance id and metadata of each, for the leader only."""

    error: ErrorCode = ErrorCode.NONE
    member_id: str = ""
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[tuple[str, str | None, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class SyncResult:
    """The content of a SyncGroup response."""

    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


PendingJoin = PendingResponse[JoinResult]
PendingSync = PendingResponse[SyncResult]


@dataclass(slots=True)
class ClassicMember:
    """One member. pending_join, pending_sync: its waiting request, if any.

    is_new: it has not completed a join phase yet, so a waiting request does not keep it alive.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    assignment: bytes = b""
    is_new: bool = False
    pending_join: PendingJoin | None = None
    pending_sync: PendingSync | None = None

    def metadata(self, protocol_name: str) -> bytes:
        """The member's metadata for this protocol, of several the first."""
        return next((metadata for name, metadata in self.protocols if name == protocol_name), b"")

    def complete_join(self, result: JoinResult) -> None:
        """Complete its waiting JoinGroup, if there is one."""
        pending, self.pending_join = self.pending_join, None
        if pending is not None:
            pending.complete(result)

    def complete_sync(self, result: SyncResult) -> bool:
        """Complete its waiting SyncGroup, and return whether there was one."""
        pending, self.pending_sync = self.pending_sync, None
        if pending is None:
            return False
        pending.complete(result)
        return True

    @property
    def is_kept_alive_by_waiting(self) -> bool:
        """Return whether its session continues without heartbeats, as its client waits for a response."""
        return not self.is_new and (self.pending_join is not None or self.pending_sync is not None)


@dataclass(slots=True)
class ClassicMembers:
    """Members by id, static ones by instance id too, and the leader, the first one that joined.

    pending_ids: ids that were assigned and have not been used to join yet.
    """

    by_id: dict[str, ClassicMember] = field(default_factory=dict)
    by_instance: dict[str, str] = field(default_factory=dict)
    pending_ids: set[str] = field(default_factory=set)
    leader_id: str | None = None

    def __len__(self) -> int:
        return len(self.by_id)

    def __contains__(self, member_id: object) -> bool:
        return member_id in self.by_id

    def in_map_order(self) -> list[ClassicMember]:
        """All members, in the iteration order of Kafka's map."""
        return [self.by_id[member_id] for member_id in JavaSet(java_hash, self.by_id)]

    def add_member(self, member: ClassicMember) -> None:
        """Add a member."""
        self.by_id[member.member_id] = member
        if member.group_instance_id is not None:
            self.by_instance[member.group_instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.pending_ids.discard(member.member_id)

    def remove_member(self, member_id: str) -> None:
        """Remove a member, or an assigned id; another member becomes leader if it was the leader."""
        self.pending_ids.discard(member_id)
        member = self.by_id.pop(member_id, None)
        if member is not None and member.group_instance_id is not None:
            self.by_instance.pop(member.group_instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next((other.member_id for other in self.in_map_order()), None)

    def replace_member_id(self, old_id: str, new_id: str) -> ClassicMember:
        """Set the new id of a restarted static member. Waiting requests of the old id are fenced."""
        member = self.by_id.pop(old_id)
        assert member.group_instance_id is not None
        member.complete_join(JoinResult(ErrorCode.FENCED_INSTANCE_ID, old_id))
        member.complete_sync(SyncResult(ErrorCode.FENCED_INSTANCE_ID))
        member.member_id = new_id
        member.is_new = False
        self.by_id[new_id] = member
        self.by_instance[member.group_instance_id] = new_id
        if self.leader_id == old_id:
            self.leader_id = new_id
        return member

    def find_validated(self, member_id: str, group_instance_id: str | None) -> ClassicMember:
        """Find a member by its member id and instance id.

        Raises: UNKNOWN_MEMBER_ID, and FENCED_INSTANCE_ID when the instance has another member id now.
        """
        if group_instance_id is not None:
            current_id = self.by_instance.get(group_instance_id)
            if current_id is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"no member has the instance id {group_instance_id}")
            if current_id != member_id:
                raise KafkaError(ErrorCode.FENCED_INSTANCE_ID, f"instance {group_instance_id} is {current_id} now")
        member = self.by_id.get(member_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"no member has the id {member_id}")
        return member

    def all_joined(self) -> bool:
        """Return whether all members have joined, assigned ids included."""
        return not self.pending_ids and all(member.pending_join is not None for member in self.by_id.values())

    def elect_joined_leader(self) -> bool:
        """Elect a leader that takes part in the join phase, if there is one."""
        if self.leader_id is None:
            return False
        if self.by_id[self.leader_id].pending_join is None:
            joined = next((member.member_id for member in self.in_map_order() if member.pending_join is not None), None)
            if joined is None:
                return False
            self.leader_id = joined
        return True

    def supports_any(self, protocol_names: Iterable[str]) -> bool:
        """Return whether all members support one of these protocols."""
        return not self._common_protocols(protocol_names).isdisjoint(protocol_names)

    def select_protocol(self) -> str | None:
        """The common protocol with the most votes, or None; each member votes for its first common one.

        Of two with equal votes the first one in the order of a Java map is selected.
        """
        common = self._common_protocols()
        votes: Counter[str] = Counter()
        for member in self.in_map_order():
            vote = next((name for name, _ in member.protocols if name in common), None)
            if vote is None:
                return None
            votes[vote] += 1
        return max(JavaSet(java_hash, votes), key=votes.__getitem__)

    def _common_protocols(self, names: Iterable[str] = ()) -> set[str]:
        """The protocols that are listed as often as there are members: with one listed twice, it is not a common one.

        names: other protocols, which are common to no members at all. Pinned by other-classic-duplicate-protocols.
        """
        listed = Counter(name for member in self.by_id.values() for name, _ in member.protocols)
        return {name for name in (*listed, *names) if listed[name] == len(self.by_id)}
