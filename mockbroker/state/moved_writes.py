"""Writes that say only what moves, as the drafts of KIP-932 had them from the third on.

Source: the table of WriteShareGroupState requests of page 002. A start that passes all that is stored is named, and
what it passes is not; else the start is left as it is, as its records' states say all there is to say. The stored
states have no holes: what is in its first delivery before them is written with them, as available.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from mockbroker.state.in_flight import InFlight, State
from mockbroker.state.state_batches import StateBatch

if TYPE_CHECKING:
    from kwire.error_codes import ErrorCode
    from mockbroker.state.share_partition import Change, PendingWrite, SharePartition

#: Leaves the stored start where it is.
UNMOVED = -1


class StoredSpan:
    """How far what is stored of a share partition reaches: its start, and the first offset without a stored state.

    has_start: whether a start is stored at all. Until it is, every write names one, lest the next leader choose another
    by the reset strategy, and find the states of records before it.
    """

    __slots__ = ("end", "has_start", "start")

    def __init__(self, start: int, end: int) -> None:
        self.start = start
        self.end = end
        self.has_start = True

    def answered(self, named: int, error: ErrorCode | None) -> None:
        """A write that named a start, or none, arrived or failed."""
        if error is not None:
            self.start = UNMOVED  # Whatever is stored now: the next start is named again.
        elif named != UNMOVED:
            self.has_start = True


def content(
    partition: SharePartition, stored: StoredSpan, batches: Sequence[StateBatch], changes: Sequence[Change]
) -> tuple[int, list[StateBatch]]:
    """Start and states of a write of these batches; from now on they count as stored."""
    start = _start_after(partition, changes)
    named = UNMOVED
    if start >= stored.end and start != stored.start:
        named = stored.start = stored.end = start
    elif not stored.has_start:
        named = stored.start = partition.start_offset
    written = [batch._replace(first=max(batch.first, named)) for batch in batches if batch.last >= named]
    end = max((batch.last + 1 for batch in written), default=stored.end)
    if end > stored.end:
        written += _before(partition, stored.end, end, frozenset(batch.first for batch in batches))
        stored.end = end
    return named, runs(written)


def gather(write: PendingWrite, other: PendingWrite) -> None:
    """Have another write travel with one that has not left yet."""
    write.start_offset = max(write.start_offset, other.start_offset)
    write.batches[:] = runs([*write.batches, *other.batches])


def runs(batches: Sequence[StateBatch]) -> list[StateBatch]:
    """The same states in order, and neighbours of one kind as one batch."""
    merged: list[StateBatch] = []
    for batch in sorted(batches):
        before = merged[-1] if merged else None
        if before is not None and before.last + 1 == batch.first and before.rank == batch.rank:
            merged[-1] = before._replace(last=batch.last)
        else:
            merged.append(batch)
    return merged


def _entries(partition: SharePartition) -> Iterator[tuple[int, int, InFlight]]:
    for batch in partition.window:
        if batch.whole is not None:
            yield batch.first, batch.last, batch.whole
        else:
            yield from ((offset, offset, entry) for offset, entry in batch.within(batch.first, batch.last))


def _start_after(partition: SharePartition, changes: Sequence[Change]) -> int:
    """Where the start is once these changes are stored; what others have under way may still come back."""
    mine = {id(change.entry) for change in changes}
    gap_start = partition.gap.start if partition.gap is not None and partition.gap_is_open else None
    start = partition.start_offset
    for first, last, entry in _entries(partition):
        if last < partition.start_offset:
            continue
        is_done = entry.state.is_terminal and (not entry.is_in_transition or id(entry) in mine)
        if not is_done or (gap_start is not None and last >= gap_start):
            # A hole in the log is passed with the records before it.
            return max(start, first) if start > partition.start_offset else start
        start = last + 1
    return start


def _before(partition: SharePartition, first: int, end: int, written: frozenset[int]) -> Iterator[StateBatch]:
    """The states of what nothing was stored of yet, as before the deliveries that are under way."""
    for low, high, entry in _entries(partition):
        if high < first or low >= end or low in written:
            continue
        state, count = entry.state, entry.delivery_count
        if not state.is_terminal and state is not State.AVAILABLE:
            state, count = State.AVAILABLE, max(0, count - 1)
        yield StateBatch(max(low, first), min(high, end - 1), int(state), count)
