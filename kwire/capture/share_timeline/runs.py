"""A sorted map from runs of offsets to what is known of them: memory goes by the runs, whatever their length."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace

from kwire.capture.share_timeline.events import ACKNOWLEDGED, ARCHIVED, AVAILABLE


@dataclass(slots=True)
class Run:
    """Offsets that are alike. deadline: when their lock runs out, nanoseconds. broker: who has given them out."""

    first: int
    last: int
    state: str
    delivery_count: int | None
    member_id: str | None = None
    deadline: int | None = None
    broker: str | None = None

    @property
    def is_terminal(self) -> bool:
        """Whether the group is done with these."""
        return self.state in (ACKNOWLEDGED, ARCHIVED)

    def continues(self, other: Run) -> bool:
        """Whether it is like another, right behind it."""
        return self.first == other.last + 1 and self == replace(other, first=self.first, last=self.last)

    @property
    def size(self) -> int:
        """How many records; len() could not tell those of a hostile wire."""
        return self.last - self.first + 1


class RunMap:
    """The runs of one share partition that are not settled from the front."""

    def __init__(self) -> None:
        self._firsts: list[int] = []
        self._runs: list[Run] = []
        #: How many records are in each state.
        self.sizes: dict[str, int] = defaultdict(int)

    def __len__(self) -> int:
        return len(self._runs)

    def __iter__(self) -> Iterator[Run]:
        return iter(self._runs)

    @property
    def front(self) -> Run | None:
        """The run with the lowest offsets."""
        return self._runs[0] if self._runs else None

    def since(self, offset: int) -> Iterator[Run]:
        """The runs that do not end before an offset, in order."""
        for at in range(max(0, bisect_right(self._firsts, offset) - 1), len(self._runs)):
            if self._runs[at].last >= offset:
                yield self._runs[at]

    def pieces(self, first: int, last: int) -> list[tuple[int, int, Run | None]]:
        """What is known from one offset to another, in order, cut to these; None where nothing is."""
        found: list[tuple[int, int, Run | None]] = []
        for at in range(max(0, bisect_right(self._firsts, first) - 1), len(self._runs)):
            run = self._runs[at]
            if run.first > last:
                break
            if run.last < first:
                continue
            if run.first > first:
                found.append((first, run.first - 1, None))
            end = min(run.last, last)
            found.append((max(run.first, first), end, run))
            first = end + 1
        if first <= last:
            found.append((first, last, None))
        return found

    def put(self, run: Run) -> None:
        """Say what is known of some offsets from now on; what was known of others stays."""
        low = bisect_right(self._firsts, run.first) - 1
        if low < 0 or self._runs[low].last < run.first:
            low += 1
        high = bisect_right(self._firsts, run.last)
        pieces = [run]
        for known in self._runs[low:high]:
            self.sizes[known.state] -= min(known.last, run.last) - max(known.first, run.first) + 1
        self.sizes[run.state] += run.size
        if low < high:
            head, tail = self._runs[low], self._runs[high - 1]
            if head.first < run.first:
                pieces.insert(0, replace(head, last=run.first - 1))
            if tail.last > run.last:
                pieces.append(replace(tail, first=run.last + 1))
        self._replace(low, high, pieces)

    def _replace(self, low: int, high: int, pieces: list[Run]) -> None:
        """Put these in the place of others, and join what is alike with its neighbours."""
        if low > 0:
            low -= 1
            pieces.insert(0, self._runs[low])
        if high < len(self._runs):
            pieces.append(self._runs[high])
            high += 1
        joined: list[Run] = []
        for piece in pieces:
            if joined and piece.continues(joined[-1]):
                joined[-1] = replace(joined[-1], last=piece.last)
            else:
                joined.append(piece)
        self._runs[low:high] = joined
        self._firsts[low:high] = [run.first for run in joined]

    def settle_front(self) -> None:
        """Forget the settled runs in front: the start has passed them."""
        count = 0
        while count < len(self._runs) and self._runs[count].is_terminal:
            self.sizes[self._runs[count].state] -= self._runs[count].size
            count += 1
        del self._runs[:count]
        del self._firsts[:count]

    def forget_end(self) -> None:
        """Forget what lies at the end and was never delivered."""
        while self._runs and self._runs[-1].state == AVAILABLE and not self._runs[-1].delivery_count:
            self.sizes[AVAILABLE] -= self._runs.pop().size
            self._firsts.pop()

    @property
    def end(self) -> int | None:
        """The offset behind the last run."""
        return self._runs[-1].last + 1 if self._runs else None

    def clear(self) -> None:
        """Forget all."""
        self._runs.clear()
        self._firsts.clear()
        self.sizes.clear()
