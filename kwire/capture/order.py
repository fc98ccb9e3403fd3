"""Exchanges end in another order than they began; here what was made of them waits to come in the order of requests."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from kwire.capture.exchange import Exchange
from kwire.capture.watching import Ended, Seen

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kwire.capture.exchange import Outcome
    from kwire.capture.rows import Row

T = TypeVar("T")

# So many outcomes are held to put them in order.
ORDER_WINDOW = 1000
# The columns whose values may be as large as a frame.
_LARGE = ("body_request", "body_response", "session_partitions", "key", "value")
# Fewer where what was made of them takes more than this together.
SIZE_MAX = 64 * 1024 * 1024


class Made(NamedTuple):
    """A row of messages that was made without its exchange, and where it belongs: its time and place in its stream."""

    ts: int
    offset: int
    row: Row


class Passed(NamedTuple):
    """Exchanges that no condition lets pass, all of them good: how many."""

    number: int


class InOrder(Generic[T]):
    """Holds what was made of outcomes, and gives it back by their times, as far as a window of outcomes allows."""

    def __init__(self, *, counts_all: bool = False) -> None:
        """`counts_all`: outcomes of which nothing was made count too, so that a rare one does not wait for long."""
        self._held: list[tuple[tuple[int, int], int, Sequence[T], int]] = []
        self._counts_all = counts_all
        self._count = 0
        self._size = 0

    def push(self, outcome: Outcome | Made, made: Sequence[T], size: int = 0) -> Sequence[T]:
        """Hold what was made of an outcome, which takes `size`; what has waited long enough comes back."""
        held = self._held
        if made or self._counts_all:
            self._count += 1
        if made:
            heappush(held, (_place_of(outcome), self._count, made, size))
            self._size += size
        is_due = len(held) > ORDER_WINDOW or (self._counts_all and held and held[0][1] <= self._count - ORDER_WINDOW)
        due = self._next() if is_due else ()
        while self._size > SIZE_MAX:
            due = [*due, *self._next()]
        return due

    def pass_over(self, count: int) -> Sequence[T]:
        """Count so many outcomes of which nothing was made; what they have been waited for comes back."""
        due: Sequence[T] = ()
        step = 0
        while self._held and self._counts_all:
            # One comes back with each outcome, when its time has come.
            step = max(step + 1, self._held[0][1] + ORDER_WINDOW - self._count)
            if step > count:
                break
            due = [*due, *self._next()]
        self._count += count if self._counts_all else 0
        return due

    def pop(self) -> Sequence[T] | None:
        """What comes next of all that is held; None when nothing is."""
        return self._next() if self._held else None

    def _next(self) -> Sequence[T]:
        _, _, made, size = heappop(self._held)
        self._size -= size
        return made


def size_of(row: Row) -> int:
    """How much the texts and bytes of a row take, as far as they may be large."""
    return sum(len(value) for name in _LARGE if isinstance(value := row.get(name), str | bytes))


def _place_of(outcome: Outcome | Made) -> tuple[int, int]:
    """When it began; requests that came in one packet have one time, but follow each other in their stream."""
    if isinstance(outcome, Made):
        return outcome.ts, outcome.offset
    if isinstance(outcome, Ended):
        return outcome.traffic.first_ts, 0
    if isinstance(outcome, Seen):
        # Packets come in the order of the file already, whatever their clock says.
        return 0, 0
    if not isinstance(outcome, Exchange):
        return outcome.ts, 0
    side = outcome.request or outcome.response
    assert side is not None
    return side.frame.ts, side.frame.offset
