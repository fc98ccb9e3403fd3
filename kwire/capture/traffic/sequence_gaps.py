"""Classify packets that do not carry the next bytes of their side: what was sent again, out of order, or overlaps."""

from __future__ import annotations

from typing import NamedTuple

ANOMALIES = (None, "retransmission", "out_of_order", "overlap")
"""The values of the column `anomaly`, by code."""
NO_ANOMALY, RETRANSMISSION, OUT_OF_ORDER, OVERLAP = range(4)

# Gaps that are stored for each side; above it, the latest.
_GAPS_MAX = 64
# A packet that fills a gap later than one round trip was sent again; an earlier one was only overtaken. At least this
# much is taken as the round trip, also where the handshake showed a shorter one.
_ROUND_TRIP_MIN_NS = 3_000_000
# Without a SYN, so many packets of a side may come before the one that begins it.
_START_PACKETS = 16


class Gap(NamedTuple):
    """Sequence numbers that were skipped, and the time of the packet after them."""

    begin: int
    end: int
    ts: int


class SegmentRange(NamedTuple):
    """The unwrapped sequence numbers of a packet, SYN and FIN included; its time.

    high: the first number behind all packets before it. rtt: the round trip, 0 if it is not known. is_probe: whether it
    has one byte, as a keep-alive. ordinal: which packet of its side it is, from 1.
    """

    begin: int
    end: int
    ts: int
    high: int
    rtt: int
    is_probe: bool
    ordinal: int


class SequenceGaps:
    """The gaps in the sequence numbers of one side, and the lowest number; -1 for `low` where its SYN was seen."""

    __slots__ = ("gaps", "low")

    def __init__(self, low: int, gaps: list[Gap]) -> None:
        self.low = low
        self.gaps = gaps

    def classify(self, segment: SegmentRange) -> int:
        """The anomaly of a packet that does not begin at `high`, or has no bytes."""
        begin, end, high = segment.begin, segment.end, segment.high
        if begin >= high:
            if begin > high:
                self.gaps.append(Gap(high, begin, segment.ts))
                del self.gaps[:-_GAPS_MAX]
            return NO_ANOMALY
        if begin < self.low and segment.ordinal <= _START_PACKETS:
            is_new, self.low = end <= self.low, begin
            return OUT_OF_ORDER if is_new else OVERLAP
        gap = next((each for each in self.gaps if begin < each.end and each.begin < end), None)
        if gap is None:
            if end > high:
                return OVERLAP
            # A keep-alive sends the last byte again, to get an acknowledgement.
            return NO_ANOMALY if segment.is_probe and end == high else RETRANSMISSION
        self._fill(gap, begin, end)
        if not gap.begin <= begin <= end <= gap.end:
            return OVERLAP
        return RETRANSMISSION if segment.ts - gap.ts > max(segment.rtt, _ROUND_TRIP_MIN_NS) else OUT_OF_ORDER

    def _fill(self, gap: Gap, begin: int, end: int) -> None:
        index = self.gaps.index(gap)
        rest = Gap(gap.begin, begin, gap.ts), Gap(end, gap.end, gap.ts)
        self.gaps[index : index + 1] = [each for each in rest if each.begin < each.end]
