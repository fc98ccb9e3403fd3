"""TCP analysis: retransmissions, packets out of order, round-trip time, zero windows, and totals of each connection.

Reassembly only finds which bytes are new; the analysis classifies every packet. Source: RFC 9293.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from kwire.capture.model import Endpoint, Flow, FlowClosed, Segment
from kwire.capture.tcp.flags import ACK, FIN, RST, SYN
from kwire.capture.tcp.sequence_numbers import SEQ_MASK, SEQ_MODULUS, unwrap_seq

RETRANSMISSION, OUT_OF_ORDER, OVERLAP = "retransmission", "out_of_order", "overlap"

# No TCP window is larger (RFC 7323); a number further ahead is invalid, and is not used.
_WINDOW_MAX = 1 << 30
# Gaps that are stored for each side; above it, the latest.
_GAPS_MAX = 64
# A packet that fills a gap later than one round trip was sent again; an earlier one was only overtaken. At least this
# much is taken as the round trip, also where the handshake showed a shorter one.
_ROUND_TRIP_MIN_NS = 3_000_000
# Without a SYN, so many packets of a side may come before the one that begins it.
_START_PACKETS = 16


class PacketSummary(NamedTuple):
    """One TCP packet without its payload. `flow` is None if it belongs to no connection (a stray RST or ACK)."""

    packet: int
    ts: int
    flow: Flow | None
    side: int
    link: str
    source: Endpoint
    target: Endpoint
    seq: int
    ack: int
    flags: int
    window: int
    size: int
    missing: int
    anomaly: str | None


@dataclass(slots=True)
class DirectionStatistics:
    """Totals of one direction of a connection. `size` counts payload on the wire, retransmissions included."""

    packets: int = 0
    size: int = 0
    retransmits: int = 0
    lost_size: int = 0
    zero_windows: int = 0


@dataclass(slots=True)
class FlowStatistics:
    """Totals of one connection."""

    flow: Flow
    first_ts: int
    last_ts: int
    first_packet: int
    last_packet: int = 0
    rtt_ns: int | None = None
    closing_side: int | None = None
    """The side that sent the first FIN or RST."""
    sides: tuple[DirectionStatistics, DirectionStatistics] = field(
        default_factory=lambda: (DirectionStatistics(), DirectionStatistics())
    )


class FlowSummary(NamedTuple):
    """A connection that has ended, as the level `flows` shows it."""

    flow: Flow
    ts: int
    reason: str
    statistics: FlowStatistics


@dataclass(slots=True)
class _Gap:
    """Sequence numbers that were skipped, and the time of the packet after them."""

    begin: int
    end: int
    ts: int


class _SequenceTracker:
    """The sequence numbers that one side has sent."""

    __slots__ = ("_gaps", "_has_syn", "_high", "_low", "_packets")

    def __init__(self) -> None:
        self._low = self._high = -1
        self._has_syn = False
        self._packets = 0
        self._gaps: list[_Gap] = []

    def classify_segment(self, segment: Segment, rtt_ns: int) -> str | None:
        """The anomaly of a packet; None if it carries the next bytes, or no bytes."""
        flags = segment.flags
        content = len(segment.payload) + segment.missing
        size = content + bool(flags & SYN) + bool(flags & FIN)
        if flags & RST:
            return None
        self._packets += 1
        if self._high < 0:
            # Numbers below the first one must not become negative.
            begin = segment.seq + SEQ_MODULUS
            self._low, self._high, self._has_syn = begin, begin + size, bool(flags & SYN)
            return None
        high = self._high
        # Most packets carry the next bytes.
        begin = high if segment.seq == high & SEQ_MASK else unwrap_seq(segment.seq, high)
        if begin > high + _WINDOW_MAX or (not size and begin <= high):
            return None
        # An empty packet too shows how far its sender has sent.
        return self._classify_range(begin, begin + size, segment.ts, rtt_ns, is_probe=content == size == 1)

    def _classify_range(self, begin: int, end: int, ts: int, rtt_ns: int, *, is_probe: bool) -> str | None:
        high = self._high
        self._high = max(high, end)
        if begin >= high:
            if begin > high:
                self._gaps.append(_Gap(high, begin, ts))
                del self._gaps[:-_GAPS_MAX]
            return None
        if begin < self._low and not self._has_syn and self._packets <= _START_PACKETS:
            is_new, self._low = end <= self._low, begin
            return OUT_OF_ORDER if is_new else OVERLAP
        gap = next((each for each in self._gaps if begin < each.end and each.begin < end), None)
        if gap is None:
            if end > high:
                return OVERLAP
            # A keep-alive sends the last byte again, to get an acknowledgement.
            return None if is_probe and end == high else RETRANSMISSION
        is_inside = gap.begin <= begin and end <= gap.end
        self._fill_gap(gap, begin, end)
        if not is_inside:
            return OVERLAP
        return RETRANSMISSION if ts - gap.ts > max(rtt_ns, _ROUND_TRIP_MIN_NS) else OUT_OF_ORDER

    def _fill_gap(self, gap: _Gap, begin: int, end: int) -> None:
        index = self._gaps.index(gap)
        rest = [_Gap(gap.begin, begin, gap.ts), _Gap(end, gap.end, gap.ts)]
        self._gaps[index : index + 1] = [each for each in rest if each.begin < each.end]


class _FlowAnalysis:
    """The analysis of one open connection."""

    __slots__ = ("_syn", "_syn_ack", "sequences", "statistics")

    def __init__(self, flow: Flow, segment: Segment) -> None:
        self.statistics = FlowStatistics(flow, segment.ts, segment.ts, segment.packet)
        self.sequences = (_SequenceTracker(), _SequenceTracker())
        # Side, number and time of the latest SYN; number of the SYN-ACK that answers it.
        self._syn: tuple[int, int, int] | None = None
        self._syn_ack: int | None = None

    def analyze_segment(self, side: int, segment: Segment) -> str | None:
        """Count a packet; return its anomaly."""
        statistics = self.statistics
        statistics.first_ts = min(statistics.first_ts, segment.ts)
        statistics.last_ts = max(statistics.last_ts, segment.ts)
        statistics.last_packet = segment.packet
        counts = statistics.sides[side]
        counts.packets += 1
        counts.size += len(segment.payload) + segment.missing
        # The window field of a reset has no meaning.
        counts.zero_windows += not segment.window and not segment.flags & RST
        if statistics.closing_side is None and segment.flags & (FIN | RST):
            statistics.closing_side = side
        self._measure_round_trip(side, segment)
        anomaly = self.sequences[side].classify_segment(segment, statistics.rtt_ns or 0)
        counts.retransmits += anomaly in {RETRANSMISSION, OVERLAP}
        return anomaly

    def _measure_round_trip(self, side: int, segment: Segment) -> None:
        """Measure the handshake from the SYN to its sender's acknowledgement; this holds at any point of capture."""
        flags = segment.flags
        if flags & SYN:
            if not flags & ACK:
                self._syn, self._syn_ack = (side, segment.seq, segment.ts), None
            elif self._syn is not None and side != self._syn[0] and segment.ack == self._syn[1] + 1 & SEQ_MASK:
                self._syn_ack = segment.seq
        elif self._syn is not None and self._syn_ack is not None and side == self._syn[0]:
            # Only the first packet counts: a later one may have been sent much later.
            span = segment.ts - self._syn[2]
            if span >= 0 and flags & ACK and segment.ack == self._syn_ack + 1 & SEQ_MASK:
                self.statistics.rtt_ns = span
            self._syn = self._syn_ack = None


class TcpAnalyzer:
    """The analysis of all open connections. Reassembly supplies the connection of each segment."""

    def __init__(self) -> None:
        """No connection is open."""
        self._open: dict[Flow, _FlowAnalysis] = {}

    def analyze_segment(self, flow: Flow | None, side: int, segment: Segment) -> str | None:
        """Count a segment of a connection and side; return its anomaly."""
        if flow is None:
            return None
        analysis = self._open.get(flow)
        if analysis is None:
            analysis = self._open[flow] = _FlowAnalysis(flow, segment)
        return analysis.analyze_segment(side, segment)

    def count_lost_bytes(self, flow: Flow, side: int, size: int) -> None:
        """Count bytes of a side that were not captured."""
        self._open[flow].statistics.sides[side].lost_size += size

    def summarize_flow(self, closed: FlowClosed) -> FlowSummary:
        """Return the totals of a connection that has ended, and remove it."""
        return FlowSummary(closed.flow, closed.ts, closed.reason, self._open.pop(closed.flow).statistics)
