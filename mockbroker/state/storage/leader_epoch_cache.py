"""Leader epoch cache of one log: the start offset of each leader epoch. Source: Kafka's LeaderEpochFileCache."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence

#: The leader epoch of a request or a batch without one. Other negative epochs are older than all known ones.
NO_EPOCH = -1


class LeaderEpochCache:
    """The epochs with their start offsets, in order; an epoch without records is removed.

    on_change: called with them after each change; None in memory.
    """

    def __init__(self, on_change: Callable[[Sequence[tuple[int, int]]], None] | None = None) -> None:
        self._entries: list[tuple[int, int]] = []
        self._on_change = on_change

    def restore(self, entries: Iterable[tuple[int, int]]) -> None:
        """Have these epochs, as they are stored."""
        self._entries = list(entries)

    @property
    def is_empty(self) -> bool:
        """Whether there is no epoch."""
        return not self._entries

    @property
    def latest_epoch(self) -> int:
        """The epoch that appends are stamped with, 0 at first."""
        return self._entries[-1][0] if self._entries else 0

    def start_epoch(self, leader_epoch: int, offset: int) -> None:
        """Start an epoch at this offset, unless it or a later one has started already."""
        if not self._entries or leader_epoch > self._entries[-1][0]:
            while self._entries and self._entries[-1][1] >= offset:
                self._entries.pop()
            self._entries.append((leader_epoch, offset))
            self._report_change()

    def truncate_from_end(self, offset: int) -> None:
        """Remove the epochs that start at this offset or later."""
        before = len(self._entries)
        while self._entries and self._entries[-1][1] >= offset:
            self._entries.pop()
        if len(self._entries) != before:
            self._report_change()

    def truncate_from_start(self, offset: int) -> None:
        """Remove the epochs that end at this offset or earlier; the one of the offset starts there."""
        count = bisect_right(self._entries, offset, key=lambda entry: entry[1])
        if count:
            self._entries[:count] = [(self._entries[count - 1][0], offset)]
            self._report_change()

    def end_offset_for(self, leader_epoch: int, log_end: int) -> tuple[int, int] | None:
        """The largest epoch up to this one and its end offset; None for an unknown or future epoch."""
        if not self._entries or leader_epoch == NO_EPOCH or leader_epoch > self._entries[-1][0]:
            return None
        at = bisect_right(self._entries, leader_epoch, key=lambda entry: entry[0]) - 1
        if at < 0:
            # Older than all known epochs: its records were deleted, or were never here.
            return leader_epoch, self._entries[0][1]
        end = self._entries[at + 1][1] if at + 1 < len(self._entries) else log_end
        return self._entries[at][0], end

    def epoch_for_offset(self, offset: int) -> int | None:
        """The epoch of the record at this offset, None when it is unknown."""
        if self._entries and self._entries[0][1] <= offset:
            return self._entries[bisect_right(self._entries, offset, key=lambda entry: entry[1]) - 1][0]
        return None

    def _report_change(self) -> None:
        if self._on_change is not None:
            self._on_change(self._entries)
