"""Reassemble streams from packet headers, span by span: the pieces of all streams in order, by position.

Nearly every segment begins where the one before it ends. These are found for all streams at once, and become pieces as
they are. The others are treated one by one, from the segment that is out of order until nothing is buffered any more: a
segment that repeats bytes loses them, and a segment after a gap is buffered until the gap is filled or given up. A gap
is given up when its receiver has acknowledged bytes behind it and `REORDER_PACKETS_MAX` packets of the connection have
followed, or when too much is buffered; which packet that is follows from the numbers and acknowledgements of the
packets of the flow, so that the segments behind a gap need not be visited one by one either.
"""

from __future__ import annotations

import numpy as np

from kwire.capture.index.arrays import Bools, Ints, find_groups, group_starts
from kwire.capture.index.scan.packet_headers import PacketHeaders
from kwire.capture.index.streams import stream_pieces
from kwire.capture.index.streams.connection_control import apply_control_flags
from kwire.capture.index.streams.flow_packets import FlowPackets
from kwire.capture.index.streams.flow_table import BY_DATA, RST_END, FlowTable
from kwire.capture.index.streams.segment_walk import Buffer, Segments, SideWalk, SpanPieces, Stream
from kwire.capture.index.streams.stream_pieces import (
    AFTER_CAPTURE,
    AFTER_GAP,
    CLOSED_STREAM,
    LOST,
    PieceRow,
    StreamPieces,
    moment_of,
)
from kwire.capture.index.streams.stream_starts import StreamStarts, start_stream
from kwire.capture.tcp.flags import ACK, RST
from kwire.capture.tcp.sequence_numbers import unwrap_seq
from kwire.capture.tcp.stream_limits import LINGER_NS, REORDER_PACKETS_MAX, RESENT_DISTANCE_MAX, RESET_EFFECT_NS

# How far acknowledgements may advance in one span, and how far segments may be from where their stream continues: more
# than this may wrap.
_ADVANCE_MAX = 1 << 30
# Added for each side in running maxima, so that none reaches into the next side: far above both.
_SIDE_DISTANCE = 1 << 34
BUFFERED_TOTAL_MAX = 500_000
"""How many segments may wait behind gaps in all flows together."""


class Reassembler:
    """Reassembles the streams of all flows; its state continues from span to span.

    buffers: by side, what waits for the start of its stream, or behind a gap. buffered_count: how many segments did at
    the end of the last span, before `BUFFERED_TOTAL_MAX` was applied.
    """

    def __init__(self, flows: FlowTable) -> None:
        """`flows` has where each stream continues."""
        self._flows = flows
        self.buffers: dict[int, Buffer] = {}
        self.buffered_count = 0
        self._starts = StreamStarts(flows, self.buffers)

    def add_packets(self, headers: PacketHeaders, flow: Ints, packets: FlowPackets) -> StreamPieces:
        """The pieces that these packets complete, by side and offset. Marks the flows that are irregular.

        Args: headers: in packet order. flow: of each packet. packets: of all flows in this span.
        """
        first_rows = list[PieceRow]()
        is_first = self._starts.add_packets(headers, flow, packets, first_rows)
        apply_control_flags(self._flows, flow, headers)
        segments = _select_segments(self._flows, headers, flow, packets.arrival, is_first)
        acks = _AckHistory(self._flows, headers, flow)
        order = np.argsort(segments.side, kind="stable")
        segments = segments.select(order)
        is_next, expected = _find_next(self._flows, segments)
        pieces = SpanPieces(segments, first_rows)
        self._treat_others(segments, is_next, expected, pieces, _GapTimes(acks, packets))
        acks.store()
        return pieces.build()

    def close_streams(self, closing: Ints, numbers: Ints) -> StreamPieces:
        """What is left of the streams of these flows, by side: every gap is given up.

        Missing bytes at the end, which only an acknowledgement or a FIN shows, are a piece of their own.
        Args: numbers: the packet at which each flow is closed.
        """
        flows, rows = self._flows, list[PieceRow]()
        sides = np.stack([2 * closing, 2 * closing + 1], axis=1).reshape(-1)
        next_seq = flows.next_seq[sides]
        # A FIN takes one number itself; an acknowledgement of one number more than the data is taken for that.
        end = np.where(
            flows.fin_seq[sides] >= 0, unwrap_seq(flows.fin_seq[sides], next_seq), flows.acked_seq[sides] - 1
        )
        is_short = (flows.start_seq[sides] >= 0) & (end > next_seq)
        has_buffer = np.isin(sides, np.array(list(self.buffers), dtype=np.int64))
        for index in np.nonzero(is_short | has_buffer)[0].tolist():
            side = int(sides[index])
            is_started = flows.start_seq[side] >= 0
            stream = self._open_stream(side, AFTER_CAPTURE)
            if not is_started:
                end[index] = stream.next
            moment = moment_of(int(numbers[index >> 1]), CLOSED_STREAM + (side & 1))
            while stream.buffer.segments:
                stream.skip_gap(moment, rows)
            if end[index] > stream.next:
                # Of a side without any data only the other side's packets have a time.
                acked_ts = flows.fin_ts[side] if flows.fin_seq[side] >= 0 else flows.acked_ts[side]
                stream.add_missing(stream.last_ts or int(acked_ts), int(end[index]) - stream.next, LOST, moment, rows)
            flows.next_seq[side] = stream.next
        return stream_pieces.piece_columns(rows)

    def _treat_others(
        self, segments: Segments, is_next: Bools, expected: Ints, pieces: SpanPieces, times: _GapTimes
    ) -> None:
        """Treat the segments that do not begin where the one before ends, and what is buffered already."""
        flows, sides = self._flows, segments.side
        firsts = find_groups(sides)
        stops = np.append(firsts[1:], len(sides))[: len(firsts)]
        breaks = np.nonzero(~is_next)[0]
        chosen = set(np.unique(sides[breaks]).tolist())
        started = [side for side in self.buffers if flows.start_seq[side] >= 0]
        chosen.update(side for side in started if times.has_packets(side >> 1))
        streams = [self._open_stream(side) for side in sorted(chosen)]
        last = stops - 1
        flows.next_seq[sides[firsts]] = np.maximum(expected[last], segments.end[last])
        flows.last_data_ts[sides[firsts]] = segments.ts[last]
        for stream in streams:
            first, stop = np.searchsorted(sides, (stream.side, stream.side + 1)).tolist()
            own = breaks[np.searchsorted(breaks, first) : np.searchsorted(breaks, stop)]
            walk = SideWalk(stream, (segments, pieces, times.skip_number), (first, stop), own)
            if not walk.run():
                flows.is_irregular[stream.side >> 1] = 1
            elif stream.buffer.segments:
                self.buffers[stream.side] = stream.buffer
            flows.next_seq[stream.side], flows.last_data_ts[stream.side] = stream.next, stream.last_ts

    def limit_buffers(self, number: int) -> StreamPieces:
        """Give up gaps while more segments wait than may, those of the sides that have waited longest first.

        Args: number: the last packet of the span. Returns: the pieces that are complete by that.
        """
        flows, buffers, rows = self._flows, self.buffers, list[PieceRow]()
        count = self.buffered_count = sum(len(buffer.segments) for buffer in buffers.values())
        if count <= BUFFERED_TOTAL_MAX:
            return stream_pieces.NO_PIECES
        since = {side: min(segment.number for segment in buffer.segments) for side, buffer in buffers.items()}
        for side in sorted(buffers, key=lambda side: (since[side], side)):
            if count <= BUFFERED_TOTAL_MAX:
                break
            count -= len(buffers[side].segments)
            stream, moment = self._open_stream(side, number + 1), moment_of(number, AFTER_GAP + (side & 1))
            while stream.buffer.segments:
                stream.skip_gap(moment, rows)
            flows.next_seq[side], flows.last_data_ts[side] = stream.next, stream.last_ts
        return stream_pieces.piece_columns(rows)

    def _open_stream(self, side: int, known_from: int = 0) -> Stream:
        """The stream of a side, with what is buffered of it; where its start is not known, it is from now on.

        Args: known_from: the first packet for which it is.
        """
        flows, buffer = self._flows, self.buffers.pop(side, None) or Buffer()
        if flows.start_seq[side] < 0:
            return start_stream(flows, side, buffer, known_from)
        return Stream(side, int(flows.next_seq[side]), int(flows.last_data_ts[side]), buffer)


def _select_segments(flows: FlowTable, headers: PacketHeaders, flow: Ints, arrival: Ints, is_first: Bools) -> Segments:
    """The segments with data, of flows that are regular after these packets. Args: is_first: those to leave out."""
    chosen = np.nonzero((headers.captured + headers.missing) > 0)[0]
    is_late = _are_late(flows, flow[chosen], headers.number[chosen], headers.ts[chosen])
    flows.is_irregular[flow[chosen[is_late]]] = 1
    chosen = chosen[~is_first[chosen]]
    number, side = headers.number[chosen], 2 * flow[chosen] + headers.side[chosen]
    is_early = flows.known_from[side] > number
    offset = unwrap_seq(headers.seq[chosen], flows.next_seq[side])
    size, missing = headers.captured[chosen], headers.missing[chosen]
    is_far = np.abs(offset - flows.next_seq[side]) > _ADVANCE_MAX
    flows.is_irregular[flow[chosen[is_early | is_far]]] = 1
    regular = np.nonzero(flows.is_regular(flow[chosen]))[0]
    columns = offset, size, missing, headers.at[chosen], headers.ts[chosen], number, arrival[chosen], side
    return Segments(*columns, offset + size + missing).select(regular)


def _are_late(flows: FlowTable, flow: Ints, number: Ints, ts: Ints) -> Bools:
    """Which packets with data may belong to another connection, or show that a reset had no effect."""
    limit = np.where(flows.end_reason[flow] == RST_END, RESET_EFFECT_NS, LINGER_NS)
    is_late: Bools = (number > flows.end_packet[flow]) & (ts > flows.end_ts[flow] + limit)
    return is_late


def _find_next(flows: FlowTable, segments: Segments) -> tuple[Bools, Ints]:
    """Which segments begin where all before them end, and where that is."""
    if not len(segments.side):
        return np.zeros(0, dtype=np.bool_), segments.offset
    begin = flows.next_seq[segments.side]
    is_first = group_starts(segments.side)
    distance = np.cumsum(is_first, dtype=np.int64) * _SIDE_DISTANCE
    reached = np.maximum.accumulate(segments.end - begin + distance) - distance
    before = np.empty(len(begin), dtype=np.int64)
    before[1:] = np.maximum(reached[:-1], 0)
    before[is_first] = 0
    expected = begin + before
    return segments.offset == expected, expected


class _AckHistory:
    """The acknowledgements of a span: by side, in packet order, the highest number so far."""

    def __init__(self, flows: FlowTable, headers: PacketHeaders, flow: Ints) -> None:
        self._flows = flows
        own = 2 * flow + headers.side
        other = own ^ 1
        # The number of a reset is often invalid; and only a packet whose own number is plausible is believed.
        # A packet before the SYN belongs to no connection. Without SYNs a side may have sent nothing yet.
        is_own_known = flows.known_from[own] <= headers.number
        is_known = (is_own_known | (flows.beginning[flow] == BY_DATA)) & (flows.known_from[other] <= headers.number)
        is_valid = ((headers.flags & (ACK | RST)) == ACK) & is_known
        distance = unwrap_seq(headers.seq, flows.next_seq[own]) - flows.next_seq[own]
        rows = np.nonzero(is_valid & (~is_own_known | (np.abs(distance) <= RESENT_DISTANCE_MAX)))[0]
        rows = rows[np.argsort(other[rows], kind="stable")]
        self.side, self.number, self._ts = other[rows], headers.number[rows], headers.ts[rows]
        before = flows.acked_seq[self.side]
        gain = unwrap_seq(headers.ack[rows], before) - before
        flows.is_irregular[self.side[np.abs(gain) > _ADVANCE_MAX] >> 1] = 1
        gain = np.maximum(gain, 0)
        group = np.cumsum(group_starts(self.side), dtype=np.int64) * _SIDE_DISTANCE
        self.acked = before + np.maximum.accumulate(gain + group) - group if len(rows) else before

    def first_beyond(self, side: int, offset: int) -> int:
        """The number of the packet that first acknowledges more than this; 0 if one of an earlier span did."""
        if self._flows.acked_seq[side] > offset:
            return 0
        first, stop = np.searchsorted(self.side, (side, side + 1)).tolist()
        index = first + int(np.searchsorted(self.acked[first:stop], offset, "right"))
        return int(self.number[index]) if index < stop else AFTER_CAPTURE

    def store(self) -> None:
        """Keep the highest numbers for the next span, and the times of the packets that showed them."""
        if not len(self.side):
            return
        firsts = find_groups(self.side)
        sides, last = self.side[firsts], np.append(firsts[1:], len(self.side)) - 1
        before = np.append(0, self.acked[:-1])
        before[firsts] = self._flows.acked_seq[sides]
        reached = np.maximum.reduceat(np.where(self.acked > before, np.arange(len(before)), -1), firsts)
        has_gain = reached >= 0
        self._flows.acked_seq[sides[has_gain]] = self.acked[last[has_gain]]
        self._flows.acked_ts[sides[has_gain]] = self._ts[reached[has_gain]]


class _GapTimes:
    """When gaps are given up."""

    def __init__(self, acks: _AckHistory, packets: FlowPackets) -> None:
        self._acks = acks
        self._packets = packets

    def has_packets(self, flow: int) -> bool:
        """Whether the flow has packets in this span."""
        return self._packets.has_packets(flow)

    def skip_number(self, side: int, offset: int, arrival: int) -> int:
        """The packet at which a gap is given up; `AFTER_CAPTURE` if it is none of this span.

        Args: offset: where the gap begins. arrival: of the first segment behind it.
        """
        late = self._packets.number_of(side >> 1, arrival + REORDER_PACKETS_MAX)
        return AFTER_CAPTURE if late == AFTER_CAPTURE else max(late, self._acks.first_beyond(side, offset))
