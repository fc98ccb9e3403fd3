"""Find where streams begin whose SYN was not captured: at the lowest number in the first packets of the connection.

Their first segments wait in the buffers of their sides, until `START_PACKETS` packets of the connection have come.
"""

from __future__ import annotations

import numpy as np

from kwire.capture.index.arrays import Bools, Ints, find_groups
from kwire.capture.index.scan.packet_headers import PacketHeaders
from kwire.capture.index.streams.flow_packets import FlowPackets
from kwire.capture.index.streams.flow_table import BY_DATA, FlowTable
from kwire.capture.index.streams.segment_walk import Buffer, Segment, Stream
from kwire.capture.index.streams.stream_pieces import AFTER_CAPTURE, AFTER_GAP, PieceRow, moment_of
from kwire.capture.tcp.flags import SYN
from kwire.capture.tcp.sequence_numbers import SEQ_MODULUS, unwrap_seq
from kwire.capture.tcp.stream_limits import START_PACKETS


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
        is_by_data = flows.beginning[flow] == BY_DATA
        flows.is_irregular[flow[is_by_data & (headers.flags & SYN > 0)]] = 1
        side = 2 * flow + headers.side
        is_first = np.zeros(len(flow), dtype=np.bool_)
        is_without_start = is_by_data & (flows.start_seq[side] < 0)
        if not bool(is_without_start.any()):
            return is_first
        has_data = headers.captured + headers.missing > 0
        chosen = np.nonzero(is_without_start & has_data & flows.is_regular(flow))[0]
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
        return packets.number_of(side >> 1, START_PACKETS - 1)

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


def start_stream(flows: FlowTable, side: int, buffer: Buffer, known_from: int, seq: int | None = None) -> Stream:
    """The stream of a side from a sequence number on; without one from the lowest number in its buffer on.

    Args: known_from: the first packet for which the start is known.
    """
    if buffer.segments:
        lowest = buffer.segments[0].offset
        start = lowest if seq is None else unwrap_seq(seq, lowest)
        # Negative starts stand for unknown ones.
        shift = SEQ_MODULUS if min(lowest, start) < 0 else 0
        buffer.segments = [segment._replace(offset=segment.offset + shift) for segment in buffer.segments]
        start += shift
    else:
        assert seq is not None
        start = seq
    flows.start_seq[side] = flows.next_seq[side] = flows.acked_seq[side] = start
    flows.known_from[side], flows.starts_known[side] = known_from, seq is not None
    return Stream(side, start, 0, buffer)
