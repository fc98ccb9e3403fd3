"""What every group has, whatever its protocol, and what groups need to know of topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from functools import lru_cache
from typing import ClassVar, Protocol

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.group_facts import Fact, Ledger, TopicsFact

#: Kafka's configuration names to their values in force: those of one group, or those of the broker.
Settings = Mapping[str, object]
#: Topic id to the partitions of it that somebody has.
Assignment = dict[bytes, frozenset[int]]
#: Of a topic: name, id, number of partitions, the rack that all brokers are in, replicas by partition.
Seen = tuple[str, bytes, int, str | None, tuple[int, ...]]


class GroupType(Enum):
    """The kinds of groups, with the names that ListGroups shows."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


class TopicLike(Protocol):
    """The part of a topic that groups look at."""

    @property
    def name(self) -> str:
        """The topic's name."""

    @property
    def topic_id(self) -> bytes:
        """16 raw bytes; a topic that is made again has another one."""

    @property
    def partitions(self) -> Sequence[object]:
        """One entry for each partition."""


class Topics(Protocol):
    """The cluster's topics, by either name; `state.metadata.Metadata` is one."""

    @property
    def version(self) -> int:
        """A number that grows with every change of a topic."""

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
    """What the registry and the listing know of a group."""

    kind: ClassVar[GroupType]
    group_id: str
    ledger: Ledger

    @property
    def state_name(self) -> str:
        """The state as the wire says it: "Empty", "Stable", ..."""

    @property
    def protocol_type(self) -> str:
        """What ListGroups shows as protocol type: "consumer", "share", "connect", ..."""

    def is_deletable(self) -> bool:
        """Say whether DeleteGroups may remove it: nobody is in it."""

    def replay(self, fact: Fact, *, now_ms: int) -> None:
        """Take over a fact from the coordinator's log."""

    def resume(self, *, settings: Settings, now_ms: int) -> None:
        """Go on once all facts are there: sessions begin anew."""


def number(settings: Settings, name: str) -> int:
    """Read a setting that is a whole number."""
    value = settings[name]
    assert isinstance(value, int)
    return value


def metadata_digest(names: Sequence[str], topics: Topics) -> int:
    """Sum up in 64 bits what a subscription sees of the metadata: it changes when a topic comes, goes or grows.

    0 for nothing. Source: Kafka's ModernGroup.computeMetadataHash; members of the group's records have it.
    """
    rack = topics.rack
    found = (topics.topic(name) for name in sorted(names))
    return _digest(tuple(_seen(topic, rack) for topic in found if topic is not None))


def seen_topics(names: Sequence[str], topics: Topics) -> TopicsFact:
    """The same, topic by topic."""
    found = (topics.topic(name) for name in sorted(names))
    return TopicsFact(
        tuple((topic.topic_id, topic.name, len(topic.partitions)) for topic in found if topic is not None)
    )


def digest_of(seen: TopicsFact, topics: Topics) -> int:
    """What `metadata_digest` was when these topics were seen; racks are looked up now."""
    rows: list[Seen] = []
    for topic_id, name, count in seen.topics:
        now = topics.topic(name)
        counts = _seen(now, topics.rack)[-1] if now is not None else ()
        rows.append((name, topic_id, count, topics.rack, counts))
    return _digest(tuple(rows))


def _seen(topic: TopicLike, rack: str | None) -> Seen:
    """What the hash of a topic is made of; the replicas of a partition count only where brokers have a rack."""
    counts = () if rack is None else tuple(len(getattr(one, "replicas", ())) for one in topic.partitions)
    return topic.name, topic.topic_id, len(topic.partitions), rack, counts


@lru_cache(maxsize=1024)
def _digest(seen: tuple[Seen, ...]) -> int:
    if not seen:
        return 0
    from mockbroker.state.metadata_hash import group_hash, topic_hash

    return group_hash(topic_hash(*topic) for topic in seen)


def is_due(*, last_ms: int | None, interval_ms: int, now_ms: int) -> bool:
    """Say whether a group may compute its next target assignment: the first one is never held back."""
    return last_ms is None or interval_ms == 0 or now_ms >= last_ms + interval_ms


def check_member_epoch(*, member_epoch: int, current: int, previous: int) -> None:
    """Let a share group's member pass that knows the epoch in force, or the one before (its answer may be lost).

    Raises: FENCED_MEMBER_EPOCH. Source: share-semantics 5.1 rule 13.
    """
    if member_epoch > current:
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The member epoch {member_epoch} is larger than the one known here, {current}.",
        )
    if member_epoch not in (current, previous):
        raise KafkaError(
            ErrorCode.FENCED_MEMBER_EPOCH,
            f"The member epoch {member_epoch} is neither the current one, {current}, nor the previous one, {previous}.",
        )
