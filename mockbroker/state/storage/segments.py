"""Segments of a log: only whole ones are deleted, and the last one is never compacted.

Source: Kafka's LogSegment.shouldRoll, UnifiedLog.maybeRoll and LogSegments.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from mockbroker.state.storage.memory_budget import BATCH_COST, MemoryBudget

#: Distributes the jitter over the base offsets of segments; Knuth's multiplier.
_SPREAD = 2_654_435_761


class RollRules(msgspec.Struct, frozen=True):
    """When a segment is full: by its bytes, or by its age in milliseconds, reduced by up to `jitter_ms`.

    index_interval: the bytes between two entries of its offset index.
    """

    size_max: int
    age_max_ms: int
    jitter_ms: int = 0
    index_interval: int = 4096


class LogSegment(msgspec.Struct):
    """The part of the log from `base_offset` to the next segment; sizes in bytes, times in milliseconds.

    first_timestamp: the largest one of its first batch, which its age is counted from; -1 without a batch.
    max_timestamp: the largest of all, -1 when no record has one. written_ms: the time of the last append.
    indexed_offsets: the base offsets of the batches with an entry in the offset index. unindexed_size: the bytes since
    the last one. batch_count: for the memory that they take.
    """

    base_offset: int
    created_ms: int
    written_ms: int
    jitter_ms: int = 0
    size: int = 0
    first_timestamp: int = -1
    max_timestamp: int = -1
    indexed_offsets: list[int] = msgspec.field(default_factory=list)
    unindexed_size: int = 0
    batch_count: int = 0

    @property
    def newest_ms(self) -> int:
        """The time that its retention is counted from."""
        return self.max_timestamp if self.max_timestamp >= 0 else self.written_ms

    def add_batch(self, size: int, timestamp: int) -> None:
        """Count a batch that is added at the end, with its largest timestamp."""
        if not self.size:
            self.first_timestamp = timestamp
        self.size += size
        self.batch_count += 1
        if timestamp > self.max_timestamp:  # noqa: PLR1730 (max() would be a call for each batch)
            self.max_timestamp = timestamp

    def is_full(self, size: int, timestamp: int, rules: RollRules, *, now_ms: int) -> bool:
        """Return whether a batch of this size and largest timestamp has to start another segment."""
        if self.size > rules.size_max - size:
            return True
        since_ms = timestamp - self.first_timestamp if self.first_timestamp >= 0 else now_ms - self.created_ms
        return self.size > 0 and since_ms > rules.age_max_ms - self.jitter_ms


class LogSegments:
    """All segments of a log in order; there is at least one after the first append.

    cleaned_to: offsets below are compacted; None before the first compaction. budget: of the memory of all logs.
    """

    def __init__(self, budget: MemoryBudget | None = None) -> None:
        self.budget = MemoryBudget() if budget is None else budget
        self.cleaned_to: int | None = None
        self._segments: list[LogSegment] = []
        self._base_offsets: list[int] = []

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[LogSegment]:
        return iter(self._segments)

    def __getitem__(self, at: int) -> LogSegment:
        return self._segments[at]

    @property
    def size(self) -> int:
        """The total bytes."""
        return sum(segment.size for segment in self._segments)

    def closed_segments(self) -> Sequence[LogSegment]:
        """All but the active one."""
        return self._segments[:-1]

    def add_batch(self, base_offset: int, size: int, timestamp: int, rules: RollRules, *, now_ms: int) -> None:
        """Add a batch at the end of the log; it starts a segment when the last one is full."""
        last = self._segments[-1] if self._segments else None
        if last is None or last.is_full(size, timestamp, rules, now_ms=now_ms):
            self.roll_segment(base_offset, rules, now_ms=now_ms)
            last = self._segments[-1]
        if last.unindexed_size > rules.index_interval:
            last.indexed_offsets.append(base_offset)
            last.unindexed_size = 0
        last.unindexed_size += size
        last.add_batch(size, timestamp)
        self.budget.used += size + BATCH_COST
        last.written_ms = now_ms

    def needs_roll(self, size: int, timestamp: int, rules: RollRules, *, now_ms: int) -> bool:
        """Return whether a batch of this size and largest timestamp has to start a segment."""
        return not self._segments or self._segments[-1].is_full(size, timestamp, rules, now_ms=now_ms)

    def roll_segment(self, base_offset: int, rules: RollRules, *, now_ms: int) -> None:
        """Start a segment at this offset; an empty one that starts there is replaced."""
        if self._segments and self._segments[-1].base_offset == base_offset:
            self._segments.pop(), self._base_offsets.pop()
        # In Kafka the jitter is random.
        span = min(rules.jitter_ms, rules.age_max_ms)
        jitter_ms = base_offset * _SPREAD % span if span > 0 else 0
        self._segments.append(LogSegment(base_offset, now_ms, now_ms, jitter_ms))
        self._base_offsets.append(base_offset)

    def segment_end(self, offset: int) -> int | None:
        """The end of the segment that contains an offset, None for the last one; no read goes beyond it."""
        at = bisect_right(self._base_offsets, offset)
        return self._base_offsets[at] if at < len(self._base_offsets) else None

    def next_indexed(self, offset: int, end: int) -> int | None:
        """The base offset of the first batch at or above `end` with an index entry, in the segment of an offset."""
        indexed = self._segments[self.floor_index(offset)].indexed_offsets
        at = bisect_left(indexed, end)
        return indexed[at] if at < len(indexed) else None

    def floor_index(self, offset: int) -> int:
        """The index of the segment that contains an offset, 0 for an offset below all."""
        return max(0, bisect_right(self._base_offsets, offset) - 1)

    def drop_first(self, count: int) -> None:
        """Remove the first segments; at least one stays."""
        assert count < len(self._segments)
        self.budget.used -= _memory_of(self._segments[:count])
        del self._segments[:count], self._base_offsets[:count]

    def replace_first(self, count: int, merged: Sequence[LogSegment]) -> None:
        """Replace the first segments."""
        self.budget.used += _memory_of(merged) - _memory_of(self._segments[:count])
        self._segments[:count] = merged
        self._base_offsets[:count] = [segment.base_offset for segment in merged]

    def release_memory(self) -> None:
        """The log is deleted: its memory is free."""
        self.budget.used -= _memory_of(self._segments)
        self._segments, self._base_offsets = [], []

    def truncate_to(self, offset: int, removed: Iterable[tuple[int, int]] = ()) -> None:
        """Remove the segments that start at or above an offset, except the first one.

        removed: base offset and size of each batch that is removed.
        """
        before = _memory_of(self._segments)
        for base_offset, size in removed:
            segment = self._segments[self.floor_index(base_offset)]
            segment.size -= size
            segment.batch_count -= 1
        keep = max(1, bisect_right(self._base_offsets, offset - 1))
        del self._segments[keep:], self._base_offsets[keep:]
        self.budget.used += _memory_of(self._segments) - before
        last = self._segments[-1]
        del last.indexed_offsets[bisect_left(last.indexed_offsets, offset) :]
        last.unindexed_size = 0
        if self.cleaned_to is not None:
            self.cleaned_to = min(self.cleaned_to, offset)


def _memory_of(segments: Iterable[LogSegment]) -> int:
    """The bytes of memory that the batches of these segments take."""
    return sum(segment.size + segment.batch_count * BATCH_COST for segment in segments)
