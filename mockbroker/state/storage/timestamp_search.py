"""Finds records of a log by their timestamps."""

from __future__ import annotations

from mockbroker.state.storage.batch_index import BatchIndex
from mockbroker.state.storage.stored_batch import StoredBatch, TimestampOffset


def find_first_since(index: BatchIndex, timestamp: int, *, start_offset: int) -> TimestampOffset | None:
    """The first record from `start_offset` on with this timestamp or a later one, or None."""
    # The running maximum of timestamps never decreases, so bisection finds the first batch that reaches the time.
    for batch in index.batches[index.find_timestamp(timestamp) :]:
        if batch.max_timestamp < timestamp or batch.is_hidden:
            continue
        for record in batch.records():
            if record.timestamp >= timestamp and record.offset >= start_offset:
                return TimestampOffset(record.offset, record.timestamp, batch.leader_epoch)
    return None


def find_newest(index: BatchIndex, deleted: StoredBatch | None) -> TimestampOffset | None:
    """The first record with the largest timestamp, or None. deleted: the newest batch below the log start."""
    newest = index.max_timestamps[-1] if len(index) else -1
    batches = index.batches[index.find_timestamp(newest) :]
    if deleted is not None and deleted.max_timestamp >= newest:
        newest, batches = deleted.max_timestamp, [deleted]
    for batch in batches:
        for record in batch.records():
            if record.timestamp == newest:
                return TimestampOffset(record.offset, newest, batch.leader_epoch)
    return None
