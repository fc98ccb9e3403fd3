"""`ReplicatedLogStore`: a log for each replica, where followers fetch; the counterpart of `LogStore`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from mockbroker.kafka_error import KafkaError
from mockbroker.replication.node_logs import NodeReplicaLogs
from mockbroker.state.metadata.cluster_image import ClusterImage, Topic, TopicChange
from mockbroker.state.storage.memory_budget import MemoryBudget

if TYPE_CHECKING:
    from mockbroker.replication.node_replication import NodeReplication
    from mockbroker.state.metadata.topics import Partition, TopicPartitionKey, TopicPartitions
    from mockbroker.state.storage.log_config import TopicConfigs
    from mockbroker.state.storage.log_directory import LogDirectory
    from mockbroker.state.storage.log_store import Wake
    from mockbroker.state.storage.partition_log import PartitionLog
    from mockbroker.state.timers import EarliestDeadline


#: After a failure, files of new partitions are created again after so many milliseconds.
_RETRY_MS = 1_000


class ReplicatedLogStore:
    """All logs of the cluster, by node. running: the parts in replication of the brokers that run.

    started_ms, budget, directory, earliest: as those of `LogStore`; the replicas of all nodes share the budget.
    """

    def __init__(
        self,
        metadata: ClusterImage,
        configs: TopicConfigs,
        wake: Wake,
        *,
        running: Callable[[], Iterable[NodeReplication]],
        started_ms: int = 0,
        budget: MemoryBudget | None = None,
        directory: LogDirectory | None = None,
        earliest: EarliestDeadline | None = None,
    ) -> None:
        self._metadata = metadata
        self._configs = configs
        self._wake = wake
        self._running = running
        self._started_ms = started_ms
        self._budget = MemoryBudget() if budget is None else budget
        self._directory = directory
        self._earliest = earliest
        self._nodes: dict[int, NodeReplicaLogs] = {}
        self._write_metadata: Callable[[], None] | None = None
        # Topics with partitions that are not in the metadata log yet, or whose files could not be created.
        self._new: dict[bytes, Topic] = {}
        self._retry_ms: int | None = None
        metadata.add_listener(self._on_topic_change)

    def node_logs(self, node_id: int) -> NodeReplicaLogs:
        """The logs of a node, running or not. Raises: OSError if its directory cannot be read."""
        if node_id not in self._nodes:
            disk = None if self._directory is None else self._directory.open_logs_of(node_id, self._configs)
            self._nodes[node_id] = NodeReplicaLogs(
                node_id,
                self._metadata,
                self._configs,
                self._wake,
                started_ms=self._started_ms,
                budget=self._budget,
                disk=disk,
                earliest=self._earliest,
            )
            if self._write_metadata is not None:
                self._nodes[node_id].write_metadata = self._write_metadata
        return self._nodes[node_id]

    def logs_of(self, node_id: int) -> Callable[[Topic, int], PartitionLog]:
        """What opens the log of a node's replica."""
        return self.node_logs(node_id).open_log

    def open_log(self, topic: Topic, partition_index: int) -> PartitionLog:
        """The log of the leader; without one that of the first replica in sync, or the first one."""
        partition = topic.partitions[partition_index]
        node_id = partition.leader if partition.leader >= 0 else (*partition.isr, *partition.replicas)[0]
        return self.node_logs(node_id).open_log(topic, partition_index)

    def find_replica_log(self, node_id: int, topic: Topic, partition_index: int) -> PartitionLog | None:
        """The log of a replica, None if it has none yet."""
        return self.node_logs(node_id).find_log((topic.topic_id, partition_index))

    def find_node_log(self, node_id: int, key: TopicPartitionKey) -> PartitionLog | None:
        """The log of a node's replica, None if nothing has used it."""
        return self.node_logs(node_id).find_log(key)

    def all_logs(self) -> list[PartitionLog]:
        """The logs of all replicas, by node and in the order of their creation."""
        return [log for logs in self._nodes.values() for log in logs.all_logs()]

    def load_logs(self, *, now_ms: int) -> None:
        """Open the files of all replicas, when the cluster starts; there are none in memory.

        Raises: KAFKA_STORAGE_ERROR if files cannot be read; errors of damaged files.
        """
        if self._directory is None:
            return
        for node_id, logs in self._nodes.items():
            logs.next_deadline_ms(now_ms=now_ms)
            for topic in self._metadata.topics():
                for partition in topic.partitions:
                    if node_id in partition.replicas:
                        logs.open_log(topic, partition.index)
            logs.remove_unknown()

    def await_metadata(self, write: Callable[[], None]) -> None:
        """From now on new partitions are led and followed when the metadata log has them."""
        self._write_metadata = write
        for logs in self._nodes.values():
            logs.write_metadata = write

    def mark_metadata_written(self, *, now_ms: int) -> None:
        """Lead and follow new partitions. Those whose files cannot be created are tried again later."""
        new, self._new = self._new, {}
        for topic_id, topic in new.items():
            if self._metadata.topic_by_id(topic_id) is not topic:
                continue
            for replication in self._running():
                try:
                    replication.apply_partitions(topic, topic.partitions)
                except KafkaError:  # It is reported already.
                    self._new[topic_id] = topic
        self._retry_ms = now_ms + _RETRY_MS if self._new else None

    def close(self) -> None:
        """Write everything to the disk, where logs are in files. Raises: OSError."""
        for logs in self._nodes.values():
            logs.close()

    def mark_node_down(self, node_id: int) -> None:
        """A broker stops or is paused: its followers fetch from it in vain, and notice it by themselves."""

    def mark_node_up(self, node_id: int) -> None:
        """A broker runs again: it follows its leaders after `update_replicas`."""

    def update_replicas(self, changed: TopicPartitions | None = None, *, only_followed: bool = False) -> None:
        """All brokers lead and follow as the controller has it. only_followed: not needed, as followers fetch.

        changed: only these partitions, None for all.
        """
        if only_followed:
            return
        for replication in self._running():
            if changed is None:
                replication.apply_all()
            else:
                for topic, partition in changed:
                    if topic.topic_id not in self._new:
                        replication.apply_partitions(topic, (partition,))

    @property
    def announces_deadlines(self) -> bool:
        """Logs in memory do; with files there are also those of writing them."""
        return self._directory is None

    def next_deadline_ms(self, *, now_ms: int) -> int | None:
        """The next time to clean logs or to write files, or None."""
        deadlines = [logs.next_deadline_ms(now_ms=now_ms) for logs in self._nodes.values()]
        return min((due_ms for due_ms in (*deadlines, self._retry_ms) if due_ms is not None), default=None)

    def expire(self, *, now_ms: int) -> None:
        """Clean the logs that are due, and write the files that are."""
        if self._retry_ms is not None and self._retry_ms <= now_ms:
            self.mark_metadata_written(now_ms=now_ms)
        for logs in self._nodes.values():
            logs.expire(now_ms=now_ms)

    def _on_topic_change(self, change: TopicChange, topic: Topic, partitions: Sequence[Partition]) -> None:
        is_new = change in (TopicChange.CREATED, TopicChange.PARTITIONS_ADDED) and self._write_metadata is not None
        if change is TopicChange.DELETED:
            self._new.pop(topic.topic_id, None)
        elif is_new:
            self._new[topic.topic_id] = topic
        for replication in self._running():
            if change is TopicChange.DELETED:
                replication.drop_topic(topic)
            elif topic.topic_id not in self._new:
                replication.apply_partitions(topic, partitions)
        for partition in partitions:
            key = (topic.topic_id, partition.index)
            if change is TopicChange.DELETED:
                for logs in self._nodes.values():
                    logs.remove_log(key)
            if change in (TopicChange.DELETED, TopicChange.LEADER_CHANGED):
                # Requests that wait for records of this partition have to fail.
                self._wake(("log", *key))
