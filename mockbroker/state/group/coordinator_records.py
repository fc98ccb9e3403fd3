"""Values of a group coordinator's log records: a record is a key and the value that it has from now on.

Every group writes its records with a `GroupRecords`, and is rebuilt from them where another node takes over.
Source: the record types of Kafka's GroupCoordinatorRecordHelpers; share-semantics 5.8 for those of share groups.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from mockbroker.state.metadata.topics import TopicPartitionKey

#: Topic id to partition indexes.
PartitionsByTopic = Mapping[bytes, frozenset[int]]
#: (topic id, partition) to the member epoch in which it was assigned.
PartitionEpochs = Mapping[TopicPartitionKey, int]


class RecordKind(IntEnum):
    """The types of records; the numbers are those of Kafka's keys."""

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


#: The record types of share groups.
SHARE_RECORD_KINDS = frozenset(kind for kind in RecordKind if kind.name.startswith("SHARE"))


class ClassicMemberValue(NamedTuple):
    """A member of a complete generation; subscription and assignment are opaque."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class ClassicGroupValue(NamedTuple):
    """The last complete generation of a classic group. state_since_ms: the time of its last state change."""

    protocol_type: str
    generation_id: int
    protocol_name: str | None
    leader_id: str | None
    state_since_ms: int
    members: tuple[ClassicMemberValue, ...]


class GroupEpochValue(NamedTuple):
    """A group's epoch, and the digest of its subscribed metadata."""

    epoch: int
    digest: int


class ClassicProtocolMetadata(NamedTuple):
    """The classic protocol fields of a consumer group member; protocols: with metadata, best first."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]


class MemberMetadataValue(NamedTuple):
    """Metadata of a member of the newer protocols; a share member has only the first four fields."""

    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    instance_id: str | None = None
    subscribed_topic_regex: str = ""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicProtocolMetadata | None = None


class TargetEpochValue(NamedTuple):
    """The epoch of the target assignment, and when it was computed."""

    epoch: int
    assigned_at_ms: int


class TargetAssignmentValue(NamedTuple):
    """The target assignment of a member."""

    partitions: PartitionsByTopic


class ConsumerCurrentValue(NamedTuple):
    """The current assignment of a consumer. state: the number of its `MemberState`."""

    member_epoch: int
    previous_member_epoch: int
    state: int
    assigned: PartitionEpochs
    revoking: PartitionEpochs


class SubscribedTopicsValue(NamedTuple):
    """The subscribed topics of a group, where its epoch record has no digest: id, name, and partitions."""

    topics: tuple[tuple[bytes, str, int], ...]


class ShareCurrentValue(NamedTuple):
    """The current assignment of a share consumer."""

    member_epoch: int
    previous_member_epoch: int
    assigned: PartitionsByTopic


class SharePartitionStatesValue(NamedTuple):
    """The share-partitions with state at the share coordinator. epoch: the group's, where it is stored."""

    initializing: PartitionsByTopic
    initialized: PartitionsByTopic
    deleting: frozenset[bytes]
    epoch: int = 0


class RegexValue(NamedTuple):
    """The topics of an expression. version: that of the metadata it was resolved with."""

    names: frozenset[str]
    version: int
    resolved_at_ms: int


#: One of the named tuples above, or of those of streams groups (`mockbroker.state.streams.streams_record_values`).
RecordValue = tuple[object, ...]


class CoordinatorRecord(NamedTuple):
    """One record. name: the member id or the expression, "" for singletons. value None: a tombstone."""

    kind: RecordKind
    group_id: str
    name: str
    value: RecordValue | None


#: Appends the records of one operation at once, and the time.
AppendRecords = Callable[[str, Sequence[CoordinatorRecord], int], None]


def discard_records(_group_id: str, _facts: Sequence[CoordinatorRecord], _now_ms: int) -> None:
    """An `AppendRecords` without a log."""


#: The order of a group's tombstones; singletons are written even without a record.
_TOMBSTONE_ORDER: tuple[tuple[RecordKind, ...], ...] = (
    (RecordKind.CLASSIC_GROUP,),
    (
        RecordKind.CONSUMER_CURRENT,
        RecordKind.CONSUMER_TARGET,
        RecordKind.CONSUMER_TARGET_EPOCH,
        RecordKind.CONSUMER_MEMBER,
        RecordKind.CONSUMER_REGEX,
        RecordKind.CONSUMER_TOPICS,
        RecordKind.CONSUMER_EPOCH,
    ),
    (
        RecordKind.SHARE_CURRENT,
        RecordKind.SHARE_TARGET,
        RecordKind.SHARE_TARGET_EPOCH,
        RecordKind.SHARE_MEMBER,
        RecordKind.SHARE_STATES,
        RecordKind.SHARE_EPOCH,
    ),
    (
        RecordKind.STREAMS_CURRENT,
        RecordKind.STREAMS_TARGET,
        RecordKind.STREAMS_TARGET_EPOCH,
        RecordKind.STREAMS_MEMBER,
        RecordKind.STREAMS_EPOCH,
        RecordKind.STREAMS_TOPOLOGY,
    ),
)
#: A group has many records of these types, each with the name of a member or an expression.
_NAMED_KINDS = frozenset(
    {
        RecordKind.CONSUMER_MEMBER,
        RecordKind.CONSUMER_TARGET,
        RecordKind.CONSUMER_CURRENT,
        RecordKind.CONSUMER_REGEX,
        RecordKind.SHARE_MEMBER,
        RecordKind.SHARE_TARGET,
        RecordKind.SHARE_CURRENT,
        RecordKind.STREAMS_MEMBER,
        RecordKind.STREAMS_TARGET,
        RecordKind.STREAMS_CURRENT,
    }
)


class GroupRecords:
    """The records of one group in the log, and the changes to write next.

    Stored values must not be modified: containers in a new value have to be new.
    """

    __slots__ = ("_append_records", "_changes", "_values", "group_id")

    def __init__(self, group_id: str, append_records: AppendRecords) -> None:
        self.group_id = group_id
        self._append_records = append_records
        self._values: dict[tuple[RecordKind, str], RecordValue] = {}
        self._changes: list[CoordinatorRecord] = []

    @property
    def is_empty(self) -> bool:
        """Return whether the log has no record of the group."""
        return not self._values

    def assume_written(self, kind: RecordKind, value: RecordValue) -> None:
        """Set a value that every new group has, and that is not written."""
        self._values[kind, ""] = value

    def set_if_changed(self, kind: RecordKind, value: RecordValue, name: str = "") -> None:
        """Set a value, and write it if it has changed."""
        if self._values.get((kind, name)) != value:
            self.set_value(kind, value, name)

    def set_value(self, kind: RecordKind, value: RecordValue, name: str = "") -> None:
        """Set a value, and write it in any case."""
        self._values[kind, name] = value
        self._changes.append(CoordinatorRecord(kind, self.group_id, name, value))

    def add_tombstone(self, kind: RecordKind, name: str, *, anyway: bool = False) -> None:
        """Remove a member or an expression; the tombstone is written if it existed, or with `anyway`."""
        if self._values.pop((kind, name), None) is not None or anyway:
            self._changes.append(CoordinatorRecord(kind, self.group_id, name, None))

    def names_of_kind(self, kind: RecordKind) -> list[str]:
        """The members or expressions with a record of this type, in insertion order."""
        return [name for noted_kind, name in self._values if noted_kind is kind]

    def add_tombstones_of(self, former: GroupRecords, kind: RecordKind) -> None:
        """Add the tombstones of the group that had this id before: both are written at once.

        kind: any record type of the former group's type.
        """
        for record_kind in next(kinds for kinds in _TOMBSTONE_ORDER if kind in kinds):
            names = former.names_of_kind(record_kind) if record_kind in _NAMED_KINDS else [""]
            self._changes += [CoordinatorRecord(record_kind, self.group_id, name, None) for name in names]

    def write_tombstones(self, kind: RecordKind, now_ms: int) -> None:
        """Write the tombstones of the whole group."""
        self.add_tombstones_of(self, kind)
        self._values.clear()
        self.flush(now_ms)

    def flush(self, now_ms: int) -> None:
        """Write all changes since the last time."""
        if self._changes:
            changes, self._changes = self._changes, []
            self._append_records(self.group_id, changes, now_ms)

    def replay_record(self, record: CoordinatorRecord) -> None:
        """Apply a record of the log."""
        if record.value is None:
            self._values.pop((record.kind, record.name), None)
        else:
            self._values[record.kind, record.name] = record.value
