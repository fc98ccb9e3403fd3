"""The members of a classic group, and the protocol that all of them can speak."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.java_order import JavaSet
from mockbroker.state.topics import java_hash

T = TypeVar("T")
#: Name and metadata of each protocol a member offers, in its order of preference.
Protocols = tuple[tuple[str, bytes], ...]


class Promise(Generic[T]):
    """An answer that comes when the others of the group have done their part."""

    __slots__ = ("_told", "answer")

    def __init__(self, told: Callable[[], None] | None = None) -> None:
        self.answer: T | None = None
        self._told = told

    def keep(self, answer: T) -> None:
        """Give the answer, once; whoever waits is told."""
        if self.answer is None:
            self.answer = answer
            if self._told is not None:
                self._told()


@dataclass(frozen=True, slots=True)
class JoinAnswer:
    """What a JoinGroup is answered. members: id, instance id and metadata of each, for the leader only."""

    error: ErrorCode = ErrorCode.NONE
    member_id: str = ""
    generation_id: int = -1
    protocol_type: str | None = None
    protocol_name: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[tuple[str, str | None, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class SyncAnswer:
    """What a SyncGroup is answered."""

    error: ErrorCode = ErrorCode.NONE
    protocol_type: str | None = None
    protocol_name: str | None = None
    assignment: bytes = b""


@dataclass(slots=True)
class ClassicMember:
    """One member. joining, syncing: the request of it that waits, if any.

    is_new: it has not been through a whole join phase yet, so that its waiting does not keep it alive.
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
    joining: Promise[JoinAnswer] | None = None
    syncing: Promise[SyncAnswer] | None = None

    def metadata(self, protocol_name: str) -> bytes:
        """What the member said for this protocol."""
        return dict(self.protocols).get(protocol_name, b"")

    def answer_join(self, answer: JoinAnswer) -> None:
        """Answer its waiting JoinGroup, if there is one."""
        promise, self.joining = self.joining, None
        if promise is not None:
            promise.keep(answer)

    def answer_sync(self, answer: SyncAnswer) -> bool:
        """Answer its waiting SyncGroup, and say whether there was one."""
        promise, self.syncing = self.syncing, None
        if promise is None:
            return False
        promise.keep(answer)
        return True

    @property
    def waiting_keeps_alive(self) -> bool:
        """Say whether its session goes on without heartbeats, as its client waits for our answer."""
        return not self.is_new and (self.joining is not None or self.syncing is not None)


@dataclass(slots=True)
class ClassicMembers:
    """Members by id, static ones by instance id too, and the leader, the first that joined.

    pending: ids that were given out and have not joined with them yet.
    """

    by_id: dict[str, ClassicMember] = field(default_factory=dict)
    by_instance: dict[str, str] = field(default_factory=dict)
    pending: set[str] = field(default_factory=set)
    leader_id: str | None = None

    def __len__(self) -> int:
        return len(self.by_id)

    def __contains__(self, member_id: object) -> bool:
        return member_id in self.by_id

    def all(self) -> list[ClassicMember]:
        """All members, in the order in which Kafka's map walks."""
        return [self.by_id[member_id] for member_id in JavaSet(java_hash, self.by_id)]

    def add(self, member: ClassicMember) -> None:
        """Take a member in."""
        self.by_id[member.member_id] = member
        if member.group_instance_id is not None:
            self.by_instance[member.group_instance_id] = member.member_id
        if self.leader_id is None:
            self.leader_id = member.member_id
        self.pending.discard(member.member_id)

    def remove(self, member_id: str) -> None:
        """Forget a member, or an id that was given out; another member leads if it led."""
        self.pending.discard(member_id)
        member = self.by_id.pop(member_id, None)
        if member is not None and member.group_instance_id is not None:
            self.by_instance.pop(member.group_instance_id, None)
        if self.leader_id == member_id:
            self.leader_id = next((other.member_id for other in self.all()), None)

    def replace(self, old_id: str, new_id: str) -> ClassicMember:
        """Give a static member its new id: its client has restarted. What the old one waits for is fenced."""
        old = self.by_id.pop(old_id)
        assert old.group_instance_id is not None
        old.answer_join(JoinAnswer(ErrorCode.FENCED_INSTANCE_ID, old_id))
        old.answer_sync(SyncAnswer(ErrorCode.FENCED_INSTANCE_ID))
        old.member_id = new_id
        old.is_new = False
        self.by_id[new_id] = old
        self.by_instance[old.group_instance_id] = new_id
        if self.leader_id == old_id:
            self.leader_id = new_id
        return old

    def validated(self, member_id: str, group_instance_id: str | None) -> ClassicMember:
        """Find a member by what it says of itself.

        Raises: UNKNOWN_MEMBER_ID, and FENCED_INSTANCE_ID when the instance has another member id now.
        """
        if group_instance_id is not None:
            known = self.by_instance.get(group_instance_id)
            if known is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"no member has the instance id {group_instance_id}")
            if known != member_id:
                raise KafkaError(ErrorCode.FENCED_INSTANCE_ID, f"instance {group_instance_id} is {known} now")
        member = self.by_id.get(member_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID, f"no member has the id {member_id}")
        return member

    def all_joined(self) -> bool:
        """Say whether nobody is missing from the join phase, ids that were given out included."""
        return not self.pending and all(member.joining is not None for member in self.by_id.values())

    def elect_joined_leader(self) -> bool:
        """Have a leader that takes part in the join phase, if anybody does."""
        if self.leader_id is None:
            return False
        if self.by_id[self.leader_id].joining is None:
            joined = next((member.member_id for member in self.all() if member.joining is not None), None)
            if joined is None:
                return False
            self.leader_id = joined
        return True

    def supports(self, protocol_names: Iterable[str]) -> bool:
        """Say whether all members know one of these protocols."""
        return not self._common().isdisjoint(protocol_names)

    def select_protocol(self) -> str:
        """The protocol with the most votes among those that all know; each member votes for its first such one.

        Of two with as many votes the one wins that a Java map walks to first.
        """
        common = self._common()
        votes = Counter(next(name for name, _ in member.protocols if name in common) for member in self.all())
        return max(JavaSet(java_hash, votes), key=votes.__getitem__)

    def _common(self) -> set[str]:
        offered = [{name for name, _ in member.protocols} for member in self.by_id.values()]
        return set.intersection(*offered) if offered else set()
