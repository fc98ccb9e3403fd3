"""`NodeReplicaLogs`: the logs of one node's replicas, which stay when its broker stops."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from mockbroker.state.metadata.topics import Topic, TopicPartitionKey
from mockbroker.state.storage.append_rules_cache import AppendRulesCache
from mockbroker.state.storage.partition_log import PartitionLog
from mockbroker.state.storage.schedules.cleaner_schedule import CleanerSchedule
from mockbroker.state.storage.schedules.log_checks import FoundLog
from mockbroker.state.storage.schedules.producer_expiration import ProducerExpiration

if TYPE_CHECKING:
    from mockbroker.state.metadata.cluster_image import ClusterImage
    from mockbroker.state.storage.log_config import TopicConfigs
    from mockbroker.state.storage.log_directory import DiskLogs
    from mockbroker.state.storage.log_store import Wake
    from mockbroker.state.storage.memory_budget import MemoryBudget
    from mockbroker.state.timers import EarliestDeadline


class NodeReplicaLogs:
    """The logs of one node by topic id and partition.

    on_log_changed: called after each append and each change of offsets; None while the broker does not run.
    started_ms: which the periodic checks of the cleaner are counted from. disk: the files, None to have logs in memory.
    write_metadata: called before files are created; raises KAFKA_STORAGE_ERROR. earliest: of the cluster.
    """

    def __init__(
        self,
        node_id: int,
        metadata: ClusterImage,
        configs: TopicConfigs,
        wake: Wake,
        *,
        started_ms: int,
        budget: MemoryBudget,
        disk: DiskLogs | None,
        earliest: EarliestDeadline | None = None,
    ) -> None:
        self.node_id = node_id
        self.on_log_changed: Callable[[TopicPartitionKey], None] | None = None
        self._metadata = metadata
        self._configs = configs
        self._wake = wake
        self._budget = budget
        self._disk = disk
        self._now_ms = started_ms
        self._logs: dict[TopicPartitionKey, PartitionLog] = {}
        self._cleaner = CleanerSchedule(configs, self._find_log, started_ms=started_ms, earliest=earliest)
        self._expiration = ProducerExpiration(configs, self._find_log, started_ms=started_ms, earliest=earliest)
        self.write_metadata: Callable[[], None] = lambda: None

    def open_log(self, topic: Topic, partition_index: int) -> PartitionLog:
        """The log of a replica, created on first use. Raises: KAFKA_STORAGE_ERROR."""
        key = (topic.topic_id, partition_index)
        log = self._logs.get(key)
        if log is None:
            # A folder whose topic is not in the metadata log would be a stray one after a kill.
            self.write_metadata()
            log = self._logs.get(key)  # That may have created it.
        return self._create_log(topic, partition_index) if log is None else log

    def _create_log(self, topic: Topic, partition_index: int) -> PartitionLog:
        key = (topic.topic_id, partition_index)
        rules = AppendRulesCache(self._configs, topic.name, self.node_id)
        changed = partial(self._on_log_changed, key)
        if self._disk is None:
            log = PartitionLog(rules.current_rules, changed, changed, self._budget)
            log.hold_high_watermark(0)
        else:
            epoch, now_ms = topic.partitions[partition_index].leader_epoch, self._now_ms
            files, state = self._disk.open_log(
                topic.name, topic.topic_id, partition_index, [self.node_id], leader_epoch=epoch, now_ms=now_ms
            )
            log = PartitionLog(rules.current_rules, changed, changed, storage=files)
            log.restore_state(state)
            files.bind(log)
            log.hold_high_watermark(max(log.start_offset, min(state.high_watermark or 0, log.end_offset)))
        self._logs[key] = log
        self._cleaner.mark_changed(key)
        log.watch_producers(partial(self._expiration.mark_changed, key))
        return log

    def find_log(self, key: TopicPartitionKey) -> PartitionLog | None:
        """The log of a replica, None if the node has none."""
        return self._logs.get(key)

    def all_logs(self) -> list[PartitionLog]:
        """The logs of all replicas, in the order of their creation."""
        return list(self._logs.values())

    def remove_log(self, key: TopicPartitionKey) -> None:
        """The node has no replica of the partition any more, or the topic is deleted."""
        log = self._logs.pop(key, None)
        if log is not None:
            log.storage.remove()
            self._cleaner.reschedule_log(key)
            self._expiration.mark_changed(key)

    def remove_unknown(self) -> None:
        """Set aside the files of partitions that were not opened."""
        if self._disk is not None:
            topics = ((self._metadata.topic_by_id(topic_id), index) for topic_id, index in self._logs)
            self._disk.remove_unknown({(topic.name, index) for topic, index in topics if topic is not None})

    def next_deadline_ms(self, *, now_ms: int) -> int | None:
        """The next time to clean logs, to remove idle producers or to write files, or None."""
        self._now_ms = now_ms
        clean_ms = self._cleaner.next_deadline_ms(now_ms=now_ms)
        idle_ms = self._expiration.next_deadline_ms(now_ms=now_ms)
        disk_ms = None if self._disk is None else self._disk.next_deadline_ms(now_ms=now_ms)
        return min((due_ms for due_ms in (clean_ms, idle_ms, disk_ms) if due_ms is not None), default=None)

    def expire(self, *, now_ms: int) -> None:
        """Clean, remove and write what is due."""
        self._now_ms = now_ms
        self._cleaner.expire(now_ms=now_ms)
        self._expiration.expire(now_ms=now_ms)
        if self._disk is not None:
            self._disk.expire(now_ms=now_ms)

    def close(self) -> None:
        """Write everything to the disk. Raises: OSError."""
        if self._disk is not None:
            self._disk.close()

    def _on_log_changed(self, key: TopicPartitionKey) -> None:
        self._cleaner.mark_changed(key)
        if self.on_log_changed is not None and key in self._logs:
            self.on_log_changed(key)
        self._wake(("log", *key))

    def _find_log(self, key: TopicPartitionKey) -> FoundLog | None:
        log, topic = self._logs.get(key), self._metadata.topic_by_id(key[0])
        return None if log is None or topic is None else FoundLog(topic.name, log, self.node_id)
