"""Reassembly of one direction of a TCP connection: ordered bytes, and the gaps that the capture leaves."""

from __future__ import annotations

from bisect import bisect_left, insort
from operator import attrgetter
from typing import NamedTuple

from kwire.capture.model import Flow, MissingBytes, Segment, StreamData
from kwire.capture.tcp import stream_limits as limits
from kwire.capture.tcp.sequence_numbers import SEQ_MASK, unwrap_seq

# How much may be buffered for all connections together; above it, the gaps that were found first are skipped.
TOTAL_BUFFERED_SIZE_MAX = 256 * 1024 * 1024
# Memory of a buffered segment in addition to its bytes.
_SEGMENT_COST = 300

_SEQ_HALF = 1 << 31
_SEQ = attrgetter("seq")


class _BufferedSegment(NamedTuple):
    """A segment after a gap. `seq` is unwrapped; `arrival` counts the packets of the connection."""

    seq: int
    ts: int
    payload: bytes
    missing: int
    arrival: int
    packet: int


class BufferBudget:
    """The memory of the segments that all connections have buffered after gaps."""

    def __init__(self) -> None:
        """Nothing is buffered."""
        self._size = 0

    @property
    def is_exceeded(self) -> bool:
        """Whether it is above the limit."""
        return self._size > TOTAL_BUFFERED_SIZE_MAX

    def reserve(self, payload: bytes) -> None:
        """Count one more segment."""
        self._size += len(payload) + _SEGMENT_COST

    def release(self, payload: bytes) -> None:
        """Count one segment less."""
        self._size -= len(payload) + _SEGMENT_COST


class TcpStreamReassembler:
    """Reassembles one direction. Sequence numbers are unwrapped: they continue to grow where TCP's wrap at 2^32."""

    def __init__(self, flow: Flow, side: int, budget: BufferBudget) -> None:
        """`side` is the sender; its first sequence number is not known yet."""
        self._budget = budget
        self.flow = flow
        self.side = side
        self.start_seq: int | None = None
        self.saw_syn = False
        self.next_seq = 0
        self.acked_seq = 0
        self.last_ts = 0
        self.fin_seq: int | None = None
        # The times of the packets that showed `acked_seq` and `fin_seq`.
        self._acked_ts = self._fin_ts = 0
        self._buffered: list[_BufferedSegment] = []
        self._buffered_size = 0

    @property
    def has_buffered(self) -> bool:
        """Whether segments are buffered, after a gap or until the start is known."""
        return bool(self._buffered)

    def set_start(self, seq: int, *, is_certain: bool) -> None:
        """Set the sequence number of the first byte."""
        self.flow.starts_known[self.side] = is_certain
        if self._buffered:
            # Buffered segments were unwrapped near their own first number; move the start so that both agree.
            seq = unwrap_seq(seq, self._buffered[0].seq)
        self.start_seq = self.next_seq = self.acked_seq = seq
        self.flow.starts[self.side] = seq & SEQ_MASK

    def is_beyond(self, seq: int, distance: int) -> bool:
        """Whether the number lies further than `distance` from the start, in either direction."""
        assert self.start_seq is not None
        return abs(unwrap_seq(seq, self.start_seq) - self.start_seq) > distance

    def is_far_behind(self, seq: int) -> bool:
        """Whether the number lies further before the next byte than any retransmission can."""
        if self.start_seq is None:
            return False
        return (seq - self.next_seq + _SEQ_HALF) & SEQ_MASK < _SEQ_HALF - limits.RESENT_DISTANCE_MAX

    def is_near(self, seq: int) -> bool:
        """Whether the number is one that this side may have reached."""
        is_known = self.start_seq is not None
        return (
            is_known and (seq - self.next_seq + limits.RESENT_DISTANCE_MAX) & SEQ_MASK <= 2 * limits.RESENT_DISTANCE_MAX
        )

    def add_segment(self, seq: int, segment: Segment, arrival: int) -> list[StreamData | MissingBytes]:
        """Add a segment whose first byte has the number `seq`; return what can now be delivered in order."""
        reference = self.next_seq if self.start_seq is not None else (self._buffered[0].seq if self._buffered else seq)
        seq = unwrap_seq(seq, reference)
        new = _BufferedSegment(seq, segment.ts, segment.payload, segment.missing, arrival, segment.packet)
        events: list[StreamData | MissingBytes] = []
        if self.start_seq is None or seq > self.next_seq or self._buffered:
            self._buffer_segment(new)
            if self.start_seq is not None:
                self._deliver_buffered(events)
        else:
            self._deliver_segment(new, events)
        return events

    def _buffer_segment(self, new: _BufferedSegment) -> None:
        """Store the bytes that are not buffered yet: where segments overlap, the bytes that came first are used."""
        at, end = new.seq, new.seq + len(new.payload)
        index = max(bisect_left(self._buffered, at, key=_SEQ) - 1, 0)
        pieces: list[_BufferedSegment] = []
        while index < len(self._buffered) and self._buffered[index].seq < end:
            other = self._buffered[index]
            if other.seq > at:
                pieces.append(new._replace(seq=at, payload=new.payload[at - new.seq : other.seq - new.seq], missing=0))
            at = max(at, other.seq + len(other.payload))
            index += 1
        rest, missing = new.payload[at - new.seq :], end + new.missing - max(at, end)
        if rest or missing > 0:
            pieces.append(new._replace(seq=at, payload=rest, missing=max(missing, 0)))
        for piece in pieces:
            insort(self._buffered, piece, key=_SEQ)
            self._buffered_size += len(piece.payload)
            self._budget.reserve(piece.payload)

    def record_ack(self, ack: int, ts: int) -> None:
        """Record that the receiver has everything before `ack`, as a packet of this time shows."""
        if self.start_seq is not None:
            acked_seq = unwrap_seq(ack, self.acked_seq)
            if acked_seq > self.acked_seq:
                self.acked_seq, self._acked_ts = acked_seq, ts

    def record_fin(self, seq: int, ts: int) -> None:
        """Record a FIN with this sequence number: the bytes of this side end before it."""
        if self.start_seq is not None:
            self.fin_seq, self._fin_ts = unwrap_seq(seq, self.next_seq), ts

    def start_at_lowest(self) -> list[StreamData | MissingBytes]:
        """Start at the lowest buffered number, where no SYN was captured."""
        if self.start_seq is not None or not self._buffered:
            return []
        self.set_start(self._buffered[0].seq, is_certain=False)
        events: list[StreamData | MissingBytes] = []
        self._deliver_buffered(events)
        return events

    def skip_expired_gaps(self, arrival: int) -> list[StreamData | MissingBytes]:
        """Report the gaps whose limits are reached as missing, and continue after them."""
        events: list[StreamData | MissingBytes] = []
        while self._buffered and self.start_seq is not None:
            first = self._buffered[0]
            if first.seq <= self.next_seq:
                # It was buffered until the other side showed the start of the stream.
                self._deliver_buffered(events)
                continue
            is_late = self.acked_seq > self.next_seq and arrival - first.arrival >= limits.REORDER_PACKETS_MAX
            if not (
                is_late
                or len(self._buffered) > limits.BUFFERED_COUNT_MAX
                or self._buffered_size > limits.BUFFERED_SIZE_MAX
            ):
                break
            self._skip_gap(events)
        return events

    def skip_all_gaps(self) -> list[StreamData | MissingBytes]:
        """Report every gap as missing, and continue after the last one."""
        events = self.start_at_lowest()
        while self._buffered:
            self._skip_gap(events)
        return events

    def close(self) -> list[StreamData | MissingBytes]:
        """End the stream: report every gap, and bytes at the end that only acknowledgements or a FIN show."""
        events = self.skip_all_gaps()
        if self.start_seq is None:
            return events
        # A FIN takes one number itself; an acknowledgement of one number more than the data is taken for that.
        end = self.fin_seq if self.fin_seq is not None else self.acked_seq - 1
        if end > self.next_seq:
            # Of a side without any data, as in a capture of one direction, only the other side's packets have a time.
            shown_ts = self._acked_ts if self.fin_seq is None else self._fin_ts
            events.append(self._missing_bytes(self.last_ts or shown_ts, end - self.next_seq, "lost"))
        return events

    def _skip_gap(self, events: list[StreamData | MissingBytes]) -> None:
        first = self._buffered[0]
        if first.seq > self.next_seq:
            events.append(self._missing_bytes(first.ts, first.seq - self.next_seq, "lost"))
        self._deliver_buffered(events)

    def _deliver_buffered(self, events: list[StreamData | MissingBytes]) -> None:
        count = 0
        for segment in self._buffered:
            if segment.seq > self.next_seq:
                break
            self._deliver_segment(segment, events)
            self._buffered_size -= len(segment.payload)
            self._budget.release(segment.payload)
            count += 1
        del self._buffered[:count]

    def _deliver_segment(self, segment: _BufferedSegment, events: list[StreamData | MissingBytes]) -> None:
        """Deliver the new bytes of a segment that begins at or before the next byte. Bytes that came first are used."""
        assert self.start_seq is not None
        known = self.next_seq - segment.seq
        size = len(segment.payload)
        if known >= size + segment.missing:
            return
        self.last_ts = segment.ts
        if known < size:
            payload = segment.payload[known:] if known else segment.payload
            offset = self.next_seq - self.start_seq
            events.append(StreamData(self.flow, self.side, segment.ts, offset, payload, segment.packet))
            self.next_seq += size - known
        if segment.missing:
            end = segment.seq + size + segment.missing
            events.append(self._missing_bytes(segment.ts, end - self.next_seq, "snaplen"))

    def _missing_bytes(self, ts: int, size: int, cause: str) -> MissingBytes:
        assert self.start_seq is not None
        missing = MissingBytes(self.flow, self.side, ts, self.next_seq - self.start_seq, size, cause)
        self.next_seq += size
        return missing
