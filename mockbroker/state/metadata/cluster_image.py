"""The cluster image: topics, partitions with their leaders, and the nodes of coordinators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum

import msgspec

from kwire import uuids
from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata import placement
from mockbroker.state.metadata.topics import (
    INTERNAL_TOPICS,
    CoordinatorKind,
    Partition,
    Topic,
    is_internal_topic,
    is_valid_topic_name,
    java_hash,
    partition_for_key,
    validate_topic_name,
)
from mockbroker.state.random_source import RandomSource

__all__ = [
    "TopicChange",
    "CoordinatorKind",
    "ClusterImage",
    "Partition",
    "Topic",
    "is_internal_topic",
    "is_valid_topic_name",
    "java_hash",
    "partition_for_key",
    "validate_topic_name",
]


class TopicChange(Enum):
    """A change of a topic, which listeners are called with."""

    CREATED = "created"
    DELETED = "deleted"
    PARTITIONS_ADDED = "partitions added"
    LEADER_CHANGED = "leader changed"


#: Gets the change, its topic, and the partitions that are new, have another leader or are gone; all that are left when
#: added ones were removed again.
TopicListener = Callable[[TopicChange, Topic, Sequence[Partition]], None]
#: The id of a topic, and the indexes of its partitions that have changed; None: the topic as a whole.
ChangedIndexes = tuple[bytes, tuple[int, ...] | None]


class ClusterImage(msgspec.Struct):
    """All topics of the cluster by name and id.

    node_ids: the brokers, in order. config: broker configuration by Kafka's names. version: the number of changes, by
    which groups detect changed topics. created_version: the version of the last new topic.
    partition_changes: the number of changes of replicas, ISRs and eligible leader replicas. fenced: brokers that are
    down, or treated so. in_controlled_shutdown: those that were stopped cleanly. is_cold: internal topics are not
    created on first use. changed_topics: what has changed, an entry for each change, None if they are not collected.
    before_deletion: is called with a topic before it is deleted, and may raise a KafkaError that refuses it.
    """

    node_ids: Sequence[int]
    config: Mapping[str, object]
    rng: RandomSource
    version: int = 0
    created_version: int = 0
    partition_changes: int = 0
    fenced: set[int] = msgspec.field(default_factory=set)
    in_controlled_shutdown: set[int] = msgspec.field(default_factory=set)
    is_cold: bool = False
    changed_topics: list[ChangedIndexes] | None = None
    before_deletion: Callable[[Topic], None] | None = None
    _by_name: dict[str, Topic] = msgspec.field(default_factory=dict)
    _names_by_folded: dict[str, list[str]] = msgspec.field(default_factory=dict)
    _by_id: dict[bytes, Topic] = msgspec.field(default_factory=dict)
    _listeners: list[TopicListener] = msgspec.field(default_factory=list)

    def add_listener(self, listener: TopicListener) -> None:
        """Call `listener(change, topic, partitions)` after each change of a topic."""
        self._listeners.append(listener)

    def remove_listener(self, listener: TopicListener) -> None:
        """Stop calling this listener."""
        self._listeners.remove(listener)

    def topic(self, name: str) -> Topic | None:
        """The topic of this name, or None."""
        return self._by_name.get(name)

    def topic_by_id(self, topic_id: bytes) -> Topic | None:
        """The topic of this id, or None."""
        return self._by_id.get(topic_id)

    @property
    def topics_by_id(self) -> Mapping[bytes, Topic]:
        """All topics by id; the object stays the same."""
        return self._by_id

    def topics(self) -> list[Topic]:
        """All topics in order of their names."""
        return [self._by_name[name] for name in sorted(self._by_name)]

    def find_partition(self, topic_id: bytes, partition_index: int) -> Partition | None:
        """The partition with its leader, or None without such a topic or partition."""
        topic = self._by_id.get(topic_id)
        return topic.partition(partition_index) if topic else None

    @property
    def rack(self) -> str | None:
        """The rack of all brokers, or None: they share one configuration."""
        rack = self.config["broker.rack"]
        return rack if isinstance(rack, str) else None

    @property
    def controller_id(self) -> int:
        """The broker that clients see as the controller; any broker forwards requests to the controller."""
        return next((node_id for node_id in self.node_ids if node_id not in self.fenced), -1)

    def plan_topic(
        self,
        name: str,
        *,
        partition_count: int | None = None,
        replication_factor: int | None = None,
        assignments: Mapping[int, Sequence[int]] | None = None,
    ) -> Topic:
        """A new topic with a fresh id; nothing is stored until `add_topic`.

        None stands for the broker's num.partitions and default.replication.factor. assignments: the replicas of each
        partition, the first one leads.
        Raises: INVALID_TOPIC_EXCEPTION, TOPIC_ALREADY_EXISTS, INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR,
        INVALID_REPLICA_ASSIGNMENT. Source: Kafka's ReplicationControlManager.createTopic.
        """
        self.check_topic_name(name)
        if assignments is not None:
            placed = placement.validate_assignments(self.node_ids, assignments)
        else:
            count = _positive_or_default(partition_count, self.config["num.partitions"], ErrorCode.INVALID_PARTITIONS)
            default = self.config["default.replication.factor"]
            factor = _positive_or_default(replication_factor, default, ErrorCode.INVALID_REPLICATION_FACTOR)
            placed = self._place_replicas(count, factor)
        partitions = [self._new_partition(index, replicas) for index, replicas in enumerate(placed)]
        return Topic(name, self._new_topic_id(), partitions, is_internal_topic(name))

    def add_topic(self, topic: Topic) -> Topic:
        """Add a planned topic."""
        self._by_name[topic.name] = topic
        self._names_by_folded.setdefault(_fold_name(topic.name), []).append(topic.name)
        self._by_id[topic.topic_id] = topic
        self._notify(TopicChange.CREATED, topic, topic.partitions)
        return topic

    def create_topic(
        self,
        name: str,
        *,
        partition_count: int | None = None,
        replication_factor: int | None = None,
        assignments: Mapping[int, Sequence[int]] | None = None,
    ) -> Topic:
        """Plan and add a topic."""
        topic = self.plan_topic(
            name, partition_count=partition_count, replication_factor=replication_factor, assignments=assignments
        )
        return self.add_topic(topic)

    def check_topic_name(self, name: str) -> None:
        """Reject a name that is invalid, in use, or differs from another only by . and _."""
        validate_topic_name(name)
        if name in self._by_name:
            raise KafkaError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        others = self._names_by_folded.get(_fold_name(name))
        if others:
            problem = f"Topic '{name}' collides with existing topic: {others[0]}"
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)

    def delete_topic(self, topic: Topic) -> None:
        """Delete a topic; its id is never reused. Raises: KafkaError of `before_deletion`."""
        if self.before_deletion is not None:
            self.before_deletion(topic)
        del self._by_name[topic.name]
        folded = _fold_name(topic.name)
        self._names_by_folded[folded].remove(topic.name)
        if not self._names_by_folded[folded]:
            del self._names_by_folded[folded]
        del self._by_id[topic.topic_id]
        self._notify(TopicChange.DELETED, topic, topic.partitions)

    def plan_partitions(
        self, topic: Topic, total: int, assignments: Sequence[Sequence[int]] | None = None
    ) -> list[Partition]:
        """The partitions to add until a topic has `total`; nothing is stored until `add_partitions`.

        assignments: the replicas of the new ones, as many as the topic's partitions have.
        Raises: INVALID_PARTITIONS, INVALID_REPLICA_ASSIGNMENT.
        """
        self.check_added_partitions(topic, total, assignments)
        have = len(topic.partitions)
        if assignments is None:
            placed = self._place_replicas(total - have, topic.replication_factor)
        else:
            placed = [placement.validate_replicas(self.node_ids, replicas) for replicas in assignments]
            if any(len(replicas) != topic.replication_factor for replicas in placed):
                message = f"the replication factor is {topic.replication_factor}"
                raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
        return [self._new_partition(index, replicas) for index, replicas in enumerate(placed, have)]

    def check_added_partitions(
        self, topic: Topic, total: int, assignments: Sequence[Sequence[int]] | None = None
    ) -> None:
        """Check the number of partitions that a topic is to have, and that as many are assigned as are added.

        Raises: INVALID_PARTITIONS, INVALID_REPLICA_ASSIGNMENT.
        """
        have = len(topic.partitions)
        if total <= have:
            message = f"The topic {topic.name} has {have} partition(s); {total} is not more."
            raise KafkaError(ErrorCode.INVALID_PARTITIONS, message)
        if assignments is not None and len(assignments) != total - have:
            message = f"{total - have} partition(s) are new, but {len(assignments)} assignment(s) were given."
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)

    def add_partitions(self, topic: Topic, partitions: Sequence[Partition]) -> None:
        """Add planned partitions to a topic."""
        topic.partitions.extend(partitions)
        self._notify(TopicChange.PARTITIONS_ADDED, topic, partitions)

    def remove_partitions(self, topic: Topic, count: int) -> None:
        """Remove the partitions from this number on, to which nothing was written: their creation is undone."""
        del topic.partitions[count:]
        self._notify(TopicChange.PARTITIONS_ADDED, topic, topic.partitions)

    def mark_changed(self, topic: Topic, partition: Partition | None = None) -> None:
        """Replicas, the ISR or eligible leader replicas of a partition have changed, or of all of this topic."""
        self.partition_changes += 1
        if self.changed_topics is not None:
            self.changed_topics.append((topic.topic_id, None if partition is None else (partition.index,)))

    def change_leader(self, topic: Topic, partition_index: int, leader: int) -> None:
        """Change the leader of a partition (-1: to none) in the next leader epoch."""
        partition = topic.partitions[partition_index]
        partition.leader = leader
        partition.leader_epoch += 1
        self._notify(TopicChange.LEADER_CHANGED, topic, (partition,))

    def coordinator_id(self, kind: CoordinatorKind, key: str) -> int:
        """The node that coordinates this group, transactional id or share partition ("group:topicId:partition").

        Creates the internal topic on first use. A node id of -1 means that the partition has no leader.
        """
        return self.find_coordinator_partition(kind, key).leader

    def find_coordinator_partition(self, kind: CoordinatorKind, key: str) -> Partition:
        """The partition of the internal topic for the records of this key; its leader is the coordinator."""
        partitions = (self._by_name.get(INTERNAL_TOPICS[kind].name) or self.internal_topic(kind)).partitions
        return partitions[partition_for_key(key, len(partitions))]

    def coordinator_partition_index(self, kind: CoordinatorKind, key: str) -> int:
        """The index of the internal topic's partition for the records of this key."""
        topic = self._by_name.get(INTERNAL_TOPICS[kind].name) or self.internal_topic(kind)
        return partition_for_key(key, len(topic.partitions))

    def internal_topic(self, kind: CoordinatorKind) -> Topic:
        """The coordinator's internal topic, created on first use.

        Raises: NOT_COORDINATOR when it does not exist and the cluster is cold.
        """
        topic = self._by_name.get(INTERNAL_TOPICS[kind].name)
        if topic is not None:
            return topic
        if self.is_cold:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        return self.ensure_internal_topic(kind)

    def has_internal_topic(self, kind: CoordinatorKind) -> bool:
        """Return whether a coordinator's internal topic exists."""
        return INTERNAL_TOPICS[kind].name in self._by_name

    def ensure_internal_topic(self, kind: CoordinatorKind) -> Topic:
        """Create a coordinator's internal topic, unless it exists.

        A replication factor above the number of nodes is lowered to it: a mock of one node has to work with Kafka's
        defaults (3), where Kafka would return COORDINATOR_NOT_AVAILABLE.
        """
        internal = INTERNAL_TOPICS[kind]
        topic = self._by_name.get(internal.name)
        if topic is None:
            count, factor = self.config[internal.count_key], self.config[internal.replication_key]
            assert isinstance(count, int)
            assert isinstance(factor, int)
            factor = min(factor, len(self.node_ids))
            topic = self.create_topic(internal.name, partition_count=count, replication_factor=factor)
        return topic

    def _new_partition(self, index: int, replicas: tuple[int, ...]) -> Partition:
        """A new partition; brokers that are down are not in sync.

        Raises: INVALID_REPLICA_ASSIGNMENT when all of them are down.
        """
        if not self.fenced:
            return Partition(index, replicas[0], 0, replicas, replicas)
        living = tuple(replica for replica in replicas if replica not in self.fenced)
        if not living:
            message = f"all brokers of partition {index} are fenced: {list(replicas)}"
            raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)
        down = tuple(replica for replica in replicas if replica in self.fenced)
        return Partition(index, living[0], 0, replicas, living, down)

    def _notify(self, change: TopicChange, topic: Topic, partitions: Sequence[Partition]) -> None:
        self.version += 1
        if self.changed_topics is not None:
            is_whole = partitions is topic.partitions  # It is new or deleted, or has fewer partitions.
            indexes = None if is_whole else tuple(partition.index for partition in partitions)
            self.changed_topics.append((topic.topic_id, indexes))
        if change is TopicChange.CREATED:
            self.created_version = self.version
        for listener in list(self._listeners):
            listener(change, topic, partitions)

    def _place_replicas(self, count: int, factor: int) -> list[tuple[int, ...]]:
        living = [node_id for node_id in self.node_ids if node_id not in self.fenced]
        if not living:
            raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, "all brokers are fenced")
        # A broker that is down becomes a replica only if there are not enough others.
        nodes = living if factor <= len(living) else self.node_ids
        start = self.rng.randrange(len(nodes))
        return placement.place_replicas(nodes, count=count, factor=factor, start=start)

    def _new_topic_id(self) -> bytes:
        """A random UUID of version 4 whose text does not begin with a dash, as in Kafka."""
        while True:
            raw = bytearray(self.rng.getrandbits(128).to_bytes(16, "big"))
            raw[6] = raw[6] & 0x0F | 0x40
            raw[8] = raw[8] & 0x3F | 0x80
            topic_id = bytes(raw)
            if topic_id not in self._by_id and not uuids.to_text(topic_id).startswith("-"):
                return topic_id


def _positive_or_default(given: int | None, default: object, code: ErrorCode) -> int:
    if given is None:
        assert isinstance(default, int)
        return default
    if given <= 0:
        raise KafkaError(code, f"{given} is not a positive number")
    return given


def _fold_name(name: str) -> str:
    """The form of a name in Kafka's metrics, where colliding names are equal."""
    return name.replace(".", "_")
