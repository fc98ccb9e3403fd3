"""`ObservedLogs`: the logs of the simulated cluster as the invariants see them, and whether one of them has changed."""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING

from mockbroker.kafka_error import KafkaError
from mockbroker.replication.replicated_log_store import ReplicatedLogStore
from mockbroker.state.metadata.topics import INTERNAL_TOPICS, CoordinatorKind, Partition, TopicPartitionKey

if TYPE_CHECKING:
    from mockbroker.engine.core import Core
    from mockbroker.state.storage.partition_log import PartitionLog

#: What changes with the contents of a log up to its high watermark, and where clients read and write a partition.
_LOG_STATE = attrgetter("start_offset", "end_offset", "watermark.limit")
_PARTITION_STATE = attrgetter("leader", "leader_epoch", "isr", "replicas")


class ObservedLogs:
    """All logs of a cluster. version: increased by `observe` when it finds a change.

    There is a check at each deadline, and hardly any of them changes a log: a comparison of all offsets takes less time
    than to look for news in those that a checker reads.
    """

    def __init__(self, core: Core) -> None:
        self.version = 0
        self._starts: dict[TopicPartitionKey, int] = {}
        self.replace_core(core)

    def replace_core(self, core: Core) -> None:
        """Another process has opened the logs."""
        assert core.state.log_store is not None
        self._store = core.state.log_store
        self._metadata = core.state.metadata
        self._nodes = core.state.inter_broker.nodes
        self._topics_version = -1
        self._keys: list[TopicPartitionKey] = []
        self._partitions: list[Partition] = []
        self._seen: tuple[object, ...] = ()
        self.version += 1

    def observe(self) -> None:
        """Compare with the last time: logs, their offsets, leaders, epochs, in-sync replicas, running nodes."""
        if self._metadata.version != self._topics_version:
            self._topics_version = self._metadata.version
            topics = self._metadata.topics()
            self._keys = [(topic.topic_id, partition.index) for topic in topics for partition in topic.partitions]
            self._partitions = [partition for topic in topics for partition in topic.partitions]
        logs, nodes = self._list_logs(), list(self._nodes.values())
        partition_states = list(map(_PARTITION_STATE, self._partitions))
        seen = (self._topics_version, logs, list(map(_LOG_STATE, logs)), partition_states, nodes)
        if seen != self._seen:
            self._seen = seen
            self.version += 1

    def _list_logs(self) -> list[PartitionLog]:
        """The logs of all replicas, or one for each partition if they share it."""
        store = self._store
        if isinstance(store, ReplicatedLogStore):
            return store.all_logs()
        return [log for key in self._keys if (log := store.find_node_log(-1, key)) is not None]

    def find_log(self, partition_key: TopicPartitionKey) -> PartitionLog | None:
        """The log of a partition, on any leader."""
        topic = self._metadata.topic_by_id(partition_key[0])
        return None if topic is None else self._store.open_log(topic, partition_key[1])

    def find_start(self, partition_key: TopicPartitionKey) -> int:
        """The start of a leader's log; without a leader it does not move."""
        partition = self._metadata.find_partition(*partition_key)
        node = self._nodes.get(partition.leader) if partition is not None else None
        try:
            if node is not None:
                self._starts[partition_key] = node.logs.find_log(*partition_key).start_offset
        except KafkaError:
            pass
        return self._starts.get(partition_key, 0)

    def state_logs(self) -> list[PartitionLog]:
        """The logs of the share coordinator's topic."""
        topic = self._metadata.topic(INTERNAL_TOPICS[CoordinatorKind.SHARE].name)
        logs = [self.find_log((topic.topic_id, one.index)) for one in topic.partitions] if topic is not None else []
        return [log for log in logs if log is not None]
