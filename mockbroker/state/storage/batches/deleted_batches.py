"""Batches below the log start whose segments are not deleted yet: DeleteRecords only moves the log start.

Source: Kafka's UnifiedLog.maybeIncrementLogStartOffset; pinned by the conversation other-delete-records-size.
"""

from __future__ import annotations

from collections.abc import Sequence

from mockbroker.state.storage.segments import LogSegments
from mockbroker.state.storage.stored_batch import StoredBatch


class DeletedBatches:
    """The first batch with the largest timestamp of each segment; the other deleted batches are not stored."""

    def __init__(self) -> None:
        self._newest_by_segment: dict[int, StoredBatch] = {}

    def add_batches(self, batches: Sequence[StoredBatch], segments: LogSegments) -> None:
        """Add batches that the log start has passed, in order of their offsets."""
        found: dict[int, StoredBatch] = {}
        for batch in batches:
            if batch.is_hidden or not len(segments):
                continue
            base_offset = segments[segments.floor_index(batch.base_offset)].base_offset
            newest = found.get(base_offset, self._newest_by_segment.get(base_offset))
            if newest is None or batch.max_timestamp > newest.max_timestamp:
                found[base_offset] = batch
        for base_offset, batch in found.items():
            # With bytes of its own: it would keep a chunk of the log's buffer.
            copied = batch.with_bytes(bytes(batch.raw), max_timestamp=batch.max_timestamp)
            self._newest_by_segment[base_offset] = copied

    def newest_batch(self, segments: LogSegments) -> StoredBatch | None:
        """The first batch with the largest timestamp in segments that still exist, or None."""
        if not self._newest_by_segment:
            return None
        existing = {segment.base_offset for segment in segments}
        for base_offset in self._newest_by_segment.keys() - existing:
            del self._newest_by_segment[base_offset]
        # The first segment wins a tie: segments are in order of their offsets.
        return max(self._newest_by_segment.values(), key=lambda batch: batch.max_timestamp, default=None)
