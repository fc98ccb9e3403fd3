"""Leader epochs of one log: which leader wrote from which offset on. Source: Kafka's LeaderEpochFileCache."""

from __future__ import annotations

from bisect import bisect_right


class Epochs:
    """Each epoch with the offset at which it begins, in order; one without records leaves no trace."""

    def __init__(self) -> None:
        self._all: list[tuple[int, int]] = []

    @property
    def latest(self) -> int:
        """The epoch that appends are stamped with, 0 at first."""
        return self._all[-1][0] if self._all else 0

    def begin(self, leader_epoch: int, offset: int) -> None:
        """An epoch begins at this offset, unless it or a later one has begun already."""
        if not self._all or leader_epoch > self._all[-1][0]:
            self.truncate(offset)
            self._all.append((leader_epoch, offset))

    def truncate(self, offset: int) -> None:
        """Forget the epochs that begin at this offset or behind it."""
        while self._all and self._all[-1][1] >= offset:
            self._all.pop()

    def end_of(self, leader_epoch: int, log_end: int) -> tuple[int, int] | None:
        """The largest epoch up to this one, and where it ends; None for one that is unknown or still to come."""
        if not self._all or leader_epoch < 0 or leader_epoch > self._all[-1][0]:
            return None
        at = bisect_right(self._all, leader_epoch, key=lambda entry: entry[0]) - 1
        if at < 0:
            # Older than everything that is known: its records are gone, or were never here.
            return leader_epoch, self._all[0][1]
        end = self._all[at + 1][1] if at + 1 < len(self._all) else log_end
        return self._all[at][0], end

    def at(self, offset: int) -> int | None:
        """The epoch of the record at this offset, None when it is not known."""
        if self._all and self._all[0][1] <= offset:
            return self._all[bisect_right(self._all, offset, key=lambda entry: entry[1]) - 1][0]
        return None
