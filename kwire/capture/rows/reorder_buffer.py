"""Reorder buffer: exchanges are complete in another order than their requests, which is the order of rows."""

from __future__ import annotations

from heapq import heappop, heappush
from operator import itemgetter
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from kwire.capture.kafka.exchange import Exchange, TrafficRow
from kwire.capture.rows.column import Trait
from kwire.capture.rows.columns import columns_with

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    import numpy.typing as npt

    from kwire.capture.kafka.exchange import Outcome
    from kwire.capture.model import Row

T = TypeVar("T")

# The number of outcomes that are buffered for reordering.
ORDER_WINDOW = 1000
# The columns with values that may be as large as a frame.
_LARGE = tuple(columns_with(Trait.LARGE))
# Memory limit; fewer outcomes are buffered if it is exceeded.
SIZE_MAX = 64 * 1024 * 1024


class PrebuiltRow(NamedTuple):
    """A row of `messages` that was made without its exchange, with its time and stream offset for the order."""

    ts: int
    offset: int
    row: Row


class TableLine(NamedTuple):
    """A complete exchange as a line of the default table: texts for the terminal, and what determines their style.

    latency_us: None without a response. max_wait_ms: how long the request allowed the broker to wait.
    """

    time: str
    connection: str
    api: str
    latency: str
    result: str
    summary: str
    latency_us: int | None
    max_wait_ms: int


class LineFormat(NamedTuple):
    """What `PrebuiltLines` are made of. json_columns: JSON with these columns of `messages`; None: `TableLine`."""

    json_columns: Sequence[str] | None


class PrebuiltLines(NamedTuple):
    """The lines of exchanges, in the order of completion: the packets that completed them, and their times.

    offsets: the stream offsets of the requests. lines: JSON or cells, as `LineFormat` says. has_error: whether each
    has an error code. status: the index of each in `message_rows.STATUSES`.
    """

    completed_by: npt.NDArray[np.int64]
    times: npt.NDArray[np.int64]
    offsets: npt.NDArray[np.int64]
    lines: Sequence[str | TableLine]
    has_error: npt.NDArray[np.bool_]
    status: npt.NDArray[np.int64]

    def part(self, begin: int, end: int) -> PrebuiltLines:
        """Some of the lines."""
        part = slice(begin, end)
        completed_by, times, offsets, lines, has_error, status = self
        return PrebuiltLines(completed_by[part], times[part], offsets[part], lines[part], has_error[part], status[part])


def merge_lines(parts: Sequence[PrebuiltLines]) -> PrebuiltLines:
    """The lines of all parts, in the order of completion."""
    import numpy as np

    parts = [part for part in parts if part.lines] or parts[:1]
    if len(parts) == 1:
        return parts[0]
    completed_by = np.concatenate([part.completed_by for part in parts])
    order = np.argsort(completed_by, kind="stable")
    lines = [line for part in parts for line in part.lines]
    return PrebuiltLines(
        completed_by[order],
        np.concatenate([part.times for part in parts])[order],
        np.concatenate([part.offsets for part in parts])[order],
        [lines[row] for row in order.tolist()],
        np.concatenate([part.has_error for part in parts])[order],
        np.concatenate([part.status for part in parts])[order],
    )


class SkippedCount(NamedTuple):
    """A number of exchanges that failed a condition and have no issue."""

    number: int


class PartEnded(NamedTuple):
    """A stream has no more outcomes for now; the next ones come with more packets."""


class NamesLearned(NamedTuple):
    """A stream has named topics: what follows has these names."""

    names: Mapping[str, str]
    """All topic names by id so far, and those of the options."""


class ReorderBuffer(Generic[T]):
    """Buffers the items made of outcomes, and returns them in the order of time, within a window of outcomes."""

    def __init__(self, *, counts_all: bool = False) -> None:
        """`counts_all`: outcomes without items count too, so that a rare item is not delayed for long."""
        self._heap: list[tuple[tuple[int, int], int, Sequence[T], int]] = []
        self._counts_all = counts_all
        self._count = 0
        self._size = 0

    def push(self, outcome: Outcome | PrebuiltRow, items: Sequence[T], size: int = 0) -> Sequence[T]:
        """Buffer the items of an outcome, with their size in bytes; returns the items that leave the window."""
        heap = self._heap
        if items or self._counts_all:
            self._count += 1
        if items:
            heappush(heap, (sort_key(outcome), self._count, items, size))
            self._size += size
        is_due = len(heap) > ORDER_WINDOW or (self._counts_all and heap and heap[0][1] <= self._count - ORDER_WINDOW)
        due = self._pop_first() if is_due else ()
        while self._size > SIZE_MAX:
            due = [*due, *self._pop_first()]
        return due

    def skip(self, count: int) -> Sequence[T]:
        """Count outcomes without items; returns the items that leave the window."""
        due: Sequence[T] = ()
        step = 0
        while self._heap and self._counts_all:
            # At most one entry is returned for each outcome, as by `push`.
            step = max(step + 1, self._heap[0][1] + ORDER_WINDOW - self._count)
            if step > count:
                break
            due = [*due, *self._pop_first()]
        self._count += count if self._counts_all else 0
        return due

    def pop(self) -> Sequence[T] | None:
        """The first items of the buffer, in order; None if it is empty."""
        return self._pop_first() if self._heap else None

    def take_all(self) -> list[tuple[tuple[int, int], Sequence[T]]]:
        """Remove all items; returns them in order, those of each outcome with its time and stream offset."""
        items = [(key, each) for key, _, each, _ in sorted(self._heap, key=itemgetter(0, 1))]
        self._heap, self._size = [], 0
        return items

    def refill(self, entries: Sequence[tuple[tuple[int, int], Sequence[T], int]]) -> Sequence[T]:
        """Buffer the items of outcomes after `take_all`, in order; returns the items that exceed the memory limit.

        Args: entries: at most `ORDER_WINDOW`: time and stream offset, the items of an outcome, and their size in bytes.
        """
        # What is sorted is a heap.
        self._heap = [(key, self._count + at, items, size) for at, (key, items, size) in enumerate(entries, 1)]
        self._count += len(entries)
        self._size = sum(size for _, _, size in entries)
        due: Sequence[T] = ()
        while self._size > SIZE_MAX:
            due = [*due, *self._pop_first()]
        return due

    def _pop_first(self) -> Sequence[T]:
        _, _, items, size = heappop(self._heap)
        self._size -= size
        return items


def outcome_size(outcome: Outcome) -> int:
    """The size of the frames of an outcome."""
    if not isinstance(outcome, Exchange):
        return 0
    return sum(len(side.frame.data) for side in (outcome.request, outcome.response) if side is not None)


def row_size(row: Row) -> int:
    """The size of the values of a row that may be large."""
    return sum(len(value) for name in _LARGE if isinstance(value := row.get(name), str | bytes))


def sort_key(outcome: Outcome | PrebuiltRow) -> tuple[int, int]:
    """The time and stream offset of an outcome: requests of one packet have the same time."""
    if isinstance(outcome, PrebuiltRow):
        return outcome.ts, outcome.offset
    if isinstance(outcome, TrafficRow):
        # These are in order already; that of packets is the order of the file, even if their times are not in order.
        return 0, 0
    if not isinstance(outcome, Exchange):
        return outcome.ts, 0
    side = outcome.request or outcome.response
    assert side is not None
    return side.frame.ts, side.frame.offset
