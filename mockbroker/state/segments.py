"""Where a log is cut into segments: only whole ones are deleted, and the last one is never compacted.

Source: Kafka's LogSegment.shouldRoll, UnifiedLog.maybeRoll and LogSegments.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence

import msgspec

#: Spreads the jitter over the offsets at which segments begin; Knuth's multiplier.
_SPREAD = 2_654_435_761


class RollRules(msgspec.Struct, frozen=True):
    """When a segment is full: by its bytes, or by its age in milliseconds, of which up to `jitter_ms` are spared."""

    size_max: int
    age_max_ms: int
    jitter_ms: int = 0


class Segment(msgspec.Struct):
    """A run of the log from `base_offset` to the next segment; sizes in bytes, times in milliseconds.

    first_timestamp: the largest one of its first batch, which its age is reckoned from; -1 as long as there is none.
    max_timestamp: the largest of all, -1 when no record has one. written_ms: when it was last appended to.
    """

    base_offset: int
    created_ms: int
    written_ms: int
    jitter_ms: int = 0
    size: int = 0
    first_timestamp: int = -1
    max_timestamp: int = -1

    @property
    def newest_ms(self) -> int:
        """The time that its retention is reckoned from."""
        return self.max_timestamp if self.max_timestamp >= 0 else self.written_ms

    def is_full(self, size: int, timestamp: int, rules: RollRules, *, now_ms: int) -> bool:
        """Whether a batch of this size and largest timestamp has to begin another segment."""
        since_ms = timestamp - self.first_timestamp if self.first_timestamp >= 0 else now_ms - self.created_ms
        is_old = since_ms > rules.age_max_ms - self.jitter_ms
        return self.size > rules.size_max - size or (self.size > 0 and is_old)


class Segments:
    """All segments of a log in order; there is at least one as soon as anything was appended.

    cleaned_to: what lies below has been compacted; None before the first time.
    """

    def __init__(self) -> None:
        self.cleaned_to: int | None = None
        self._all: list[Segment] = []
        self._bases: list[int] = []

    def __len__(self) -> int:
        return len(self._all)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._all)

    def __getitem__(self, at: int) -> Segment:
        return self._all[at]

    @property
    def size(self) -> int:
        """Bytes of all."""
        return sum(segment.size for segment in self._all)

    def closed(self) -> Sequence[Segment]:
        """All but the active one."""
        return self._all[:-1]

    def appended(self, base_offset: int, size: int, timestamp: int, rules: RollRules, *, now_ms: int) -> None:
        """Note a batch at the end of the log; it begins a segment when it finds the last one full."""
        if not self._all or self._all[-1].is_full(size, timestamp, rules, now_ms=now_ms):
            self.roll(base_offset, rules, now_ms=now_ms)
        last = self._all[-1]
        if not last.size:
            last.first_timestamp = timestamp
        last.size += size
        last.max_timestamp = max(last.max_timestamp, timestamp)
        last.written_ms = now_ms

    def roll(self, base_offset: int, rules: RollRules, *, now_ms: int) -> None:
        """Begin a segment at this offset; an empty one that begins there already is replaced."""
        if self._all and self._all[-1].base_offset == base_offset:
            self._all.pop(), self._bases.pop()
        # Which part of the jitter a segment is spared is left to chance by Kafka.
        span = min(rules.jitter_ms, rules.age_max_ms)
        jitter_ms = base_offset * _SPREAD % span if span > 0 else 0
        self._all.append(Segment(base_offset, now_ms, now_ms, jitter_ms))
        self._bases.append(base_offset)

    def end_of(self, offset: int) -> int | None:
        """Where the segment that holds an offset ends, None for the last one: no read goes beyond."""
        at = bisect_right(self._bases, offset)
        return self._bases[at] if at < len(self._bases) else None

    def floor(self, offset: int) -> int:
        """The index of the segment that holds an offset, 0 for one below all."""
        return max(0, bisect_right(self._bases, offset) - 1)

    def drop_first(self, count: int) -> None:
        """Forget the first ones; at least one stays."""
        assert count < len(self._all)
        del self._all[:count], self._bases[:count]

    def replace(self, count: int, merged: Sequence[Segment]) -> None:
        """Put others in the place of the first ones."""
        self._all[:count] = merged
        self._bases[:count] = [segment.base_offset for segment in merged]

    def truncate(self, offset: int) -> None:
        """Forget the segments that begin at or above an offset, all but the first, and what was compacted there.

        The bytes of the one that is cut stay counted: nobody deletes by a size that a truncation has just changed.
        """
        keep = max(1, bisect_right(self._bases, offset - 1))
        del self._all[keep:], self._bases[keep:]
        if self.cleaned_to is not None:
            self.cleaned_to = min(self.cleaned_to, offset)
