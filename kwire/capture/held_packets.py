"""The packets of one side of a connection, held until nobody can ask for them any more.

A packet stays while a frame that it carries waits for its other half, and for a moment longer, since it may come again.
Each packet is looked at when that moment is over and when a frame that it carries is done with: so the work grows with
the packets alone, however many frames wait.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kwire.capture.values import Packet

# By how much packets may be out of order before nobody asks for them any more; where clocks stand still, by how many.
_DISORDER_NS = 150_000_000
_DISORDER_MAX = 1000
_MASK, _HALF = 0xFFFFFFFF, 0x80000000
# Fewer that are gone are not worth the copying.
_GONE_MIN = 64


@dataclass(slots=True, eq=False)
class Held:
    """A packet, the place of its payload in the stream, and what is to be said of it.

    at: counted on where sequence numbers begin anew.
    """

    packet: Packet
    arrival: int
    seq: int
    size: int
    at: int = 0
    comments: list[str] = field(default_factory=list)
    side: Side | None = None
    is_chosen: bool = False
    is_gone: bool = False


class Side:
    """What is held of one side, by its place in the stream, and the frames that wait for their other half."""

    def __init__(self, forget: Callable[[Held], None]) -> None:
        """`forget` is given what nobody can ask for any more."""
        self._forget = forget
        self._held: list[Held] = []
        self._recent: deque[Held] = deque()
        self._gone = 0
        self._size_max = 0
        self._last = 0
        # Where the first byte of the stream lies, by its sequence number; and up to where frames are done with.
        self._base: tuple[int, int] | None = None
        self._done = -(2**63)
        # Frames do not overlap, and come in their order.
        self._open: dict[int, int] = {}
        self._begins: list[int] = []

    def hold(self, held: Held) -> None:
        """Keep a packet with payload."""
        if not self._held and not self._recent:
            self._last = held.seq
        held.at = self._last = self._last + _signed(held.seq - self._last)
        self._size_max = max(self._size_max, held.size)
        held.side = self
        insort(self._held, held, key=_place)
        while self._recent and self._recent[0].is_gone:
            self._recent.popleft()
        self._recent.append(held)

    def open(self, start: int, offset: int, size: int) -> None:
        """A frame waits. Args: start: the sequence number from which offsets count."""
        begin = self._place(start, offset)
        if begin not in self._open:
            insort(self._begins, begin)
        self._open[begin] = begin + size

    def release(self, start: int, offset: int, size: int, *, now: int, arrivals: int) -> None:
        """A frame is done with. Args: now: its time; arrivals: how many packets have come."""
        begin = self._place(start, offset)
        end = begin + size
        if self._open.pop(begin, None) is not None:
            del self._begins[bisect_left(self._begins, begin)]
        # What lies between frames is done with, too.
        first, self._done = min(begin, self._done) if end > self._done else begin, max(self._done, end)
        for held in list(self._between(first, end)):
            if not self._is_recent(held, now, arrivals):
                self._look(held)
        while self._recent and not self._is_recent(self._recent[0], now, arrivals):
            self._look(self._recent.popleft())

    def carrying(self, start: int, offset: int, size: int) -> list[tuple[int, Held]]:
        """The packets that have a part of a stretch, in their order in the stream: how far behind its begin each is."""
        begin = self._place(start, offset)
        return [(held.at - begin, held) for held in self._between(begin, begin + size)]

    def close(self) -> None:
        """Let go of all."""
        for held in [each for each in self._held if not each.is_gone]:
            self._forget(held)
        self._held.clear()
        self._recent.clear()
        self._open.clear()
        self._begins.clear()

    def gone(self, held: Held) -> None:
        """A packet is held no more."""
        held.is_gone = True
        self._gone += 1
        if self._gone > max(len(self._held) // 2, _GONE_MIN):
            self._held = [each for each in self._held if not each.is_gone]
            self._gone = 0

    def _look(self, held: Held) -> None:
        """Let go of a packet, if nothing waits for it."""
        if held.is_gone or held.at + held.size > self._done:
            return
        # Of the frames that begin before its end, the last one reaches furthest.
        before = bisect_left(self._begins, held.at + held.size)
        if not before or self._open[self._begins[before - 1]] <= held.at:
            self._forget(held)

    def _between(self, begin: int, end: int) -> Iterator[Held]:
        held = self._held
        index = bisect_left(held, begin - self._size_max, key=_place)
        while index < len(held) and held[index].at < end:
            each = held[index]
            index += 1
            if not each.is_gone and each.at + each.size > begin:
                yield each

    def _place(self, start: int, offset: int) -> int:
        if self._base is None or self._base[0] != start:
            self._base = start, self._last + _signed(start + offset - self._last) - offset
        return self._base[1] + offset

    @staticmethod
    def _is_recent(held: Held, now: int, arrivals: int) -> bool:
        return held.packet.ts > now - _DISORDER_NS and arrivals - held.arrival < _DISORDER_MAX


def _place(held: Held) -> int:
    return held.at


def _signed(distance: int) -> int:
    """How far one sequence number lies behind another, or before it."""
    return ((distance + _HALF) & _MASK) - _HALF
