"""In-flight window of a share partition: its batches, its start and end offset, and the operations that move them."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass

from mockbroker.state.share.acquisition_locks import AcquisitionLocks
from mockbroker.state.share.batch_map import BatchMap
from mockbroker.state.share.in_flight_batch import InFlightBatch, InFlightState, RecordState
from mockbroker.state.share.partition_history import PartitionHistory
from mockbroker.state.share.share_history import HistoryEvent
from mockbroker.state.storage.hidden_batches import HiddenBatches


@dataclass(slots=True)
class StateGap:
    """Offsets that the stored state left out: they are fetched from `start` on, while the end offset stays `end`."""

    start: int
    end: int


class InFlightWindow(BatchMap):
    """The batches between start and end offset. Source: share-semantics 2.

    end_offset: inclusive, except while the window is empty: then it is the next offset to read.
    delivery_complete_count: the terminal records from the start offset on. hidden: the offsets of the log that are
    never in flight, None if there are none.
    """

    __slots__ = (
        "_acquirable_firsts",
        "_acquirable_set",
        "_locks",
        "delivery_complete_count",
        "end_offset",
        "gap",
        "hidden",
        "history",
        "start_offset",
    )

    def __init__(self, locks: AcquisitionLocks, history: PartitionHistory) -> None:
        super().__init__()
        self.start_offset = self.end_offset = 0
        self.delivery_complete_count = 0
        self.gap: StateGap | None = None
        self.hidden: HiddenBatches | None = None
        self.history = history
        self._locks = locks
        self._acquirable_firsts: list[int] = []  # A heap: first offsets of batches that had something to acquire,
        self._acquirable_set: set[int] = set()  # and the same as a set.

    # Counts and single records.

    def count_offsets(self, first: int, last: int) -> int:
        """The number of offsets from one to another, both inclusive, without the hidden ones."""
        count = last - first + 1
        return count if self.hidden is None else count - self.hidden.count_between(first, last + 1)

    @property
    def in_flight_count(self) -> int:
        """The offsets from start to end, gaps and final records included (share-semantics 2.6)."""
        return self.count_offsets(self.start_offset, self.end_offset) if self._firsts else 0

    def count_from_start(self, first: int, last: int) -> int:
        """How many of these offsets are not below the start."""
        return max(0, last - max(self.start_offset, first) + 1)

    def record_state(self, offset: int) -> RecordState:
        """The state of any offset: archived below the start, available from the end on and in gaps."""
        if offset < self.start_offset:
            return RecordState.ARCHIVED
        batch = self.floor(offset)
        if batch is None or batch.last < offset:
            return RecordState.AVAILABLE
        return batch.state_at(offset).state

    def is_split_by_start(self, batch: InFlightBatch) -> bool:
        """Whether the start offset lies inside a batch."""
        return batch.first < self.start_offset <= batch.last

    # The next fetch.

    @property
    def gap_is_open(self) -> bool:
        """Whether offsets that the stored state left out are still fetched."""
        return self.gap is not None and self.gap.end == self.end_offset

    def advance_gap(self, offset: int) -> None:
        """Everything below `offset` has been acquired; past its end the gap is closed."""
        if self.gap is not None:
            if self.gap_is_open and offset <= self.gap.end:
                self.gap.start = offset
            else:
                self.gap = None

    def mark_acquirable(self, batch: InFlightBatch) -> None:
        """A record of this batch may be acquired again."""
        if batch.first not in self._acquirable_set:
            self._acquirable_set.add(batch.first)
            heapq.heappush(self._acquirable_firsts, batch.first)

    def next_fetch_offset(self, *, includes_transitions: bool) -> int:
        """The offset from which the log is read next (share-semantics 2.2).

        includes_transitions: released records count even while their release is being written.
        """
        if not self._firsts or self.start_offset > self.last.last:
            self._acquirable_firsts.clear()
            self._acquirable_set.clear()
            return self.end_offset
        lowest = self._lowest_available() if includes_transitions else self._lowest_acquirable()
        if self.gap is not None and self.gap_is_open:
            missing = self._lowest_missing(self.gap.start)
            if missing is not None and (lowest is None or missing < lowest):
                return missing
        return self.end_offset + 1 if lowest is None else lowest

    def _lowest_available(self) -> int | None:
        offsets = (batch.first_available() for batch in self._batches)
        return next((offset for offset in offsets if offset is not None), None)

    def _lowest_acquirable(self) -> int | None:
        while self._acquirable_firsts:
            batch = self.get(self._acquirable_firsts[0])
            offset = None if batch is None else batch.first_acquirable()
            if offset is not None:
                return offset
            self._acquirable_set.discard(heapq.heappop(self._acquirable_firsts))
        return None

    def _lowest_missing(self, start: int) -> int | None:
        """The first offset from `start` on that is in no batch and lies below one."""
        for batch in self._batches:
            if batch.first > start:
                return start
            start = max(batch.last + 1, start)
        return None

    # Splitting and archiving batches.

    def split_batch(self, batch: InFlightBatch) -> None:
        """One state for each offset; each gets a lock of its own with the remaining time (share-semantics 1.3)."""
        whole = batch.batch_state
        if whole is None:
            return
        states = []
        for offset in range(batch.first, batch.last + 1):
            state = InFlightState(whole.state, whole.delivery_count, whole.member_id)
            if whole.lock is not None:
                state.lock = self._locks.start_lock(whole.lock.partition, offset, offset, whole.lock.deadline_ms)
            states.append(state)
        whole.cancel_lock()
        batch.replace_states(states)

    def archive_offsets(
        self,
        offsets: range,
        batches: Iterable[InFlightBatch],
        record_state: RecordState,
        reason: tuple[HistoryEvent, int],
    ) -> int:
        """Drop the records of some offsets that are in a state, splitting batches that reach beyond.

        Args: reason: the event for the history, and its time. Returns: how many records were dropped.
        """
        (event, now_ms), first, last = reason, offsets.start, offsets.stop - 1
        dropped_count = 0
        for batch in batches:
            if batch.first > last:
                break
            whole = batch.batch_state
            if whole is not None and (whole.state is not record_state or batch.last < first):
                continue
            is_split = whole is None or batch.first < first or last < batch.last
            if is_split:
                self.split_batch(batch)
            for low, high, state in batch.entries(first, last):
                if state.state is record_state:
                    member_id = state.member_id
                    state.drop_record()
                    self.history.record_event(now_ms, event, low, high, state, member_id=member_id)
                    dropped_count += high - low + 1
            if is_split:
                self.mark_acquirable(batch)
        return dropped_count

    # The start offset.

    def advance_start(self) -> bool:
        """Move the start past the final records at it; whether it moved (share-semantics 2.8)."""
        at_start = self.floor(self.start_offset)
        if at_start is None or not _is_final_at(at_start, self.start_offset):
            return False
        last_final, removed_count = self._leading_final_run()
        if last_final is None:
            return False
        if last_final == self.last.last:
            self.start_offset = self.end_offset = last_final + 1
            self.delivery_complete_count = 0
            self.clear()
            return True
        batch = self.floor(last_final)
        assert batch is not None
        if last_final == batch.last:
            following = self.higher(last_final)
            assert following is not None
            self.start_offset = max(self.start_offset, following.first)  # Gaps of the log are skipped.
            if self.gap is not None and self.gap_is_open:
                self.start_offset = min(self.gap.start, self.start_offset)
            self.remove_below(following.first)
        else:
            self.start_offset = max(self.start_offset, last_final + 1)
            self.remove_below(batch.first)
        self.delivery_complete_count -= removed_count
        return True

    def _leading_final_run(self) -> tuple[int | None, int]:
        """The last offset of the run of final records at the front, and how many of them are not below the start."""
        last_final, count = None, 0
        gap = self.gap if self.gap_is_open else None
        for batch in self._batches:
            if gap is not None and batch.last >= gap.start:
                break
            end = batch.final_end()
            if end > batch.first:
                last_final = end - 1
                count += self.count_from_start(batch.first, end - 1)
            if end <= batch.last:
                break
        return last_final, count

    def move_log_start(self, log_start: int, *, now_ms: int) -> None:
        """The log start moved: archive the available records below it in memory, without a write (2.9)."""
        if log_start <= self.start_offset:
            return
        if not self._firsts:
            self.start_offset = self.end_offset = log_start
            self.delivery_complete_count = 0
            return
        terminal_count = self._count_terminal(log_start)
        below = range(self.start_offset, log_start)
        self.archive_offsets(below, self._batches, RecordState.AVAILABLE, (HistoryEvent.LOG_START, now_ms))
        self.start_offset = log_start
        self.delivery_complete_count -= terminal_count
        self.end_offset = max(self.end_offset, log_start)

    def _count_terminal(self, end: int) -> int:
        """The terminal records from the start offset up to, not including, `end`."""
        count = 0
        for batch in self._batches:
            if batch.first >= end:
                break
            low, high = max(batch.first, self.start_offset), min(batch.last, end - 1)
            for first, last, state in batch.entries(low, high):
                if state.state.is_terminal:
                    count += max(0, min(last, high) - max(first, low) + 1)
        return count


def _is_final_at(batch: InFlightBatch, offset: int) -> bool:
    """Whether the record at the start is final; an unsplit batch counts even where it ends before it (a gap)."""
    if batch.batch_state is not None:
        return batch.batch_state.is_final
    return offset <= batch.last and batch.state_at(offset).is_final
