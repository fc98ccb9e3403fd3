"""What the packets of a connection say of the network under it: retransmissions, lateness, round trip, zero windows.

Reassembly asks only which bytes are new; this room asks why a packet came. Source: RFC 9293.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from kwire.capture.values import Closed, End, Flow, Segment

_FIN, _SYN, _RST, _ACK = 0x01, 0x02, 0x04, 0x10
_MASK, _HALF = 0xFFFFFFFF, 0x80000000

RETRANSMISSION, OUT_OF_ORDER, OVERLAP = "retransmission", "out_of_order", "overlap"

# No window of TCP is larger (RFC 7323); what lies further ahead was never sent, and says nothing of what was.
_WINDOW_MAX = 1 << 30
# Holes that are remembered of each side; of more, the latest.
_HOLES_MAX = 64
# What fills a hole later than a round trip was sent again, what comes earlier was overtaken on its way; this much is
# taken for the round trip where the handshake did not show a longer one.
_OVERTAKEN_NS = 3_000_000
# Without a SYN so many packets of a side may come before the one that begins it.
_START_PACKETS = 16


class Seen(NamedTuple):
    """One TCP packet, without its payload. `flow` is None where it belongs to no connection (a stray RST or ACK)."""

    packet: int
    ts: int
    flow: Flow | None
    side: int
    link: str
    source: End
    target: End
    seq: int
    ack: int
    flags: int
    window: int
    size: int
    missing: int
    oddity: str | None


@dataclass(slots=True)
class SideCounts:
    """One direction of a connection. `size` counts payload on the wire, what was sent again included."""

    packets: int = 0
    size: int = 0
    retransmits: int = 0
    lost_size: int = 0
    zero_windows: int = 0


@dataclass(slots=True)
class Traffic:
    """What was counted of one connection."""

    flow: Flow
    first_ts: int
    last_ts: int
    first_packet: int
    last_packet: int = 0
    rtt_ns: int | None = None
    ender: int | None = None
    """The side that sent the first FIN or RST."""
    sides: tuple[SideCounts, SideCounts] = field(default_factory=lambda: (SideCounts(), SideCounts()))


class Ended(NamedTuple):
    """A connection at its end, as the level `flows` tells of it."""

    flow: Flow
    ts: int
    why: str
    traffic: Traffic


@dataclass(slots=True)
class _Hole:
    """Numbers that were passed over, and when the packet behind them came."""

    begin: int
    end: int
    ts: int


class _Sequence:
    """Which sequence numbers of one side were seen."""

    __slots__ = ("_has_syn", "_high", "_holes", "_low", "_packets")

    def __init__(self) -> None:
        self._low = self._high = -1
        self._has_syn = False
        self._packets = 0
        self._holes: list[_Hole] = []

    def take(self, segment: Segment, rtt_ns: int) -> str | None:
        """What is odd about a packet: nothing, where it brings the next bytes or none at all."""
        flags = segment.flags
        content = len(segment.payload) + segment.missing
        size = content + bool(flags & _SYN) + bool(flags & _FIN)
        if flags & _RST:
            return None
        self._packets += 1
        if self._high < 0:
            # Numbers below the first one must not become negative.
            begin = segment.seq + (1 << 32)
            self._low, self._high, self._has_syn = begin, begin + size, bool(flags & _SYN)
            return None
        begin = self._high + ((segment.seq - self._high + _HALF) & _MASK) - _HALF
        if begin > self._high + _WINDOW_MAX or (not size and begin <= self._high):
            return None
        # An empty packet shows how far its sender has come.
        return self._place(begin, begin + size, segment.ts, rtt_ns, is_probe=content == size == 1)

    def _place(self, begin: int, end: int, ts: int, rtt_ns: int, *, is_probe: bool) -> str | None:
        high = self._high
        self._high = max(high, end)
        if begin >= high:
            if begin > high:
                self._holes.append(_Hole(high, begin, ts))
                del self._holes[:-_HOLES_MAX]
            return None
        if begin < self._low and not self._has_syn and self._packets <= _START_PACKETS:
            is_new, self._low = end <= self._low, begin
            return OUT_OF_ORDER if is_new else OVERLAP
        hole = next((each for each in self._holes if begin < each.end and each.begin < end), None)
        if hole is None:
            if end > high:
                return OVERLAP
            # A keep-alive repeats the last byte, to be answered.
            return None if is_probe and end == high else RETRANSMISSION
        is_inside = hole.begin <= begin and end <= hole.end
        self._fill(hole, begin, end)
        if not is_inside:
            return OVERLAP
        return RETRANSMISSION if ts - hole.ts > max(rtt_ns, _OVERTAKEN_NS) else OUT_OF_ORDER

    def _fill(self, hole: _Hole, begin: int, end: int) -> None:
        at = self._holes.index(hole)
        rest = [_Hole(hole.begin, begin, hole.ts), _Hole(end, hole.end, hole.ts)]
        self._holes[at : at + 1] = [each for each in rest if each.begin < each.end]


class _Watched:
    """One connection while it is open."""

    __slots__ = ("_syn", "_syn_ack", "sequences", "traffic")

    def __init__(self, flow: Flow, segment: Segment) -> None:
        self.traffic = Traffic(flow, segment.ts, segment.ts, segment.packet)
        self.sequences = (_Sequence(), _Sequence())
        # Side, number and time of the latest SYN; number of the answer to it.
        self._syn: tuple[int, int, int] | None = None
        self._syn_ack: int | None = None

    def take(self, side: int, segment: Segment) -> str | None:
        """Count a packet; what is odd about it."""
        traffic = self.traffic
        traffic.first_ts, traffic.last_ts = min(traffic.first_ts, segment.ts), max(traffic.last_ts, segment.ts)
        traffic.last_packet = segment.packet
        counts = traffic.sides[side]
        counts.packets += 1
        counts.size += len(segment.payload) + segment.missing
        # A reset tells no window, whatever its field says.
        counts.zero_windows += not segment.window and not segment.flags & _RST
        if traffic.ender is None and segment.flags & (_FIN | _RST):
            traffic.ender = side
        self._time(side, segment)
        oddity = self.sequences[side].take(segment, traffic.rtt_ns or 0)
        counts.retransmits += oddity in {RETRANSMISSION, OVERLAP}
        return oddity

    def _time(self, side: int, segment: Segment) -> None:
        """The round trip of the handshake: from the SYN to its sender's acknowledgement, wherever the capture sat."""
        flags = segment.flags
        if flags & _SYN:
            if not flags & _ACK:
                self._syn, self._syn_ack = (side, segment.seq, segment.ts), None
            elif self._syn is not None and side != self._syn[0] and segment.ack == self._syn[1] + 1 & _MASK:
                self._syn_ack = segment.seq
        elif self._syn is not None and self._syn_ack is not None and side == self._syn[0]:
            # Any other than the first may have been sent much later.
            span = segment.ts - self._syn[2]
            if span >= 0 and flags & _ACK and segment.ack == self._syn_ack + 1 & _MASK:
                self.traffic.rtt_ns = span
            self._syn = self._syn_ack = None


class Watch:
    """All connections that are open. Reassembly tells it which connection a segment belongs to."""

    def __init__(self) -> None:
        """Nothing was seen yet."""
        self._open: dict[Flow, _Watched] = {}

    def take(self, flow: Flow | None, side: int, segment: Segment) -> str | None:
        """One segment, and the connection and side that it belongs to; what is odd about it."""
        if flow is None:
            return None
        watched = self._open.get(flow)
        if watched is None:
            watched = self._open[flow] = _Watched(flow, segment)
        return watched.take(side, segment)

    def lost(self, flow: Flow, side: int, size: int) -> None:
        """So many bytes of a side were not captured."""
        self._open[flow].traffic.sides[side].lost_size += size

    def ended(self, closed: Closed) -> Ended:
        """What was counted of a connection."""
        return Ended(closed.flow, closed.ts, closed.why, self._open.pop(closed.flow).traffic)
