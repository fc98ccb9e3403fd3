"""TCP analysis by columns: totals of each connection, and retransmissions, packets out of order and overlaps.

Reassembly only finds which bytes are new; the analysis classifies every packet. Source: RFC 9293. The state of open
connections continues from span to span; that of a connection is dropped when it is closed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kwire.capture.index.arrays import Ints, find_groups
from kwire.capture.index.scan.packet_headers import PacketHeaders
from kwire.capture.index.streams.connections import DividedSpan
from kwire.capture.index.streams.stream_pieces import LOST, StreamPieces
from kwire.capture.tcp.flags import FIN, RST
from kwire.capture.traffic.connection_states import NO_STATES, ConnectionStates
from kwire.capture.traffic.replaced_connections import find_replaced
from kwire.capture.traffic.round_trips import RoundTrips
from kwire.capture.traffic.sequence_columns import SidePackets, find_anomalies
from kwire.capture.traffic.sequence_gaps import OVERLAP, RETRANSMISSION, Gap
from kwire.capture.traffic.span_states import SpanStates


class ClosedConnections(NamedTuple):
    """The connections that a span closes, in their order.

    replaced: by row, the index in `DividedSpan.replaced`; -1 for other connections, whose values `FlowTable` has.
    """

    states: ConnectionStates
    replaced: Ints


class SpanAnalysis(NamedTuple):
    """The analysis of a span. anomaly: of each packet, as in `ANOMALIES`."""

    anomaly: Ints
    closed: ClosedConnections


class TcpColumns:
    """Analyses the packets of all connections; its state continues from span to span."""

    def __init__(self) -> None:
        """No connection is open."""
        self._open = NO_STATES
        # By side, twice the flow number plus the side.
        self._gaps: dict[int, list[Gap]] = {}

    def add_span(self, headers: PacketHeaders, span: DividedSpan) -> SpanAnalysis:
        """Add the packets of a span. Args: headers: in packet order; none at the end of the capture."""
        chosen = np.nonzero(span.flow >= 0)[0]
        flow = span.flow[chosen]
        states = SpanStates(self._open, flow, span.replaced)
        anomaly = np.zeros(len(span.flow), dtype=np.int64)
        gaps = self._load_gaps(states, span)
        if len(chosen):
            row = states.of_packets(flow, find_replaced(flow, headers.number[chosen], span.replaced))
            packets = headers._replace(ends=headers.ends[:, :0]).select(chosen)
            anomaly[chosen] = _analyse_packets(states.states, gaps, packets, row)
        _add_pieces(states, span.streams.pieces)
        return SpanAnalysis(anomaly, self._close(states, gaps, span))

    def _load_gaps(self, states: SpanStates, span: DividedSpan) -> dict[int, list[Gap]]:
        """The gaps by side of rows. Those of flows of which a connection was replaced are those of the first one."""
        if not self._gaps:
            return {}
        sides = np.array(list(self._gaps), dtype=np.int64)
        first_rows: dict[int, int] = {}
        for each, row in zip(span.replaced, states.replaced_rows.tolist(), strict=True):
            first_rows.setdefault(each.flow, row)
        rows = states.find(sides >> 1)[0].tolist()
        return {
            2 * first_rows.get(side >> 1, row) + (side & 1): gaps
            for (side, gaps), row in zip(self._gaps.items(), rows, strict=True)
        }

    def _close(self, states: SpanStates, gaps: dict[int, list[Gap]], span: DividedSpan) -> ClosedConnections:
        """Drop the connections that are closed, and keep the others for the next span."""
        closing, replaced, columns = span.streams.closing, span.replaced, states.states
        rows, is_known = states.find(np.array(list(closing), dtype=np.int64))
        numbers = np.array([end.number for end in closing.values()], dtype=np.int64)[is_known]
        # Of one packet, what it shows to be over comes before what it replaces.
        places = np.searchsorted(numbers, np.array([each.end.number for each in replaced], dtype=np.int64), "right")
        rows = np.insert(rows[is_known], places, states.replaced_rows)
        index = np.insert(np.full(len(numbers), -1, dtype=np.int64), places, np.arange(len(replaced)))
        is_open = np.ones(len(columns.flow), dtype=np.bool_)
        is_open[rows] = False
        left = np.nonzero(is_open)[0]
        self._open = columns.select(left[np.argsort(columns.flow[left])])
        self._gaps = {
            2 * int(columns.flow[side >> 1]) + (side & 1): found for side, found in gaps.items() if is_open[side >> 1]
        }
        return ClosedConnections(columns.select(rows), index)


def _analyse_packets(states: ConnectionStates, gaps: dict[int, list[Gap]], headers: PacketHeaders, row: Ints) -> Ints:
    """Add packets to the states; return the anomaly of each. Args: row: of its connection."""
    content = headers.captured + headers.missing
    side = 2 * row + headers.side
    order = np.argsort(side, kind="stable")
    sides = side[order]
    round_trips = RoundTrips(states, headers, row, (sides, order))
    _add_totals(states, headers, row, (sides, order))
    packets = SidePackets(sides, order, headers.ts[order], headers.seq[order], headers.flags[order], content[order])
    is_reset = packets.flags & RST > 0
    packets = packets.select(~is_reset) if bool(is_reset.any()) else packets
    index, code = find_anomalies(states, gaps, packets, round_trips.find)
    again = index[(code == RETRANSMISSION) | (code == OVERLAP)]
    np.add.at(states.retransmits.reshape(-1), side[again], 1)
    anomaly = np.zeros(len(row), dtype=np.int64)
    anomaly[index] = code
    return anomaly


def _add_totals(states: ConnectionStates, headers: PacketHeaders, row: Ints, by_side: tuple[Ints, Ints]) -> None:
    """Add packets to the totals. Args: by_side: the side of each packet and its index, as in `RoundTrips`."""
    sides, order = by_side
    firsts = find_groups(sides)
    stops = np.append(firsts[1:], len(sides))
    own = sides[firsts]
    rows, ts = own >> 1, headers.ts[order]
    np.minimum.at(states.first_ts, rows, np.minimum.reduceat(ts, firsts))
    np.maximum.at(states.last_ts, rows, np.maximum.reduceat(ts, firsts))
    np.minimum.at(states.first_packet, rows, headers.number[order[firsts]])
    np.maximum.at(states.last_packet, rows, headers.number[order[stops - 1]])
    # The window field of a reset has no meaning.
    is_zero = (headers.window == 0) & (headers.flags & RST == 0)
    for column, values in (
        (states.size, headers.captured + headers.missing),
        (states.zero_windows, is_zero.astype(np.int64)),
    ):
        column.reshape(-1)[own] += np.add.reduceat(values[order], firsts)
    states.packets.reshape(-1)[own] += stops - firsts
    ends = np.nonzero(headers.flags & (FIN | RST))[0]
    ending, first = np.unique(row[ends], return_index=True)
    is_first = states.closing_side[ending] < 0
    states.closing_side[ending[is_first]] = headers.side[ends[first[is_first]]]


def _add_pieces(states: SpanStates, pieces: StreamPieces) -> None:
    """Add the bytes that were lost, and which connections have any."""
    columns = states.states
    lost = np.nonzero(pieces.at == LOST)[0]
    rows, _ = states.find(pieces.side[lost] >> 1)
    np.add.at(columns.lost.reshape(-1), 2 * rows + (pieces.side[lost] & 1), pieces.size[lost])
    rows, _ = states.find(np.unique(pieces.side[pieces.at >= 0] >> 1))
    columns.has_data[rows] = 1
