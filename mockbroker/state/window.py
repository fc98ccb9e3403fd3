"""The in-flight batches of a share partition, sorted by first offset."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from mockbroker.state.hidden import Hidden
from mockbroker.state.in_flight import InFlightBatch


@dataclass(slots=True)
class GapWindow:
    """Offsets that the stored state left out: from `start` on they are fetched, while the end offset stays `end`."""

    start: int
    end: int


class Window:
    """A sorted map from first offset to batch. Every look-up is a bisection, whatever the window's size.

    hidden: the offsets of the log that are never in flight, if there are such.
    """

    __slots__ = ("_batches", "_firsts", "hidden")

    def __init__(self) -> None:
        self.hidden: Hidden | None = None
        self._firsts: list[int] = []
        self._batches: list[InFlightBatch] = []

    def __len__(self) -> int:
        return len(self._firsts)

    def __iter__(self) -> Iterator[InFlightBatch]:
        return iter(self._batches)

    @property
    def first(self) -> InFlightBatch:
        """The batch with the lowest offsets; the window must not be empty."""
        return self._batches[0]

    @property
    def last(self) -> InFlightBatch:
        """The batch with the highest offsets; the window must not be empty."""
        return self._batches[-1]

    def span(self, first: int, last: int) -> int:
        """How many offsets there are from one to another, both inclusive."""
        count = last - first + 1
        return count if self.hidden is None else count - self.hidden.between(first, last + 1)

    def lowest_available(self) -> int | None:
        """The lowest offset that is available; what is in transition to be released counts as well."""
        offsets = (batch.first_available() for batch in self._batches)
        return next((offset for offset in offsets if offset is not None), None)

    def lowest_hole(self, start: int) -> int | None:
        """The first offset from `start` on that no batch has, and that lies below one."""
        for batch in self._batches:
            if batch.first > start:
                return start
            start = max(batch.last + 1, start)
        return None

    def get(self, first: int) -> InFlightBatch | None:
        """The batch that starts at exactly this offset."""
        at = bisect_left(self._firsts, first)
        return self._batches[at] if at < len(self._firsts) and self._firsts[at] == first else None

    def floor(self, offset: int) -> InFlightBatch | None:
        """The last batch that starts at or below the offset; it need not reach it."""
        at = bisect_right(self._firsts, offset)
        return self._batches[at - 1] if at else None

    def higher(self, offset: int) -> InFlightBatch | None:
        """The first batch that starts above the offset."""
        at = bisect_right(self._firsts, offset)
        return self._batches[at] if at < len(self._batches) else None

    def starting(self, low: int, high: int) -> list[InFlightBatch]:
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
        """Forget the batches that start below this offset."""
        at = bisect_left(self._firsts, first)
        del self._firsts[:at]
        del self._batches[:at]

    def clear(self) -> None:
        """Forget all."""
        self._firsts.clear()
        self._batches.clear()
