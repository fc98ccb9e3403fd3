"""A sorted map from runs of offsets to their state; its memory depends on the number of runs, not on their length."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace

from kwire.capture.share_timeline.events import ACKNOWLEDGED, ARCHIVED, AVAILABLE


@dataclass(slots=True)
class OffsetRun:
    """Consecutive offsets in one state. deadline: end of the lock, nanoseconds. broker: where they were acquired."""

    first: int
    last: int
    state: str
    delivery_count: int | None
    member_id: str | None = None
    deadline: int | None = None
    broker: str | None = None

    @property
    def is_terminal(self) -> bool:
        """Whether the group has finished these records."""
        return self.state in (ACKNOWLEDGED, ARCHIVED)

    def continues(self, other: OffsetRun) -> bool:
        """Whether it directly follows another run in the same state."""
        return self.first == other.last + 1 and self == replace(other, first=self.first, last=self.last)

    @property
    def size(self) -> int:
        """The number of records. It may exceed the range of len() if the offsets are invalid."""
        return self.last - self.first + 1


class OffsetRunMap:
    """The runs of one share partition, without the finished ones at the front."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._runs: list[OffsetRun] = []
        #: The number of records in each state.
        self.sizes: dict[str, int] = defaultdict(int)

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[OffsetRun]:
        return iter(self._runs)

    @property
    def front(self) -> OffsetRun | None:
        """The run with the lowest offsets."""
        return self._runs[0] if self._runs else None

    def runs_from(self, offset: int) -> Iterator[OffsetRun]:
        """The runs that end at or after an offset, in order."""
        for at in range(max(0, bisect_right(self._firsts, offset) - 1), len(self._runs)):
            if self._runs[at].last >= offset:
                yield self._runs[at]

    def split_range(self, first: int, last: int) -> list[tuple[int, int, OffsetRun | None]]:
        """The range as consecutive pieces, each with its run, or None if no run contains it."""
        pieces: list[tuple[int, int, OffsetRun | None]] = []
        for at in range(max(0, bisect_right(self._firsts, first) - 1), len(self._runs)):
            run = self._runs[at]
            if run.first > last:
                break
            if run.last < first:
                continue
            if run.first > first:
                pieces.append((first, run.first - 1, None))
            end = min(run.last, last)
            pieces.append((max(run.first, first), end, run))
            first = end + 1
        if first <= last:
            pieces.append((first, last, None))
        return pieces

    def put(self, run: OffsetRun) -> None:
        """Set the state of the offsets of a run; other offsets keep their state."""
        low = bisect_right(self._firsts, run.first) - 1
        if low < 0 or self._runs[low].last < run.first:
            low += 1
        high = bisect_right(self._firsts, run.last)
        pieces = [run]
        for old_run in self._runs[low:high]:
            self.sizes[old_run.state] -= min(old_run.last, run.last) - max(old_run.first, run.first) + 1
        self.sizes[run.state] += run.size
        if low < high:
            head, tail = self._runs[low], self._runs[high - 1]
            if head.first < run.first:
                pieces.insert(0, replace(head, last=run.first - 1))
            if tail.last > run.last:
                pieces.append(replace(tail, first=run.last + 1))
        self._replace(low, high, pieces)

    def _replace(self, low: int, high: int, pieces: list[OffsetRun]) -> None:
        """Replace runs by others, and join neighbours in the same state."""
        if low > 0:
            low -= 1
            pieces.insert(0, self._runs[low])
        if high < len(self._runs):
            pieces.append(self._runs[high])
            high += 1
        joined: list[OffsetRun] = []
        for piece in pieces:
            if joined and piece.continues(joined[-1]):
                joined[-1] = replace(joined[-1], last=piece.last)
            else:
                joined.append(piece)
        self._runs[low:high] = joined
        self._firsts[low:high] = [run.first for run in joined]

    def drop_finished_front(self) -> None:
        """Drop the finished runs at the front: the start offset moves beyond them."""
        count = 0
        while count < len(self._runs) and self._runs[count].is_terminal:
            self.sizes[self._runs[count].state] -= self._runs[count].size
            count += 1
        del self._runs[:count]
        del self._firsts[:count]

    def drop_undelivered_end(self) -> None:
        """Drop the runs at the end that were never delivered."""
        while self._runs and self._runs[-1].state == AVAILABLE and not self._runs[-1].delivery_count:
            self.sizes[AVAILABLE] -= self._runs.pop().size
            self._firsts.pop()

    @property
    def end(self) -> int | None:
        """The offset after the last run."""
        return self._runs[-1].last + 1 if self._runs else None

    def clear(self) -> None:
        """Drop all runs."""
        self._runs.clear()
        self._firsts.clear()
        self.sizes.clear()
