"""Acquisition locks and the one queue of their deadlines."""

from __future__ import annotations

import heapq
from itertools import count
from typing import Protocol


class LockHolder(Protocol):
    """Who is told when a lock runs out."""

    def lock_expired(self, lock: Lock, *, now_ms: int) -> int:
        """Release what the lock still covers; how many records that were."""
        ...


class Lock:
    """The time that a member has for some offsets. A cancelled lock stays in the queue until its turn comes."""

    __slots__ = ("cancelled", "deadline_ms", "expired", "first", "holder", "last")

    def __init__(self, holder: LockHolder, first: int, last: int, deadline_ms: int) -> None:
        self.holder = holder
        self.first = first
        self.last = last
        self.deadline_ms = deadline_ms
        self.cancelled = False
        self.expired = False


#: Below this many locks nothing is swept.
_SWEEP_MIN = 1024


class LockTimers:
    """Deadlines in order; locks of one deadline run out in the order in which they were started.

    Most locks are cancelled long before their time, so the queue is swept whenever it has doubled: it holds no more
    than twice the locks that run, and a sweep costs each start a constant share.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Lock]] = []
        self._sequence = count()
        self._sweep_at = _SWEEP_MIN

    def __len__(self) -> int:
        return len(self._heap)

    def start(self, holder: LockHolder, first: int, last: int, deadline_ms: int) -> Lock:
        """Start a lock that ends at `deadline_ms` of the clock that `pop` is asked with."""
        if len(self._heap) >= self._sweep_at:
            self._heap = [entry for entry in self._heap if not entry[2].cancelled]
            heapq.heapify(self._heap)
            self._sweep_at = max(_SWEEP_MIN, 2 * len(self._heap))
        lock = Lock(holder, first, last, deadline_ms)
        heapq.heappush(self._heap, (deadline_ms, next(self._sequence), lock))
        return lock

    def next_deadline_ms(self) -> int | None:
        """When the next lock runs out, or None when none is running."""
        while self._heap and self._heap[0][2].cancelled:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop(self, *, now_ms: int) -> Lock | None:
        """The next lock whose time has come, marked as expired; None when there is none."""
        deadline_ms = self.next_deadline_ms()
        if deadline_ms is None or deadline_ms > now_ms:
            return None
        lock = heapq.heappop(self._heap)[2]
        lock.expired = True
        return lock
