"""The beginning of one flow whose SYN was not captured, read by the generators until both of its sides are in step.

Only they know where its first frames are, and who the client is. From then on nothing is hard any more: the next frames
follow those that are known, so the columns take over.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from kwire.capture.exchange import Exchange, Exchanges, Standing
from kwire.capture.options import Options
from kwire.capture.reassembly import Connections
from kwire.capture.talks import Talks
from kwire.capture.values import Data, End, Flow, Frame, FrameEvent, Lost, Segment, StreamEvent

if TYPE_CHECKING:
    from kwire.capture.bodies import Request
    from kwire.capture.framing import Assembler
    from kwire.capture.halves import Half

# The generators look only at which end is the smaller one.
ENDS: tuple[End, End] = (b"\x00", 0), (b"\x00", 1)
# Whether a Produce request gets an answer is in its body; no other body matters here.
_OPTIONS = Options(sessions=False, decoded=frozenset({"ProduceRequest"}))
# What tells who a client is; its place among rows that come all at once would matter.
TELLING = (17, 18, 36)
_SYN = 0x02
_WRAP = 1 << 32
# So many packets, payload bytes or waiting requests are looked at; flows that need more are left to the generators.
PACKETS_MAX = 2048
SIZE_MAX = 2 * 1024 * 1024
_WAITING_MAX = 1000


class Stretch(NamedTuple):
    """New bytes that one packet brought: their place in the stream and in the file.

    arrival: which packet of the flow it was. done: the packet with which everything up to its end was there.
    """

    offset: int
    size: int
    at: int
    ts: int
    number: int
    arrival: int
    done: int


class Side(NamedTuple):
    """How a side stands: sequence numbers, unwrapped, of its first byte, of the next one, and of what was acknowledged.

    frame_at: where the next frame begins, or that of which only a part has come; `left` has that part.
    """

    start: int
    next: int
    frame_at: int
    acked: int
    left: list[Stretch]


class Beginning:
    """Takes the packets of one flow until it `is_in_step` or `has_failed`."""

    def __init__(self) -> None:
        """Nothing has come."""
        self._connections = Connections()
        self._talks = Talks(_OPTIONS)
        self._pairing = Exchanges(_OPTIONS)
        self._flow: Flow | None = None
        self._packets: dict[int, tuple[int, int, int]] = {}
        self._stretches: tuple[list[Stretch], list[Stretch]] = ([], [])
        self._has_pair = False
        self.size = 0
        self.has_failed = False
        self.frames: list[tuple[Frame, int]] = []
        """All frames, each with the number of the packet with which it was known; so with what follows."""
        self.exchanges: list[tuple[Exchange, int]] = []
        self.lost: list[tuple[Lost, int]] = []

    @property
    def flow(self) -> Flow:
        """The connection, once it has data."""
        assert self._flow is not None
        return self._flow

    @property
    def is_undecided(self) -> bool:
        """Whether nobody knows yet who the client is."""
        return self._flow is None or self._flow.client is None

    def take(self, segment: Segment, at: int, arrival: int) -> None:
        """One more packet. Args: at: where its payload begins in the file. arrival: which packet of the flow it is."""
        self._packets[segment.packet] = at, segment.seq, arrival
        self.size += len(segment.payload)
        is_much = len(self._packets) > PACKETS_MAX or self.size > SIZE_MAX
        self.has_failed |= bool(segment.flags & _SYN) or segment.missing > 0 or is_much
        for event in self._connections.take(segment):
            if self.has_failed:
                break
            self._read(event, segment.packet)

    def standing(self) -> tuple[tuple[Side, Side], Standing] | None:
        """How both sides and the pairing stand, where both sides are in step; None before."""
        if self._flow is None or not self._has_pair or self.has_failed:
            return None
        halves = self._connections.halves(ENDS)
        cutters = self._talks.sides(self._flow)
        standing = self._pairing.standing(self._flow)
        if halves is None or standing is None or not self._is_simple(standing):
            return None
        sides = [self._side(half, cutter) for half, cutter in zip(halves, cutters, strict=True)]
        return None if sides[0] is None or sides[1] is None else ((sides[0], sides[1]), standing)

    def stretches(self, frame: Frame) -> list[tuple[int, int]]:
        """Where the body of a frame lies in the file: offset and size of each piece."""
        side = self.flow.client_side if frame.is_request else 1 - self.flow.client_side
        held = self._stretches[side]
        at, end = frame.offset + 4, frame.offset + 4 + frame.size
        index = bisect_right(held, at, key=_offset_of) - 1
        out = []
        while at < end:
            stretch = held[index]
            skip = at - stretch.offset
            size = min(stretch.size - skip, end - at)
            out.append((stretch.at + skip, size))
            at, index = at + size, index + 1
        return out

    def _read(self, event: StreamEvent, number: int) -> None:
        if not isinstance(event, Data):
            self.has_failed = True
            return
        self._flow = event.flow
        at, seq, arrival = self._packets[event.packet]
        skip = (event.flow.starts[event.side] + event.offset - seq) % _WRAP
        new = Stretch(event.offset, len(event.payload), at + skip, event.ts, event.packet, arrival, number)
        self._stretches[event.side].append(new)
        for each in self._talks.take(event):
            self._take(each, number)
        self.has_failed |= event.flow.kind not in {None, "kafka"}

    def _take(self, found: FrameEvent, number: int) -> None:
        if isinstance(found, Lost):
            self.lost.append((found, number))
        elif isinstance(found, Frame) and found.damage is None:
            self.frames.append((found, number))
            for exchange in self._pairing.take(found):
                self.exchanges.append((exchange, number))
                self._judge(exchange)
        else:
            self.has_failed = True

    def _judge(self, exchange: Exchange) -> None:
        """Whether it is one that columns can tell of."""
        request = exchange.request
        if (
            request is None
            or request.is_token
            or request.api_key in TELLING
            or any(issue.kind == "duplicate_correlation" for issue in request.issues)
        ):
            self.has_failed = True
        elif exchange.response is not None:
            # The broker answers in turn: so what it was asked before the capture began is answered, too.
            self._has_pair = True

    def _is_simple(self, standing: Standing) -> bool:
        ids = {request.correlation_id for request in standing.requests}
        is_known = not any(request.api_key in TELLING for request in standing.requests)
        return is_known and len(ids) == len(standing.requests) < _WAITING_MAX

    def _side(self, half: Half, cutter: Assembler | None) -> Side | None:
        """How a side stands; None where it waits for something."""
        if half.start is None or half.is_waiting or half.fin is not None or cutter is None or not cutter.is_in_step:
            return None
        open_at = cutter.open_at
        # A start below zero says that nothing is known, elsewhere.
        start = half.start if half.start >= 0 else half.start + _WRAP
        moved = start - half.start
        left: list[Stretch] = []
        if open_at is not None:
            held = self._stretches[half.side]
            for stretch in held[bisect_right(held, open_at, key=_offset_of) - 1 :]:
                skip = max(open_at - stretch.offset, 0)
                left.append(
                    stretch._replace(offset=stretch.offset + skip, size=stretch.size - skip, at=stretch.at + skip)
                )
        frame_at = half.next + moved if open_at is None else start + open_at
        return Side(start, half.next + moved, frame_at, half.acked + moved, left)


def _is_double(request: Request) -> bool:
    return any(issue.kind == "duplicate_correlation" for issue in request.issues)


def _offset_of(stretch: Stretch) -> int:
    return stretch.offset
