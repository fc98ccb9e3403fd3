"""Find the packets of a span that do not carry the next bytes of their side, and their anomalies.

The unwrapped number of each packet follows from its distance to the packet before it, and what its side has sent until
then is a running maximum. Where a packet begins at that, or is an acknowledgement without bytes, nothing else is
computed. `SequenceGaps` classifies the others one by one. Where a number lies so far ahead that it is not valid, the
packets of its side from there to the end of the span are read one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from kwire.capture.index.arrays import Bools, Ints, find_groups
from kwire.capture.tcp.flags import FIN, SYN
from kwire.capture.tcp.sequence_numbers import SEQ_MASK, SEQ_MODULUS, seq_distance, unwrap_seq
from kwire.capture.traffic.connection_states import ConnectionStates
from kwire.capture.traffic.sequence_gaps import NO_ANOMALY, Gap, SegmentRange, SequenceGaps

# No TCP window is larger (RFC 7323); a number further ahead is invalid, and is not used.
_WINDOW_MAX = 1 << 30
# Added for each side in running maxima, so that none reaches into the next side: far above the numbers of a span.
_SIDE_DISTANCE = 1 << 40
_ADVANCE_MAX = 1 << 39

FindRoundTrip = Callable[[int, int], int]
"""The round trip of a connection, by its row, as it is known at a packet of the span, by its index; 0 if unknown."""


class SidePackets(NamedTuple):
    """The packets of a span by side: twice the row of the connection, plus the side; those of a side in packet order.

    packet: its index in the span. content: its payload on the wire.
    """

    side: Ints
    packet: Ints
    ts: Ints
    seq: Ints
    flags: Ints
    content: Ints

    def select(self, chosen: Ints | Bools) -> SidePackets:
        """The rows with these indexes."""
        return SidePackets(*(column[chosen] for column in self))


class _Ranges(NamedTuple):
    """The unwrapped numbers of packets: of the first byte; behind the last one; behind all packets of the side before.

    is_valid: whether they follow from the packets before.
    """

    begin: Ints
    end: Ints
    high: Ints
    is_valid: Bools


def find_anomalies(
    states: ConnectionStates, gaps: dict[int, list[Gap]], packets: SidePackets, find_round_trip: FindRoundTrip
) -> tuple[Ints, Ints]:
    """Classify the packets of a span; change the states.

    Args: gaps: by side, those that are open; changed. packets: those without RST.
    Returns: the indexes of the packets with an anomaly, and its codes.
    """
    side = packets.side
    if not len(side):
        return side, side
    firsts = find_groups(side)
    counts = np.diff(np.append(firsts, len(side)))
    low, high, counted = (column.reshape(-1) for column in (states.low, states.high, states.counted))
    size = packets.content + (packets.flags & SYN > 0) + (packets.flags & FIN > 0)
    is_new = high[side[firsts]] < 0
    ranges = _unwrap(packets, size, firsts, high[side[firsts]])
    is_regular = (ranges.begin == ranges.high) | ((size == 0) & (ranges.begin <= ranges.high))
    is_regular[firsts[is_new]] = True
    is_regular &= ranges.is_valid
    new = firsts[is_new]
    low[side[new]] = np.where(packets.flags[new] & SYN, -1, ranges.begin[new])
    last = firsts + counts - 1
    high[side[firsts]] = np.maximum(ranges.high[last], ranges.end[last])
    walk = _Walk(states, gaps, find_round_trip)
    irregular = np.nonzero(~is_regular)[0]
    group = np.searchsorted(firsts, irregular, "right") - 1
    place = irregular - firsts[group] + counted[side[irregular]]
    for first, stop in _runs(group):
        rows = irregular[first:stop]
        valid = int(np.count_nonzero(ranges.is_valid[rows]))
        walk.classify_ranges(packets, ranges, rows[:valid], place[first:stop])
        if valid < len(rows):
            walk.classify_rest(packets, rows[valid:], size, (int(ranges.high[rows[valid]]), int(place[first + valid])))
    counted[side[firsts]] += counts
    found = np.array(walk.found, dtype=np.int64).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def _runs(group: Ints) -> list[tuple[int, int]]:
    """The first row and the one behind the last of each group."""
    firsts = find_groups(group).tolist()
    return list(zip(firsts, [*firsts[1:], len(group)], strict=False))


def _unwrap(packets: SidePackets, size: Ints, firsts: Ints, high: Ints) -> _Ranges:
    """The ranges of packets. Args: firsts: the first row of each side. high: of these before the span, -1 for none."""
    counts = np.diff(np.append(firsts, len(packets.side)))
    seq, is_new = packets.seq, high < 0
    # Numbers below the first one must not become negative.
    base = np.where(is_new, seq[firsts] + SEQ_MODULUS, high)
    step = np.empty(len(seq), dtype=np.int64)
    step[1:] = seq_distance(seq[1:], seq[:-1])
    step[firsts] = seq_distance(seq[firsts], base)
    distance = np.cumsum(step)
    distance -= np.repeat(distance[firsts] - step[firsts], counts)
    end = distance + size
    group = np.repeat(np.arange(len(firsts)) * _SIDE_DISTANCE, counts)
    reached = np.maximum.accumulate(np.clip(end, -_ADVANCE_MAX, _ADVANCE_MAX) + group) - group
    before = np.empty(len(seq), dtype=np.int64)
    before[1:] = np.maximum(reached[:-1], 0)
    before[firsts] = 0
    ahead = distance - before
    is_invalid = (ahead > _WINDOW_MAX) | (ahead < -_WINDOW_MAX) | (np.abs(distance) >= _ADVANCE_MAX)
    invalid_count = np.cumsum(is_invalid)
    is_valid = invalid_count == np.repeat(invalid_count[firsts] - is_invalid[firsts], counts)
    base = np.repeat(base, counts)
    return _Ranges(base + distance, base + end, base + before, is_valid)


class _Walk:
    """Classifies packets one by one. found: the packets with an anomaly, and its code."""

    def __init__(self, states: ConnectionStates, gaps: dict[int, list[Gap]], find_round_trip: FindRoundTrip) -> None:
        self._low, self._high = states.low.reshape(-1), states.high.reshape(-1)
        self._gaps = gaps
        self._find_round_trip = find_round_trip
        self.found: list[tuple[int, int]] = []

    def classify_ranges(self, packets: SidePackets, ranges: _Ranges, rows: Ints, places: Ints) -> None:
        """Classify packets of one side. Args: rows: of those that are not regular. places: how many came before."""
        columns = rows.tolist(), places[: len(rows)].tolist()
        begins, ends, highs = (column[rows].tolist() for column in ranges[:3])
        for row, place, begin, end, high in zip(*columns, begins, ends, highs, strict=True):
            self._classify(packets, row, (begin, end, high), place + 1)

    def classify_rest(self, packets: SidePackets, rows: Ints, size: Ints, state: tuple[int, int]) -> None:
        """Classify packets of one side from an invalid number on. Args: state: `high`, and how many came before."""
        high, place = state
        for row, seq, length in zip(rows.tolist(), packets.seq[rows].tolist(), size[rows].tolist(), strict=True):
            place += 1
            begin = high if seq == high & SEQ_MASK else unwrap_seq(seq, high)
            if begin > high + _WINDOW_MAX or (not length and begin <= high):
                continue
            self._classify(packets, row, (begin, begin + length, high), place)
            high = max(high, begin + length)
        self._high[packets.side[rows[0]]] = high

    def _classify(self, packets: SidePackets, row: int, numbers: tuple[int, int, int], count: int) -> None:
        side, packet, ts, _, _, content = (int(column[row]) for column in packets)
        begin, end, high = numbers
        if begin == high:
            return
        sequence = SequenceGaps(int(self._low[side]), self._gaps.pop(side, []))
        is_probe = content == end - begin == 1
        round_trip = self._find_round_trip(side >> 1, packet) if begin < high else 0
        anomaly = sequence.classify(SegmentRange(begin, end, ts, high, round_trip, is_probe, count))
        self._low[side] = sequence.low
        if sequence.gaps:
            self._gaps[side] = sequence.gaps
        if anomaly != NO_ANOMALY:
            self.found.append((packet, anomaly))
