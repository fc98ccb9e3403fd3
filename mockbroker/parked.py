"""Requests that wait: found again by what they wait for, and by their deadline."""

from __future__ import annotations

import heapq
from typing import Generic, TypeVar

from mockbroker.outcome import Key, Park

R = TypeVar("R")


class Waiting(Generic[R]):
    """One parked request and the words it parked with."""

    __slots__ = ("alive", "number", "park", "request")

    def __init__(self, number: int, request: R, park: Park) -> None:
        self.number = number
        self.request = request
        self.park = park
        self.alive = True


class Parked(Generic[R]):
    """All parked requests of a cluster, by key in order of arrival, and by deadline."""

    def __init__(self) -> None:
        self._by_key: dict[Key, dict[int, Waiting[R]]] = {}
        self._deadlines: list[tuple[int, int, int, Waiting[R]]] = []
        self._entries = 0
        self._number = 0
        self.count = 0

    def add(self, request: R, park: Park, *, number: int | None = None) -> Waiting[R]:
        """Let a request wait; one that parks again keeps its place in the order by its old number."""
        if number is None:
            self._number += 1
            number = self._number
        waiting = Waiting(number, request, park)
        for key in park.wakes_on:
            self._by_key.setdefault(key, {})[number] = waiting
        self._entries += 1  # A request that parks again has an entry for each time: the last number tells them apart.
        heapq.heappush(self._deadlines, (park.deadline_ms, number, self._entries, waiting))
        self.count += 1
        return waiting

    def remove(self, waiting: Waiting[R]) -> None:
        """Forget a request: it is about to be resumed, or its connection is gone."""
        if not waiting.alive:
            return
        waiting.alive = False
        self.count -= 1
        for key in waiting.park.wakes_on:
            waiters = self._by_key.get(key)
            if waiters is not None:
                waiters.pop(waiting.number, None)
                if not waiters:
                    del self._by_key[key]

    def woken_by(self, key: Key) -> list[Waiting[R]]:
        """Who waits for this key, oldest first."""
        waiters = self._by_key.get(key)
        return sorted(waiters.values(), key=lambda waiting: waiting.number) if waiters else []

    def all_keys(self) -> list[Key]:
        """Every key that somebody waits for."""
        return list(self._by_key)

    def next_deadline_ms(self) -> int | None:
        """The earliest deadline of a request that still waits, or None."""
        while self._deadlines and not self._deadlines[0][3].alive:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def due(self, *, now_ms: int) -> list[Waiting[R]]:
        """Those whose deadline has come, in order of deadline and then of arrival."""
        late = []
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            waiting = heapq.heappop(self._deadlines)[3]
            if waiting.alive:
                late.append(waiting)
        return late
