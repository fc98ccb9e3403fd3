"""Hidden batches: batches in a log that have offsets and are never returned to readers.

The second revision of KIP-932 stores the state of share-partitions in such control batches, of one record each, among
the records that the state is about.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mockbroker.state.storage.batches.batch_storage import CleanedSegment
    from mockbroker.state.storage.stored_batch import StoredBatch

#: The earliest share offset when no share-partition has stored state.
NO_STATE_STORED = 1 << 62


class HiddenBatches:
    """The offsets of the hidden batches of one log.

    keep_from: KIP-932's earliest share offset (ESO); batches from there on must not be cleaned. None while it is
    unknown, when all of them have to stay.
    """

    __slots__ = ("_offsets", "keep_from")

    def __init__(self) -> None:
        self._offsets: list[int] = []
        self.keep_from: int | None = None

    def __len__(self) -> int:
        return len(self._offsets)

    def add_offset(self, offset: int) -> None:
        """Add the offset of an appended hidden batch."""
        insort(self._offsets, offset)

    def count_between(self, first: int, end: int) -> int:
        """The number of hidden offsets from `first` up to, not including, `end`."""
        return max(0, bisect_left(self._offsets, end) - bisect_left(self._offsets, first))

    def offsets_between(self, first: int, end: int) -> list[int]:
        """The hidden offsets from `first` up to, not including, `end`, in order."""
        return self._offsets[bisect_left(self._offsets, first) : bisect_left(self._offsets, end)]

    def visible_end(self, end: int) -> int:
        """The end offset without hidden batches right before it."""
        at = bisect_left(self._offsets, end)
        while at and self._offsets[at - 1] == end - 1:
            at, end = at - 1, end - 1
        return end

    def must_keep(self, first: int, end: int, high_watermark: int) -> bool:
        """Return whether a hidden batch between two offsets is still needed.

        Records that not all replicas have may be truncated, and with them the newer state that replaced older batches.
        """
        floor = 0 if self.keep_from is None else self.keep_from
        if high_watermark <= floor < NO_STATE_STORED:
            floor = 0
        return self.count_between(max(first, floor), end) > 0

    def replace_offsets_below(self, offset: int, remaining: Iterable[int]) -> None:
        """Replace the offsets below an offset by the remaining ones."""
        self._offsets[: bisect_left(self._offsets, offset)] = sorted(remaining)

    def truncate_to(self, offset: int) -> None:
        """Remove the offsets from there on; `keep_from` is unknown until the log is read again."""
        del self._offsets[bisect_left(self._offsets, offset) :]
        self.keep_from = None


def first_visible(batches: Sequence[StoredBatch], first: int, last: int) -> int:
    """The index of the first visible batch from `first` up to `last`."""
    while first < last and batches[first].is_hidden:
        first += 1
    return first


def read_visible(batches: Sequence[StoredBatch], max_bytes: int, *, min_one: bool) -> tuple[list[StoredBatch], int]:
    """The visible batches, as many as fit, and their bytes."""
    taken: list[StoredBatch] = []
    total = 0
    for batch in batches:
        if batch.is_hidden:
            continue
        if total + batch.size > max_bytes and not (min_one and not taken):
            break
        taken.append(batch)
        total += batch.size
    return taken, total


def collect_hidden(cleaned: Iterable[CleanedSegment], offsets: list[int]) -> Iterable[CleanedSegment]:
    """The segments, while the offsets of their hidden batches are collected."""

    def collect(batches: Iterable[StoredBatch]) -> Iterable[StoredBatch]:
        for batch in batches:
            if batch.is_hidden:
                offsets.append(batch.base_offset)
            yield batch

    return ((segment, collect(batches)) for segment, batches in cleaned)
