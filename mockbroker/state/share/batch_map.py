"""Sorted map of in-flight batches by first offset."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from mockbroker.state.share.in_flight_batch import InFlightBatch


class BatchMap:
    """Batches sorted by first offset. Every look-up is a bisection, whatever the size of the map."""

    __slots__ = ("_batches", "_firsts")

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._batches: list[InFlightBatch] = []

    def __len__(self) -> int:
        return len(self._firsts)

    def __iter__(self) -> Iterator[InFlightBatch]:
        return iter(self._batches)

    @property
    def first(self) -> InFlightBatch:
        """The batch with the lowest offsets; the map must not be empty."""
        return self._batches[0]

    @property
    def last(self) -> InFlightBatch:
        """The batch with the highest offsets; the map must not be empty."""
        return self._batches[-1]

    def get(self, first: int) -> InFlightBatch | None:
        """The batch that starts at exactly this offset."""
        at = bisect_left(self._firsts, first)
        return self._batches[at] if at < len(self._firsts) and self._firsts[at] == first else None

    def floor(self, offset: int) -> InFlightBatch | None:
        """The last batch that starts at or below the offset; it may end before it."""
        at = bisect_right(self._firsts, offset)
        return self._batches[at - 1] if at else None

    def higher(self, offset: int) -> InFlightBatch | None:
        """The first batch that starts above the offset."""
        at = bisect_right(self._firsts, offset)
        return self._batches[at] if at < len(self._batches) else None

    def starting_between(self, low: int, high: int) -> list[InFlightBatch]:
        """The batches whose first offset lies in [low, high], in order."""
        return self._batches[bisect_left(self._firsts, low) : bisect_right(self._firsts, high)]

    def put(self, batch: InFlightBatch) -> None:
        """Add a batch; one with the same first offset is replaced."""
        at = bisect_left(self._firsts, batch.first)
        if at < len(self._firsts) and self._firsts[at] == batch.first:
            self._batches[at] = batch
        else:
            self._firsts.insert(at, batch.first)
            self._batches.insert(at, batch)

    def remove_below(self, first: int) -> None:
        """Remove the batches that start below this offset."""
        at = bisect_left(self._firsts, first)
        del self._firsts[:at]
        del self._batches[:at]

    def clear(self) -> None:
        """Remove all batches."""
        self._firsts.clear()
        self._batches.clear()
