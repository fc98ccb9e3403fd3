"""Reassemble a connection from packet headers alone, as `kwire.capture.tcp` does from segments.

Both read every packet in the same order and skip a gap at the same packet. What happens seldom, such as a second
connection of the same ports, makes a flow fail: the streaming pipeline reads it then.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kwire.capture.columnar.recovery.packet_block import CONTROL
from kwire.capture.columnar.recovery.stream_pieces import (
    LOST,
    NO_HEAD,
    SEQ_HALF,
    SNAPLEN,
    BufferedSegment,
    PieceRow,
    Stream,
)
from kwire.capture.index.flows.flow_table import FIN_END, RST_END
from kwire.capture.index.flows.reorder_limits import COUNT_MAX, SIZE_MAX
from kwire.capture.tcp.flags import ACK, FIN, RST, SYN
from kwire.capture.tcp.reassembly import LINGER_NS
from kwire.capture.tcp.sequence_numbers import SEQ_MASK, unwrap_seq
from kwire.capture.tcp.tcp_stream import REORDER_PACKETS_MAX, RESENT_DISTANCE_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kwire.capture.columnar.recovery.packet_block import PacketBlock, PacketTable

# Above every packet number.
AFTER_CAPTURE = 1 << 62

_SEQ = itemgetter(0)
# Shorter runs are added packet by packet; this many packets at once. Acknowledgements of a run are near each other.
_RUN_MIN = 256
_ROWS_COUNT = 256
_ACK_DISTANCE_MAX = 1 << 30


class PacketRow(NamedTuple):
    """A packet, with the values of `PacketTable`."""

    number: int
    ts: int
    side: int
    seq: int
    ack: int
    flags: int
    at: int
    captured: int
    missing: int
    head: int
    word: int


class FlowReassembly:
    """Both directions of one connection whose beginning was captured.

    opener: the side that opened the connection. end_number, end_ts: the packet that ended it, and its time.
    """

    def __init__(self) -> None:
        """No packet has been added."""
        self.opener: int | None = None
        self.has_failed = False
        self.end_reason = 0
        self.end_number = AFTER_CAPTURE
        self._streams = (Stream(), Stream())
        self._plain_syns: set[int] = set()
        self._order = 0
        self._arrival = 0
        self.end_ts = 0
        self._is_closed = False
        self._is_established = False

    def add_packets(self, block: PacketBlock, begin: int, end: int) -> None:
        """Add some packets of a block, in the order of the capture."""
        while begin < end and not (self.has_failed or self._is_closed):
            stop = min(block.run_end(begin), end)
            if stop - begin >= _RUN_MIN and self._add_run(block.columns, begin, stop):
                begin = stop
                continue
            stop = min(begin + _ROWS_COUNT, end)
            self._add_rows(block.rows(begin, stop))
            begin = stop

    def _add_run(self, packets: PacketTable, begin: int, stop: int) -> bool:
        """Add packets in order to streams in order. Returns: whether they are."""
        if not self._is_established or any(stream.buffered for stream in self._streams):
            return False
        chosen, reached_acks = [], []
        for side, stream in enumerate(self._streams):
            rows = begin + np.nonzero(packets.side[begin:stop] == side)[0]
            if len(rows) and packets.seq[rows[0]] != stream.reached & SEQ_MASK:
                return False
            acked = self._streams[1 - side].acked
            acks = packets.ack[rows[packets.flags[rows] & ACK != 0]]
            distances = ((acks - acked + SEQ_HALF) & SEQ_MASK) - SEQ_HALF
            if len(distances) and int(np.abs(distances).max()) > _ACK_DISTANCE_MAX:
                return False
            chosen.append(rows[packets.captured[rows] > 0])
            reached_acks.append(acked + max(int(distances.max(initial=0)), 0))
        count = (packets.captured[begin:stop] > 0).astype(np.int64) + (packets.missing[begin:stop] > 0)
        order = self._order + np.cumsum(count) - count
        for stream, rows, other, acked in zip(self._streams, chosen, self._streams[::-1], reached_acks, strict=True):
            other.acked = acked
            if len(rows):
                stream.add_segments(packets, rows, order[rows - begin])
        self._order += int(count.sum())
        self._arrival += stop - begin
        return True

    def _add_rows(self, rows: Iterable[tuple[int, ...]]) -> None:
        """Add packets one by one, each as a `PacketRow`."""
        first, second = self._streams
        arrival = self._arrival
        for number, ts, side, seq, ack, flags, at, size, missing, head, word in rows:
            stream, other = (second, first) if side else (first, second)
            arrival += 1
            if flags & CONTROL or not self._is_established:
                self._arrival = arrival
                self._add_unusual(PacketRow(number, ts, side, seq, ack, flags, at, size, missing, head, word))
                if self.has_failed or self._is_closed:
                    return
                arrival = self._arrival
                continue
            reached = stream.reached
            is_next = seq == reached & SEQ_MASK
            if ack != other.acked & SEQ_MASK and flags & ACK and (is_next or stream.is_near(seq)):
                distance = ((ack - other.acked + SEQ_HALF) & SEQ_MASK) - SEQ_HALF
                if distance > 0:
                    other.acked += distance
            if size and is_next and at >= 0 and not missing:
                # It follows everything that was captured of the stream.
                stream.reached = reached + size
                if stream.buffered:
                    stream.buffered.append((reached, size, 0, at, ts, number, arrival, head, word))
                    stream.buffered_size += size
                    self._check_limits(stream)
                else:
                    stream.pieces.append((self._order, reached - stream.base, size, at, ts, number, number, head, word))
                    self._order += 1
                    stream.next = reached + size
                    stream.last_ts = ts
            elif size or missing:
                self._arrival = arrival
                self._add_data(PacketRow(number, ts, side, seq, ack, flags, at, size, missing, head, word))
            if first.buffered or second.buffered or self.has_failed:
                self._arrival = arrival
                self._skip_old_gaps(number)
                if self.has_failed:
                    return
        self._arrival = arrival

    def _skip_old_gaps(self, number: int) -> None:
        for stream in self._streams:
            if stream.buffered and self._arrival - stream.buffered[0][6] >= REORDER_PACKETS_MAX:
                self._skip_expired_gaps(stream, number)

    def take_pieces(self, side: int) -> list[PieceRow]:
        """What the packets since the last call completed of a side."""
        stream = self._streams[side]
        pieces, stream.pieces = stream.pieces, []
        return pieces

    def close(self, number: int) -> None:
        """The connection is closed: what is still buffered follows, and what only acknowledgements or a FIN show.

        Args: number: of the packet at which it is closed.
        """
        for stream in self._streams:
            while stream.buffered:
                self._skip_gap(stream, number)
            if stream.start is not None:
                end = stream.fin if stream.fin is not None else stream.acked - 1
                if end > stream.next:
                    self._add_missing(stream, stream.last_ts, end - stream.next, LOST, number)

    def _add_unusual(self, row: PacketRow) -> None:
        """Add a packet that opens or ends the connection, or belongs to its handshake, or comes after its end."""
        stream, other = self._streams[row.side], self._streams[1 - row.side]
        has_data, seq, flags = bool(row.captured or row.missing), row.seq, row.flags
        if self.end_reason and row.ts - self.end_ts > LINGER_NS:
            # The connection was closed; only another one could have more data.
            self._is_closed, self.has_failed = True, has_data or bool(flags & SYN)
            return
        if flags & SYN:
            seq = seq + 1 & SEQ_MASK
            self._add_syn(stream, row, seq, has_data=has_data)
        if flags & ACK:
            if other.start is None and stream.saw_syn and seq == stream.start:
                other.set_start(row.ack)
            if not flags & RST and (stream.is_near(seq) or (stream.start is None and not other.saw_syn)):
                other.record_ack(row.ack)
        if has_data:
            if stream.start is None or self.end_reason:
                self.has_failed = True
                return
            self._add_data(row)
        elif stream.start is None and not flags & SYN and self._arrival == 1:
            # A stray packet belongs to no connection yet.
            self._arrival = 0
            return
        self._record_end(row, seq)

    def _record_end(self, row: PacketRow, seq: int) -> None:
        """Record a FIN or RST, after the data of its packet."""
        stream = self._streams[row.side]
        if row.flags & FIN and stream.start is not None:
            stream.fin = unwrap_seq(seq + row.captured + row.missing & SEQ_MASK, stream.next)
        for each in self._streams:
            if each.buffered:
                self._skip_expired_gaps(each, row.number)
        is_over = row.flags & RST or all(each.fin is not None for each in self._streams)
        if is_over and not self.end_reason:
            self.end_reason = RST_END if row.flags & RST else FIN_END
            self.end_number, self.end_ts = row.number, row.ts
        self._is_established = not self.end_reason and all(each.start is not None for each in self._streams)

    def _add_syn(self, stream: Stream, row: PacketRow, first: int, *, has_data: bool) -> None:
        is_known = stream.start is not None
        is_answer = bool(row.flags & ACK)
        if has_data or row.flags & (FIN | RST) or self.end_reason or (is_known and stream.start != first):
            self.has_failed = True
            return
        if not is_known:
            stream.set_start(first)
        stream.saw_syn = True
        if not is_answer:
            self._plain_syns.add(row.side)
        if len(self._plain_syns) == 2:
            self.has_failed = True
        elif self.opener is None:
            self.opener = 1 - row.side if is_answer else row.side

    def _add_data(self, row: PacketRow) -> None:
        """Add a packet with data to its stream."""
        number, ts, side, seq, _, _, at, size, missing, head, word = row
        stream = self._streams[side]
        if stream.is_far_behind(seq) or (size and at < 0):
            self.has_failed = True
            return
        new = BufferedSegment(unwrap_seq(seq, stream.next), size, missing, at, ts, number, self._arrival, head, word)
        if new.seq - stream.next > RESENT_DISTANCE_MAX:
            self.has_failed = True
            return
        if new.seq > stream.next or stream.buffered:
            self._buffer_segment(stream, new)
            self._deliver_buffered(stream, number)
        else:
            self._deliver_segment(stream, new, number)
        stream.reached = stream.buffered[-1][0] + stream.buffered[-1][1] if stream.buffered else stream.next

    def _buffer_segment(self, stream: Stream, new: BufferedSegment) -> None:
        """Store the bytes that are not buffered yet: where segments overlap, the bytes that came first are used."""
        buffered = stream.buffered
        if not buffered or new.seq >= buffered[-1][0] + buffered[-1][1]:
            pieces = [new] if new.size or new.missing else []
        else:
            pieces = _new_parts(buffered, new)
        for piece in pieces:
            if not buffered or piece.seq >= buffered[-1][0]:
                buffered.append(piece)
            else:
                insort(buffered, piece, key=_SEQ)
            stream.buffered_size += piece.size
        self._check_limits(stream)

    def _check_limits(self, stream: Stream) -> None:
        """The streaming pipeline limits what all connections have buffered together."""
        self.has_failed |= len(stream.buffered) > COUNT_MAX or stream.buffered_size > SIZE_MAX

    def _skip_expired_gaps(self, stream: Stream, number: int) -> None:
        while stream.buffered:
            seq, arrival = stream.buffered[0][0], stream.buffered[0][6]
            if seq <= stream.next:
                self._deliver_buffered(stream, number)
                continue
            if not (stream.acked > stream.next and self._arrival - arrival >= REORDER_PACKETS_MAX):
                break
            self._skip_gap(stream, number)

    def _skip_gap(self, stream: Stream, number: int) -> None:
        seq, ts = stream.buffered[0][0], stream.buffered[0][4]
        if seq > stream.next:
            self._add_missing(stream, ts, seq - stream.next, LOST, number)
        self._deliver_buffered(stream, number)

    def _deliver_buffered(self, stream: Stream, number: int) -> None:
        count = 0
        for segment in stream.buffered:
            if segment[0] > stream.next:
                break
            self._deliver_segment(stream, segment, number)
            stream.buffered_size -= segment[1]
            count += 1
        del stream.buffered[:count]
        if not stream.buffered:
            stream.reached = stream.next

    def _deliver_segment(self, stream: Stream, segment: PieceRow, number: int) -> None:
        """Deliver the new bytes of a segment that begins at or before the next byte."""
        seq, size, missing, at, ts, own_number, _, head, word = segment
        known = stream.next - seq
        if known >= size + missing:
            return
        stream.last_ts = ts
        if known < size:
            if known:
                size, at, head = size - known, at + known, NO_HEAD
            offset = stream.next - stream.base
            stream.pieces.append((self._order, offset, size, at, ts, own_number, number, head, word))
            self._order += 1
            stream.next += size
        if missing:
            self._add_missing(stream, ts, seq + segment[1] + missing - stream.next, SNAPLEN, number)

    def _add_missing(self, stream: Stream, ts: int, size: int, cause: int, number: int) -> None:
        offset = stream.next - stream.base
        stream.pieces.append((self._order, offset, size, cause, ts, 0, number, NO_HEAD, 0))
        self._order += 1
        stream.next += size


def _new_parts(buffered: list[PieceRow], new: BufferedSegment) -> list[BufferedSegment]:
    """The parts of a segment that lie between those that are buffered."""
    at, end = new.seq, new.seq + new.size
    index = max(bisect_left(buffered, at, key=_SEQ) - 1, 0)
    parts: list[BufferedSegment] = []
    while index < len(buffered) and buffered[index][0] < end:
        seq, size = buffered[index][:2]
        if seq > at:
            parts.append(_part(new, at, seq - at, 0))
        at = max(at, seq + size)
        index += 1
    rest, missing = max(end - at, 0), end + new.missing - max(at, end)
    if rest or missing > 0:
        parts.append(_part(new, at, rest, max(missing, 0)))
    return parts


def _part(segment: BufferedSegment, seq: int, size: int, missing: int) -> BufferedSegment:
    """A part of a segment from a sequence number on."""
    skip = seq - segment.seq
    is_whole = not skip and size == segment.size
    head = segment.head if is_whole else NO_HEAD
    return segment._replace(seq=seq, size=size, missing=missing, at=segment.at + skip, head=head)
