"""`EventRing`: the newest events with consecutive numbers, within limits of number and bytes."""

from __future__ import annotations

import threading
from typing import NamedTuple

#: The default maximum number of events.
EVENTS_MAX = 8192
#: The default maximum of what the events keep alive, bytes.
BYTES_MAX = 16 << 20


class Event:
    """What happened. kind: of `EVENT_KINDS`. at_ms: by the cluster's clock. size: of the payload, bytes, about.

    encoded: as it is sent to readers without decoded bodies, once the first of them has got it.
    """

    __slots__ = ("at_ms", "encoded", "kind", "payload", "size")

    def __init__(self, kind: str, at_ms: int, payload: object, size: int) -> None:
        self.kind = kind
        self.at_ms = at_ms
        self.payload = payload
        self.size = size
        self.encoded: bytes | None = None


class Slice(NamedTuple):
    """Events in order. first: the number of the first one. lost: how many before it are not kept any more."""

    events: tuple[Event, ...]
    first: int
    lost: int


class EventRing:
    """Keeps the newest events. One thread adds them, another reads; a reader has a position of its own.

    Readers cost nothing here: one that is slow loses the oldest events, as `Slice.lost` says.
    """

    def __init__(self, *, events_max: int = EVENTS_MAX, bytes_max: int = BYTES_MAX) -> None:
        self._slots: list[Event | None] = [None] * events_max
        self._bytes_max = bytes_max
        self._bytes = 0
        self._first = 1
        self._next = 1
        self._lock = threading.Lock()

    @property
    def last_number(self) -> int:
        """The number of the newest event, 0 before the first."""
        return self._next - 1

    def put(self, event: Event) -> None:
        """Add an event, and drop the oldest ones beyond the limits."""
        with self._lock:
            if self._next - self._first == len(self._slots):
                self._drop_first()
            self._slots[self._next % len(self._slots)] = event
            self._next += 1
            self._bytes += event.size
            while self._bytes > self._bytes_max and self._next - self._first > 1:
                self._drop_first()

    def _drop_first(self) -> None:
        index = self._first % len(self._slots)
        event = self._slots[index]
        assert event is not None
        self._slots[index] = None
        self._bytes -= event.size
        self._first += 1

    def read_after(self, number: int, *, limit: int) -> Slice:
        """The events behind this number, at most so many."""
        with self._lock:
            first = max(number + 1, self._first)
            end = min(self._next, first + limit)
            found = (self._slots[index % len(self._slots)] for index in range(first, end))
            return Slice(tuple(event for event in found if event is not None), first, first - number - 1)

    def clear(self) -> None:
        """Drop all events; the numbers go on."""
        with self._lock:
            while self._first < self._next:
                self._drop_first()
