"""`BatchIndex`: the batches of a log in order, found by offset, by timestamp, and by how many fit into a size."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from mockbroker.state.storage.stored_batch import StoredBatch


class BatchIndex:
    """The batches of one log.

    max_timestamps: the largest timestamp of each batch and all before it, without hidden ones; it never decreases.
    """

    def __init__(self) -> None:
        self.batches: list[StoredBatch] = []
        self.max_timestamps: list[int] = []
        self._last_offsets: list[int] = []
        # Where each batch ends in a sequence of all their bytes, so that no read adds up sizes.
        self._ends: list[int] = []

    def __len__(self) -> int:
        return len(self.batches)

    def append(self, batch: StoredBatch) -> None:
        """Add a batch at the end."""
        timestamp = -1 if batch.is_hidden else batch.max_timestamp
        if self.batches:
            newest = self.max_timestamps[-1]
            self.max_timestamps.append(timestamp if timestamp > newest else newest)
            self._ends.append(self._ends[-1] + batch.size)
        else:
            self.max_timestamps.append(timestamp)
            self._ends.append(batch.size)
        self.batches.append(batch)
        self._last_offsets.append(batch.last_offset)

    def find_offset(self, offset: int) -> int:
        """The index of the first batch that ends at an offset or later."""
        return bisect_left(self._last_offsets, offset)

    def find_timestamp(self, timestamp: int) -> int:
        """The index of the first batch with which the timestamps reach this one."""
        return bisect_left(self.max_timestamps, timestamp)

    def size_between(self, first: int, end: int) -> int:
        """The bytes of the batches from index `first` up to, not including, `end`."""
        return self._ends[end - 1] - self._start_of(first) if end > first else 0

    def find_end_by_size(self, first: int, last: int, size_max: int) -> int:
        """The index behind the batches from `first` on, before `last`, that fit into a size together."""
        return bisect_right(self._ends, self._start_of(first) + size_max, first, last) if first < last else first

    def replace_first(self, count: int, batches: Iterable[StoredBatch]) -> None:
        """Replace the first batches."""
        later = self.batches[count:]
        for values in (self.batches, self._last_offsets, self.max_timestamps, self._ends):
            values.clear()
        for batch in (*batches, *later):
            self.append(batch)

    def drop_first(self, count: int) -> None:
        """Remove the first batches; the largest timestamps of the others still count them."""
        for values in (self.batches, self._last_offsets, self.max_timestamps, self._ends):
            del values[:count]

    def truncate(self, at: int) -> list[StoredBatch]:
        """Remove and return the batches from an index on."""
        removed = self.batches[at:]
        del self.batches[at:], self._last_offsets[at:], self.max_timestamps[at:], self._ends[at:]
        return removed

    def _start_of(self, index: int) -> int:
        return self._ends[index] - self.batches[index].size
