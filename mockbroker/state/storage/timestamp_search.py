"""Finds records of a log by their timestamps."""

from __future__ import annotations

from collections.abc import Iterable

from mockbroker.state.storage.stored_batch import StoredBatch, TimestampOffset


def find_first_since(batches: Iterable[StoredBatch], timestamp: int, *, start_offset: int) -> TimestampOffset | None:
    """The first record from `start_offset` on with this timestamp or a later one, or None."""
    for batch in batches:
        if batch.max_timestamp < timestamp or batch.is_hidden:
            continue
        for record in batch.records():
            if record.timestamp >= timestamp and record.offset >= start_offset:
                return TimestampOffset(record.offset, record.timestamp, batch.leader_epoch)
    return None


def find_newest(batches: Iterable[StoredBatch], newest: int) -> TimestampOffset | None:
    """The first record with the largest timestamp, or None."""
    for batch in batches:
        if batch.max_timestamp < newest:
            continue
        for record in batch.records():
            if record.timestamp == newest:
                return TimestampOffset(record.offset, newest, batch.leader_epoch)
    return None
