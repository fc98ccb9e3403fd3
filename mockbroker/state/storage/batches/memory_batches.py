"""`MemoryBatches`: the batches of a log in memory, with an index of all of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from mockbroker.state.storage.batch_index import BatchIndex
from mockbroker.state.storage.batches.deleted_batches import DeletedBatches
from mockbroker.state.storage.batches.log_buffer import LogBuffer
from mockbroker.state.storage.leader_epoch_cache import NO_EPOCH
from mockbroker.state.storage.log_config import AppendRules
from mockbroker.state.storage.memory_budget import MemoryBudget
from mockbroker.state.storage.producers import AbortedTransaction, ProducerStates
from mockbroker.state.storage.segments import LogSegments, RollRules
from mockbroker.state.storage.stored_batch import NewBatch, StoredBatch

if TYPE_CHECKING:
    from mockbroker.state.storage.batches.batch_storage import CleanedSegment, Data


class MemoryBatches:
    """Stores batches in memory, as the interface `BatchStorage` says. budget: of the memory of all logs."""

    def __init__(self, budget: MemoryBudget | None = None) -> None:
        self.segments = LogSegments(budget)
        self._index = BatchIndex()
        self._buffer = LogBuffer()
        self._deleted_batches = DeletedBatches()

    def append(self, data: Data, batch: NewBatch, rules: AppendRules, *, now_ms: int) -> None:
        """Copy a batch to the end of the buffer."""
        base_offset, leader_epoch, size = batch.base_offset, batch.leader_epoch, len(data)
        chunk, at = self._buffer.append(data, (base_offset, leader_epoch) if leader_epoch != NO_EPOCH else None)
        stored = StoredBatch(
            base_offset, batch.last_offset, size, chunk, at, batch.max_timestamp, leader_epoch, batch.is_hidden
        )
        self._index.append(stored)
        self.segments.add_batch(base_offset, size, batch.max_timestamp, rules.roll, now_ms=now_ms)

    def sync_unsynced(self) -> None:
        """Nothing waits for a disk."""

    def roll_segment(self, base_offset: int, rules: RollRules, *, now_ms: int) -> None:
        """Start a segment at the end of the log."""
        self.segments.roll_segment(base_offset, rules, now_ms=now_ms)

    def index_from(self, offset: int, size: int) -> BatchIndex:
        """The index of all batches."""
        return self._index

    def batches_between(self, first: int, end: int | None = None) -> Sequence[StoredBatch]:
        """The batches that end at an offset or later, and before `end`."""
        find = self._index.find_offset
        return self._index.batches[find(first) : None if end is None else find(end)]

    def batches_since(self, timestamp: int) -> Sequence[StoredBatch]:
        """The batches from the first one on that has this timestamp or a later one."""
        # The running maximum of timestamps never decreases, so bisection finds the first batch that reaches the time.
        return self._index.batches[self._index.find_timestamp(timestamp) :]

    def newest_batches(self) -> tuple[int, Sequence[StoredBatch]]:
        """The largest timestamp of all segments, and the batches from the first one on that has it."""
        newest = self._index.max_timestamps[-1] if len(self._index) else -1
        deleted = self._deleted_batches.newest_batch(self.segments)
        if deleted is not None and deleted.max_timestamp >= newest:
            return deleted.max_timestamp, [deleted]
        return newest, self.batches_since(newest)

    def last_of_next_indexed(self, offset: int, end: int) -> int | None:
        """The last offset of the first batch at or above `end` with an index entry, in the segment of an offset."""
        indexed = self.segments.next_indexed(offset, end)
        return None if indexed is None else self._index.batches[self._index.find_offset(indexed)].last_offset

    def delete_below(self, offset: int) -> None:
        """Free the batches that end before an offset."""
        count = self._index.find_offset(offset)
        self._deleted_batches.add_batches(self._index.batches[:count], self.segments)
        self._index.replace_first(count, [])

    def drop_first_segments(self, count: int) -> None:
        """Remove the first segments, whose batches are deleted already."""
        self.segments.drop_first(count)

    def replace_first_segments(
        self, count: int, end: int, cleaned: Iterable[CleanedSegment], aborted: Sequence[AbortedTransaction]
    ) -> None:
        """Replace the first segments, which end at an offset, by compacted ones."""
        del aborted  # All are in memory, with the producers.
        # In a buffer of their own: one batch would keep the chunk with all that were removed.
        buffer, remaining, segments = LogBuffer(), [], []
        for segment, batches in cleaned:
            segments.append(segment)
            for batch in batches:
                segment.add_batch(batch.size, batch.max_timestamp)
                remaining.append(batch.moved_to(*buffer.append(batch.raw)))
        self._index.replace_first(self._index.find_offset(end), remaining)
        self.segments.replace_first(count, segments)

    def truncate_to(self, offset: int) -> list[StoredBatch]:
        """Remove and return the batches that end at an offset or later."""
        removed = self._index.truncate(self._index.find_offset(offset))
        self.segments.truncate_to(offset, [(batch.base_offset, batch.size) for batch in removed])
        return removed

    def producers_until(self, offset: int, producers: ProducerStates) -> ProducerStates:
        """The producer states of the remaining batches, and those whose batches are deleted."""
        return producers.truncated_to(offset, self._index.batches)

    def write_leader_epochs(self, entries: Sequence[tuple[int, int]]) -> None:
        """They are in memory, with the log."""

    def remove(self) -> None:
        """The topic is deleted: its memory is free."""
        self.segments.release_memory()
