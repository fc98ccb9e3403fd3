"""Batches that lie in a log and that no reader is given: they have offsets, and nobody ever sees them.

The second revision of KIP-932 keeps the state of share-partitions in such control batches, of one record each, among
the records that the state is about.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mockbroker.state.log import StoredBatch

#: The earliest share offset where no share-partition keeps anything.
NOTHING_KEPT = 1 << 62


class Hidden:
    """The hidden offsets of one log.

    keep_from: KIP-932's earliest share offset (ESO), from which on they must not be cleaned; None while it is unknown,
    and they all have to stay.
    """

    __slots__ = ("_offsets", "keep_from")

    def __init__(self) -> None:
        self._offsets: list[int] = []
        self.keep_from: int | None = None

    def __len__(self) -> int:
        return len(self._offsets)

    def add(self, offset: int) -> None:
        """A hidden batch was written there."""
        insort(self._offsets, offset)

    def between(self, first: int, end: int) -> int:
        """How many of the offsets from `first` up to, not including, `end` are hidden."""
        return max(0, bisect_left(self._offsets, end) - bisect_left(self._offsets, first))

    def offsets(self, first: int, end: int) -> list[int]:
        """They themselves, in order."""
        return self._offsets[bisect_left(self._offsets, first) : bisect_left(self._offsets, end)]

    def end_before(self, end: int) -> int:
        """Where a log ends for its readers that ends at an offset."""
        at = bisect_left(self._offsets, end)
        while at and self._offsets[at - 1] == end - 1:
            at, end = at - 1, end - 1
        return end

    def keeps(self, first: int, end: int, high_watermark: int) -> bool:
        """Whether anything between two offsets is still needed.

        What the replicas do not all have may be cut off again, and with it what made older batches superfluous.
        """
        floor = 0 if self.keep_from is None else self.keep_from
        if high_watermark <= floor < NOTHING_KEPT:
            floor = 0
        return self.between(max(first, floor), end) > 0

    def replace_below(self, offset: int, left: Iterable[int]) -> None:
        """Of those below an offset only these are left."""
        self._offsets[: bisect_left(self._offsets, offset)] = sorted(left)

    def truncate(self, offset: int) -> None:
        """The log was cut off there; what has to be kept of the rest is not known until somebody reads it."""
        del self._offsets[bisect_left(self._offsets, offset) :]
        self.keep_from = None


def first_seen(batches: Sequence[StoredBatch], first: int, last: int) -> int:
    """The index of the first batch from `first` up to `last` that readers are given."""
    while first < last and batches[first].hidden:
        first += 1
    return first


def seen(batches: Sequence[StoredBatch], max_bytes: int, *, min_one: bool) -> tuple[list[StoredBatch], int]:
    """Those that readers are given, as many as fit, and their bytes."""
    taken: list[StoredBatch] = []
    total = 0
    for batch in batches:
        if batch.hidden:
            continue
        if total + batch.size > max_bytes and not (min_one and not taken):
            break
        taken.append(batch)
        total += batch.size
    return taken, total
