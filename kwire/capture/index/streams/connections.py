"""Divide the packets of each pair of endpoints into connections, which are the flows, and reassemble their streams.

Nearly always all packets of a pair in a span belong to the connection that is open, or to one that begins after the one
before was closed. Only where a packet may show more, as a second SYN, or data far back or late, the flow is irregular:
what the span has changed of it is restored, and `connection_walk` reads its packets of the span one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from kwire.capture.index.arrays import NO_NUMBERS, Ints, find_groups
from kwire.capture.index.scan.packet_headers import PacketHeaders
from kwire.capture.index.streams import stream_pieces
from kwire.capture.index.streams.connection_walk import ConnectionWalk, ReplacedConnection, WalkedPacket
from kwire.capture.index.streams.flow_closing import FlowClosing, FlowEnd, PacketTimes
from kwire.capture.index.streams.flow_packets import FlowPackets
from kwire.capture.index.streams.flow_table import BY_DATA, BY_SYN, UNSEEN, FlowTable
from kwire.capture.index.streams.reassembly import Reassembler
from kwire.capture.index.streams.segment_walk import Buffer
from kwire.capture.index.streams.stream_pieces import PieceRow, StreamPieces
from kwire.capture.tcp.flags import SYN


class SpanStreams(NamedTuple):
    """What a span completes: pieces, by side and offset, and the flows that are closed, in their order."""

    pieces: StreamPieces
    closing: dict[int, FlowEnd]


class DividedSpan(NamedTuple):
    """The streams of a span, and the flow of each packet: -1 if it belongs to no connection.

    replaced: the connections without data that another one of the same flow number replaced, in the order of packets.
    Packets of the span before the `end` of one belong to it, as far as to the one before.
    """

    streams: SpanStreams
    flow: Ints
    replaced: list[ReplacedConnection]


class _SavedFlows:
    """The state of the flows of a span before it."""

    def __init__(self, flows: FlowTable, numbers: Ints, buffers: dict[int, Buffer]) -> None:
        self._flows = flows
        self._numbers = numbers
        self._rows = flows.copy_rows(numbers)
        self._buffers = {side: buffer.copy() for side, buffer in buffers.items()}

    def select_irregular(self) -> Ints:
        """The flows that are irregular."""
        irregular: Ints = self._numbers[self._flows.is_irregular[self._numbers] > 0]
        return irregular

    def restore(self, chosen: Ints, buffers: dict[int, Buffer]) -> None:
        """Restore the state of some of them."""
        self._flows.restore_rows(self._numbers, self._rows, np.isin(self._numbers, chosen))
        for side in (2 * chosen[:, None] + np.arange(2)).reshape(-1).tolist():
            buffers.pop(side, None)
            if side in self._buffers:
                buffers[side] = self._buffers[side]


class Connections:
    """The connections of all pairs of endpoints; their state continues from span to span."""

    def __init__(self, flows: FlowTable) -> None:
        """`flows` receives the connections."""
        self._flows = flows
        self._reassembler = Reassembler(flows)
        self._closing = FlowClosing(flows)
        self._span_count = 0
        # By pair, its latest connection.
        self._latest: Ints = NO_NUMBERS

    def add_packets(self, headers: PacketHeaders, pair: Ints, times: PacketTimes) -> SpanStreams:
        """Add the packets of a span; return what it completes. Args: as in `divide_packets`."""
        return self.divide_packets(headers, pair, times).streams

    def divide_packets(self, headers: PacketHeaders, pair: Ints, times: PacketTimes) -> DividedSpan:
        """Add the packets of a span; return also the connections that they belong to.

        Args: headers: in packet order. pair: of each packet, numbered from 0 without gaps, in the order of first
        appearance. times: of all packets of the span.
        """
        flows, closing = self._flows, self._closing
        flow_of_packet = flow = self._number_flows(headers, pair)
        chosen = np.nonzero(flow >= 0)[0]
        self._span_count += 1
        replaced: list[ReplacedConnection] = []
        if len(chosen) < len(flow):
            headers, flow = headers._replace(ends=headers.ends[:, :0]).select(chosen), flow[chosen]
        closing.begin_span(times)
        packets = FlowPackets(flows, flow, headers)
        saved = _SavedFlows(flows, packets.flows, self._reassembler.buffers)
        packets.add_totals(flows)
        pieces = self._reassembler.add_packets(headers, flow, packets)
        closing.add_ended(headers, flow)
        ends = closing.close_lingering()
        is_behind = (flows.closed_by[flow] >= 0) & (headers.number >= flows.closed_by[flow])
        flows.is_irregular[flow[is_behind]] = 1
        irregular = saved.select_irregular()
        if len(irregular):
            saved.restore(irregular, self._reassembler.buffers)
            for number in irregular.tolist():
                ends.pop(number, None)
            walked, more_ends, replaced = self._walk(irregular, headers, flow)
            pieces = stream_pieces.merge_pieces(pieces.select(~np.isin(pieces.side >> 1, irregular)), walked)
            ends |= more_ends
            flow_of_packet[chosen] = flow
        ends = closing.sort_ends(ends)
        pieces = self._close_streams(pieces, ends)
        last = int(times.number[-1]) if len(times.number) else 0
        streams = SpanStreams(stream_pieces.merge_pieces(pieces, self._reassembler.limit_buffers(last)), ends)
        return DividedSpan(streams, flow_of_packet, replaced)

    def end_all(self) -> SpanStreams:
        """What is left of all flows at the end of the capture."""
        ends = self._closing.end_all()
        return SpanStreams(self._close_streams(stream_pieces.NO_PIECES, ends), ends)

    @property
    def buffered_count(self) -> int:
        """How many segments waited behind gaps at the end of the last span."""
        return self._reassembler.buffered_count

    def held_ranges(self) -> Iterator[tuple[Ints, Ints]]:
        """Positions and sizes of the segments that wait."""
        for buffer in self._reassembler.buffers.values():
            rows = [(segment.at, segment.size) for segment in buffer.segments if segment.size]
            at, size = np.array(rows, dtype=np.int64).reshape(-1, 2).T
            yield at, size

    def _number_flows(self, headers: PacketHeaders, pair: Ints) -> Ints:
        """The flow of each packet, unless it is irregular; -1 for a packet that belongs to none.

        A connection begins by a SYN or by data, not by an ACK or RST without any.
        """
        flows = self._flows
        in_new = np.nonzero(pair >= len(self._latest))[0]
        if len(in_new):
            pairs, first = np.unique(pair[in_new], return_index=True)
            new = flows.add_flows(pairs, 0, 2 * self._span_count)
            flows.link[new] = headers.link[in_new[first]]
            self._latest = np.append(self._latest, new)
        flow = self._latest[pair]
        rows = np.nonzero((flows.beginning[flow] == UNSEEN) | (flows.closed_by[flow] >= 0))[0]
        if not len(rows):
            return flow
        is_syn = headers.flags[rows] & SYN > 0
        opens = rows[is_syn | (headers.captured[rows] + headers.missing[rows] > 0)]
        begin = np.full(len(self._latest), len(pair))
        # Of the packets of a pair, the first is assigned last.
        begin[pair[opens[::-1]]] = opens[::-1]
        opened = np.nonzero(begin < len(pair))[0]
        first = begin[opened]
        again = opened[flows.closed_by[self._latest[opened]] >= 0]
        before = self._latest[again]
        new = self._latest[again] = flows.add_flows(again, flows.epoch[before] + 1, 2 * self._span_count)
        new = self._latest[opened]
        flows.beginning[new] = np.where(headers.flags[first] & SYN, BY_SYN, BY_DATA)
        flows.link[new] = headers.link[first]
        flow[rows] = self._latest[pair[rows]]
        strays = rows[rows < begin[pair[rows]]]
        for column, choose in ((flows.first_ts, np.minimum), (flows.last_ts, np.maximum)):
            choose.at(column, flow[strays], headers.ts[strays])
        flow[strays] = -1
        return flow

    def _walk(
        self, irregular: Ints, headers: PacketHeaders, flow: Ints
    ) -> tuple[StreamPieces, dict[int, FlowEnd], list[ReplacedConnection]]:
        """The pieces of irregular flows and of those that follow them; which of these are closed, and which replaced.

        Sets the flows of their packets in `flow`.
        """
        self._closing.remove(set(irregular.tolist()))
        rows = np.nonzero(np.isin(flow, irregular))[0]
        pairs = self._flows.pair[flow[rows]]
        order = np.argsort(pairs, kind="stable")
        pieces, ends, replaced = list[PieceRow](), dict[int, FlowEnd](), list[ReplacedConnection]()
        for own in np.split(rows[order], find_groups(pairs[order])[1:]):
            state = self._flows, self._reassembler.buffers, self._closing
            walk = ConnectionWalk(*state, int(flow[own[0]]), numbered_in=2 * self._span_count - 1)
            columns = (getattr(headers, name)[own].tolist() for name in WalkedPacket._fields)
            flow[own] = [walk.add_packet(WalkedPacket._make(packet)) for packet in zip(*columns, strict=True)]
            latest = walk.finish()
            self._latest[self._flows.pair[latest]] = latest
            pieces += walk.pieces
            ends |= walk.ends
            replaced += walk.replaced
        replaced.sort(key=lambda connection: connection.end.number)
        return stream_pieces.piece_columns(pieces), ends, replaced

    def _close_streams(self, pieces: StreamPieces, closing: dict[int, FlowEnd]) -> StreamPieces:
        """Add what is left of the streams of flows that are closed."""
        numbers = np.array([end.number for end in closing.values()], dtype=np.int64)
        left = self._reassembler.close_streams(np.array(list(closing), dtype=np.int64), numbers)
        return stream_pieces.merge_pieces(pieces, left)
