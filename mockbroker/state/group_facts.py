"""What a group coordinator's log says of groups, as plain values: a fact is a key, and the value it has from now on.

Every group notes its facts in a `Ledger`, and is made again from them where another node takes over. Source: the record
types of Kafka's GroupCoordinatorRecordHelpers; share-semantics 5.8 for those of share groups.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from mockbroker.state.streams_topology import Topology
from mockbroker.state.streams_values import (
    StreamsCurrentFact,
    StreamsEpochFact,
    StreamsMemberFact,
    StreamsTargetFact,
)

#: Topic id to the partitions of it that somebody has.
Partitions = Mapping[bytes, frozenset[int]]
#: (topic id, partition) to the member epoch in which it was assigned.
Epochs = Mapping[tuple[bytes, int], int]


class FactKind(IntEnum):
    """What a fact is about. The numbers are the types of Kafka's keys."""

    CLASSIC_GROUP = 2
    CONSUMER_EPOCH = 3
    CONSUMER_TOPICS = 4
    CONSUMER_MEMBER = 5
    CONSUMER_TARGET_EPOCH = 6
    CONSUMER_TARGET = 7
    CONSUMER_CURRENT = 8
    SHARE_TOPICS = 9
    SHARE_MEMBER = 10
    SHARE_EPOCH = 11
    SHARE_TARGET_EPOCH = 12
    SHARE_TARGET = 13
    SHARE_CURRENT = 14
    SHARE_STATES = 15
    CONSUMER_REGEX = 16
    STREAMS_EPOCH = 17
    STREAMS_MEMBER = 19
    STREAMS_TARGET_EPOCH = 20
    STREAMS_TARGET = 21
    STREAMS_CURRENT = 22
    STREAMS_TOPOLOGY = 23


#: What facts of share groups are about.
SHARE_KINDS = frozenset(kind for kind in FactKind if kind.name.startswith("SHARE"))


class ClassicMemberFact(NamedTuple):
    """A member of a complete generation; subscription and assignment are the members' own business."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class ClassicGroupFact(NamedTuple):
    """A classic group as its last complete generation left it. state_since_ms: when it came into its state."""

    protocol_type: str
    generation_id: int
    protocol_name: str | None
    leader_id: str | None
    state_since_ms: int
    members: tuple[ClassicMemberFact, ...]


class EpochFact(NamedTuple):
    """A group's epoch, and what its subscriptions saw of the metadata then."""

    epoch: int
    digest: int


class ClassicSide(NamedTuple):
    """What a member of a consumer group has that speaks the classic protocol; protocols: with metadata, best first."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


class MemberFact(NamedTuple):
    """What a member of the newer protocols says of itself; a share member has only the first four."""

    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    instance_id: str | None = None
    subscribed_topic_regex: str = ""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicSide | None = None


class TargetEpochFact(NamedTuple):
    """The epoch of the target assignment, and when it was made."""

    epoch: int
    assigned_at_ms: int


class TargetFact(NamedTuple):
    """What a member should have."""

    partitions: Partitions


class ConsumerCurrentFact(NamedTuple):
    """What a consumer has. state: the number of its `MemberState`."""

    member_epoch: int
    previous_member_epoch: int
    state: int
    assigned: Epochs
    revoking: Epochs


class TopicsFact(NamedTuple):
    """The topics that a group sees, where its record of epochs does not sum them up: id, name, and partitions."""

    topics: tuple[tuple[bytes, str, int], ...]


class ShareCurrentFact(NamedTuple):
    """What a share consumer has."""

    member_epoch: int
    previous_member_epoch: int
    assigned: Partitions


class StatesFact(NamedTuple):
    """Which share-partitions have their state at the share coordinator. epoch: the group's, where that is told."""

    initializing: Partitions
    initialized: Partitions
    deleting: frozenset[bytes]
    epoch: int = 0


class RegexFact(NamedTuple):
    """The topics that an expression means. version: that of the metadata it was resolved with."""

    names: frozenset[str]
    version: int
    resolved_at_ms: int


Value = (
    ClassicGroupFact
    | EpochFact
    | MemberFact
    | TargetEpochFact
    | TargetFact
    | TopicsFact
    | ConsumerCurrentFact
    | ShareCurrentFact
    | StatesFact
    | RegexFact
    | StreamsEpochFact
    | StreamsMemberFact
    | StreamsTargetFact
    | StreamsCurrentFact
    | Topology
)


class Fact(NamedTuple):
    """One fact of a group. name: the member id or the expression, "" for what there is once. value None: no more."""

    kind: FactKind
    group_id: str
    name: str
    value: Value | None


#: Takes the facts that one operation has changed, to be written at once, and the time.
Record = Callable[[str, Sequence[Fact], int], None]


def keep_no_record(_group_id: str, _facts: Sequence[Fact], _now_ms: int) -> None:
    """A `Record` for groups that nobody takes over."""


#: In what order a group is struck out; kinds that there is one of are so even when they were never noted.
_BURIAL: tuple[tuple[FactKind, ...], ...] = (
    (FactKind.CLASSIC_GROUP,),
    (
        FactKind.CONSUMER_CURRENT,
        FactKind.CONSUMER_TARGET,
        FactKind.CONSUMER_TARGET_EPOCH,
        FactKind.CONSUMER_MEMBER,
        FactKind.CONSUMER_REGEX,
        FactKind.CONSUMER_TOPICS,
        FactKind.CONSUMER_EPOCH,
    ),
    (
        FactKind.SHARE_CURRENT,
        FactKind.SHARE_TARGET,
        FactKind.SHARE_TARGET_EPOCH,
        FactKind.SHARE_MEMBER,
        FactKind.SHARE_STATES,
        FactKind.SHARE_EPOCH,
    ),
    (
        FactKind.STREAMS_CURRENT,
        FactKind.STREAMS_TARGET,
        FactKind.STREAMS_TARGET_EPOCH,
        FactKind.STREAMS_MEMBER,
        FactKind.STREAMS_EPOCH,
        FactKind.STREAMS_TOPOLOGY,
    ),
)
_ONE_EACH = frozenset(
    {
        FactKind.CLASSIC_GROUP,
        FactKind.CONSUMER_EPOCH,
        FactKind.CONSUMER_TOPICS,
        FactKind.CONSUMER_TARGET_EPOCH,
        FactKind.SHARE_EPOCH,
        FactKind.SHARE_TARGET_EPOCH,
        FactKind.SHARE_STATES,
        FactKind.STREAMS_EPOCH,
        FactKind.STREAMS_TARGET_EPOCH,
        FactKind.STREAMS_TOPOLOGY,
    }
)


class Ledger:
    """The facts of one group as the log has them, and those that are to be written next.

    A value that was noted must not change any more: whoever notes one with containers makes new ones for the next.
    """

    __slots__ = ("_changes", "_noted", "_record", "group_id")

    def __init__(self, group_id: str, record: Record = keep_no_record) -> None:
        self.group_id = group_id
        self._record = record
        self._noted: dict[tuple[FactKind, str], Value] = {}
        self._changes: list[Fact] = []

    @property
    def is_empty(self) -> bool:
        """Say whether the log knows nothing of the group."""
        return not self._noted

    def presume(self, kind: FactKind, value: Value) -> None:
        """Take a fact for known that every new group has, and that is not written."""
        self._noted[kind, ""] = value

    def note(self, kind: FactKind, value: Value, name: str = "") -> None:
        """Note a fact, if it is news."""
        if self._noted.get((kind, name)) != value:
            self.put(kind, value, name)

    def put(self, kind: FactKind, value: Value, name: str = "") -> None:
        """Note a fact that is written whether it is news or not."""
        self._noted[kind, name] = value
        self._changes.append(Fact(kind, self.group_id, name, value))

    def strike(self, kind: FactKind, name: str, *, anyway: bool = False) -> None:
        """Note that a member or an expression is no more, if it was there or is to be struck out anyway."""
        if self._noted.pop((kind, name), None) is not None or anyway:
            self._changes.append(Fact(kind, self.group_id, name, None))

    def names(self, kind: FactKind) -> list[str]:
        """The members or expressions that there are facts of this kind of, in the order they came."""
        return [name for noted, name in self._noted if noted is kind]

    def succeed(self, former: Ledger, kind: FactKind) -> None:
        """Begin with the end of the group that had the name before: both are written at once.

        kind: any that groups of the former's type have.
        """
        for each in next(kinds for kinds in _BURIAL if kind in kinds):
            names = [""] if each in _ONE_EACH else former.names(each)
            self._changes += [Fact(each, self.group_id, name, None) for name in names]

    def bury(self, kind: FactKind, now_ms: int) -> None:
        """Have the end of the whole group written."""
        self.succeed(self, kind)
        self._noted.clear()
        self.write(now_ms)

    def write(self, now_ms: int) -> None:
        """Have everything written that was noted since the last time."""
        if self._changes:
            changes, self._changes = self._changes, []
            self._record(self.group_id, changes, now_ms)

    def replay(self, fact: Fact) -> None:
        """Take over what the log says."""
        if fact.value is None:
            self._noted.pop((fact.kind, fact.name), None)
        else:
            self._noted[fact.kind, fact.name] = fact.value
