"""Index of the control records in a leader's logs, read by the share snapshot file or a scan.

An index is read on first use in a leader epoch: from the oldest checkpoint in the file on, or from the log's start if
the file is missing or invalid.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from mockbroker.persisters.control_records import control_batches
from mockbroker.persisters.control_records.recorded_state import RecordedState, ShareCheckpoint
from mockbroker.state.metadata.topics import TopicPartitionKey
from mockbroker.state.storage.hidden_batches import NO_STATE_STORED

if TYPE_CHECKING:
    from mockbroker.cluster_services.share_snapshots import ShareSnapshots
    from mockbroker.state.storage.partition_log import PartitionLog, StoredBatch


class Recovery(Enum):
    """How a leader found the control records of a topic-partition."""

    SNAPSHOT_FILE = "the share snapshot file"
    SCAN = "a scan of the log"


class RecoveryInfo(NamedTuple):
    """How an index was read, and the offset from which on the log was read."""

    method: Recovery
    first_offset: int


class ControlRecordIndex:
    """The states of share groups that are recorded in the log of one topic-partition."""

    def __init__(self, log: PartitionLog) -> None:
        self.log = log
        self.leader_epoch = log.leader_epoch
        self.states: dict[str, RecordedState] = {}
        self.recovery = RecoveryInfo(Recovery.SCAN, log.start_offset)

    def find_or_create_state(self, group_id: str) -> RecordedState:
        """The recorded state of a group, created if there is none."""
        if group_id not in self.states:
            self.states[group_id] = RecordedState(self.log.has_visible_between)
        return self.states[group_id]

    def checkpoint_offsets(self) -> dict[str, int]:
        """The offset of the newest checkpoint of each group with a state."""
        return {name: chain.checkpoint_offset for name, chain in self.states.items() if chain.has_start}

    def replay_batches(self, batches: Iterable[StoredBatch]) -> None:
        """Apply the control records of batches."""
        for batch in batches:
            if not batch.is_hidden:
                continue
            for record in batch.records():
                found = control_batches.decode_control_record(record)
                if found is None:
                    continue
                group_id, content = found
                state = self.find_or_create_state(group_id)
                if isinstance(content, ShareCheckpoint):
                    state.apply_checkpoint(record.offset, content)
                else:
                    state.apply_delta(record.offset, content)


class ControlRecordIndexes:
    """One node's indexes by topic id and partition, with its share snapshot files."""

    def __init__(self, files: ShareSnapshots) -> None:
        self._files = files
        self._indexes: dict[TopicPartitionKey, ControlRecordIndex] = {}

    def find_index(self, partition_key: TopicPartitionKey) -> ControlRecordIndex | None:
        """The index as it was read last, or None."""
        return self._indexes.get(partition_key)

    def open_index(self, partition_key: TopicPartitionKey, log: PartitionLog) -> ControlRecordIndex:
        """The index of a log that this node leads now."""
        index = self._indexes.get(partition_key)
        if index is None or index.leader_epoch != log.leader_epoch or index.log is not log:
            index = self._indexes[partition_key] = self._read_index(partition_key, log)
        return index

    def save_checkpoints(self, partition_key: TopicPartitionKey, index: ControlRecordIndex) -> None:
        """After a new checkpoint: write the snapshot file, and allow the cleaner to remove older control records."""
        checkpoints = index.checkpoint_offsets()
        if index.log.hidden_batches is not None:
            index.log.hidden_batches.keep_from = min(checkpoints.values(), default=NO_STATE_STORED)
            self._files.write_file(partition_key, control_batches.encode_snapshot_file(checkpoints))

    def remove_topic(self, topic_id: bytes) -> None:
        """Remove the indexes of a deleted topic."""
        for partition_key in [partition_key for partition_key in self._indexes if partition_key[0] == topic_id]:
            del self._indexes[partition_key]
            self._files.delete_file(partition_key)

    def _read_index(self, partition_key: TopicPartitionKey, log: PartitionLog) -> ControlRecordIndex:
        index = ControlRecordIndex(log)
        first = self._first_checkpoint(partition_key, log)
        if first is not None:
            index.recovery = RecoveryInfo(Recovery.SNAPSHOT_FILE, first)
        index.replay_batches(log.batches_from(index.recovery.first_offset))
        self.save_checkpoints(partition_key, index)
        return index

    def _first_checkpoint(self, partition_key: TopicPartitionKey, log: PartitionLog) -> int | None:
        """The first offset to read by the snapshot file; None if it is missing, or an entry is not a checkpoint."""
        data = self._files.read_file(partition_key)
        offsets = None if data is None else control_batches.decode_snapshot_file(data)
        if not offsets:
            return None
        for group_id, offset in offsets.items():
            batch = next(iter(log.batches_from(offset)), None) if log.start_offset <= offset < log.end_offset else None
            if batch is None or not batch.is_hidden or batch.base_offset != offset:
                return None
            found = control_batches.decode_control_record(batch.records()[0])
            if found is None or found[0] != group_id or not isinstance(found[1], ShareCheckpoint):
                return None
        return min(offsets.values())
