"""Properties of groups of all protocols, and the metadata that groups use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from functools import lru_cache
from typing import ClassVar, Protocol

from mockbroker.state.group.coordinator_records import CoordinatorRecord, GroupRecords, SubscribedTopicsValue
from mockbroker.state.metadata.topics import TopicPartitionKey
from mockbroker.state.settings import Settings

#: Topic id to assigned partition indexes.
Assignment = dict[bytes, frozenset[int]]
#: Of a topic: name, id, number of partitions, the rack that all brokers are in, replicas by partition.
SeenTopic = tuple[str, bytes, int, str | None, tuple[int, ...]]


class GroupType(Enum):
    """The kinds of groups, with the names that ListGroups shows."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


class TopicLike(Protocol):
    """The properties of a topic that groups use."""

    @property
    def name(self) -> str:
        """The topic's name."""

    @property
    def topic_id(self) -> bytes:
        """16 raw bytes; a recreated topic has another one."""

    @property
    def partitions(self) -> Sequence[object]:
        """One entry for each partition."""


class Topics(Protocol):
    """The cluster's topics, by name and id; `ClusterImage` implements it."""

    @property
    def version(self) -> int:
        """A number that grows with every change of a topic."""

    @property
    def created_version(self) -> int:
        """The `version` of the last change that created a topic."""

    @property
    def rack(self) -> str | None:
        """The rack of all brokers, or None."""

    def topics(self) -> Sequence[TopicLike]:
        """All topics."""

    def topic(self, name: str) -> TopicLike | None:
        """The topic of this name, or None."""

    def topic_by_id(self, topic_id: bytes) -> TopicLike | None:
        """The topic of this id, or None."""


class Group(Protocol):
    """The properties of a group that the registry and ListGroups use."""

    kind: ClassVar[GroupType]
    group_id: str
    records: GroupRecords

    @property
    def state_name(self) -> str:
        """The state in responses: "Empty", "Stable", ..."""

    @property
    def protocol_type(self) -> str:
        """The protocol type of ListGroups: "consumer", "share", "connect", ..."""

    def is_deletable(self) -> bool:
        """Return whether DeleteGroups may delete it: it has no members."""

    def member_ids(self) -> list[str]:
        """The ids of its members."""

    def fence_member(self, member_id: str, *, now_ms: int) -> None:
        """Remove a member as at the end of its session. Raises: UNKNOWN_MEMBER_ID."""

    def replay(self, record: CoordinatorRecord, *, now_ms: int) -> None:
        """Apply a record of the coordinator's log."""

    def resume(self, *, settings: Settings, now_ms: int) -> None:
        """Continue after all records are replayed: sessions start again."""


def group_by_topic(partitions: Iterable[TopicPartitionKey]) -> Assignment:
    """(topic id, partition) pairs as an assignment."""
    grouped: dict[bytes, set[int]] = {}
    for topic_id, index in partitions:
        grouped.setdefault(topic_id, set()).add(index)
    return {topic_id: frozenset(indexes) for topic_id, indexes in grouped.items()}


def existing_topics(names: Iterable[str], topics: Topics) -> list[TopicLike]:
    """The topics of these names, as far as they exist."""
    return [topic for topic in map(topics.topic, names) if topic is not None]


def topic_ids_of(names: Iterable[str], topics: Topics) -> frozenset[bytes]:
    """The ids of these topics, as far as they exist."""
    return frozenset(topic.topic_id for topic in existing_topics(names, topics))


def metadata_digest(names: Sequence[str], topics: Topics) -> int:
    """A 64-bit digest of the subscribed metadata: it changes when a topic is created, deleted or gets partitions.

    0 for nothing. Source: Kafka's ModernGroup.computeMetadataHash; the group's records contain it.
    """
    rack = topics.rack
    return _hash_topics(tuple(_describe_topic(topic, rack) for topic in existing_topics(sorted(names), topics)))


def subscribed_topics_value(names: Sequence[str], topics: Topics) -> SubscribedTopicsValue:
    """The subscribed topics themselves."""
    existing = existing_topics(sorted(names), topics)
    return SubscribedTopicsValue(tuple((topic.topic_id, topic.name, len(topic.partitions)) for topic in existing))


def recorded_metadata_digest(recorded: SubscribedTopicsValue, topics: Topics) -> int:
    """The `metadata_digest` of recorded topics; racks are looked up now."""
    rows: list[SeenTopic] = []
    for topic_id, name, count in recorded.topics:
        present = topics.topic(name)
        counts = _describe_topic(present, topics.rack)[-1] if present is not None else ()
        rows.append((name, topic_id, count, topics.rack, counts))
    return _hash_topics(tuple(rows))


def _describe_topic(topic: TopicLike, rack: str | None) -> SeenTopic:
    """The values that the hash of a topic uses; replicas count only where brokers have a rack."""
    counts = () if rack is None else tuple(len(getattr(partition, "replicas", ())) for partition in topic.partitions)
    return topic.name, topic.topic_id, len(topic.partitions), rack, counts


@lru_cache(maxsize=1024)
def _hash_topics(topics: tuple[SeenTopic, ...]) -> int:
    if not topics:
        return 0
    from mockbroker.state.group.metadata_hash import group_hash, topic_hash

    return group_hash(topic_hash(*topic) for topic in topics)


def is_assignment_due(*, last_ms: int | None, interval_ms: int, now_ms: int) -> bool:
    """Return whether a group may compute its next target assignment: the first one is never delayed.

    last_ms: the time of the last one; None or 0 without one.
    """
    return not last_ms or interval_ms == 0 or now_ms >= last_ms + interval_ms
