"""The cluster's image: topics, partitions with their leaders, and where coordinators live."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Protocol

import msgspec

from kwire import uuids
from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state import placement
from mockbroker.state.topics import (
    INTERNAL_TOPICS,
    CoordinatorKind,
    Partition,
    Topic,
    is_internal,
    is_valid_topic_name,
    java_hash,
    partition_of,
    validate_topic_name,
)

__all__ = [
    "Change",
    "CoordinatorKind",
    "Metadata",
    "Partition",
    "Topic",
    "is_internal",
    "is_valid_topic_name",
    "java_hash",
    "partition_of",
    "validate_topic_name",
]


class Chance(Protocol):
    """What this room needs of a seeded `random.Random`."""

    def getrandbits(self, k: int, /) -> int:
        """k random bits."""

    def randrange(self, stop: int, /) -> int:
        """A number from 0 to stop - 1."""


class Change(Enum):
    """What happened to a topic, told to whoever watches."""

    CREATED = "created"
    DELETED = "deleted"
    GREW = "grew"
    LED_ANEW = "led anew"


Watcher = Callable[[Change, Topic], None]


class Metadata(msgspec.Struct):
    """All topics of the cluster by name and id.

    node_ids: the brokers, in order. config: broker configuration by Kafka's names. `version` counts every change,
    so that groups can tell whether topics changed since they looked. `fenced`: brokers that are down, or count as such.
    `is_cold`: internal topics are not made on the spot.
    """

    node_ids: Sequence[int]
    config: Mapping[str, object]
    chance: Chance
    version: int = 0
    fenced: set[int] = msgspec.field(default_factory=set)
    is_cold: bool = False
    _by_name: dict[str, Topic] = msgspec.field(default_factory=dict)
    _folded: dict[str, str] = msgspec.field(default_factory=dict)
    _by_id: dict[bytes, Topic] = msgspec.field(default_factory=dict)
    _watchers: list[Watcher] = msgspec.field(default_factory=list)

    def watch(self, watcher: Watcher) -> None:
        """Have `watcher(change, topic)` called after each change of a topic."""
        self._watchers.append(watcher)

    def unwatch(self, watcher: Watcher) -> None:
        """Tell this watcher no more."""
        self._watchers.remove(watcher)

    def topic(self, name: str) -> Topic | None:
        """The topic of this name, or None."""
        return self._by_name.get(name)

    def topic_by_id(self, topic_id: bytes) -> Topic | None:
        """The topic of this id, or None."""
        return self._by_id.get(topic_id)

    def topics(self) -> list[Topic]:
        """All topics in order of their names."""
        return [self._by_name[name] for name in sorted(self._by_name)]

    def leader(self, topic_id: bytes, partition_index: int) -> Partition | None:
        """The partition with its leader, or None when there is no such topic or partition."""
        topic = self._by_id.get(topic_id)
        return topic.partition(partition_index) if topic else None

    @property
    def rack(self) -> str | None:
        """The rack of all brokers, or None: they share one configuration."""
        rack = self.config["broker.rack"]
        return rack if isinstance(rack, str) else None

    @property
    def controller_id(self) -> int:
        """The broker that clients are told is the controller; the requests for it are forwarded from any."""
        return next((node_id for node_id in self.node_ids if node_id not in self.fenced), -1)

    def plan_topic(
        self,
        name: str,
        *,
        partition_count: int | None = None,
        replication_factor: int | None = None,
        assignments: Mapping[int, Sequence[int]] | None = None,
    ) -> Topic:
        """A topic as it would be made, with a fresh id; nothing is stored until `add`.

        None stands for the broker's num.partitions and default.replication.factor. assignments: the replicas of each
        partition, the first one leads.
        Raises: INVALID_TOPIC_EXCEPTION, TOPIC_ALREADY_EXISTS, INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR,
        INVALID_REPLICA_ASSIGNMENT. Source: Kafka's ReplicationControlManager.createTopic.
        """
        self.check_name(name)
        if assignments is not None:
            placed = placement.assigned(self.node_ids, assignments)
        else:
            placed = self._place(
                _positive(partition_count, self.config["num.partitions"], ErrorCode.INVALID_PARTITIONS),
                _positive(
                    replication_factor, self.config["default.replication.factor"], ErrorCode.INVALID_REPLICATION_FACTOR
                ),
            )
        partitions = [self._partition(index, replicas) for index, replicas in enumerate(placed)]
        return Topic(name, self._new_id(), partitions, is_internal(name))

    def add(self, topic: Topic) -> Topic:
        """Make a planned topic known."""
        self._by_name[topic.name] = topic
        self._folded[_fold(topic.name)] = topic.name
        self._by_id[topic.topic_id] = topic
        self._changed(Change.CREATED, topic)
        return topic

    def create_topic(
        self,
        name: str,
        *,
        partition_count: int | None = None,
        replication_factor: int | None = None,
        assignments: Mapping[int, Sequence[int]] | None = None,
    ) -> Topic:
        """Plan a topic and make it known."""
        return self.add(
            self.plan_topic(
                name,
                partition_count=partition_count,
                replication_factor=replication_factor,
                assignments=assignments,
            )
        )

    def check_name(self, name: str) -> None:
        """Refuse a name that is malformed, taken, or differs from another only by . and _."""
        validate_topic_name(name)
        if name in self._by_name:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        if "." in name or "_" in name:
            other = self._folded.get(_fold(name))
            if other is not None:
                raise KafkaError(
                    ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}"
                )

    def delete_topic(self, topic: Topic) -> None:
        """Forget a topic; its id is never given again."""
        del self._by_name[topic.name]
        del self._folded[_fold(topic.name)]
        del self._by_id[topic.topic_id]
        self._changed(Change.DELETED, topic)

    def plan_partitions(
        self, topic: Topic, total: int, assignments: Sequence[Sequence[int]] | None = None
    ) -> list[Partition]:
        """The partitions that would bring a topic to `total`; nothing is stored until `grow`.

        assignments: the replicas of the new ones, as many as the topic's partitions have.
        Raises: INVALID_PARTITIONS, INVALID_REPLICA_ASSIGNMENT.
        """
        have = len(topic.partitions)
        if total <= have:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS, f"The topic {topic.name} has {have} partition(s); {total} is not more."
            )
        if assignments is None:
            placed = self._place(total - have, topic.replication_factor)
        else:
            if len(assignments) != total - have:
                raise KafkaError(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    f"{total - have} partition(s) are new, but {len(assignments)} assignment(s) were given.",
                )
            placed = [placement.checked(self.node_ids, replicas) for replicas in assignments]
            if any(len(replicas) != topic.replication_factor for replicas in placed):
                raise KafkaError(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"the replication factor is {topic.replication_factor}"
                )
        return [self._partition(index, replicas) for index, replicas in enumerate(placed, have)]

    def grow(self, topic: Topic, partitions: Sequence[Partition]) -> None:
        """Add planned partitions to a topic."""
        topic.partitions.extend(partitions)
        self._changed(Change.GREW, topic)

    def lead(self, topic: Topic, partition_index: int, leader: int) -> None:
        """Give a partition to another leader (-1: to none) in the next leader epoch."""
        partition = topic.partitions[partition_index]
        partition.leader = leader
        partition.leader_epoch += 1
        self._changed(Change.LED_ANEW, topic)

    def coordinator_for(self, kind: CoordinatorKind, key: str) -> int:
        """The node that coordinates this group, transactional id or share partition ("group:topicId:partition").

        Creates the internal topic on first use. A node id of -1 means that the partition has no leader.
        """
        return self.coordinator(kind, key).leader

    def coordinator(self, kind: CoordinatorKind, key: str) -> Partition:
        """The partition of the internal topic that this key's records go to; its leader coordinates."""
        topic = self.internal_topic(kind)
        return topic.partitions[partition_of(key, len(topic.partitions))]

    def coordinator_partition(self, kind: CoordinatorKind, key: str) -> int:
        """The partition of the internal topic that this key's records go to."""
        return partition_of(key, len(self.internal_topic(kind).partitions))

    def internal_topic(self, kind: CoordinatorKind) -> Topic:
        """The coordinator's own topic, created on first use.

        Raises: NOT_COORDINATOR where it is not there and the cluster is cold.
        """
        topic = self._by_name.get(INTERNAL_TOPICS[kind].name)
        if topic is None and self.is_cold:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, f"{INTERNAL_TOPICS[kind].name} has not been made")
        return topic if topic is not None else self.make_internal_topic(kind)

    def has_internal_topic(self, kind: CoordinatorKind) -> bool:
        """Say whether a coordinator's own topic is there."""
        return INTERNAL_TOPICS[kind].name in self._by_name

    def make_internal_topic(self, kind: CoordinatorKind) -> Topic:
        """Create a coordinator's own topic, unless it is there.

        A replication factor beyond the number of nodes is lowered to it: a mock of one node has to work with Kafka's
        defaults (3), where Kafka would say COORDINATOR_NOT_AVAILABLE for ever.
        """
        made = INTERNAL_TOPICS[kind]
        topic = self._by_name.get(made.name)
        if topic is None:
            count, factor = self.config[made.count_key], self.config[made.replication_key]
            assert isinstance(count, int)
            assert isinstance(factor, int)
            topic = self.create_topic(
                made.name, partition_count=count, replication_factor=min(factor, len(self.node_ids))
            )
        return topic

    def _partition(self, index: int, replicas: tuple[int, ...]) -> Partition:
        """A new partition; brokers that are down have no part in it yet.

        Raises: INVALID_REPLICA_ASSIGNMENT when all of them are.
        """
        if not self.fenced:
            return Partition(index, replicas[0], 0, replicas, replicas)
        living = tuple(replica for replica in replicas if replica not in self.fenced)
        if not living:
            raise KafkaError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"all brokers of partition {index} are fenced: {list(replicas)}"
            )
        down = tuple(replica for replica in replicas if replica in self.fenced)
        return Partition(index, living[0], 0, replicas, living, down)

    def _changed(self, change: Change, topic: Topic) -> None:
        self.version += 1
        for watcher in list(self._watchers):
            watcher(change, topic)

    def _place(self, count: int, factor: int) -> list[tuple[int, ...]]:
        living = [node_id for node_id in self.node_ids if node_id not in self.fenced]
        if not living:
            raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, "all brokers are fenced")
        # A broker that is down gets a copy only where there are not enough others.
        nodes = living if factor <= len(living) else self.node_ids
        start = self.chance.randrange(len(nodes))
        return placement.place(nodes, count=count, factor=factor, start=start)

    def _new_id(self) -> bytes:
        """A random UUID of version 4 whose text does not begin with a dash, as Kafka makes them."""
        while True:
            raw = bytearray(self.chance.getrandbits(128).to_bytes(16, "big"))
            raw[6] = raw[6] & 0x0F | 0x40
            raw[8] = raw[8] & 0x3F | 0x80
            topic_id = bytes(raw)
            if topic_id not in self._by_id and not uuids.to_text(topic_id).startswith("-"):
                return topic_id


def _positive(given: int | None, default: object, code: ErrorCode) -> int:
    if given is None:
        assert isinstance(default, int)
        return default
    if given <= 0:
        raise KafkaError(code, f"{given} is not a positive number")
    return given


def _fold(name: str) -> str:
    """What names that Kafka's metrics cannot tell apart have in common."""
    return name.replace(".", "_")
