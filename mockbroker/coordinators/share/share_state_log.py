"""The share coordinator's topic, `__share_group_state`: writing state changes, loading them, snapshots and pruning.

Source: share-semantics 7.2 and 7.5; the records are in `share_state_records`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import msgspec

from kwire.error_codes import ErrorCode
from kwire.records import Record, write_batch
from mockbroker.cluster_services.edition_records import StateRecords
from mockbroker.cluster_services.inter_broker import NotReady
from mockbroker.coordinators.loading import PartitionLoads
from mockbroker.coordinators.share.share_state_records import ReleasedRecords
from mockbroker.kafka_error import KafkaError
from mockbroker.log.subjects import STORAGE
from mockbroker.state.metadata.cluster_image import TopicChange
from mockbroker.state.metadata.topics import INTERNAL_TOPICS, CoordinatorKind, Topic
from mockbroker.state.share_coordinator.share_coordinator import ShareCoordinator, ShareKey, StateRecord, StateSnapshot
from mockbroker.state.storage.partition_log import AppendOrigin, PartitionLog
from mockbroker.state.timers import UNKNOWN_MS, next_periodic_ms

if TYPE_CHECKING:
    from mockbroker.cluster_services.cluster_services import ClusterServices
    from mockbroker.state.storage.log_store import NodeLogs

_TOPIC_NAME = INTERNAL_TOPICS[CoordinatorKind.SHARE].name

#: The answers of a shard that has read the state; other errors are answered without it.
_REFUSED_BY_STATE = frozenset(
    {
        ErrorCode.INVALID_REQUEST,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.FENCED_STATE_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)

#: How soon a deletion that waits for replicas is tried again.
_RETRY_MS = 20

T = TypeVar("T")


class LogPosition(msgspec.Struct, frozen=True, gc=False):
    """The end offset of a partition after a write; the leader epoch only where share state is in the partition log."""

    topic_id: bytes
    shard: int
    end_offset: int
    leader_epoch: int = -1


class _PeriodicTask:
    """When a task runs: name: of its interval in the configuration. due_ms: None while it has nothing to do."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.due_ms: int | None = None
        self._known_ms: int | None = None

    def schedule(self, interval_ms: int, now_ms: int) -> None:
        """Run it at the next one of its times, the first of which is an interval away."""
        if self._known_ms is None:
            self._known_ms = now_ms + interval_ms
        self.due_ms = next_periodic_ms(self._known_ms, max(1, interval_ms), now_ms + 1)

    def take_due(self, now_ms: int) -> bool:
        """Whether it runs now."""
        if self.due_ms is None or self.due_ms > now_ms:
            return False
        self._known_ms, self.due_ms = now_ms, None
        return True


class ShareStateLog:
    """The partitions of the topic that one node leads; each of them is a shard of its coordinator."""

    def __init__(self, cluster: ClusterServices[object], logs: NodeLogs) -> None:
        self._cluster = cluster
        self._logs = logs
        self._config = cluster.node_config(logs.node_id)
        self._records: StateRecords = (
            ReleasedRecords() if cluster.edition_records is None else cluster.edition_records.new_state_records()
        )
        self.loading = PartitionLoads(cluster.inter_broker, logs.node_id)
        self._snapshots: dict[int, dict[ShareKey, int]] = {}
        self._pruned: dict[int, int] = {}
        self._written: LogPosition | None = None
        self._latest: dict[int, LogPosition] = {}
        self._snapshot_task = _PeriodicTask("cold.partition.snapshot")
        self._pruning_task = _PeriodicTask("state.topic.prune")
        self.coordinator = ShareCoordinator(
            cluster.metadata,
            self._config,
            is_coordinator=self._is_coordinator,
            shard_of=self._shard_of,
            record=self._record,
            rules=cluster.rules,
        )

    # Leading and loading.

    def _shard_of(self, key: ShareKey) -> int:
        return self._cluster.metadata.coordinator_partition_index(CoordinatorKind.SHARE, str(key))

    def _is_coordinator(self, key: ShareKey) -> bool:
        """Whether this node coordinates a key: none does while the topic of a cold cluster does not exist.

        Raises: COORDINATOR_LOAD_IN_PROGRESS.
        """
        metadata = self._cluster.metadata
        if metadata.is_cold and not metadata.has_internal_topic(CoordinatorKind.SHARE):
            return False
        shard = self._shard_of(key)
        self.loading.require_finished(shard)
        return shard in self._snapshots

    def topic_changed(self, change: TopicChange, topic: Topic, _: object) -> None:
        """Load and unload shards as leaders change, and delete the state of deleted topics."""
        if topic.name == _TOPIC_NAME:
            if change is TopicChange.DELETED:
                self.loading.close()
            self.update_led_shards()
        else:
            self.coordinator.on_topic_change(change, topic)

    def update_led_shards(self) -> None:
        """Unload the shards that this node leads no longer, and treat empty shards that it leads as loaded."""
        topic = self._cluster.metadata.topic(_TOPIC_NAME)
        led = set() if topic is None else self._led_partitions(topic)
        for shard in [shard for shard in self._snapshots if shard not in led]:
            self._unload(shard)
        for shard in range(len(topic.partitions) if topic is not None else 0):
            if shard not in led:
                self.loading.cancel(shard)
        for shard in led - self._snapshots.keys():
            assert topic is not None
            if not self._logs.has_records(topic.topic_id, shard):
                self._snapshots[shard] = {}

    def _unload(self, shard: int) -> None:
        self.coordinator.unload_shard(shard)
        del self._snapshots[shard]
        self._pruned.pop(shard, None)
        self._latest.pop(shard, None)

    def load_led_partitions(self, *, now_ms: int) -> None:
        """After an election: start to load the shards that this node leads now."""
        self.update_led_shards()
        topic = self._cluster.metadata.topic(_TOPIC_NAME)
        for shard in sorted(self._led_partitions(topic) - self._snapshots.keys()) if topic is not None else ():
            if shard not in self.loading:
                assert topic is not None
                self.loading.start(shard, partial(self._load, topic, shard), now_ms=now_ms)

    def close(self) -> None:
        """The broker has ended: cancel all loads and deletions."""
        self.loading.close()
        self._snapshots.clear()

    def _led_partitions(self, topic: Topic) -> set[int]:
        return {partition.index for partition in topic.partitions if partition.leader == self._logs.node_id}

    def _load(self, topic: Topic, shard: int, now_ms: int) -> None:
        self._snapshots[shard] = {}
        self.schedule_maintenance(now_ms=now_ms)
        try:
            log = self._logs.find_log(topic.topic_id, shard)
            # Not all of it may be committed yet.
            self._latest[shard] = LogPosition(topic.topic_id, shard, log.end_offset)
            for offset, fact in _read_facts(log, self._records):
                self._track_snapshot(shard, offset, fact)
                self.coordinator.replay_record(fact)
        except KafkaError:
            self._unload(shard)
            raise

    # Writing.

    def _record(self, fact: StateRecord, now_ms: int) -> None:
        """Append a fact as a batch of its own; `replication_error` reports when enough replicas have it."""
        topic = self._cluster.metadata.internal_topic(CoordinatorKind.SHARE)
        shard = self._shard_of(fact.key)
        rows = enumerate(self._records.write(fact))
        batch = write_batch([Record(at, now_ms, key, value) for at, (key, value) in rows])
        log = self._logs.find_log(topic.topic_id, shard)
        try:
            appended = log.append(batch, now_ms=now_ms, origin=AppendOrigin.COORDINATOR)
        except KafkaError as error:
            if error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
                raise
            # Source: Kafka's CoordinatorOperationExceptionHelper.
            raise KafkaError(ErrorCode.NOT_COORDINATOR, error.message) from error
        self._track_snapshot(shard, appended.last_offset, fact)
        self._written = self._latest[shard] = LogPosition(topic.topic_id, shard, log.end_offset)
        self.schedule_maintenance(now_ms=now_ms)

    def execute(self, operation: Callable[[], T], key: ShareKey) -> tuple[T | KafkaError, LogPosition | None]:
        """Run one operation on one share partition.

        An operation that writes nothing, and one that is refused by the state, waits for the previous write, whose
        effect it has read. Returns: the answer, and the position that must be committed before it is sent. Source:
        Kafka's CoordinatorRuntime.waitForPendingWrites; all operations of its share coordinator are write operations.
        """
        self._written = None
        try:
            answer: T | KafkaError = operation()
        except KafkaError as error:
            if error.code not in _REFUSED_BY_STATE:
                return error, None
            answer = error
        return answer, self._written or self._latest.get(self._shard_of(key))

    def replication_error(self, written: LogPosition, *, since_ms: int, now_ms: int) -> KafkaError | None:
        """The error of a write, or None when all in-sync replicas have it.

        Raises: NotReady while they do not. Source: Kafka's CoordinatorRuntime, which fails the operation when this
        takes too long, and leaves its records in the log.
        """
        if written.shard not in self._snapshots or self._cluster.metadata.topic_by_id(written.topic_id) is None:
            return KafkaError(ErrorCode.NOT_COORDINATOR, "another node coordinates now, or the topic was deleted")
        if self._logs.find_log(written.topic_id, written.shard).high_watermark >= written.end_offset:
            return None
        if now_ms < since_ms + self._config.integer("share.coordinator.write.timeout.ms"):
            raise NotReady
        return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "too few replicas are in sync")

    def _track_snapshot(self, shard: int, offset: int, fact: StateRecord) -> None:
        """Track the offset of the last snapshot of each share partition: records before all of them are redundant."""
        if isinstance(fact, StateSnapshot):
            if fact.value is None:
                self._snapshots[shard].pop(fact.key, None)
            else:
                self._snapshots[shard][fact.key] = offset

    # Snapshots and pruning. The times of both are periodic as Kafka's, without those at which there is nothing to do.

    def schedule_maintenance(self, *, now_ms: int) -> None:
        """Something was written or is being loaded: the next times of snapshots and pruning are not left out."""
        for task in (self._snapshot_task, self._pruning_task):
            if task.due_ms is None:
                task.schedule(self._interval_ms(task.name), now_ms)
                self._cluster.earliest_deadline.ms = UNKNOWN_MS

    def next_deadline_ms(self) -> int | None:
        """The time of the next snapshots or of the next pruning, or None."""
        snapshots_ms, pruning_ms = self._snapshot_task.due_ms, self._pruning_task.due_ms
        if snapshots_ms is None or pruning_ms is None:
            return snapshots_ms if pruning_ms is None else pruning_ms
        return snapshots_ms if snapshots_ms < pruning_ms else pruning_ms

    def expire(self, *, now_ms: int) -> None:
        """Snapshot cold state and delete redundant records when due; neither runs while share groups are disabled."""
        due_ms = self.next_deadline_ms()
        if due_ms is None or due_ms > now_ms:
            return
        is_on, rules = self._cluster.features.get("share.version", 0) > 0, self._cluster.rules.state
        if self._snapshot_task.take_due(now_ms):
            if is_on and rules.snapshots_cold_state:
                self.coordinator.snapshot_cold_states(now_ms=now_ms)
            if not is_on or (rules.snapshots_cold_state and self.coordinator.has_recent_states()):
                self._snapshot_task.schedule(self._interval_ms(self._snapshot_task.name), now_ms)
        if self._pruning_task.take_due(now_ms):
            is_left = is_on and not rules.compacts_state_topic and not self._prune(now_ms)
            if is_left or not is_on:
                self._pruning_task.schedule(self._interval_ms(self._pruning_task.name), now_ms)

    def _prune(self, now_ms: int) -> bool:
        """Delete redundant records. Returns: whether none is left for the next time."""
        is_complete = True
        for shard, offsets in self._snapshots.items():
            redundant = min(offsets.values(), default=0)
            if redundant > 0 and redundant != self._pruned.get(shard):
                self._prune_when_committed(shard, redundant, now_ms)
                is_complete &= self._pruned.get(shard) == redundant
        return is_complete

    def _prune_when_committed(self, shard: int, redundant: int, since_ms: int) -> None:
        """Delete the records before an offset, unless the snapshots that replace them are not committed in time.

        Source: Kafka's ShareCoordinatorService.performRecordPruning, an operation that waits as `execute` describes.
        """
        loaded, written = self._snapshots[shard], self._latest[shard]

        def attempt(now_ms: int) -> None:
            if self._snapshots.get(shard) is not loaded:
                return
            try:
                if self.replication_error(written, since_ms=since_ms, now_ms=now_ms) is None:
                    self._logs.find_log(written.topic_id, shard).delete_records_before(redundant)
                    self._pruned[shard] = redundant
            except NotReady:
                self._cluster.inter_broker.schedule(_RETRY_MS, attempt, now_ms=now_ms, owner=self._logs.node_id)
            except KafkaError as error:
                STORAGE.debug("records before offset %(offset)s stay: %(error)s", offset=redundant, error=error.message)

        attempt(since_ms)

    def _interval_ms(self, task: str) -> int:
        return self._config.integer(f"share.coordinator.{task}.interval.ms")


def _read_facts(log: PartitionLog, records: StateRecords) -> Iterator[tuple[int, StateRecord]]:
    for batch in log.batches_below(log.end_offset):
        for record in batch.records():
            fact = None if record.key is None else records.read(record.key, record.value, record.timestamp)
            if fact is not None and record.offset >= log.start_offset:
                yield record.offset, fact
