"""Share coordinator: the stored state of share partitions, and the records that change it.

Every operation creates records (snapshot, update, tombstone), and only `replay_record` changes the state, so that a log
of the records is sufficient. Source: share-semantics 7.2 and 7.3.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import NamedTuple, Protocol

import msgspec
from msgspec.structs import replace

from kwire import uuids
from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata.cluster_image import Topic, TopicChange
from mockbroker.state.settings import read_int
from mockbroker.state.share.share_rules import RELEASED, ShareRules
from mockbroker.state.share.state_batches import StateBatch, coalesce_batches, combine_batches

UNINITIALIZED_START = -1
NO_EPOCH = -1
#: The delivery state of records that are not complete.
_AVAILABLE = 0
StateBatches = tuple[StateBatch, ...]


class ShareKey(NamedTuple):
    """A share partition: one group's view of one partition."""

    group_id: str
    topic_id: bytes
    partition: int

    def __str__(self) -> str:
        return _key_text(self)


@lru_cache(maxsize=1024)  # Each write asks for the coordinator of its key several times.
def _key_text(key: ShareKey) -> str:
    return f"{key.group_id}:{uuids.to_text(key.topic_id)}:{key.partition}"


class StoredState(msgspec.Struct, frozen=True):
    """The stored state of a share partition; also the content of a snapshot."""

    snapshot_epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: StateBatches
    created_ms: int
    written_ms: int


class StateSnapshot(msgspec.Struct, frozen=True):
    """The whole state of a share partition; None means that it is deleted."""

    key: ShareKey
    value: StoredState | None


class StateUpdate(msgspec.Struct, frozen=True):
    """A change since the last snapshot. A start offset of -1 leaves the start unchanged."""

    key: ShareKey
    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: StateBatches


StateRecord = StateSnapshot | StateUpdate

#: The state of a share partition before its first write, in editions without initialization.
_NO_STATE = StoredState(0, 0, 0, UNINITIALIZED_START, -1, (), 0, 0)


class StateWrite(msgspec.Struct, frozen=True):
    """A write of a leader. A state or leader epoch of -1 is not compared."""

    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: Sequence[StateBatch]


class StateSummary(NamedTuple):
    """The result of ReadShareGroupStateSummary."""

    start_offset: int
    delivery_complete_count: int
    leader_epoch: int
    state_epoch: int


class TopicLookup(Protocol):
    """The topics that the coordinator looks up."""

    def topic_by_id(self, topic_id: bytes) -> Topic | None:
        """The topic, or None."""


class ShareCoordinator:
    """One node's share coordinator.

    is_coordinator: whether this node coordinates a key now, with its shard loaded. shard_of: the partition of the
    coordinator's topic for a key's records. record: appends a record, with a time; a KafkaError undoes the operation.
    """

    def __init__(
        self,
        topics: TopicLookup,
        config: Mapping[str, object],
        *,
        is_coordinator: Callable[[ShareKey], bool] = lambda key: True,
        shard_of: Callable[[ShareKey], int] = lambda key: 0,
        record: Callable[[StateRecord, int], None] = lambda record, now_ms: None,
        rules: ShareRules = RELEASED,
    ) -> None:
        self._rules = rules.state
        self._merge_batches = coalesce_batches if self._rules.merges_neighbours else combine_batches
        self._topics = topics
        self._config = config
        self._is_coordinator = is_coordinator
        self._shard_of = shard_of
        self._record = record
        self._last_write_ms = 0
        self._states: dict[ShareKey, StoredState] = {}
        self._leader_epochs: dict[ShareKey, int] = {}
        self._state_epochs: dict[ShareKey, int] = {}
        self._update_counts: dict[ShareKey, int] = {}
        #: Where the records of each key are: the topic may be gone when its states are unloaded.
        self._shards: dict[ShareKey, int] = {}

    def find_state(self, key: ShareKey) -> StoredState | None:
        """The stored state of a key, or None."""
        return self._states.get(key)

    # Operations, each for one share partition; the checks are in Kafka's order.

    def initialize_state(self, key: ShareKey, *, state_epoch: int, start_offset: int, now_ms: int) -> None:
        """Replace the state by a new one. Raises: INVALID_REQUEST, FENCED_STATE_EPOCH, UNKNOWN_TOPIC_OR_PARTITION."""
        self._check_coordinator(key)
        self._check_sign(key, state_epoch)
        self._check_topic(key)
        self._check_state_epoch(key, state_epoch)
        old = self._states.get(key)
        complete = UNINITIALIZED_START if start_offset == UNINITIALIZED_START else 0
        epoch = 0 if old is None else old.snapshot_epoch + 1
        value = StoredState(epoch, state_epoch, 0, start_offset, complete, (), now_ms, now_ms)
        self._record_and_apply(StateSnapshot(key, value), now_ms)

    def read_state(self, key: ShareKey, *, leader_epoch: int, now_ms: int) -> StoredState:
        """Return the state to a new leader; a new leader epoch is stored with it."""
        self._check_coordinator(key)
        self._check_sign(key, leader_epoch)
        stored = self._find_or_start_state(key)
        if not self._rules.checks_leader_epochs:
            self._check_topic(key)
            return stored
        if self._leader_epochs.get(key, leader_epoch) > leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH, f"leader epoch {leader_epoch} of {key} is old")
        self._check_topic(key)
        if leader_epoch not in (NO_EPOCH, self._leader_epochs.get(key)):
            write = StateWrite(
                stored.state_epoch, leader_epoch, stored.start_offset, stored.delivery_complete_count, ()
            )
            self._record_and_apply(self._build_record(key, write, leader_epoch, now_ms), now_ms)
        return stored

    def write_state(self, key: ShareKey, write: StateWrite, *, now_ms: int) -> None:
        """Merge a write of a leader. Higher epochs are accepted, and not stored."""
        self._check_coordinator(key)
        self._check_sign(key, write.leader_epoch, write.state_epoch)
        stored = self._find_or_start_state(key)
        if write.leader_epoch != NO_EPOCH and self._leader_epochs.get(key, write.leader_epoch) > write.leader_epoch:
            raise KafkaError(ErrorCode.FENCED_LEADER_EPOCH, f"leader epoch {write.leader_epoch} of {key} is old")
        self._check_state_epoch(key, write.state_epoch)
        if self._rules.fences_different_state_epoch and write.state_epoch not in (NO_EPOCH, stored.state_epoch):
            raise KafkaError(ErrorCode.FENCED_STATE_EPOCH, f"state epoch {write.state_epoch} of {key} is different")
        self._check_topic(key)
        leader_epoch = write.leader_epoch if self._rules.stores_written_epochs else stored.leader_epoch
        self._record_and_apply(self._build_record(key, write, leader_epoch, now_ms), now_ms)

    def delete_state(self, key: ShareKey, *, now_ms: int) -> None:
        """Delete the state of a share partition; it is no error if there is none."""
        self._check_coordinator(key)
        self._check_topic(key)
        if key in self._states:
            self._record_and_apply(StateSnapshot(key, None), now_ms)

    def read_summary(self, key: ShareKey) -> StateSummary:
        """Start and count for admin tools; special values for a key without state."""
        self._check_coordinator(key)
        self._check_topic(key)
        state = self._states.get(key)
        if state is not None:
            return StateSummary(
                state.start_offset, state.delivery_complete_count, state.leader_epoch, state.state_epoch
            )
        if not self._rules.summarizes_missing_state:
            raise self._missing_state_error(key)
        return StateSummary(UNINITIALIZED_START, -1, 0, 0)

    def on_topic_change(self, change: TopicChange, topic: Topic) -> None:
        """Delete the states of a deleted topic; those that cannot be recorded now stay, without being used."""
        if change is TopicChange.DELETED:
            for key in [key for key in self._states if key.topic_id == topic.topic_id]:
                with suppress(KafkaError):
                    self._record_and_apply(StateSnapshot(key, None), self._last_write_ms)

    def snapshot_cold_states(self, *, now_ms: int) -> None:
        """Write a snapshot of states without a recent one, in shards that contain newer states too (7.5)."""
        warm = {self._shards[key] for key, stored in self._states.items() if stored.created_ms == stored.written_ms}
        interval_ms = read_int(self._config, "share.coordinator.cold.partition.snapshot.interval.ms")
        for key, stored in list(self._states.items()):
            if self._shards[key] in warm and now_ms - stored.written_ms >= interval_ms:
                fresh = replace(stored, snapshot_epoch=stored.snapshot_epoch + 1, written_ms=now_ms)
                with suppress(KafkaError):
                    self._record_and_apply(StateSnapshot(key, fresh), now_ms)

    def has_recent_states(self) -> bool:
        """Whether a snapshot of cold states may find more, without another write."""
        return any(stored.created_ms == stored.written_ms for stored in self._states.values())

    def unload_shard(self, shard: int) -> None:
        """Remove the states of a shard that another node coordinates now, or whose topic was deleted."""
        for key in [key for key, at in self._shards.items() if at == shard]:
            self._remove_state(key)

    # Records.

    def replay_record(self, record: StateRecord) -> None:
        """Apply a record, from an operation or from the log at a load."""
        key = record.key
        self._shards[key] = self._shard_of(key)
        if isinstance(record, StateUpdate):
            self._raise_epoch(self._leader_epochs, key, record.leader_epoch)
            self._states[key] = self._apply_update(self._states.get(key), record)
            before = 0 if self._rules.first_update_counts else -1
            self._update_counts[key] = self._update_counts.get(key, before) + 1
        elif record.value is None:
            self._remove_state(key)
        else:
            self._raise_epoch(self._leader_epochs, key, record.value.leader_epoch)
            self._raise_epoch(self._state_epochs, key, record.value.state_epoch)
            self._states[key] = record.value
            if self._update_counts.get(key, 0) >= self._updates_per_snapshot:
                self._update_counts[key] = 0

    def _record_and_apply(self, record: StateRecord, now_ms: int) -> None:
        self._last_write_ms = now_ms
        self._record(record, now_ms)
        self.replay_record(record)

    def _remove_state(self, key: ShareKey) -> None:
        for table in (self._states, self._leader_epochs, self._state_epochs, self._update_counts, self._shards):
            table.pop(key, None)

    def _build_record(self, key: ShareKey, write: StateWrite, leader_epoch: int, now_ms: int) -> StateRecord:
        """The record of a write: an update, or after enough of them a snapshot of the merged state (7.2)."""
        if key not in self._states:
            return self._first_snapshot(key, write, now_ms)
        stored = self._states[key]
        if self._rules.keeps_highest_start:
            write = self._keep_highest_start(stored, write)
        complete = write.delivery_complete_count
        is_due = self._update_counts.get(key, 0) >= self._updates_per_snapshot
        if not is_due and not (self._rules.snapshots_empty_state and not self._merge_change(stored, write)[1]):
            batches = tuple(self._merge_batches((), write.batches, write.start_offset))
            return StateUpdate(key, stored.snapshot_epoch, leader_epoch, write.start_offset, complete, batches)
        start, merged = self._merge_change(stored, write)
        state_epoch = stored.state_epoch
        if self._rules.stores_written_epochs:
            state_epoch = max(state_epoch, write.state_epoch)
            leader_epoch = stored.leader_epoch if leader_epoch == NO_EPOCH else leader_epoch
        snapshot_epoch = stored.snapshot_epoch + 1
        value = StoredState(snapshot_epoch, state_epoch, leader_epoch, start, complete, merged, now_ms, now_ms)
        return StateSnapshot(key, value)

    @staticmethod
    def _keep_highest_start(stored: StoredState, write: StateWrite) -> StateWrite:
        if write.start_offset > stored.start_offset:
            return write
        complete = stored.delivery_complete_count
        if write.start_offset == stored.start_offset:
            complete = max(complete, write.delivery_complete_count)
        return replace(write, start_offset=stored.start_offset, delivery_complete_count=complete)

    def _merge_change(self, stored: StoredState, change: StateWrite | StateUpdate) -> tuple[int, StateBatches]:
        """The start and the states after a change."""
        start = stored.start_offset if change.start_offset == -1 else change.start_offset
        if self._rules.start_passes_completed_records:
            start = max(start, stored.start_offset)
        merged = self._merge_batches(stored.batches, change.batches, start)
        if self._rules.start_passes_completed_records:
            done = 0
            for batch in merged:
                if batch.first > start or batch.state == _AVAILABLE:
                    break
                start, done = batch.last + 1, done + 1
            del merged[:done]
        return start, tuple(merged)

    def _first_snapshot(self, key: ShareKey, write: StateWrite, now_ms: int) -> StateRecord:
        """The first snapshot of a state that was not initialized."""
        batches = tuple(self._merge_batches((), write.batches, write.start_offset))
        complete = write.delivery_complete_count
        epochs = (0, write.state_epoch, write.leader_epoch)
        return StateSnapshot(key, StoredState(*epochs, write.start_offset, complete, batches, now_ms, now_ms))

    def _apply_update(self, stored: StoredState | None, update: StateUpdate) -> StoredState:
        if stored is None:  # Only a log without the snapshot starts with an update.
            stored = StoredState(update.snapshot_epoch, 0, update.leader_epoch, update.start_offset, -1, (), 0, 0)
        start, merged = self._merge_change(stored, update)
        leader_epoch = stored.leader_epoch if update.leader_epoch == NO_EPOCH else update.leader_epoch
        return StoredState(
            stored.snapshot_epoch,
            stored.state_epoch,
            leader_epoch,
            start,
            update.delivery_complete_count,
            merged,
            stored.created_ms,
            stored.written_ms,
        )

    @staticmethod
    def _raise_epoch(epochs: dict[ShareKey, int], key: ShareKey, epoch: int) -> None:
        epochs[key] = max(epochs.get(key, epoch), epoch)

    # Checks.

    @property
    def _updates_per_snapshot(self) -> int:
        configured = read_int(self._config, "share.coordinator.snapshot.update.records.per.snapshot")
        limit = self._rules.max_updates_per_snapshot
        return min(configured, limit) if limit else configured

    def _check_coordinator(self, key: ShareKey) -> None:
        if not self._is_coordinator(key):
            raise KafkaError(ErrorCode.NOT_COORDINATOR, f"{key} is coordinated elsewhere")
        if key.partition < 0:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"partition {key.partition} is negative")

    def _check_sign(self, key: ShareKey, *epochs: int) -> None:
        if self._rules.refuses_negative_epochs and min(epochs) < 0:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"epochs {epochs} for {key}")

    def _check_state_epoch(self, key: ShareKey, state_epoch: int) -> None:
        if state_epoch != NO_EPOCH and self._state_epochs.get(key, state_epoch) > state_epoch:
            raise KafkaError(ErrorCode.FENCED_STATE_EPOCH, f"state epoch {state_epoch} of {key} is old")

    def _find_or_start_state(self, key: ShareKey) -> StoredState:
        stored = self._states.get(key)
        if stored is None and self._rules.initialized_before_assignment:
            raise self._missing_state_error(key)
        return _NO_STATE if stored is None else stored

    def _missing_state_error(self, key: ShareKey) -> KafkaError:
        return KafkaError(self._rules.missing_state_error, f"{key} has not been initialized")

    def _check_topic(self, key: ShareKey) -> None:
        topic = self._topics.topic_by_id(key.topic_id)
        if topic is None or key.partition >= len(topic.partitions):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"no partition {key.partition} of its topic")
