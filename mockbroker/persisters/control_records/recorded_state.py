"""Recorded state of a share partition: a checkpoint, and the chain of deltas that follow it.

Source: the second revision of KIP-932. A delta has the epoch of its checkpoint and the offset of the record before it.
Its states are merged into the existing ones: of two states of a record the one with more deliveries wins, then the
higher state, so that writes may overtake each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from mockbroker.state.share.in_flight_batch import InFlightState, RecordState
from mockbroker.state.share.in_flight_window import InFlightWindow
from mockbroker.state.share.state_batches import StateBatch, combine_batches
from mockbroker.state.share_coordinator.share_coordinator import UNINITIALIZED_START

#: Checkpoint epochs are uint16, and start again at 0.
CHECKPOINT_EPOCHS = 1 << 16


class ShareCheckpoint(NamedTuple):
    """The whole state. end: the first offset without a recorded state.

    A start of -1 means that there is no state: the group was deleted, or its reset strategy decides its start.
    """

    epoch: int
    start: int
    end: int
    batches: tuple[StateBatch, ...]


class ShareDelta(NamedTuple):
    """The changes since the record at `back_offset`."""

    epoch: int
    back_offset: int
    batches: tuple[StateBatch, ...]


class RecordedState:
    """The recorded state of one share partition.

    checkpoint_offset: of the newest checkpoint, KIP-932's share checkpoint offset (SCO); -1 before the first one.
    last_offset: of the newest record. delta_count: the number of deltas after the checkpoint. state_epoch: rises with
    each alteration and deletion, and exists only on the leader. has_visible_between: whether the log has records for
    readers between two offsets.
    """

    def __init__(self, has_visible_between: Callable[[int, int], bool]) -> None:
        self.epoch = 0
        self.checkpoint_offset = -1
        self.last_offset = -1
        self.delta_count = 0
        self.start = UNINITIALIZED_START
        self.end = UNINITIALIZED_START
        self.batches: tuple[StateBatch, ...] = ()
        self.state_epoch = 0
        self._has_visible_between = has_visible_between

    @property
    def has_start(self) -> bool:
        """Whether there is a state."""
        return self.start != UNINITIALIZED_START

    @property
    def completed_count(self) -> int:
        """How many records after the start are complete."""
        return sum(batch.last - batch.first + 1 for batch in self.batches if RecordState(batch.state).is_terminal)

    def apply_checkpoint(self, offset: int, checkpoint: ShareCheckpoint) -> None:
        """Apply the checkpoint at this offset; earlier records are not needed any more."""
        self.epoch, self.start, self.end, self.batches = checkpoint
        self.checkpoint_offset = self.last_offset = offset
        self.delta_count = 0

    def apply_delta(self, offset: int, delta: ShareDelta) -> bool:
        """Apply the delta at this offset; False if it does not belong to the chain."""
        if delta.epoch != self.epoch or delta.back_offset != self.last_offset or not self.has_start:
            return False
        self.last_offset = offset
        self.delta_count += 1
        self._merge_batches(self.start, delta.batches)
        return True

    def initial_checkpoint(self, start: int) -> ShareCheckpoint:
        """The checkpoint of a new state with this start offset, or of no state (-1)."""
        return ShareCheckpoint((self.epoch + 1) % CHECKPOINT_EPOCHS, start, start, ())

    def next_checkpoint(self, start: int, batches: Iterable[StateBatch]) -> ShareCheckpoint:
        """The checkpoint of the state after these changes."""
        after = RecordedState(self._has_visible_between)
        after.start, after.end, after.batches = self.start, self.end, self.batches
        after._merge_batches(start, batches)
        return ShareCheckpoint((self.epoch + 1) % CHECKPOINT_EPOCHS, after.start, after.end, after.batches)

    def start_after(self, batches: Iterable[StateBatch]) -> int:
        """The start after the delta of these changes; a delta cannot contain a start."""
        return self._advance_start(self.start, combine_batches(self.batches, batches, self.start))

    def next_delta(self, batches: Iterable[StateBatch]) -> ShareDelta:
        """The delta of these changes, without states that are recorded already."""
        merged = combine_batches(self.batches, batches, self.start)
        changed = [part for batch in merged for part in _subtract_recorded(batch, self.batches)]
        return ShareDelta(self.epoch, self.last_offset, tuple(combine_batches((), changed, -1)))

    def _merge_batches(self, start: int, batches: Iterable[StateBatch]) -> None:
        start = max(self.start, start)
        merged = combine_batches(self.batches, batches, start)
        self.end = max(self.end, start, merged[-1].last + 1 if merged else start)
        self.start = self._advance_start(start, merged)
        self.batches = tuple(combine_batches((), merged, self.start))

    def _advance_start(self, start: int, batches: Sequence[StateBatch]) -> int:
        """The first offset that is not complete, past offsets that are hidden from readers."""
        for batch in batches:
            if batch.first > start and self._has_visible_between(start, batch.first):
                return start
            if not RecordState(batch.state).is_terminal:
                return max(start, batch.first)
            start = max(start, batch.last + 1)
        return start


def unrecorded_states(window: InFlightWindow, last: int) -> list[StateBatch]:
    """All states in flight up to an offset as they may be recorded: a delivery under way is not recorded.

    So a record that is acquired for the first time is available, and was never delivered.
    """
    batches = [batch for batch in window if batch.first <= last]
    return [_to_recordable_batch(*entry) for batch in batches for entry in batch.entries(batch.first, last)]


def _to_recordable_batch(first: int, last: int, entry: InFlightState) -> StateBatch:
    if entry.state is RecordState.ACQUIRED or entry.is_in_transition:
        return StateBatch(first, last, int(RecordState.AVAILABLE), max(0, entry.delivery_count - 1))
    return StateBatch(first, last, int(entry.state), entry.delivery_count)


def _subtract_recorded(batch: StateBatch, recorded: Sequence[StateBatch]) -> list[StateBatch]:
    """The parts of a batch whose recorded state is different."""
    parts: list[StateBatch] = []
    first = batch.first
    for one in recorded:
        if one.merge_rank != batch.merge_rank or one.last < first or one.first > batch.last:
            continue
        if one.first > first:
            parts.append(batch._replace(first=first, last=one.first - 1))
        first = one.last + 1
    return [*parts, batch._replace(first=first)] if first <= batch.last else parts
