"""State batches as the share coordinator stores them, and the rules by which new ones are merged into old ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError


class StateBatch(NamedTuple):
    """A run of offsets in one delivery state (0 available, 2 acknowledged, 4 archived) with one delivery count."""

    first: int
    last: int
    state: int
    delivery_count: int

    @property
    def merge_rank(self) -> tuple[int, int]:
        """Which of two overlapping batches wins: more deliveries, then the higher state, however old it is."""
        return (self.delivery_count, self.state)


def combine_batches(existing: Iterable[StateBatch], new: Iterable[StateBatch], start_offset: int) -> list[StateBatch]:
    """Merge batches and cut them at the start offset (-1: do not cut); the result is sorted and has no overlaps.

    Source: share-semantics 7.4, Kafka's PersisterStateBatchCombiner; every row of its table is a test.
    """
    batches = _cut_batches([*existing, *new], start_offset)
    if len(batches) < 2:
        return batches
    waiting = [(b.first, b.last, b.delivery_count, b.state) for b in batches]
    heapify(waiting)
    done: list[StateBatch] = []
    low = _pop_batch(waiting)
    while waiting:
        high = _pop_batch(waiting)
        if high.first > low.last + 1 or (high.first == low.last + 1 and high.merge_rank != low.merge_rank):
            done.append(low)  # As in 4.3.0 it is final now, even if a later merge makes a neighbour of the same rank.
            low = high
            continue
        for part in _merge_overlapping(low, high):
            heappush(waiting, (part.first, part.last, part.delivery_count, part.state))
        low = _pop_batch(waiting)
    return [*done, low]


def coalesce_batches(existing: Iterable[StateBatch], new: Iterable[StateBatch], start_offset: int) -> list[StateBatch]:
    """As `combine_batches`, and neighbours of one state and delivery count are one batch in the result.

    Raises: UNKNOWN_SERVER_ERROR where one of several batches ends before it begins.
    Source: share-state-merge-many and share-locks-0001 with Kafka 4.4.0.
    """
    batches = _cut_batches([*existing, *new], start_offset)
    if len(batches) < 2:
        return batches
    changes = [(batch.last + 1, False, batch) for batch in batches] + [(batch.first, True, batch) for batch in batches]
    changes.sort(key=lambda change: change[:2])  # At one offset, ends are first.
    open_ranks: Counter[tuple[int, int]] = Counter()
    done: list[StateBatch] = []
    covered_from = 0
    for offset, is_begin, batch in changes:
        if open_ranks and offset > covered_from:
            _append_coalesced(done, covered_from, offset - 1, max(open_ranks))
        covered_from = offset
        if is_begin:
            open_ranks[batch.merge_rank] += 1
        elif open_ranks[batch.merge_rank] > 1:
            open_ranks[batch.merge_rank] -= 1
        elif open_ranks.pop(batch.merge_rank, 0) == 0:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"state batch {batch.first}-{batch.last}")
    return done


def _append_coalesced(done: list[StateBatch], first: int, last: int, rank: tuple[int, int]) -> None:
    delivery_count, state = rank
    if done and done[-1].last + 1 == first and done[-1].merge_rank == rank:
        first = done.pop().first
    done.append(StateBatch(first, last, state, delivery_count))


def _cut_batches(batches: list[StateBatch], start_offset: int) -> list[StateBatch]:
    """The batches from the start offset on; -1: all."""
    if start_offset == -1:
        return batches
    return [
        batch if batch.first >= start_offset else batch._replace(first=start_offset)
        for batch in batches
        if batch.last >= start_offset
    ]


def _pop_batch(waiting: list[tuple[int, int, int, int]]) -> StateBatch:
    first, last, delivery_count, state = heappop(waiting)
    return StateBatch(first, last, state, delivery_count)


def _merge_overlapping(low: StateBatch, high: StateBatch) -> list[StateBatch]:
    """Two batches that overlap, or touch with one rank; `low` sorts before `high`."""
    if low.merge_rank == high.merge_rank:
        return [low._replace(last=max(low.last, high.last))]
    if high.merge_rank < low.merge_rank:
        return [low] if high.last <= low.last else [low, high._replace(first=low.last + 1)]
    parts = [high]
    if low.first < high.first:
        parts.insert(0, low._replace(last=high.first - 1))
    if low.last > high.last:
        parts.append(low._replace(first=high.last + 1))
    return parts
