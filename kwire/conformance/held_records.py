"""The records of one share partition that a member holds: ranges of offsets with the ends of their locks."""

from __future__ import annotations

from typing import NamedTuple

from kwire.conformance.traffic import Seen

#: Ranges of one partition; of a member with more, the oldest are forgotten, and the partition is not judged any more.
_RANGES_MAX = 10_000


class HeldRange(NamedTuple):
    """Acquired offsets. lock_end_ms: by the broker's clock, infinite where no response named a duration."""

    first: int
    last: int
    lock_end_ms: float
    seen: Seen


class HeldRecords:
    """Ranges that do not overlap. is_judged: nothing is missing."""

    def __init__(self) -> None:
        self._ranges: list[HeldRange] = []
        self._settled: list[tuple[int, int, Seen]] = []
        self.is_judged = True

    def acquire(self, new: HeldRange) -> None:
        """Add a range; what was known about its offsets is replaced."""
        self._cut(new.first, new.last)
        self._ranges.append(new)
        self._settled = [each for each in self._settled if each[1] < new.first or each[0] > new.last]
        if len(self._ranges) > _RANGES_MAX:
            del self._ranges[0]
            self.is_judged = False

    def settle(self, first: int, last: int, seen: Seen) -> None:
        """Remove a range that was acknowledged."""
        self._cut(first, last)
        self._settled = [*self._settled[-100:], (first, last, seen)]

    def renew(self, first: int, last: int, lock_end_ms: float, seen: Seen) -> None:
        """Replace the lock of a range that is held."""
        for held in self._cut(first, last):
            self._ranges.append(HeldRange(held.first, held.last, lock_end_ms, seen))

    def not_held(self, first: int, last: int) -> list[tuple[int, int]]:
        """The parts of a range that are not held, as first and last offsets."""
        missing, at = [], first
        for held in sorted(self._ranges):
            if held.last < at or held.first > last:
                continue
            if held.first > at:
                missing.append((at, held.first - 1))
            at = held.last + 1
        return [*missing, (at, last)] if at <= last else missing

    def expired(self, first: int, last: int, now_ms: float) -> HeldRange | None:
        """A range with some of these offsets whose lock has ended, or None."""
        overlapping = (held for held in self._ranges if held.first <= last and held.last >= first)
        return next((held for held in overlapping if held.lock_end_ms < now_ms), None)

    def find_settled(self, first: int, last: int) -> Seen | None:
        """The exchange that acknowledged some of these offsets before, or None."""
        overlapping = (each[2] for each in reversed(self._settled) if each[0] <= last and each[1] >= first)
        return next(overlapping, None)

    def _cut(self, first: int, last: int) -> list[HeldRange]:
        """Remove these offsets. Returns: what was removed."""
        kept, removed = [], []
        for held in self._ranges:
            if held.last < first or held.first > last:
                kept.append(held)
                continue
            removed.append(held._replace(first=max(held.first, first), last=min(held.last, last)))
            if held.first < first:
                kept.append(held._replace(last=first - 1))
            if held.last > last:
                kept.append(held._replace(first=last + 1))
        self._ranges = kept
        return removed
