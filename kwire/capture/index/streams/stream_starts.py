"""Find where streams begin whose SYN was not captured: at the lowest number in the first packets of the connection.

Their first segments wait in the buffers of their sides, until `START_PACKETS` packets of the connection have come.
"""

from __future__ import annotations

import numpy as np

from kwire.capture.index.arrays import Bools, Ints, find_groups
from kwire.capture.index.scan.packet_headers import PacketHeaders
from kwire.capture.index.streams.flow_packets import FlowPackets
from kwire.capture.index.streams.flow_table import FlowTable
from kwire.capture.index.streams.segment_walk import Buffer, Segment, Stream
from kwire.capture.index.streams.stream_pieces import AFTER_CAPTURE, AFTER_GAP, PieceRow, moment_of
from kwire.capture.tcp.flags import SYN
from kwire.capture.tcp.reassembly import START_PACKETS
from kwire.capture.tcp.sequence_numbers import SEQ_MODULUS, unwrap_seq

# How a connection begins: not seen yet; by a SYN; by data.
_UNSEEN, _BY_SYN, BY_DATA = 0, 1, 2


class StreamStarts:
    """The streams of connections that begin by data."""

    def __init__(self, flows: FlowTable, buffers: dict[int, Buffer]) -> None:
        """`buffers`: by side, receives the segments of streams whose start is not known yet, or behind a gap."""
        self._flows = flows
        self._buffers = buffers

    def add_packets(self, headers: PacketHeaders, flow: Ints, packets: FlowPackets, rows: list[PieceRow]) -> Bools:
        """Add the packets of a span. Returns: by packet, whether it belongs to a stream without a start before it.

        Args: rows: receives the pieces of streams whose start is found.
        """
        flows = self._flows
        has_data = headers.captured + headers.missing > 0
        self._find_beginnings(headers, flow, packets, has_data)
        side = 2 * flow + headers.side
        is_first = np.zeros(len(flow), dtype=np.bool_)
        is_without_start = (flows.beginning[flow] == BY_DATA) & (flows.start_seq[side] < 0)
        if not bool(is_without_start.any()):
            return is_first
        chosen = np.nonzero(is_without_start & has_data & flows.is_clean(flow))[0]
        chosen = chosen[np.argsort(side[chosen], kind="stable")]
        for own in np.split(chosen, find_groups(side[chosen])[1:]) if len(chosen) else ():
            is_first[self._add_segments(headers, int(side[own[0]]), own, packets, rows)] = True
        # Others may start by packets of the other side.
        waiting = np.array(list(self._buffers), dtype=np.int64)
        waiting = waiting[(flows.start_seq[waiting] < 0) & np.isin(waiting >> 1, flow[is_without_start])]
        for each in waiting.tolist():
            due = self._due_packet(each, packets)
            if due < AFTER_CAPTURE:
                self._start(each, due, rows)
        return is_first

    def _due_packet(self, side: int, packets: FlowPackets) -> int:
        """The packet that starts the streams of a flow; 0 in an earlier span, `AFTER_CAPTURE` in a later one."""
        flow = side >> 1
        return packets.number_of(flow, int(self._flows.begin_arrival[flow]) + START_PACKETS - 1)

    def _find_beginnings(self, headers: PacketHeaders, flow: Ints, packets: FlowPackets, has_data: Bools) -> None:
        """Find out how the new connections begin; packets before their SYN or their first data do not count."""
        flows = self._flows
        is_syn = headers.flags & SYN > 0
        new = np.nonzero((flows.beginning[flow] == _UNSEEN) & (has_data | is_syn))[0]
        if len(new):
            new_flows, first = np.unique(flow[new], return_index=True)
            first = new[first]
            flows.beginning[new_flows] = np.where(is_syn[first], _BY_SYN, BY_DATA)
            flows.begin_packet[new_flows] = headers.number[first]
            flows.begin_arrival[new_flows] = packets.arrival[first]
        flows.mark_unclean(flow[is_syn & (flows.beginning[flow] == BY_DATA)], "reuse")

    def _add_segments(
        self, headers: PacketHeaders, side: int, own: Ints, packets: FlowPackets, rows: list[PieceRow]
    ) -> Ints:
        """Add the segments of one side before its start; return their packets."""
        buffer = self._buffers.setdefault(side, Buffer())
        number, due = headers.number[own], self._due_packet(side, packets)
        count = int(np.searchsorted(number, due, "right"))
        if not count and not buffer.segments:
            # The first data of a side after that starts its stream.
            count, due = 1, int(number[0])
        columns = headers.captured, headers.missing, headers.at, headers.ts, headers.number, packets.arrival
        for row in own[:count].tolist():
            seq = int(headers.seq[row])
            offset = unwrap_seq(seq, buffer.segments[0].offset if buffer.segments else seq)
            buffer.add(Segment(offset, *(int(column[row]) for column in columns)))
        if due < AFTER_CAPTURE:
            self._start(side, due, rows)
        return own[:count]

    def _start(self, side: int, number: int, rows: list[PieceRow]) -> None:
        """Start a stream at a packet."""
        moment = moment_of(number, AFTER_GAP + (side & 1))
        stream = start_stream(self._flows, side, self._buffers.pop(side), number + 1)
        stream.deliver_buffered(moment, rows)
        self._flows.next_seq[side], self._flows.last_data_ts[side] = stream.next, stream.last_ts
        if stream.buffer.segments:
            self._buffers[side] = stream.buffer


def start_stream(flows: FlowTable, side: int, buffer: Buffer, known_from: int) -> Stream:
    """The stream of a side from the lowest number in its buffer on.

    Args: known_from: the first packet for which the start is known.
    """
    lowest = buffer.segments[0].offset
    # Negative starts stand for unknown ones.
    shift = SEQ_MODULUS if lowest < 0 else 0
    buffer.segments = [segment._replace(offset=segment.offset + shift) for segment in buffer.segments]
    flows.start_seq[side] = flows.acked_seq[side] = lowest + shift
    flows.known_from[side] = known_from
    return Stream(side, lowest + shift, 0, buffer)
