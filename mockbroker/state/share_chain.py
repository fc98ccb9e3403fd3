"""A share-partition as its control records tell of it: a checkpoint, and the deltas that lead back to it.

Source: the second revision of KIP-932. A delta has the epoch of its checkpoint and the offset of the record before it.
What it says is merged into what was there: of two accounts of a record the one with more deliveries wins, then the one
further on, so that writes that overtake each other do no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from mockbroker.state.in_flight import InFlight, State
from mockbroker.state.share_coordinator import UNINITIALIZED_START
from mockbroker.state.share_partition import SharePartition
from mockbroker.state.state_batches import StateBatch, combine

#: Checkpoint epochs are uint16, and begin again.
EPOCHS = 1 << 16


class Checkpoint(NamedTuple):
    """The whole state. end: the first offset that nothing is recorded of.

    A start of -1 says that there is none: the group has been deleted, or begins where its reset strategy says.
    """

    epoch: int
    start: int
    end: int
    batches: tuple[StateBatch, ...]


class Delta(NamedTuple):
    """What has changed since the record at `back_offset`."""

    epoch: int
    back_offset: int
    batches: tuple[StateBatch, ...]


class Chain:
    """What has been recorded of one share-partition.

    checkpoint_offset: of the newest checkpoint, KIP-932's share checkpoint offset (SCO); -1 before the first one.
    last_offset: of the newest record. deltas: how many build on the checkpoint. state_epoch: grows with each alteration
    and deletion, and is known to the leader alone. has_between: whether the log has records for readers there.
    """

    def __init__(self, has_between: Callable[[int, int], bool]) -> None:
        self.epoch = 0
        self.checkpoint_offset = -1
        self.last_offset = -1
        self.deltas = 0
        self.start = UNINITIALIZED_START
        self.end = UNINITIALIZED_START
        self.batches: tuple[StateBatch, ...] = ()
        self.state_epoch = 0
        self._has_between = has_between

    @property
    def is_decided(self) -> bool:
        """Whether there is a state at all."""
        return self.start != UNINITIALIZED_START

    @property
    def settled_count(self) -> int:
        """How many records behind the start are done."""
        return sum(batch.last - batch.first + 1 for batch in self.batches if State(batch.state).is_terminal)

    def take_checkpoint(self, offset: int, checkpoint: Checkpoint) -> None:
        """Take over a checkpoint that lies at this offset; it makes everything before it superfluous."""
        self.epoch, self.start, self.end, self.batches = checkpoint
        self.checkpoint_offset = self.last_offset = offset
        self.deltas = 0

    def take_delta(self, offset: int, delta: Delta) -> bool:
        """Take over a delta that lies at this offset; False for one that is no part of the chain."""
        if delta.epoch != self.epoch or delta.back_offset != self.last_offset or not self.is_decided:
            return False
        self.last_offset = offset
        self.deltas += 1
        self._set(self.start, delta.batches)
        return True

    def begin(self, start: int) -> Checkpoint:
        """The checkpoint of a state that begins at this offset, or of none."""
        return Checkpoint((self.epoch + 1) % EPOCHS, start, start, ())

    def next_checkpoint(self, start: int, batches: Iterable[StateBatch]) -> Checkpoint:
        """The checkpoint of what these changes make of the state."""
        after = Chain(self._has_between)
        after.start, after.end, after.batches = self.start, self.end, self.batches
        after._set(start, batches)
        return Checkpoint((self.epoch + 1) % EPOCHS, after.start, after.end, after.batches)

    def start_after(self, batches: Iterable[StateBatch]) -> int:
        """Where the state begins after the delta of these changes, which can tell of no start but by them."""
        return self._settled_to(self.start, combine(self.batches, batches, self.start))

    def next_delta(self, batches: Iterable[StateBatch]) -> Delta:
        """The delta of these changes, without what is recorded already."""
        merged = combine(self.batches, batches, self.start)
        fresh = [part for batch in merged for part in _without(batch, self.batches)]
        return Delta(self.epoch, self.last_offset, tuple(combine((), fresh, -1)))

    def _set(self, start: int, batches: Iterable[StateBatch]) -> None:
        start = max(self.start, start)
        merged = combine(self.batches, batches, start)
        self.end = max(self.end, start, merged[-1].last + 1 if merged else start)
        self.start = self._settled_to(start, merged)
        self.batches = tuple(combine((), merged, self.start))

    def _settled_to(self, start: int, batches: Sequence[StateBatch]) -> int:
        """Where what is not done begins, past offsets that no reader is given."""
        for batch in batches:
            if batch.first > start and self._has_between(start, batch.first):
                return start
            if not State(batch.state).is_terminal:
                return max(start, batch.first)
            start = max(start, batch.last + 1)
        return start


def unrecorded(partition: SharePartition, last: int) -> list[StateBatch]:
    """All that is in flight up to an offset as it may be recorded: a delivery that is under way has not been.

    So a record that is acquired for the first time is available, and was never delivered.
    """
    found: list[StateBatch] = []
    for batch in partition.window:
        if batch.first > last:
            break
        whole = batch.whole
        if whole is not None:
            found.append(_recordable(batch.first, batch.last, whole))
        else:
            found += [_recordable(offset, offset, entry) for offset, entry in batch.within(batch.first, last)]
    return found


def _recordable(first: int, last: int, entry: InFlight) -> StateBatch:
    if entry.state is State.ACQUIRED or entry.is_in_transition:
        return StateBatch(first, last, int(State.AVAILABLE), max(0, entry.delivery_count - 1))
    return StateBatch(first, last, int(entry.state), entry.delivery_count)


def _without(batch: StateBatch, recorded: Sequence[StateBatch]) -> list[StateBatch]:
    """The parts of a batch of which not the same is recorded."""
    parts: list[StateBatch] = []
    first = batch.first
    for one in recorded:
        if one.rank != batch.rank or one.last < first or one.first > batch.last:
            continue
        if one.first > first:
            parts.append(batch._replace(first=first, last=one.first - 1))
        first = one.last + 1
    return [*parts, batch._replace(first=first)] if first <= batch.last else parts
