"""`ReplicaChecker`: what must hold of replicas that fetch, after every step of the simulation.

1. The high watermark of a leader never goes back within its leader epoch.
2. What a replica knows to be committed is the same on all of them, and is never truncated: no follower differs from
   its leader below its high watermark, and every elected leader has all committed records, as elections are clean.
3. Records that were acknowledged with acks=all are committed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from mockbroker.replication.replicated_log_store import ReplicatedLogStore
from mockbroker.sim.logs.observed_logs import ObservedLogs
from mockbroker.sim.violation import Violation
from mockbroker.state.metadata.topics import Partition, Topic, TopicPartitionKey

if TYPE_CHECKING:
    from mockbroker.engine.core import Core
    from mockbroker.state.storage.partition_log import PartitionLog

#: What the simulation has to reach.
SITUATIONS = ("ISR shrunk", "ISR grown", "replica truncated", "leader elected", "follower behind")


class _History:
    """One partition. committed: the bytes of each committed batch by its base offset; end: behind the last of them.

    verified: up to where each replica was compared. ends: of the replicas. isr, epoch, high_watermark: seen last.
    seen: what a further check would find again.
    """

    def __init__(self) -> None:
        self.committed: dict[int, bytes] = {}
        self.end = 0
        self.verified: dict[int, int] = {}
        self.ends: dict[int, int] = {}
        self.isr: tuple[int, ...] = ()
        self.epoch = -1
        self.high_watermark = 0
        self.seen: tuple[object, ...] = ()


class ReplicaChecker:
    """Checks all partitions of a cluster whose followers fetch. count: counts a situation."""

    def __init__(self, core: Core, logs: ObservedLogs, count: Callable[[str], None]) -> None:
        store = core.state.log_store
        assert isinstance(store, ReplicatedLogStore)
        self._store = store
        self._core = core
        self._count = count
        self._histories: dict[TopicPartitionKey, _History] = {}
        self._logs = logs
        #: The version of the logs at the last check.
        self._logs_version = -1

    def record_acknowledged(self, key: TopicPartitionKey, end: int) -> None:
        """The records below an offset were acknowledged with acks=all."""
        topic = self._core.state.metadata.topic_by_id(key[0])
        if topic is None:
            return
        self._logs.observe()
        self.check()
        if self._histories[key].end < end:
            raise Violation(f"{topic.name}-{key[1]}: {end} is acknowledged, and {self._histories[key].end} committed")

    def check(self) -> None:
        """Check every partition, if a log has changed. Raises: Violation."""
        if self._logs.version == self._logs_version:
            return
        self._logs_version = self._logs.version
        histories = self._histories
        for topic in self._core.state.metadata.topics():
            for partition in topic.partitions:
                key = (topic.topic_id, partition.index)
                history = histories.get(key)
                if history is None:
                    history = histories[key] = _History()
                self._check_partition(topic, partition, history)

    def _check_partition(self, topic: Topic, partition: Partition, history: _History) -> None:
        logs = list(self._replica_logs(topic, partition))
        is_led = partition.leader in self._core.state.inter_broker.nodes
        seen = (
            is_led,
            partition.leader,
            partition.leader_epoch,
            partition.isr,
            *((log.end_offset, log.high_watermark) for _, log in logs),
        )
        if seen == history.seen:
            return
        history.seen = seen
        name = f"{topic.name}-{partition.index}"
        self._count_changes(partition, history)
        # Each replica compacts its log by itself.
        has_same_bytes = "compact" not in str(self._core.state.configs.topic(topic.name)["cleanup.policy"])
        for node_id, log in logs:
            self._check_replica(f"{name} at node {node_id}", node_id, log, history)
            if has_same_bytes:
                _compare_committed(f"{name} at node {node_id}", log, history, history.verified.get(node_id, 0))
            history.verified[node_id] = max(history.verified.get(node_id, 0), log.high_watermark)
        if not is_led:
            return
        leader_log = self._store.find_replica_log(partition.leader, topic, partition.index)
        if leader_log is None:
            return
        if leader_log.end_offset < history.end:
            raise Violation(f"{name}: the leader {partition.leader} ends at {leader_log.end_offset}, not {history.end}")
        is_same_epoch = partition.leader_epoch == history.epoch
        if is_same_epoch and leader_log.high_watermark < history.high_watermark:
            now, before = leader_log.high_watermark, history.high_watermark
            raise Violation(f"{name}: the high watermark is {now} in epoch {history.epoch}, and was {before}")
        history.epoch, history.high_watermark = partition.leader_epoch, leader_log.high_watermark

    def _replica_logs(self, topic: Topic, partition: Partition) -> Iterator[tuple[int, PartitionLog]]:
        key = (topic.topic_id, partition.index)
        for node_id in partition.replicas:
            log = self._store.find_node_log(node_id, key)
            if log is not None:
                yield node_id, log

    def _count_changes(self, partition: Partition, history: _History) -> None:
        if history.isr and history.isr != partition.isr:
            self._count("ISR shrunk" if len(partition.isr) < len(history.isr) else "ISR grown")
        if history.epoch >= 0 and partition.leader_epoch != history.epoch and partition.leader >= 0:
            self._count("leader elected")
        history.isr = partition.isr

    def _check_replica(self, name: str, node_id: int, log: PartitionLog, history: _History) -> None:
        end, verified = log.end_offset, history.verified.get(node_id, 0)
        if end < history.ends.get(node_id, 0):
            self._count("replica truncated")
        if end < history.end:
            self._count("follower behind")
        history.ends[node_id] = end
        if end < verified and log.start_offset < verified:
            raise Violation(f"{name}: it ends at {end}, and has known that {verified} is committed")
        history.end = max(history.end, log.high_watermark)


def _compare_committed(name: str, log: PartitionLog, history: _History, verified: int) -> None:
    """Compare what a replica knows to be committed since the last time. Raises: Violation."""
    for batch in log.batches_from(verified):
        if batch.last_offset >= log.high_watermark:
            return
        data = bytes(batch.raw)
        if history.committed.setdefault(batch.base_offset, data) != data:
            raise Violation(f"{name}: another committed batch than that of other replicas at {batch.base_offset}")
