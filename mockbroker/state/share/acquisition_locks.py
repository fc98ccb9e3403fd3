"""Acquisition locks and the queue of their deadlines."""

from __future__ import annotations

import heapq
from itertools import count
from typing import Protocol

from mockbroker.state.timers import EarliestDeadline


class LockedPartition(Protocol):
    """The share partition whose records a lock covers."""

    def release_expired_lock(self, lock: AcquisitionLock, *, now_ms: int) -> int:
        """Release what the lock still covers. Returns: the number of records."""


class AcquisitionLock:
    """The time for which a member holds some offsets. A cancelled lock stays in the queue until its deadline."""

    __slots__ = ("cancelled", "deadline_ms", "expired", "first", "last", "partition")

    def __init__(self, partition: LockedPartition, first: int, last: int, deadline_ms: int) -> None:
        self.partition = partition
        self.first = first
        self.last = last
        self.deadline_ms = deadline_ms
        self.cancelled = False
        self.expired = False


#: The queue is never swept below this number of locks.
_MIN_SWEEP_SIZE = 1024


class AcquisitionLocks:
    """Locks by deadline; locks of one deadline expire in the order in which they were started.

    Most locks are cancelled long before their deadline, so the queue is swept whenever it has doubled: it holds at most
    twice the running locks, and the sweeps cost each start a constant share. earliest: of the cluster.
    """

    def __init__(self, earliest: EarliestDeadline | None = None) -> None:
        self._earliest = EarliestDeadline() if earliest is None else earliest
        self._heap: list[tuple[int, int, AcquisitionLock]] = []
        self._sequence = count()
        self._sweep_size = _MIN_SWEEP_SIZE

    def __len__(self) -> int:
        return len(self._heap)

    def start_lock(self, partition: LockedPartition, first: int, last: int, deadline_ms: int) -> AcquisitionLock:
        """Start a lock that ends at `deadline_ms` of the clock that `pop_expired` receives."""
        if len(self._heap) >= self._sweep_size:
            self._heap = [entry for entry in self._heap if not entry[2].cancelled]
            heapq.heapify(self._heap)
            self._sweep_size = max(_MIN_SWEEP_SIZE, 2 * len(self._heap))
        lock = AcquisitionLock(partition, first, last, deadline_ms)
        heapq.heappush(self._heap, (deadline_ms, next(self._sequence), lock))
        self._earliest.ms = min(self._earliest.ms, deadline_ms)
        return lock

    def take_locks(self, partition: LockedPartition) -> list[AcquisitionLock]:
        """Remove the running locks of a partition before their deadlines, which are marked as expired, in order."""
        taken = [entry for entry in self._heap if entry[2].partition is partition and not entry[2].cancelled]
        if taken:
            removed = {entry[1] for entry in taken}
            self._heap = [entry for entry in self._heap if entry[1] not in removed]
            heapq.heapify(self._heap)
        for entry in taken:
            entry[2].expired = True
        return [lock for _, _, lock in sorted(taken, key=lambda entry: entry[:2])]

    def next_deadline_ms(self) -> int | None:
        """The deadline of the next running lock, or None."""
        while self._heap and self._heap[0][2].cancelled:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop_expired(self, *, now_ms: int) -> AcquisitionLock | None:
        """The next lock whose deadline is reached, marked as expired; None when there is none."""
        while self._heap and self._heap[0][0] <= now_ms:
            lock = heapq.heappop(self._heap)[2]
            if not lock.cancelled:
                lock.expired = True
                return lock
        return None
