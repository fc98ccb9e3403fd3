"""What moves the start of a share partition: settled records, a log start that moved, records that are gone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mockbroker.state import in_flight
from mockbroker.state.in_flight import InFlightBatch, State
from mockbroker.state.share_history import Happening

if TYPE_CHECKING:
    from mockbroker.state.share_partition import SharePartition


def advance(partition: SharePartition) -> bool:
    """Move the start over settled records, as far as they reach; whether it moved (share-semantics 2.8)."""
    window = partition.window
    at_start = window.floor(partition.start_offset)
    if at_start is None or not _is_settled_at(at_start, partition.start_offset):
        return False
    settled, removed_count = _last_settled(partition)
    if settled is None:
        return False
    if settled == window.last.last:
        partition.start_offset = partition.end_offset = settled + 1
        partition.delivery_complete_count = 0
        window.clear()
        return True
    home = window.floor(settled)
    assert home is not None
    if settled == home.last:
        following = window.higher(settled)
        assert following is not None
        partition.start_offset = max(partition.start_offset, following.first)  # Natural holes are passed over.
        if partition.gap is not None and partition.gap_is_open:
            partition.start_offset = min(partition.gap.start, partition.start_offset)
        window.remove_below(following.first)
    else:
        partition.start_offset = max(partition.start_offset, settled + 1)
        window.remove_below(home.first)
    partition.delivery_complete_count -= removed_count
    return True


def _is_settled_at(batch: InFlightBatch, offset: int) -> bool:
    """Whether the record at the start is done; a whole batch answers for it even where it ends before (a hole)."""
    if batch.whole is not None:
        return batch.whole.is_settled
    return offset <= batch.last and batch.entry(offset).is_settled


def _last_settled(partition: SharePartition) -> tuple[int | None, int]:
    """The last offset of the settled run from the front of the window, and how many of it lie in flight."""
    settled, count = None, 0
    gap = partition.gap if partition.gap_is_open else None
    for batch in partition.window:
        if gap is not None and batch.last >= gap.start:
            break
        end = batch.settled_end()
        if end > batch.first:
            settled = end - 1
            count += partition.count_in_flight(batch.first, end - 1)
        if end <= batch.last:
            break
    return settled, count


def move_log_start(partition: SharePartition, log_start: int, *, now_ms: int) -> None:
    """Records below the new log start are gone: those nobody holds are archived in memory, none is written (2.9)."""
    if log_start <= partition.start_offset:
        return
    if not partition.window:
        partition.start_offset = partition.end_offset = log_start
        partition.delivery_complete_count = 0
        return
    gone = _terminal_count(partition, log_start)
    why = (Happening.LOG_START, now_ms)
    archive(partition, range(partition.start_offset, log_start), partition.window, State.AVAILABLE, why)
    partition.start_offset = log_start
    partition.delivery_complete_count -= gone
    partition.end_offset = max(partition.end_offset, log_start)


def _terminal_count(partition: SharePartition, end: int) -> int:
    count = 0
    for batch in partition.window:
        if batch.first >= end:
            break
        low, high = max(batch.first, partition.start_offset), min(batch.last, end - 1)
        if batch.whole is not None:
            count += max(0, high - low + 1) if batch.whole.state.is_terminal else 0
        else:
            count += sum(entry.state.is_terminal for _, entry in batch.within(low, high))
    return count


def archive(
    partition: SharePartition,
    offsets: range,
    batches: Iterable[InFlightBatch],
    state: State,
    why: tuple[Happening, int],
) -> int:
    """Drop what is in `state` of some offsets, splitting batches that reach beyond; how many records that were.

    Args: why: what the history is to call it, and when it was.
    """
    (happening, now_ms), first, last = why, offsets.start, offsets.stop - 1
    dropped = 0
    for batch in batches:
        if batch.first > last:
            break
        if batch.whole is not None and batch.whole.state is not state:
            continue
        if batch.whole is not None and first <= batch.first and batch.last <= last:
            member_id = batch.whole.member_id
            in_flight.drop(batch.whole)
            partition.notes.take(now_ms, happening, batch.first, batch.last, batch.whole, member_id=member_id)
            dropped += len(batch)
            continue
        if batch.whole is not None and batch.last < first:
            continue
        partition.split(batch)
        for offset, entry in batch.within(first, last):
            if entry.state is state:
                member_id = entry.member_id
                in_flight.drop(entry)
                partition.notes.take(now_ms, happening, offset, offset, entry, member_id=member_id)
                dropped += 1
        partition.note_free(batch)
    return dropped
