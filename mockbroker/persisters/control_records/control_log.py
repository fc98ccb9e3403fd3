"""State of share partitions in control records of their own logs, for the topic-partitions that a node leads.

The recorded states are in indexes (`control_record_index.py`), one for each topic-partition.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from kwire.error_codes import ErrorCode
from mockbroker.cluster_services.inter_broker import NotReady
from mockbroker.coordinators.share.share_state_log import LogPosition
from mockbroker.kafka_error import KafkaError
from mockbroker.persisters.control_records import control_record_index as record_index
from mockbroker.persisters.control_records.control_batches import encode_control_batch
from mockbroker.persisters.control_records.control_record_index import ControlRecordIndex
from mockbroker.persisters.control_records.recorded_state import RecordedState, ShareCheckpoint, ShareDelta
from mockbroker.state.metadata.cluster_image import Topic, TopicChange
from mockbroker.state.metadata.topics import TopicPartitionKey
from mockbroker.state.share.state_batches import combine_batches
from mockbroker.state.share_coordinator.share_coordinator import (
    NO_EPOCH,
    UNINITIALIZED_START,
    ShareKey,
    StateSummary,
    StateWrite,
    StoredState,
)
from mockbroker.state.storage.hidden_batches import HiddenBatches

if TYPE_CHECKING:
    from mockbroker.cluster_services.cluster_services import ClusterServices
    from mockbroker.state.storage.log_store import NodeLogs

T = TypeVar("T")

#: The configuration of the number of deltas after a checkpoint; share coordinators use it for updates.
DELTAS_PER_CHECKPOINT_CONFIG = "share.coordinator.snapshot.update.records.per.snapshot"


class ShareControlLog:
    """The operations of a share coordinator, for the topic-partitions that this node leads."""

    def __init__(
        self, cluster: ClusterServices[object], logs: NodeLogs, *, drop_partition: Callable[[ShareKey], None]
    ) -> None:
        self._cluster = cluster
        self._logs = logs
        self._drop_partition = drop_partition
        self._indexes = record_index.ControlRecordIndexes(cluster.broker_storage.share_snapshots(logs.node_id))
        self._pending_writes: dict[ShareKey, list[tuple[int, StateWrite]]] = {}

    # Operations, each for one share partition. `append_pending_writes` records the writes of a message.

    def initialize_state(self, key: ShareKey, *, state_epoch: int, start_offset: int, now_ms: int) -> None:
        """Start a new state at an offset. Without an offset the state stays: this is not an alteration."""
        index = self._open_index(key)
        state = index.find_or_create_state(key.group_id)
        if start_offset == UNINITIALIZED_START:
            return
        self._append_record(key, index, state.initial_checkpoint(start_offset), now_ms)
        self._replace_state(key, state, state_epoch)

    def record_initial_start(
        self, key: ShareKey, start: int, *, state_epoch: int, leader_epoch: int, now_ms: int
    ) -> None:
        """Write the first checkpoint of a share partition: the leader has determined its start offset.

        Raises: FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH.
        """
        index = self._open_index(key, leader_epoch)
        state = index.find_or_create_state(key.group_id)
        _check_state_epoch(key, state, state_epoch)
        if not state.has_start:
            self._append_record(key, index, state.initial_checkpoint(start), now_ms)

    def read_state(self, key: ShareKey, *, leader_epoch: int, now_ms: int) -> StoredState:
        """The position state. Raises: FENCED_LEADER_EPOCH."""
        index = self._open_index(key, leader_epoch)
        state = index.find_or_create_state(key.group_id)
        start = max(state.start, index.log.start_offset) if state.has_start else UNINITIALIZED_START
        batches = tuple(combine_batches((), state.batches, start))
        return StoredState(0, state.state_epoch, leader_epoch, start, -1, batches, now_ms, now_ms)

    def write_state(self, key: ShareKey, written: StateWrite, *, now_ms: int) -> None:
        """Queue a write of a leader for `append_pending_writes`. Raises: FENCED_LEADER_EPOCH, FENCED_STATE_EPOCH."""
        state = self._open_index(key, written.leader_epoch).find_or_create_state(key.group_id)
        _check_state_epoch(key, state, written.state_epoch)
        if not state.has_start and written.start_offset == UNINITIALIZED_START:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{key} has no start yet")
        self._pending_writes.setdefault(key, []).append((now_ms, written))

    def delete_state(self, key: ShareKey, *, now_ms: int) -> None:
        """Delete the state of a share partition, by a checkpoint without a start."""
        index = self._open_index(key)
        state = index.find_or_create_state(key.group_id)
        if state.has_start:
            self._append_record(key, index, state.initial_checkpoint(UNINITIALIZED_START), now_ms)
        self._replace_state(key, state)

    def read_summary(self, key: ShareKey) -> StateSummary:
        """Start offset and number of complete records after it; control records are complete for every group."""
        index = self._open_index(key)
        state = index.states.get(key.group_id)
        if state is None or not state.has_start:
            return StateSummary(UNINITIALIZED_START, -1, 0, 0)
        hidden = index.log.hidden_batches
        control_count = 0 if hidden is None else hidden.count_between(state.start, index.log.high_watermark)
        return StateSummary(state.start, state.completed_count + control_count, index.leader_epoch, state.state_epoch)

    def append_pending_writes(self) -> None:
        """Append one control record for all writes of a share partition in a message."""
        pending, self._pending_writes = self._pending_writes, {}
        for key, writes in pending.items():
            index, now_ms = self._open_index(key), writes[-1][0]
            state = index.find_or_create_state(key.group_id)
            batches = [batch for _, write in writes for batch in write.batches]
            start = max(write.start_offset for _, write in writes)
            checkpoint = state.next_checkpoint(start, batches)
            is_checkpoint_lost = not state.has_start or state.checkpoint_offset < index.log.start_offset
            has_start_moved = state.start_after(batches) != checkpoint.start
            if is_checkpoint_lost or state.delta_count >= self._max_deltas or has_start_moved:
                self._append_record(key, index, checkpoint, now_ms)
            elif (delta := state.next_delta(batches)).batches:
                self._append_record(key, index, delta, now_ms)

    def delete_before(self, partition_key: TopicPartitionKey, offset: int, *, now_ms: int) -> int:
        """Move the start of a log; a checkpoint below it is written again at the end.

        Raises: OFFSET_OUT_OF_RANGE.
        """
        index = self._open_index(ShareKey("", *partition_key))
        start = index.log.delete_records_before(offset)
        for group_id, state in index.states.items():
            if state.has_start and state.checkpoint_offset < start:
                self._append_record(ShareKey(group_id, *partition_key), index, state.next_checkpoint(start, ()), now_ms)
        return start

    # State requests; the same interface as that of a share coordinator.

    @property
    def coordinator(self) -> ShareControlLog:
        """The object with the operations."""
        return self

    def execute(
        self, operation: Callable[[], T], key: ShareKey | None = None
    ) -> tuple[T | KafkaError, LogPosition | None]:
        """Run one operation. Returns: its result, and the log position that replicas must reach before the response.

        key: None for an operation that does not wait for replicas.
        """
        try:
            answer = operation()
            self.append_pending_writes()
            return answer, None if key is None else self.log_position(key)
        except KafkaError as error:
            return error, None

    def replication_error(self, position: LogPosition, *, since_ms: int, now_ms: int) -> KafkaError | None:
        """The replication error of a log position; None once all in-sync replicas have it.

        Raises: NotReady until they have it.
        """
        try:
            self.require_replication(position, since_ms=since_ms, now_ms=now_ms)
        except KafkaError as error:
            return error
        return None

    # Access for persisters and inspection.

    def log_position(self, key: ShareKey) -> LogPosition:
        """The end of a share partition's log now. Raises: NOT_COORDINATOR."""
        log = self._open_index(key).log
        return LogPosition(key.topic_id, key.partition, log.end_offset, log.leader_epoch)

    def require_replication(self, position: LogPosition, *, since_ms: int, now_ms: int) -> None:
        """Return if all in-sync replicas have a log position.

        Raises: NotReady, after the write timeout COORDINATOR_NOT_AVAILABLE; NOT_COORDINATOR in another leader epoch, as
        the end of the log may have been truncated in between.
        """
        log = self._open_index(ShareKey("", position.topic_id, position.shard)).log
        if log.leader_epoch != position.leader_epoch:
            raise KafkaError(ErrorCode.NOT_COORDINATOR, f"leader epoch {log.leader_epoch} has begun")
        if log.high_watermark >= position.end_offset:
            return
        if now_ms - since_ms < self._cluster.config.integer("share.coordinator.write.timeout.ms"):
            raise NotReady
        raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "not all replicas have what was recorded")

    def hidden_batches(self, key: ShareKey) -> HiddenBatches:
        """The offsets of control records, which are never in flight."""
        log = self._open_index(key).log
        if log.hidden_batches is None:
            log.hidden_batches = HiddenBatches()
        return log.hidden_batches

    def recorded_state(self, key: ShareKey) -> RecordedState | None:
        """The recorded state of a share partition; None if its index is not read, or does not contain it."""
        index = self._indexes.find_index((key.topic_id, key.partition))
        return None if index is None else index.states.get(key.group_id)

    def earliest_share_offset(self, partition_key: TopicPartitionKey) -> int | None:
        """KIP-932's ESO: the oldest of all groups' newest checkpoints; None if there is none."""
        index = self._indexes.find_index(partition_key)
        return None if index is None else min(index.checkpoint_offsets().values(), default=None)

    def recovery(self, partition_key: TopicPartitionKey) -> record_index.RecoveryInfo | None:
        """How the index of a topic-partition was read last."""
        index = self._indexes.find_index(partition_key)
        return None if index is None else index.recovery

    def on_topic_change(self, change: TopicChange, topic: Topic, _: object) -> None:
        """Remove the indexes of a deleted topic."""
        if change is TopicChange.DELETED:
            self._indexes.remove_topic(topic.topic_id)

    # Indexes.

    @property
    def _max_deltas(self) -> int:
        return self._cluster.config.integer(DELTAS_PER_CHECKPOINT_CONFIG)

    def _open_index(self, key: ShareKey, leader_epoch: int = -1) -> ControlRecordIndex:
        partition_key = (key.topic_id, key.partition)
        try:
            log = self._logs.find_log(*partition_key, leader_epoch=leader_epoch)
        except KafkaError as error:
            if error.code is ErrorCode.NOT_LEADER_OR_FOLLOWER:
                raise KafkaError(ErrorCode.NOT_COORDINATOR, error.message) from None
            raise
        return self._indexes.open_index(partition_key, log)

    def _append_record(
        self, key: ShareKey, index: ControlRecordIndex, content: ShareCheckpoint | ShareDelta, now_ms: int
    ) -> None:
        batch = encode_control_batch(key.group_id, content, now_ms=now_ms)
        offset = index.log.append_hidden_batch(batch, now_ms=now_ms)
        state = index.find_or_create_state(key.group_id)
        if isinstance(content, ShareDelta):
            is_next = state.apply_delta(offset, content)
            assert is_next
        else:
            state.apply_checkpoint(offset, content)
            self._indexes.save_checkpoints((key.topic_id, key.partition), index)

    def _replace_state(self, key: ShareKey, state: RecordedState, state_epoch: int = 0) -> None:
        """Start another state: pending writes of the old one are discarded, and its share partition is loaded again."""
        # A higher epoch in any case, as an empty group keeps its epoch, however often it is altered.
        state.state_epoch = max(state.state_epoch + 1, state_epoch)
        self._pending_writes.pop(key, None)
        self._drop_partition(key)


def _check_state_epoch(key: ShareKey, state: RecordedState, state_epoch: int) -> None:
    """Refuse a write to a state that was altered or deleted since the leader read it."""
    if NO_EPOCH != state_epoch < state.state_epoch:
        raise KafkaError(ErrorCode.FENCED_STATE_EPOCH, f"state epoch {state_epoch} of {key} is old")
