"""Start offsets that were stored: read from the share coordinator's topic, or from control records of the logs."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

from mockbroker.cluster_services.edition_records import StateRecords
from mockbroker.persisters.control_records.control_batches import decode_control_record
from mockbroker.persisters.control_records.recorded_state import ShareCheckpoint
from mockbroker.state.metadata.topics import TopicPartitionKey
from mockbroker.state.share_coordinator.share_coordinator import ShareKey, StateSnapshot, StateUpdate
from mockbroker.state.storage.partition_log import PartitionLog, StoredBatch


class StoredStart(NamedTuple):
    """A stored start offset, None where the state was deleted.

    is_fresh: the record contains nothing else, as after an initialization. has_start: whether the record names a start.
    """

    key: ShareKey
    start_offset: int | None
    is_fresh: bool
    has_start: bool = True


class NewBatches:
    """Reads logs by any key, each from where it was read to last."""

    def __init__(self) -> None:
        self._read_to: dict[Hashable, int] = {}

    def read(self, key: Hashable, log: PartitionLog) -> Sequence[StoredBatch]:
        """The batches that were written since the last call; what is not committed can still be truncated."""
        after, end = self._read_to.get(key, 0), log.high_watermark
        if end <= after:
            return ()
        self._read_to[key] = end
        return [batch for batch in log.batches_below(end) if batch.base_offset >= after]

    def forget_lost(self, key: Hashable, log: PartitionLog) -> None:
        """Read from the end of a log that may be shorter than it was."""
        self._read_to[key] = min(self._read_to.get(key, 0), log.end_offset)


class StateTopic:
    """Reads the share coordinator's topic."""

    def __init__(self, records: StateRecords) -> None:
        self._records = records
        self._batches = NewBatches()

    def read_stored_starts(self, logs: list[PartitionLog]) -> Iterator[StoredStart]:
        """Start offsets that were stored since the last call, in order."""
        for shard, log in enumerate(logs):
            for batch in self._batches.read(shard, log):
                yield from _starts_in(self._records, batch)

    def forget_lost(self, logs: list[PartitionLog]) -> None:
        """The machine has crashed: read what is written in place of what was lost."""
        for shard, log in enumerate(logs):
            self._batches.forget_lost(shard, log)


class ControlRecords:
    """Reads control records of the topics' logs, where leaders store the state there (rule `in_partition_log`)."""

    def __init__(self) -> None:
        self._batches = NewBatches()

    def read_stored_starts(self, partition_key: TopicPartitionKey, log: PartitionLog | None) -> Iterator[StoredStart]:
        """Start offsets of checkpoints that were written since the last call; -1 is that of a new state."""
        for batch in [] if log is None else self._batches.read(partition_key, log):
            header = batch.header()
            for record in batch.records() if header.is_control and not header.is_transactional else ():
                decoded = decode_control_record(record)
                if decoded is None:
                    continue
                group_id, content = decoded
                if isinstance(content, ShareCheckpoint):
                    start = None if content.start < 0 else content.start
                    yield StoredStart(ShareKey(group_id, *partition_key), start, is_fresh=not content.batches)


def _starts_in(records: StateRecords, batch: StoredBatch) -> Iterator[StoredStart]:
    for record in batch.records():
        fact = None if record.key is None else records.read(record.key, record.value, record.timestamp)
        if isinstance(fact, StateSnapshot) and fact.value is None:
            yield StoredStart(fact.key, None, is_fresh=False)
        elif isinstance(fact, StateSnapshot) and fact.value is not None:
            is_fresh = not fact.value.batches and fact.value.delivery_complete_count <= 0
            yield StoredStart(fact.key, fact.value.start_offset, is_fresh)
        elif isinstance(fact, StateUpdate):
            yield StoredStart(fact.key, fact.start_offset, is_fresh=False, has_start=fact.start_offset >= 0)
