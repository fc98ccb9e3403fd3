"""Read-committed isolation by transaction markers: records stay uncommitted in the window until their marker is read.

Source: the third revision of KIP-932, "Reading transactional records". 4.3.0 uses its index of aborted transactions
instead; both deliver the same records.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kwire.records import ControlType, read_control
from mockbroker.state.share.extensions import LogBatch, ReadAhead
from mockbroker.state.share.in_flight_batch import NO_MEMBER, InFlightBatch, InFlightState, RecordEvent, RecordState
from mockbroker.state.share.in_flight_window import InFlightWindow
from mockbroker.state.share.share_history import HistoryEvent
from mockbroker.state.share.state_batches import StateBatch


class TransactionEnd(NamedTuple):
    """How a transaction ended, by its marker.

    The draft identifies it by producer and epoch only. A producer ends many transactions in one epoch, so the marker's
    offset decides which; and a marker's epoch may be above that of the records it ends.
    """

    offset: int
    producer_id: int
    epoch: int
    is_commit: bool

    def covers_record(self, producer_id: int, epoch: int, offset: int) -> bool:
        """Whether a record of this producer at this offset was written in the transaction, or in one before it."""
        return producer_id == self.producer_id and epoch <= self.epoch and offset < self.offset


class OpenBatch(NamedTuple):
    """A batch in the window of a transaction whose end has not been read."""

    batch: InFlightBatch
    producer_id: int
    epoch: int


def read_transaction_end(batch: LogBatch) -> TransactionEnd | None:
    """The transaction end of a control batch; None for any other batch."""
    header = batch.header()
    if not (header.is_control and header.is_transactional):
        return None
    records = batch.records()
    if not records:
        return None  # The cleaner keeps the empty batch of a marker whose transaction has no records left.
    is_commit = read_control(records[0]).type is ControlType.COMMIT
    return TransactionEnd(batch.last_offset, header.producer_id, header.producer_epoch, is_commit)


class TransactionMarkers:
    """Open transactions of one share partition, and the markers that were read ahead. Implements `MarkerReader`."""

    def __init__(self) -> None:
        self._open_batches: list[OpenBatch] = []
        self._ends: list[TransactionEnd] = []
        self._read_from = self._read_to = 0

    def add_batches(
        self, window: InFlightWindow, batches: Sequence[LogBatch], read_ahead: ReadAhead, *, limit: int, now_ms: int
    ) -> list[StateBatch]:
        """Add what was read to the window as far as the limit allows, and apply its markers. Returns: what is archived.

        For a full window with uncommitted records the log is read until their markers are found; they exist, since
        nothing behind the last stable offset was added. The same holds for records in a gap of the stored state: their
        markers may lie where nothing is read again.
        """
        archived: list[StateBatch] = []
        before = self._open_batches
        new_start = _first_new_offset(window)
        for batch in batches:
            end = read_transaction_end(batch)
            if end is not None:
                archived += self._apply_end(window, end, now_ms)
            if batch.last_offset > window.end_offset and window.in_flight_count >= limit:
                break
            for first, last in _missing_ranges(window, batch):
                archived += self._add_range(window, batch, first, last, now_ms)
            if window.gap is not None and window.gap.start <= batch.last_offset:
                window.advance_gap(batch.last_offset + 1)  # What is still missing before it is not in the log.
        open_batches = self._open_batches
        in_gaps = [one.batch.first for one in open_batches if one.batch.first < new_start and one not in before]
        if in_gaps:
            archived += self._read_ahead(window, in_gaps[0], read_ahead, now_ms)
        elif self._open_batches and window.in_flight_count >= limit:
            archived += self._read_ahead(window, _first_new_offset(window), read_ahead, now_ms)
        return archived

    def release_all(self, window: InFlightWindow) -> None:
        """Make all uncommitted records available: the group reads uncommitted records from now on."""
        open_batches, self._open_batches = self._open_batches, []
        for one in open_batches:
            _apply_event(window, one.batch, RecordEvent.COMMIT, 0)

    def _add_range(
        self, window: InFlightWindow, source: LogBatch, first: int, last: int, now_ms: int
    ) -> list[StateBatch]:
        """Add new offsets of one batch to the window. Returns: what of it is archived at once."""
        header, state = source.header(), InFlightState(RecordState.AVAILABLE, 0, NO_MEMBER)
        batch = InFlightBatch(first, last, state)
        window.put(batch)
        if window.first is batch:
            window.start_offset = first
        window.end_offset = max(window.end_offset, last)
        window.advance_gap(last + 1)
        is_commit: bool | None = not header.is_control
        if header.is_transactional and not header.is_control:
            is_commit = self._find_outcome(header.producer_id, header.producer_epoch, last)
        if is_commit is None:
            state.state = RecordState.UNCOMMITTED
            opened = OpenBatch(batch, header.producer_id, header.producer_epoch)
            self._open_batches = sorted([*self._open_batches, opened], key=lambda one: one.batch.first)
        elif is_commit:
            window.mark_acquirable(batch)
        else:
            return _apply_event(window, batch, RecordEvent.DROP, now_ms)
        return []

    def _find_outcome(self, producer_id: int, epoch: int, offset: int) -> bool | None:
        """Whether the transaction of a record was committed; None if its marker was not read ahead."""
        if not self._read_from <= offset < self._read_to:
            return None
        later_ends = self._ends[bisect_right(self._ends, offset, key=lambda end: end.offset) :]
        return next((end.is_commit for end in later_ends if end.covers_record(producer_id, epoch, offset)), None)

    def _apply_end(self, window: InFlightWindow, end: TransactionEnd, now_ms: int) -> list[StateBatch]:
        """Make the records of an ended transaction available, or drop them. Returns: what was dropped."""
        ended = [one for one in self._open_batches if end.covers_record(one.producer_id, one.epoch, one.batch.last)]
        self._open_batches = [one for one in self._open_batches if one not in ended]
        archived: list[StateBatch] = []
        for one in ended:
            is_below_start = one.batch.last < window.start_offset
            event = RecordEvent.COMMIT if end.is_commit and not is_below_start else RecordEvent.DROP
            archived += _apply_event(window, one.batch, event, now_ms)
        return archived

    def _read_ahead(self, window: InFlightWindow, start: int, read_ahead: ReadAhead, now_ms: int) -> list[StateBatch]:
        archived: list[StateBatch] = []
        for end in self._ends_from(start, read_ahead):
            archived += self._apply_end(window, end, now_ms)
            if not self._open_batches:
                break
        return archived

    def _ends_from(self, start: int, read_ahead: ReadAhead) -> Iterator[TransactionEnd]:
        """The transaction ends from an offset on; what was read before is not read again."""
        if not self._read_from <= start <= self._read_to:
            self._ends, self._read_from, self._read_to = [], start, start
        else:
            self._ends = [end for end in self._ends if end.offset >= start]
            self._read_from = start
        yield from self._ends
        for batch in read_ahead(self._read_to):
            self._read_to = batch.last_offset + 1
            end = read_transaction_end(batch)
            if end is not None:
                self._ends.append(end)
                yield end


def _first_new_offset(window: InFlightWindow) -> int:
    """The first offset beyond what is in flight; a start beyond the whole window is itself still to be read."""
    has_more = bool(window) and window.start_offset <= window.last.last
    return window.end_offset + 1 if has_more else window.end_offset


def _missing_ranges(window: InFlightWindow, source: LogBatch) -> Iterable[tuple[int, int]]:
    """The offsets of a batch that are not in flight: those beyond the end, and in gaps of the stored state."""
    low = _first_new_offset(window)
    if window.gap is not None and window.gap_is_open:
        low = window.gap.start
    low, high = max(low, source.base_offset, window.start_offset), source.last_offset
    floor = window.floor(low)
    if floor is not None:
        low = max(low, floor.last + 1)
    ranges = []
    for batch in window.starting_between(low, high):
        if low < batch.first:
            ranges.append((low, batch.first - 1))
        low = batch.last + 1
    return [*ranges, (low, high)] if low <= high else ranges


def _apply_event(window: InFlightWindow, batch: InFlightBatch, event: RecordEvent, now_ms: int) -> list[StateBatch]:
    """Change the state of a whole batch; a refused acknowledgement may have split it. Returns: what is archived."""
    for _, _, state in batch.entries(batch.first, batch.last):
        state.apply_event(event)
    if event is RecordEvent.COMMIT:
        window.mark_acquirable(batch)
        return []
    window.delivery_complete_count += window.count_from_start(batch.first, batch.last)
    window.history.record_event(now_ms, HistoryEvent.ABORTED, batch.first, batch.last, batch.state_at(batch.first))
    return [StateBatch(batch.first, batch.last, int(RecordState.ARCHIVED), 0)]
