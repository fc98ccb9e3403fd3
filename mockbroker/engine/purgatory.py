"""The purgatory: parked requests, found by the keys that they wait for and by their deadlines."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING, Generic, TypeVar

from mockbroker.state.timers import EarliestDeadline

if TYPE_CHECKING:
    from mockbroker.cluster_services.cluster_services import WakeKey
    from mockbroker.engine.outcome import Park

R = TypeVar("R")

#: The queue of deadlines is never swept below this number of entries.
_MIN_SWEEP_SIZE = 1024


class DelayedRequest(Generic[R]):
    """One parked request and the `Park` that its handler returned."""

    __slots__ = ("is_waiting", "number", "park", "request")

    def __init__(self, number: int, request: R, park: Park) -> None:
        self.number = number
        self.request = request
        self.park = park
        self.is_waiting = True


class Purgatory(Generic[R]):
    """All parked requests of a cluster, by key in order of arrival, and by deadline. earliest: of the cluster."""

    def __init__(self, earliest: EarliestDeadline | None = None) -> None:
        self._earliest = EarliestDeadline() if earliest is None else earliest
        self._by_key: dict[WakeKey, dict[int, DelayedRequest[R]]] = {}
        self._deadlines: list[tuple[int, int, int, DelayedRequest[R]]] = []
        self._entry_count = 0
        self._last_number = 0
        self._sweep_size = _MIN_SWEEP_SIZE
        self.count = 0

    def add(self, request: R, park: Park, *, number: int | None = None) -> DelayedRequest[R]:
        """Add a request; one that parks again keeps its place in the order by its old number."""
        if number is None:
            self._last_number += 1
            number = self._last_number
        delayed = DelayedRequest(number, request, park)
        for key in park.wakes_on:
            self._by_key.setdefault(key, {})[number] = delayed
        # A request that parks again has one heap entry for each time it parked; the entry count keeps them distinct.
        self._entry_count += 1
        if len(self._deadlines) >= self._sweep_size:
            self._sweep_deadlines()
        heapq.heappush(self._deadlines, (park.deadline_ms, number, self._entry_count, delayed))
        self._earliest.ms = min(self._earliest.ms, park.deadline_ms)
        self.count += 1
        return delayed

    def _sweep_deadlines(self) -> None:
        """Drop the entries of requests that wait no longer: most are answered long before their deadline."""
        self._deadlines = [entry for entry in self._deadlines if entry[3].is_waiting]
        heapq.heapify(self._deadlines)
        self._sweep_size = max(_MIN_SWEEP_SIZE, 2 * len(self._deadlines))

    def remove(self, delayed: DelayedRequest[R]) -> None:
        """Remove a request: it is about to be resumed, or its connection is closed."""
        if not delayed.is_waiting:
            return
        delayed.is_waiting = False
        self.count -= 1
        for key in delayed.park.wakes_on:
            requests = self._by_key.get(key)
            if requests is not None:
                requests.pop(delayed.number, None)
                if not requests:
                    del self._by_key[key]

    def requests_waiting_for(self, key: WakeKey) -> list[DelayedRequest[R]]:
        """The requests that wait for this key, oldest first."""
        requests = self._by_key.get(key)
        if not requests:
            return []
        if len(requests) == 1:
            return list(requests.values())
        return sorted(requests.values(), key=lambda delayed: delayed.number)

    def all_keys(self) -> list[WakeKey]:
        """Every key that a request waits for."""
        return list(self._by_key)

    def next_deadline_ms(self) -> int | None:
        """The earliest deadline of a request that still waits, or None."""
        while self._deadlines and not self._deadlines[0][3].is_waiting:
            heapq.heappop(self._deadlines)
        return self._deadlines[0][0] if self._deadlines else None

    def next_answer_ms(self) -> int | None:
        """The earliest deadline at which a client gets its answer, or None; it takes time for each request."""
        waiting = (delayed for _, _, _, delayed in self._deadlines if delayed.is_waiting)
        return min((delayed.park.deadline_ms for delayed in waiting if not delayed.park.is_recheck), default=None)

    def take_due(self, *, now_ms: int) -> list[DelayedRequest[R]]:
        """The requests whose deadline has passed, in order of deadline and then of arrival."""
        due_requests = []
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            delayed = heapq.heappop(self._deadlines)[3]
            if delayed.is_waiting:
                due_requests.append(delayed)
        return due_requests
