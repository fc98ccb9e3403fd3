"""Read packets of one pair of endpoints one by one: which connections they belong to, and the pieces of the streams.

Where nothing is unusual, its rules are computed for many packets at once (`reassembly`, `stream_starts`,
`connection_control`); the state between spans is the same.
"""

from __future__ import annotations

from typing import NamedTuple

from kwire.capture.index.streams.flow_closing import FlowClosing, FlowEnd, is_reset_ignored
from kwire.capture.index.streams.flow_table import (
    BY_DATA,
    BY_SYN,
    FIN_END,
    REUSE_END,
    RST_END,
    SYN_ANSWER,
    SYN_PLAIN,
    FlowTable,
)
from kwire.capture.index.streams.segment_walk import Buffer, Segment, Stream
from kwire.capture.index.streams.stream_pieces import AFTER_CAPTURE, AFTER_GAP, PieceRow, moment_of
from kwire.capture.index.streams.stream_starts import start_stream
from kwire.capture.tcp.flags import ACK, FIN, RST, SYN
from kwire.capture.tcp.sequence_numbers import SEQ_MASK, seq_distance, unwrap_seq
from kwire.capture.tcp.stream_limits import LATE_SYN_DISTANCE, REORDER_PACKETS_MAX, RESENT_DISTANCE_MAX, START_PACKETS


class WalkedPacket(NamedTuple):
    """A packet, as in `PacketHeaders`."""

    number: int
    ts: int
    link: int
    side: int
    seq: int
    ack: int
    flags: int
    at: int
    captured: int
    missing: int


class ReplacedConnection(NamedTuple):
    """A connection without data that another one of the same endpoints replaced; that has its flow number.

    end_reason: one of `END_REASONS`. end: the first packet of the other one.
    """

    flow: int
    epoch: int
    opener: int
    link: int
    end_reason: int
    end: FlowEnd


class ConnectionWalk:
    """Reads packets one by one. pieces: what they complete. ends: the flows that are closed meanwhile.

    replaced: the connections without data that were closed, which are in no other result.
    """

    def __init__(
        self, flows: FlowTable, buffers: dict[int, Buffer], closing: FlowClosing, flow: int, *, numbered_in: int
    ) -> None:
        """Args: buffers: by side, what waits behind gaps. flow: the latest connection of the pair, which is open.
        numbered_in: for `FlowTable`, of further ones.
        """
        self._flows = flows
        self._buffers = buffers
        self._closing = closing
        self._numbered_in = numbered_in
        self._flow = flow
        self._is_open = True
        # The packet of the span that closes the connection, which has ended.
        self._end: FlowEnd | None = closing.find_end(flow) if flows.end_reason[flow] else None
        self._streams = [self._load_stream(2 * flow), self._load_stream(2 * flow + 1)]
        self.pieces: list[PieceRow] = []
        self.ends: dict[int, FlowEnd] = {}
        self.replaced: list[ReplacedConnection] = []

    def add_packet(self, packet: WalkedPacket) -> int:
        """Add the next packet of the pair. Returns: its flow; -1 if it belongs to none."""
        self._close_before(packet.number)
        if self._is_open and self._is_reuse(packet):
            self._close(FlowEnd(packet.number, packet.ts), REUSE_END)
        flows = self._flows
        if not self._is_open:
            if not (packet.captured or packet.missing or packet.flags & SYN):
                self._add_times(packet.ts)
                return -1
            self._begin(packet)
        flow = self._flow
        self._add_times(packet.ts)
        self._process(packet, int(flows.packets[flow]))
        has_fins = flows.fin_seq[2 * flow] >= 0 and flows.fin_seq[2 * flow + 1] >= 0
        if not flows.end_reason[flow] and (packet.flags & RST or has_fins):
            flows.end_reason[flow] = RST_END if packet.flags & RST else FIN_END
            flows.end_packet[flow], flows.end_ts[flow] = packet.number, packet.ts
            self._end = self._closing.find_end(flow)
        return flow

    def finish(self) -> int:
        """The end of the span. Returns: the latest connection of the pair."""
        self._close_before(AFTER_CAPTURE)
        flows, flow = self._flows, self._flow
        if self._is_open:
            self._store_streams()
            flows.is_irregular[flow] = flows.strays[flow] > 0 or is_reset_ignored(flows, flow)
            if flows.end_reason[flow]:
                self._closing.add(flow)
        return flow

    def _load_stream(self, side: int) -> Stream:
        """The stream of a side as the spans before left it."""
        flows = self._flows
        buffer = self._buffers.pop(side, None) or Buffer()
        return Stream(side, int(flows.next_seq[side]), int(flows.last_data_ts[side]), buffer)

    def _store_streams(self) -> None:
        for stream in self._streams:
            self._flows.next_seq[stream.side], self._flows.last_data_ts[stream.side] = stream.next, stream.last_ts
            if stream.buffer.segments:
                self._buffers[stream.side] = stream.buffer

    def _begin(self, packet: WalkedPacket) -> None:
        """Begin another connection of the pair."""
        flows, before = self._flows, self._flow
        if flows.closed_by[before] >= 0:
            pair = flows.pair[before : before + 1]
            flow = int(flows.add_flows(pair, flows.epoch[before] + 1, self._numbered_in)[0])
            self._flow = flow
        self._is_open = True
        flow = self._flow
        flows.beginning[flow] = BY_SYN if packet.flags & SYN else BY_DATA
        flows.link[flow] = packet.link
        self._streams = [self._load_stream(2 * flow), self._load_stream(2 * flow + 1)]

    def _add_times(self, ts: int) -> None:
        flows, flow = self._flows, self._flow
        flows.first_ts[flow] = min(flows.first_ts[flow], ts)
        flows.last_ts[flow] = max(flows.last_ts[flow], ts)

    def _close_before(self, number: int) -> None:
        """Close the connection if a packet up to this number shows it to be over."""
        end, flows, flow = self._end, self._flows, self._flow
        if end is None or end.number > number:
            return
        self._end = None
        if is_reset_ignored(flows, flow):
            flows.end_reason[flow], flows.end_packet[flow] = 0, AFTER_CAPTURE
        else:
            self._close(end, 0)

    def _close(self, end: FlowEnd, reason: int) -> None:
        """Close the connection. Args: reason: if it is another connection; else 0."""
        flows, flow = self._flows, self._flow
        self._is_open, self._end = False, None
        if reason and self._is_empty():
            # Nothing refers to it.
            columns = flows.epoch, flows.opener, flows.link
            epoch, opener, link = (int(column[flow]) for column in columns)
            end_reason = int(flows.end_reason[flow]) or reason
            self.replaced.append(ReplacedConnection(flow, epoch, opener, link, end_reason, end))
            flows.clear_row(flow)
            return
        self._store_streams()
        if reason:
            flows.end_reason[flow] = flows.end_reason[flow] or reason
            flows.end_packet[flow] = end.number
        flows.closed_by[flow] = end.number
        self.ends[flow] = end

    def _is_empty(self) -> bool:
        """Whether the connection has no data, and shows none."""
        flows = self._flows
        for stream in self._streams:
            start = int(flows.start_seq[stream.side])
            is_shown = start >= 0 and (stream.next > start or flows.acked_seq[stream.side] > start + 1)
            if is_shown or flows.fin_seq[stream.side] >= 0 or stream.buffer.segments:
                return False
        return True

    def _is_reuse(self, packet: WalkedPacket) -> bool:
        """Whether the packet belongs to another connection than the one that is open."""
        own = 2 * self._flow + packet.side
        if packet.flags & SYN:
            return self._is_new(own, packet.seq)
        is_known = self._flows.start_seq[own] >= 0
        distance = seq_distance(packet.seq, self._streams[packet.side].next)
        if not is_known or distance >= -RESENT_DISTANCE_MAX or not (packet.captured or packet.missing):
            return False
        if self._is_near(own ^ 1, packet.ack):
            self._flows.strays[self._flow] += 1
            return bool(self._flows.strays[self._flow] > 1)
        return True

    def _is_new(self, side: int, seq: int) -> bool:
        """Whether a SYN with this sequence number opens another connection."""
        flows, flow = self._flows, self._flow
        start = int(flows.start_seq[side])
        if start < 0:
            return bool(flows.end_reason[flow])
        is_early = not flows.syns[side] and flows.packets[flow] < START_PACKETS * 2
        return abs(seq_distance(seq + 1, start)) > (LATE_SYN_DISTANCE if is_early else 0)

    def _is_near(self, side: int, seq: int) -> bool:
        """Whether the number is one that a side may have reached."""
        is_known = self._flows.start_seq[side] >= 0
        return bool(is_known) and abs(seq_distance(seq, self._streams[side & 1].next)) <= RESENT_DISTANCE_MAX

    def _process(self, packet: WalkedPacket, arrival: int) -> None:
        """Add a packet of the connection. Args: arrival: how many of it came before."""
        flows, flow, flags, number = self._flows, self._flow, packet.flags, packet.number
        own, other = 2 * flow + packet.side, 2 * flow + 1 - packet.side
        flows.packets[flow] += 1
        flows.size[flow] += packet.captured + packet.missing
        seq = self._add_syn(own, packet) if flags & SYN else packet.seq
        is_known = flows.start_seq[own] >= 0
        if flags & ACK:
            if flows.start_seq[other] < 0 and flows.syns[own] and seq == int(flows.start_seq[own]) & SEQ_MASK:
                self._start(other, number, packet.ack)
            if not flags & RST and (self._is_near(own, seq) or not (is_known or flows.syns[other])):
                self._add_ack(other, packet)
        if packet.captured or packet.missing:
            self._add_data(own, seq, packet, arrival)
        if flags & FIN and flows.fin_side[flow] < 0:
            flows.fin_side[flow] = own & 1
        if flags & FIN and is_known:
            flows.fin_seq[own], flows.fin_ts[own] = (seq + packet.captured + packet.missing) & SEQ_MASK, packet.ts
        for side in (2 * flow, 2 * flow + 1):
            if self._streams[side & 1].buffer.segments:
                self._deliver_due(side, number, arrival)

    def _add_syn(self, side: int, packet: WalkedPacket) -> int:
        """Add a SYN; return the number of the first byte after it."""
        flows, flow = self._flows, self._flow
        seq = (packet.seq + 1) & SEQ_MASK
        is_answer = bool(packet.flags & ACK)
        if flows.start_seq[side] < 0:
            self._start(side, packet.number, seq)
        flows.syns[side] |= SYN_ANSWER if is_answer else SYN_PLAIN
        flows.beginning[flow] = BY_SYN
        if not any(stream.next > flows.start_seq[stream.side] >= 0 for stream in self._streams):
            # Nothing has shown the client yet.
            if flows.syns[side] & flows.syns[side ^ 1] & SYN_PLAIN:
                # Simultaneous open (RFC 9293, 3.5): only the content of the connection can show the client.
                flows.opener[flow] = -1
            elif flows.opener[flow] < 0:
                flows.opener[flow] = 1 - packet.side if is_answer else packet.side
        return seq

    def _start(self, side: int, number: int, seq: int | None = None) -> None:
        """Start the stream of a side at a sequence number, or at the lowest that waits."""
        buffer = self._streams[side & 1].buffer
        self._streams[side & 1] = start_stream(self._flows, side, buffer, number, seq)

    def _add_ack(self, side: int, packet: WalkedPacket) -> None:
        """Add an acknowledgement of what a side sent."""
        flows = self._flows
        if flows.start_seq[side] >= 0:
            acked = unwrap_seq(packet.ack, int(flows.acked_seq[side]))
            if acked > flows.acked_seq[side]:
                flows.acked_seq[side], flows.acked_ts[side] = acked, packet.ts

    def _add_data(self, side: int, seq: int, packet: WalkedPacket, arrival: int) -> None:
        flows, stream = self._flows, self._streams[side & 1]
        is_known, waiting = flows.start_seq[side] >= 0, stream.buffer.segments
        offset = unwrap_seq(seq, stream.next if is_known else waiting[0].offset if waiting else seq)
        segment = Segment(offset, packet.captured, packet.missing, packet.at, packet.ts, packet.number, arrival)
        if not is_known:
            stream.buffer.add(segment)
            return
        before = stream.next
        stream.add(segment, moment_of(packet.number), self.pieces)
        if stream.next > before:
            flows.data_ts[self._flow], flows.strays[self._flow] = packet.ts, 0

    def _deliver_due(self, side: int, number: int, arrival: int) -> None:
        """Deliver what waits for the start of a stream or behind a gap, if a packet ends that."""
        flows = self._flows
        if flows.start_seq[side] < 0:
            if arrival + 1 < START_PACKETS:
                return
            self._start(side, number)
        stream, moment = self._streams[side & 1], moment_of(number, AFTER_GAP + (side & 1))
        stream.deliver_buffered(moment, self.pieces)
        while stream.buffer.segments:
            is_acked = flows.acked_seq[side] > stream.next
            is_late = is_acked and arrival - stream.buffer.segments[0].arrival >= REORDER_PACKETS_MAX
            if not (is_late or stream.buffer.is_over_limit):
                break
            stream.skip_gap(moment, self.pieces)
