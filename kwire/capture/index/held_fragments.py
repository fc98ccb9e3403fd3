"""The body fragments of a stream of packets: those of the latest span, and those of earlier ones that are needed."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

import numpy as np

from kwire.capture.index.arrays import Ints
from kwire.capture.index.flows.frame_columns import BodyFragments, FrameColumns


class HeldFragments:
    """Fragments by number, in runs that spans have added. count: of all that were added."""

    def __init__(self) -> None:
        """There are none."""
        self.count = 0
        # The first number of each run, ascending.
        self._firsts: list[int] = []
        self._runs: list[BodyFragments] = []

    def add_run(self, fragments: BodyFragments) -> None:
        """Add those of a span."""
        if len(fragments.at):
            self._firsts.append(self.count)
            self._runs.append(fragments)
            self.count += len(fragments.at)

    def keep(self, frames: FrameColumns) -> Iterator[tuple[Ints, Ints]]:
        """Drop the runs without a fragment of these frames; positions and sizes of the fragments of the frames."""
        rows = np.nonzero((frames.at < 0) & (frames.fragment_count > 0))[0]
        numbers = -1 - frames.at[rows]
        places = np.searchsorted(np.array(self._firsts, dtype=np.int64), numbers, "right") - 1
        kept = np.unique(places).tolist()
        self._firsts[:], self._runs[:] = ([column[place] for place in kept] for column in (self._firsts, self._runs))
        for number, count in zip(numbers.tolist(), frames.fragment_count[rows].tolist(), strict=True):
            run, begin = self.find(number)
            yield run.at[begin : begin + count], run.size[begin : begin + count]

    def find(self, number: int) -> tuple[BodyFragments, int]:
        """The run of a fragment, and its place in it."""
        place = bisect_right(self._firsts, number) - 1
        return self._runs[place], number - self._firsts[place]


class HeldColumn:
    """A column of fragments, by their numbers."""

    def __init__(self, fragments: HeldFragments, name: str) -> None:
        """`name`: of a column of `BodyFragments`."""
        self._fragments = fragments
        self._name = name

    def __getitem__(self, number: int, /) -> int:
        """The value of a fragment."""
        run, place = self._fragments.find(number)
        return int(getattr(run, self._name)[place])

    def take(self, numbers: Ints) -> Ints:
        """The values of many fragments."""
        return np.array([self[number] for number in numbers.tolist()], dtype=np.int64)
