"""The logs of the cluster, and the logs that a node leads."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Protocol

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata.cluster_image import ClusterImage, Partition, Topic, TopicChange
from mockbroker.state.metadata.topics import TopicPartitionKey, TopicPartitions
from mockbroker.state.settings import Settings, read_int
from mockbroker.state.storage.memory_budget import MemoryBudget
from mockbroker.state.storage.replicas import ReplicaLog, advance_high_watermark, stop_following, truncate_to_leader

if TYPE_CHECKING:
    from mockbroker.state.storage.append_rules_cache import AppendRulesCache
    from mockbroker.state.storage.log_config import TopicConfigs
    from mockbroker.state.storage.log_directory import LogDirectory, LogFiles
    from mockbroker.state.storage.partition_log import PartitionLog
    from mockbroker.state.storage.schedules.cleaner_schedule import CleanerSchedule
    from mockbroker.state.storage.schedules.log_checks import FoundLog
    from mockbroker.state.storage.schedules.producer_expiration import ProducerExpiration
    from mockbroker.state.timers import EarliestDeadline

Wake = Callable[[tuple[Hashable, ...]], None]


class ClusterLogs(Protocol):
    """The logs of a cluster: `LogStore`, or one log for each replica in `mockbroker.replication`."""

    def open_log(self, topic: Topic, partition_index: int) -> PartitionLog:
        """The log of a partition's leader, created on first use."""

    def logs_of(self, node_id: int, /) -> Callable[[Topic, int], PartitionLog]:
        """What opens the logs of a node's replicas."""

    def find_node_log(self, node_id: int, key: TopicPartitionKey) -> PartitionLog | None:
        """The log of a node's replica, None if nothing has used it."""

    def load_logs(self, *, now_ms: int) -> None:
        """Open the files of all logs, when the cluster starts."""

    def await_metadata(self, write: Callable[[], None]) -> None:
        """From now on a log gets its files when its partition is in the metadata log.

        write: writes what has changed, and raises KAFKA_STORAGE_ERROR.
        """

    def mark_metadata_written(self, *, now_ms: int) -> None:
        """The metadata log has all changes up to now."""

    def close(self) -> None:
        """Write everything to the disk. Raises: OSError."""

    def mark_node_down(self, node_id: int) -> None:
        """A broker stops, or is paused."""

    def mark_node_up(self, node_id: int) -> None:
        """A broker runs again."""

    def update_replicas(self, changed: TopicPartitions | None = None, *, only_followed: bool = False) -> None:
        """Update replicas and high watermarks after elections and ISR changes.

        changed: only those of these partitions, None for all.
        """

    @property
    def announces_deadlines(self) -> bool:
        """Whether the cluster's `EarliestDeadline` includes those of the logs; otherwise they are asked each time."""
        ...

    def next_deadline_ms(self, *, now_ms: int) -> int | None:
        """The next time of `expire`, or None."""

    def expire(self, *, now_ms: int) -> None:
        """Clean and write what is due."""


class LogStore:
    """All logs of the cluster by topic id and partition; the replicas of a partition share one log.

    A record is on every replica that follows at once; for a replica that has stopped, its own end is stored until it is
    elected. A log exists until its topic is deleted.
    started_ms: the start of the brokers, which the periodic checks of the cleaner are counted from. budget: of the
    memory of all logs. directory: of the logs, None to have them in memory. earliest: of the cluster.
    """

    def __init__(
        self,
        metadata: ClusterImage,
        configs: TopicConfigs,
        wake: Wake,
        *,
        started_ms: int = 0,
        budget: MemoryBudget | None = None,
        directory: LogDirectory | None = None,
        earliest: EarliestDeadline | None = None,
    ) -> None:
        self._earliest = earliest
        self._metadata = metadata
        self._configs = configs
        self._wake = wake
        self._budget = MemoryBudget() if budget is None else budget
        self._logs: dict[TopicPartitionKey, PartitionLog] = {}
        self._disk = None if directory is None else directory.open_logs(configs)
        self._files: dict[TopicPartitionKey, LogFiles] = {}
        self._now_ms = started_ms
        self._started_ms = started_ms
        self._cleaner_schedule: CleanerSchedule | None = None
        self._expiration: ProducerExpiration | None = None
        self._rules: dict[TopicPartitionKey, AppendRulesCache] = {}
        self._stopped_nodes: set[int] = set()
        self._stopped_replicas: dict[TopicPartitionKey, dict[int, ReplicaLog]] = {}
        self._write_metadata: Callable[[], None] = _write_nothing
        metadata.add_listener(self._on_topic_change)

    def logs_of(self, _node_id: int) -> Callable[[Topic, int], PartitionLog]:
        """What opens the log of a node's replica: all share it."""
        return self.open_log

    def open_log(self, topic: Topic, partition_index: int) -> PartitionLog:
        """The log of a partition, created on first use."""
        key = (topic.topic_id, partition_index)
        log = self._logs.get(key)
        if log is None:
            # A folder whose topic is not in the metadata log would be a stray one after a kill.
            self._write_metadata()
            log = self._create_log(topic, topic.partitions[partition_index])
            self._logs[key] = log
            log.start_leader_epoch(topic.partitions[partition_index].leader_epoch)
            self._update_replicas_of(key)
        return log

    def find_node_log(self, _node_id: int, key: TopicPartitionKey) -> PartitionLog | None:
        """The log of a topic id and partition, None if nothing has used it; those in files were opened at the start."""
        return self._logs.get(key)

    def _create_log(self, topic: Topic, partition: Partition) -> PartitionLog:
        """A log in memory or in files. Raises: KAFKA_STORAGE_ERROR."""
        # With the records of kwire it is a tenth of what a broker loads, which none needs without a log.
        from mockbroker.state.storage.append_rules_cache import AppendRulesCache
        from mockbroker.state.storage.partition_log import PartitionLog

        key = (topic.topic_id, partition.index)
        node_id = None if partition.leader < 0 else partition.leader
        rules = AppendRulesCache(self._configs, topic.name, node_id, lambda: self._update_replicas_of(key))
        self._rules[key] = rules
        on_moved = partial(self._on_offsets_changed, ("log", *key), key)
        on_grown = partial(self._on_log_changed, key)
        if self._disk is None:
            log = PartitionLog(rules.current_rules, on_moved, on_grown, self._budget)
            log.watch_producers(partial(self._on_idle_producer, key))
            return log
        # The leader's files are the right ones, if several are as long.
        node_ids = sorted(partition.replicas, key=lambda node_id: node_id != partition.leader)
        epoch, now_ms = partition.leader_epoch, self._now_ms
        files, state = self._disk.open_log(
            topic.name, topic.topic_id, partition.index, node_ids, leader_epoch=epoch, now_ms=now_ms
        )
        log = PartitionLog(rules.current_rules, on_moved, on_grown, storage=files)
        log.restore_state(state)
        log.watch_producers(partial(self._on_idle_producer, key))
        files.bind(log)
        self._files[key] = files
        if state.high_watermark is not None and len(partition.isr) < len(partition.replicas):
            log.hold_high_watermark(min(state.high_watermark, log.end_offset))
        if log.leader_epoch > partition.leader_epoch:
            # The metadata on the disk can be older than the log after a crash of the machine.
            partition.leader_epoch = log.leader_epoch
            self._metadata.partition_changes += 1
        self._on_log_changed(key)
        return log

    def load_logs(self, *, now_ms: int) -> None:
        """Open the files of all partitions, when the cluster starts; there are none in memory.

        Raises: KAFKA_STORAGE_ERROR if files cannot be read; errors of damaged files.
        """
        if self._disk is None:
            return
        self._now_ms = now_ms
        known = set()
        for topic in self._metadata.topics():
            for partition in topic.partitions:
                known.add((topic.name, partition.index))
                self.open_log(topic, partition.index)
        self._disk.remove_unknown(known)

    def await_metadata(self, write: Callable[[], None]) -> None:
        """From now on the files of a log are created after `write`."""
        self._write_metadata = write

    def mark_metadata_written(self, *, now_ms: int) -> None:
        """Nothing to do: files are created on first use."""

    def close(self) -> None:
        """Write everything to the disk, where logs are in files. Raises: OSError."""
        if self._disk is not None:
            self._disk.close()

    def mark_node_down(self, node_id: int) -> None:
        """A broker stops: its replicas stop following."""
        self._stopped_nodes.add(node_id)
        for (topic_id, index), log in self._logs.items():
            partition = self._metadata.find_partition(topic_id, index)
            if partition is not None and node_id in partition.replicas:
                self._stopped_replicas.setdefault((topic_id, index), {}).setdefault(node_id, stop_following(log))

    def mark_node_up(self, node_id: int) -> None:
        """A broker runs again; with `update_replicas` its replicas follow where there is a leader."""
        self._stopped_nodes.discard(node_id)

    def update_replicas(self, changed: TopicPartitions | None = None, *, only_followed: bool = False) -> None:
        """Update replicas and high watermarks after elections and ISR changes.

        changed: only those of these partitions, None for all. only_followed: only partitions with a running follower,
        whose next fetch moves the high watermark.
        """
        keys: Iterable[TopicPartitionKey] = list(self._logs)
        if changed is not None:
            keys = [(topic.topic_id, partition.index) for topic, partition in changed]
        for topic_id, index in keys:
            partition = self._metadata.find_partition(topic_id, index)
            if partition is not None and (topic_id, index) in self._logs:
                living = set(partition.replicas) - self._stopped_nodes - {partition.leader}
                if living or not only_followed:
                    self._update_replicas_of((topic_id, index))

    def _update_replicas_of(self, key: TopicPartitionKey) -> None:
        topic, log = self._metadata.topic_by_id(key[0]), self._logs.get(key)
        if topic is None or log is None:
            return
        partition = topic.partitions[key[1]]
        if self._disk is not None:
            self._files[key].set_replicas(partition.replicas)
        stopped = self._stopped_replicas.get(key, {})
        for node_id in self._stopped_nodes.intersection(partition.replicas) - stopped.keys():
            # It became a replica while it was down, and has no records yet.
            stopped = self._stopped_replicas.setdefault(key, stopped)
            stopped[node_id] = ReplicaLog(0, 0)
        if not stopped and len(partition.isr) == len(partition.replicas):
            log.hold_high_watermark(None)
            return
        is_led = partition.leader >= 0 and partition.leader not in self._stopped_nodes
        for node_id in [node_id for node_id in stopped if node_id not in self._stopped_nodes]:
            if is_led or node_id not in partition.replicas:
                del stopped[node_id]
        if is_led:
            least = min_in_sync(self._configs.topic(topic.name, partition.leader), len(partition.replicas))
            advance_high_watermark(log, stopped, in_sync=partition.isr, min_count=least)

    @property
    def announces_deadlines(self) -> bool:
        """Logs in memory do; with files there are also those of writing them."""
        return self._disk is None

    def next_deadline_ms(self, *, now_ms: int) -> int | None:
        """The next time to clean logs, by default a week after the first record, to remove idle producers, by default
        after a day, or to write files; or None.
        """
        cleaner, expiration = self._cleaner_schedule, self._expiration
        due_ms = None if cleaner is None else cleaner.next_deadline_ms(now_ms=now_ms)
        if expiration is not None:
            due_ms = _earlier(due_ms, expiration.next_deadline_ms(now_ms=now_ms))
        if self._disk is not None:
            self._now_ms = now_ms
            due_ms = _earlier(due_ms, self._disk.next_deadline_ms(now_ms=now_ms))
        return due_ms

    def expire(self, *, now_ms: int) -> None:
        """Clean the logs that are due, remove idle producers, and write the files that are due."""
        if self._cleaner_schedule is not None:
            self._cleaner_schedule.expire(now_ms=now_ms)
        if self._expiration is not None:
            self._expiration.expire(now_ms=now_ms)
        if self._disk is not None:
            self._now_ms = now_ms
            self._disk.expire(now_ms=now_ms)

    def _on_offsets_changed(self, wake_key: tuple[Hashable, ...], key: TopicPartitionKey) -> None:
        self._wake(wake_key)
        self._on_log_changed(key)

    def _on_log_changed(self, key: TopicPartitionKey) -> None:
        (self._cleaner_schedule or self._create_cleaner_schedule()).mark_changed(key)

    def _create_cleaner_schedule(self) -> CleanerSchedule:
        from mockbroker.state.storage.schedules.cleaner_schedule import CleanerSchedule

        self._cleaner_schedule = CleanerSchedule(
            self._configs, self._find_log, started_ms=self._started_ms, earliest=self._earliest
        )
        return self._cleaner_schedule

    def _on_idle_producer(self, key: TopicPartitionKey) -> None:
        if self._expiration is None:
            from mockbroker.state.storage.schedules.producer_expiration import ProducerExpiration

            self._expiration = ProducerExpiration(
                self._configs, self._find_log, started_ms=self._started_ms, earliest=self._earliest
            )
        self._expiration.mark_changed(key)

    def _find_log(self, key: TopicPartitionKey) -> FoundLog | None:
        from mockbroker.state.storage.schedules.log_checks import FoundLog

        log, topic = self._logs.get(key), self._metadata.topic_by_id(key[0])
        if log is None or topic is None:
            return None
        leader = topic.partitions[key[1]].leader
        return FoundLog(topic.name, log, None if leader < 0 else leader)

    def _on_topic_change(self, change: TopicChange, topic: Topic, partitions: Sequence[Partition]) -> None:
        if change not in (TopicChange.DELETED, TopicChange.LEADER_CHANGED):
            return  # The logs of new partitions are created on first use.
        for partition in partitions:
            key = (topic.topic_id, partition.index)
            if change is TopicChange.DELETED:
                deleted = self._logs.pop(key, None)
                if deleted is not None:
                    deleted.storage.remove()
                self._files.pop(key, None)
                self._rules.pop(key, None)
                self._stopped_replicas.pop(key, None)
                if deleted is not None:
                    self._reschedule_log(key)
            elif change is TopicChange.LEADER_CHANGED and key in self._logs and partition.leader >= 0:
                self._on_leader_change(key, partition)
            # Requests that wait for records of this partition have to fail.
            self._wake(("log", *key))

    def _reschedule_log(self, key: TopicPartitionKey) -> None:
        """A log was deleted, or has another leader, whose settings apply."""
        if self._cleaner_schedule is not None:
            self._cleaner_schedule.reschedule_log(key)
        if self._expiration is not None:
            self._expiration.mark_changed(key)

    def _on_leader_change(self, key: TopicPartitionKey, partition: Partition) -> None:
        log, stopped = self._logs[key], self._stopped_replicas.get(key, {})
        if partition.leader in stopped and partition.leader not in self._stopped_nodes:
            replica = stopped.pop(partition.leader)
            truncate_to_leader(log, replica, stopped.values())
        log.start_leader_epoch(partition.leader_epoch)
        self._rules[key].move_to(partition.leader)
        self._reschedule_log(key)
        self._update_replicas_of(key)  # Clients may read from the new leader at once.


def _earlier(first_ms: int | None, second_ms: int | None) -> int | None:
    """The earlier one of two times, of which None is never."""
    if first_ms is None or second_ms is None:
        return second_ms if first_ms is None else first_ms
    return min(first_ms, second_ms)


def _write_nothing() -> None:
    """There is no metadata log."""


def min_in_sync(config: Settings, replication_factor: int) -> int:
    """The effective min.insync.replicas of a partition: at most its replication factor."""
    return min(read_int(config, "min.insync.replicas"), replication_factor)


class NodeLogs:
    """The logs of one node: those of the partitions that it leads."""

    def __init__(self, node_id: int, metadata: ClusterImage, store: ClusterLogs) -> None:
        self.node_id = node_id
        self._topics_by_id = metadata.topics_by_id
        self._open_log = store.logs_of(node_id)
        self._find_node_log = store.find_node_log

    def has_records(self, topic_id: bytes, partition_index: int) -> bool:
        """Whether a partition has records, or had some; its log is not created for that."""
        log = self._find_node_log(self.node_id, (topic_id, partition_index))
        return log is not None and log.end_offset > 0

    def find_log(
        self, topic_id: bytes, partition_index: int, *, leader_epoch: int = -1, of_any_replica: bool = False
    ) -> PartitionLog:
        """The log of a partition that this node leads, or of_any_replica: that it has a replica of.

        leader_epoch: the epoch in the request, -1 for none.
        Raises: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH.
        """
        topic = self._topics_by_id.get(topic_id)
        if topic is None or not 0 <= partition_index < len(topic.partitions):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        partition = topic.partitions[partition_index]
        if -1 != leader_epoch != partition.leader_epoch:
            is_old = leader_epoch < partition.leader_epoch
            code = ErrorCode.FENCED_LEADER_EPOCH if is_old else ErrorCode.UNKNOWN_LEADER_EPOCH
            raise KafkaError(code, f"leader epoch {leader_epoch} was given, {partition.leader_epoch} is current")
        if partition.leader != self.node_id and not (of_any_replica and self.node_id in partition.replicas):
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"node {partition.leader} leads, not {self.node_id}")
        return self._open_log(topic, partition_index)
