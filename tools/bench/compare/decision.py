"""Whether a measure of one commit differs from that of another by more than the noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from statistics import median
from typing import NamedTuple

#: The ratio of the medians below which a difference is none, whatever the rounds were.
RATIO_MIN = 1.05


class Verdict(Enum):
    """What a commit changed."""

    SLOWER = "slower"
    FASTER = "faster"
    SAME = "same"
    ONLY_BASE = "only in the base"
    ONLY_HERE = "only here"


class Line(NamedTuple):
    """One measure of both commits: the values of the rounds, of which less is better; empty where it is missing."""

    name: str
    base: Sequence[float]
    here: Sequence[float]

    @property
    def ratio(self) -> float | None:
        """The median here divided by that of the base; None if one is missing."""
        return median(self.here) / median(self.base) if self.base and self.here else None

    @property
    def verdict(self) -> Verdict:
        """A line moved if the ranges of the rounds do not overlap, and the medians differ by more than 5 %."""
        ratio = self.ratio
        if ratio is None:
            return Verdict.ONLY_BASE if self.base else Verdict.ONLY_HERE
        if min(self.here) > max(self.base) and ratio > RATIO_MIN:
            return Verdict.SLOWER
        if max(self.here) < min(self.base) and ratio < 1 / RATIO_MIN:
            return Verdict.FASTER
        return Verdict.SAME


def join_rounds(base: Sequence[Mapping[str, float]], here: Sequence[Mapping[str, float]]) -> list[Line]:
    """The lines of both commits in the order in which they are measured; of each round, the value by name."""
    names = dict.fromkeys(name for rounds in (here, base) for values in rounds for name in values)
    return [Line(name, *([one[name] for one in rounds if name in one] for rounds in (base, here))) for name in names]
