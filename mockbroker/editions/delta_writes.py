"""Writes of a share partition that contain only changes, as in the drafts of KIP-932 from the third revision on.

Source: the table of WriteShareGroupState requests of revision r4. A write names a start that passes all that is stored,
and omits what the start passes; else it leaves the start unchanged, as the states of the records define it. The stored
states have no gaps: records in their first delivery that precede them are written with them, as available.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kwire.error_codes import ErrorCode
from mockbroker.state.share.in_flight_batch import InFlightState, RecordState
from mockbroker.state.share.in_flight_window import InFlightWindow
from mockbroker.state.share.pending_write import PendingWrite, StateChange
from mockbroker.state.share.state_batches import StateBatch

#: Leaves the stored start unchanged.
UNCHANGED_START = -1


class StoredRange:
    """The stored range of a share partition: its start, and the first offset without a stored state.

    Implements `DeltaWriter`. Until a start is stored every write names one; else the next leader would choose another
    by the reset strategy, and find the states of records before it.
    """

    __slots__ = ("_end", "_has_start", "_start")

    def __init__(self) -> None:
        self._start = self._end = 0
        self._has_start = True

    def reset_stored_range(self, start: int, end: int) -> None:
        """Set what is stored after a load."""
        self._start, self._end, self._has_start = start, end, True

    def require_start(self) -> None:
        """Have every write name the start until one that does has succeeded."""
        self._has_start = False

    def record_result(self, start_offset: int, error: ErrorCode | None) -> None:
        """A write with this start offset succeeded or failed."""
        if error is not None:
            self._start = UNCHANGED_START  # It is unknown what is stored now: the next start is named again.
        elif start_offset != UNCHANGED_START:
            self._has_start = True

    def build_write(
        self, window: InFlightWindow, batches: Sequence[StateBatch], changes: Sequence[StateChange]
    ) -> tuple[int, list[StateBatch]]:
        """Start offset and states of a write of these batches; from now on they count as stored."""
        start = _start_after(window, changes)
        named_start = UNCHANGED_START
        if start >= self._end and start != self._start:
            named_start = self._start = self._end = start
        elif not self._has_start:
            named_start = self._start = window.start_offset
        remaining = (batch for batch in batches if batch.last >= named_start)
        written = [batch._replace(first=max(batch.first, named_start)) for batch in remaining]
        end = max((batch.last + 1 for batch in written), default=self._end)
        if end > self._end:
            written += _unstored_states(window, self._end, end, {batch.first for batch in batches})
            self._end = end
        return named_start, merge_runs(written)

    def merge_writes(self, write: PendingWrite, other: PendingWrite) -> None:
        """Add the content of another write to one that is not sent yet."""
        write.start_offset = max(write.start_offset, other.start_offset)
        write.batches[:] = merge_runs([*write.batches, *other.batches])


def merge_runs(batches: Sequence[StateBatch]) -> list[StateBatch]:
    """The same states in order, with adjacent equal states as one batch."""
    merged: list[StateBatch] = []
    for batch in sorted(batches):
        previous = merged[-1] if merged else None
        if previous is not None and previous.last + 1 == batch.first and previous.merge_rank == batch.merge_rank:
            merged[-1] = previous._replace(last=batch.last)
        else:
            merged.append(batch)
    return merged


def _window_entries(window: InFlightWindow) -> Iterator[tuple[int, int, InFlightState]]:
    return (entry for batch in window for entry in batch.entries(batch.first, batch.last))


def _start_after(window: InFlightWindow, changes: Sequence[StateChange]) -> int:
    """The start once these changes are stored; other transitions under way may still be rolled back."""
    changed_ids = {id(change.state) for change in changes}
    gap_start = window.gap.start if window.gap is not None and window.gap_is_open else None
    start = window.start_offset
    for first, last, state in _window_entries(window):
        if last < window.start_offset:
            continue
        is_complete = state.state.is_terminal and (not state.is_in_transition or id(state) in changed_ids)
        if not is_complete or (gap_start is not None and last >= gap_start):
            # A gap of the log is passed with the records before it.
            return max(start, first) if start > window.start_offset else start
        start = last + 1
    return start


def _unstored_states(window: InFlightWindow, first: int, end: int, written_firsts: set[int]) -> Iterator[StateBatch]:
    """The states of records that have no stored state yet, as before the deliveries under way."""
    for low, high, entry in _window_entries(window):
        if high < first or low >= end or low in written_firsts:
            continue
        state, count = entry.state, entry.delivery_count
        if not state.is_terminal and state is not RecordState.AVAILABLE:
            state, count = RecordState.AVAILABLE, max(0, count - 1)
        yield StateBatch(max(low, first), min(high, end - 1), int(state), count)
