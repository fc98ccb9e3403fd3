"""The packets that open and end connections: SYN, FIN and RST, and acknowledgements that show where streams start."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kwire.capture.index.arrays import Ints
from kwire.capture.index.scan.packet_headers import PacketHeaders
from kwire.capture.index.streams.flow_table import FIN_END, RST_END, SYN_ANSWER, SYN_PLAIN, FlowTable
from kwire.capture.tcp.flags import ACK, FIN, RST, SYN
from kwire.capture.tcp.sequence_numbers import SEQ_MASK


class _ControlPacket(NamedTuple):
    """A packet with SYN, FIN or RST. size: of its payload on the wire."""

    flow: int
    side: int
    flags: int
    number: int
    ts: int
    seq: int
    size: int


def apply_control_flags(flows: FlowTable, flow: Ints, headers: PacketHeaders) -> None:
    """Process the packets that open and close connections; mark the flows in which one does neither as irregular."""
    rows = np.nonzero(headers.flags & (SYN | FIN | RST))[0]
    columns = flow[rows], *(getattr(headers, name)[rows] for name in ("side", "flags", "number", "ts", "seq"))
    size = (headers.captured + headers.missing)[rows]
    packets = [_ControlPacket(*row) for row in zip(*(column.tolist() for column in (*columns, size)), strict=True)]
    for packet in packets:
        if packet.flags & SYN:
            _apply_syn(flows, packet)
    _find_other_starts(flows, flow, headers)
    for packet in packets:
        if not packet.flags & SYN:
            _apply_end(flows, packet)
    # No TCP implementation ends a connection with its SYN.
    is_odd = (headers.flags[rows] & SYN > 0) & (headers.flags[rows] & (FIN | RST) > 0)
    is_later = (headers.flags[rows] & SYN > 0) & (headers.number[rows] > flows.end_packet[flow[rows]])
    flows.is_irregular[flow[rows[is_odd | is_later]]] = 1


def _apply_end(flows: FlowTable, packet: _ControlPacket) -> None:
    """Process a FIN or RST."""
    flow, fins = packet.flow, flows.fin_seq
    if packet.flags & FIN and flows.known_from[2 * flow + packet.side] <= packet.number:
        fins[2 * flow + packet.side] = (packet.seq + packet.size) & SEQ_MASK
        flows.fin_ts[2 * flow + packet.side] = packet.ts
    if packet.flags & FIN and flows.fin_side[flow] < 0:
        flows.fin_side[flow] = packet.side
    if flows.end_reason[flow]:
        return
    if packet.flags & RST or (fins[2 * flow] >= 0 and fins[2 * flow + 1] >= 0):
        flows.end_reason[flow] = RST_END if packet.flags & RST else FIN_END
        flows.end_packet[flow], flows.end_ts[flow] = packet.number, packet.ts


def _apply_syn(flows: FlowTable, packet: _ControlPacket) -> None:
    flow, at, first = packet.flow, 2 * packet.flow + packet.side, (packet.seq + 1) & SEQ_MASK
    is_answer = bool(packet.flags & ACK)
    is_start = flows.start_seq[at] in {-1, first}
    flows.syns[at] |= SYN_ANSWER if is_answer else SYN_PLAIN
    is_simultaneous = bool(flows.syns[at] & flows.syns[at ^ 1] & SYN_PLAIN)
    if flows.end_reason[flow] or packet.size or is_simultaneous or not is_start:
        flows.is_irregular[flow] = 1
        return
    if flows.start_seq[at] < 0:
        _set_start(flows, at, first, packet.number)
    if flows.opener[flow] < 0:
        flows.opener[flow] = 1 - packet.side if is_answer else packet.side


def _set_start(flows: FlowTable, side: int, seq: int, number: int) -> None:
    """Set the number of the first byte of a side, which a packet shows."""
    flows.start_seq[side] = flows.next_seq[side] = flows.acked_seq[side] = seq
    flows.known_from[side], flows.starts_known[side] = number, 1


def _find_other_starts(flows: FlowTable, flow: Ints, headers: PacketHeaders) -> None:
    """Find the start of streams whose SYN is missing: the other side acknowledges it before it has sent anything."""
    own = 2 * flow + headers.side
    is_known = (flows.starts_known[own] > 0) & (flows.known_from[own] <= headers.number)
    is_answered = (headers.flags & ACK > 0) & is_known & (flows.start_seq[own ^ 1] < 0)
    if not bool(is_answered.any()):
        return
    rows = np.nonzero(is_answered)[0]
    seq = headers.seq[rows] + (headers.flags[rows] & SYN > 0)
    rows = rows[(seq & SEQ_MASK) == flows.start_seq[own[rows]] & SEQ_MASK]
    sides, first = np.unique(own[rows] ^ 1, return_index=True)
    for side, index in zip(sides.tolist(), rows[first].tolist(), strict=True):
        _set_start(flows, side, int(headers.ack[index]), int(headers.number[index]))
