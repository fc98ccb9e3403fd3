"""Topics and partitions, topic names, and the internal topics of coordinators."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from enum import IntEnum
from functools import lru_cache

import msgspec

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError

#: A topic id and a partition index.
TopicPartitionKey = tuple[bytes, int]

_NAME = re.compile(r"[a-zA-Z0-9._-]+")
_NAME_LENGTH_MAX = 249


class CoordinatorKind(IntEnum):
    """The types of coordinators; the numbers of FindCoordinator's key type."""

    GROUP = 0
    TRANSACTION = 1
    SHARE = 2


class InternalTopic(msgspec.Struct, frozen=True):
    """An internal topic for a coordinator's records; sizes come from the broker's configuration."""

    name: str
    count_key: str
    replication_key: str


#: Source: Kafka's AutoTopicCreationManager.
INTERNAL_TOPICS: Mapping[CoordinatorKind, InternalTopic] = {
    CoordinatorKind.GROUP: InternalTopic(
        "__consumer_offsets", "offsets.topic.num.partitions", "offsets.topic.replication.factor"
    ),
    CoordinatorKind.TRANSACTION: InternalTopic(
        "__transaction_state", "transaction.state.log.num.partitions", "transaction.state.log.replication.factor"
    ),
    CoordinatorKind.SHARE: InternalTopic(
        "__share_group_state",
        "share.coordinator.state.topic.num.partitions",
        "share.coordinator.state.topic.replication.factor",
    ),
}
_INTERNAL_NAMES = frozenset(topic.name for topic in INTERNAL_TOPICS.values())


class Partition(msgspec.Struct):
    """One partition: its leader, leader epoch and replicas. A leader of -1 is none.

    elr, last_known_elr: the eligible leader replicas of KIP-966, which may lead again though they are not in sync.
    adding, removing: the `replicas` that an ongoing reassignment adds, and those that it removes at its end.
    """

    index: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def is_being_reassigned(self) -> bool:
        """Return whether a reassignment is in progress."""
        return bool(self.adding or self.removing)


class Topic(msgspec.Struct):
    """A topic; its id is 16 raw bytes and never reused after a deletion."""

    name: str
    topic_id: bytes
    partitions: list[Partition]
    internal: bool = False

    def partition(self, index: int) -> Partition | None:
        """The partition of this index, or None."""
        return self.partitions[index] if 0 <= index < len(self.partitions) else None

    @property
    def replication_factor(self) -> int:
        """The number of replicas of the first partition, as CreateTopics reports it."""
        return len(self.partitions[0].replicas)


#: Partitions with their topics.
TopicPartitions = Collection[tuple[Topic, Partition]]


def validate_topic_name(name: str) -> None:
    """Reject an invalid topic name."""
    if not name:
        problem = "the empty string is not allowed"
    elif name in (".", ".."):
        problem = f"'{name}' is not allowed"
    elif len(name) > _NAME_LENGTH_MAX:
        shown = f"'{name[:_NAME_LENGTH_MAX]}...'"
        problem = f"{shown} has {len(name)} characters, more than {_NAME_LENGTH_MAX}"
    elif not _NAME.fullmatch(name):
        problem = f"'{name}' has characters other than a-z, A-Z, 0-9, '.', '_' and '-'"
    else:
        return
    raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")


def is_valid_topic_name(name: str) -> bool:
    """Return whether Kafka accepts this as a topic name."""
    return 0 < len(name) <= _NAME_LENGTH_MAX and name not in (".", "..") and _NAME.fullmatch(name) is not None


def is_internal_topic(name: str) -> bool:
    """Return whether the name is that of a coordinator's internal topic."""
    return name in _INTERNAL_NAMES


@lru_cache(maxsize=256)  # Each request of a coordinator asks for the same few keys several times.
def java_hash(text: str) -> int:
    """String.hashCode of Java: over UTF-16 units, in 32 signed bits."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for at in range(0, len(units), 2):
        value = (31 * value + (units[at] << 8 | units[at + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


@lru_cache(maxsize=1024)
def partition_for_key(key: str, partition_count: int) -> int:
    """The partition of a coordinator's key; the hash Integer.MIN_VALUE, which has no absolute value, counts as 0."""
    value = java_hash(key)
    return (0 if value == -(1 << 31) else abs(value)) % partition_count
