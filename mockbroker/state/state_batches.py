"""State batches as the share coordinator stores them, and the rules by which new ones are merged into old ones."""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import NamedTuple


class StateBatch(NamedTuple):
    """A run of offsets in one delivery state (0 available, 2 acknowledged, 4 archived) with one delivery count."""

    first: int
    last: int
    state: int
    delivery_count: int

    @property
    def rank(self) -> tuple[int, int]:
        """Which of two overlapping batches wins: more deliveries, then the higher state, however old it is."""
        return (self.delivery_count, self.state)


def combine(existing: Iterable[StateBatch], new: Iterable[StateBatch], start_offset: int) -> list[StateBatch]:
    """Merge batches and cut them at the start offset (-1: do not cut); the result is sorted and has no overlaps.

    Source: share-semantics 7.4, Kafka's PersisterStateBatchCombiner; every row of its table is a test.
    """
    batches = [*existing, *new]
    if start_offset != -1:
        batches = [
            batch._replace(first=max(batch.first, start_offset)) for batch in batches if batch.last >= start_offset
        ]
    if len(batches) < 2:
        return batches
    waiting = [(b.first, b.last, b.delivery_count, b.state) for b in batches]
    heapify(waiting)
    done: list[StateBatch] = []
    low = _take(waiting)
    while waiting:
        high = _take(waiting)
        if high.first > low.last + 1 or (high.first == low.last + 1 and high.rank != low.rank):
            done.append(low)  # As in 4.3.0 it is final now, even if a later merge makes a neighbour of the same rank.
            low = high
            continue
        for part in _merge(low, high):
            heappush(waiting, (part.first, part.last, part.delivery_count, part.state))
        low = _take(waiting)
    return [*done, low]


def _take(waiting: list[tuple[int, int, int, int]]) -> StateBatch:
    first, last, delivery_count, state = heappop(waiting)
    return StateBatch(first, last, state, delivery_count)


def _merge(low: StateBatch, high: StateBatch) -> list[StateBatch]:
    """Two batches that overlap, or touch with one rank; `low` sorts before `high`."""
    if low.rank == high.rank:
        return [low._replace(last=max(low.last, high.last))]
    if high.rank < low.rank:
        return [low] if high.last <= low.last else [low, high._replace(first=low.last + 1)]
    parts = [high]
    if low.first < high.first:
        parts.insert(0, low._replace(last=high.first - 1))
    if low.last > high.last:
        parts.append(low._replace(first=high.last + 1))
    return parts
