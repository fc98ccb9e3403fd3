"""Reassembly of TCP connections: from segments to the ordered bytes and gaps of each connection. Source: RFC 9293.

A connection ends by FIN on both sides, or by RST, and some quiet time after it; by a SYN that reuses its addresses; or
with the capture. Where too many connections are open, those that have been quiet for longest are closed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from kwire.capture.model import CaptureIssue, Endpoint, Flow, FlowClosed, Segment, StreamEvent
from kwire.capture.tcp.flags import ACK, FIN, RST, SYN
from kwire.capture.tcp.sequence_numbers import SEQ_MASK
from kwire.capture.tcp.stream_limits import LATE_SYN_DISTANCE, LINGER_NS, RESET_EFFECT_NS, START_PACKETS
from tests.support.capture_model.tcp_stream import BufferBudget, TcpStreamReassembler

# So many connections may be open at once; then the half that has been quiet for longest is closed. A port scan opens
# one with each packet.
OPEN_MAX = 100_000
# Address pairs whose epochs are counted; above it, those without an open connection are removed.
_EPOCHS_MAX = 10 * OPEN_MAX


class _Connection:
    """Both streams of a connection, and its state."""

    def __init__(self, flow: Flow, budget: BufferBudget) -> None:
        self.flow = flow
        self.streams = (TcpStreamReassembler(flow, 0, budget), TcpStreamReassembler(flow, 1, budget))
        self.packets = 0
        self.last_ts = 0
        self.end_reason: str | None = None
        self.fin_side: int | None = None
        self.end_ts = 0
        self.last_data_ts = 0
        self.strays = 0
        """Packets since the latest new bytes that are far behind, and acknowledge a plausible number."""
        self._plain_syns: set[int] = set()

    def is_new(self, side: int, seq: int) -> bool:
        """Whether a SYN with this sequence number opens another connection than this one."""
        stream = self.streams[side]
        if stream.start_seq is None:
            return self.end_reason is not None
        first = seq + 1 & SEQ_MASK
        is_early = not stream.saw_syn and self.packets < START_PACKETS * 2
        return stream.is_beyond(first, LATE_SYN_DISTANCE if is_early else 0)

    @property
    def ignored_reset(self) -> bool:
        """Whether the connection sent data after a reset."""
        return self.end_reason == "rst" and self.last_data_ts - self.end_ts > RESET_EFFECT_NS

    def process_segment(self, side: int, segment: Segment) -> Iterator[StreamEvent]:
        """Add one segment of this connection; yield what it completes."""
        self.packets += 1
        self.last_ts = segment.ts
        stream, other = self.streams[side], self.streams[1 - side]
        seq, flags = segment.seq, segment.flags
        if flags & SYN:
            seq = self._process_syn(side, segment)
        if flags & ACK:
            if other.start_seq is None and stream.saw_syn and not stream.is_beyond(seq, 0):
                # A side that has sent nothing yet has usually received nothing either: this completes the handshake.
                other.set_start(segment.ack, is_certain=True)
            # The acknowledgement number of a reset is often invalid; and the side that answers a SYN may first
            # acknowledge data of the connection before.
            if not flags & RST and (stream.is_near(seq) or (stream.start_seq is None and not other.saw_syn)):
                other.record_ack(segment.ack, segment.ts)
        if segment.payload or segment.missing:
            before = stream.next_seq
            yield from stream.add_segment(seq, segment, self.packets)
            if stream.next_seq > before:
                self.last_data_ts, self.strays = segment.ts, 0
        if flags & FIN:
            self.fin_side = side if self.fin_side is None else self.fin_side
            stream.record_fin(seq + len(segment.payload) + segment.missing, segment.ts)
        for each in self.streams:
            if each.has_buffered:
                if each.start_seq is None and self.packets >= START_PACKETS:
                    yield from each.start_at_lowest()
                yield from each.skip_expired_gaps(self.packets)
        if self.end_reason is None and (flags & RST or all(each.fin_seq is not None for each in self.streams)):
            self.end_reason, self.end_ts = "rst" if flags & RST else "fin", segment.ts

    def _process_syn(self, side: int, segment: Segment) -> int:
        """Record a SYN; return the number of the first byte after it."""
        stream = self.streams[side]
        seq = segment.seq + 1 & SEQ_MASK
        if stream.start_seq is None:
            stream.set_start(seq, is_certain=True)
        stream.saw_syn = True
        if not segment.flags & ACK:
            self._plain_syns.add(side)
        if len(self._plain_syns) == 2:
            # Simultaneous open (RFC 9293, 3.5): only the content of the connection can show the client.
            self.flow.opener = None
        elif self.flow.opener is None:
            self.flow.opener = 1 - side if segment.flags & ACK else side
        return seq

    def close(self, ts: int, reason: str) -> Iterator[StreamEvent]:
        """Yield what is still buffered, and the end of the connection."""
        for stream in self.streams:
            yield from stream.close()
        yield FlowClosed(self.flow, ts, self.end_reason or reason, self.fin_side, self.end_ts or None)


def reassemble_streams(segments: Iterable[Segment | CaptureIssue]) -> Iterator[StreamEvent | CaptureIssue]:
    """Yield the bytes of every connection in order; each connection ends with its `FlowClosed`."""
    table = ConnectionTable()
    for segment in segments:
        if isinstance(segment, CaptureIssue):
            yield segment
        else:
            yield from table.process_segment(segment)
    yield from table.close()


def _is_reuse(connection: _Connection, side: int, segment: Segment) -> bool:
    if segment.flags & SYN:
        return connection.is_new(side, segment.seq)
    if not connection.streams[side].is_far_behind(segment.seq) or not (segment.payload or segment.missing):
        return False
    # Only another connection, whose SYN was not captured, sends a number so far behind. But a single packet with a
    # plausible acknowledgement may just have a damaged number.
    if connection.streams[1 - side].is_near(segment.ack):
        connection.strays += 1
        return connection.strays > 1
    return True


class ConnectionTable:
    """All connections that are open, or ended a moment ago."""

    def __init__(self, on_segment: Callable[[Flow | None, int, Segment], None] | None = None) -> None:
        """`on_segment` receives each segment with its connection and side; None where it belongs to no connection."""
        self._on_segment = on_segment
        self._open: dict[tuple[Endpoint, Endpoint], _Connection] = {}
        self._epochs: dict[tuple[Endpoint, Endpoint], int] = {}
        self._ended: deque[tuple[tuple[Endpoint, Endpoint], _Connection]] = deque()
        self._ts = 0
        self._budget = BufferBudget()
        # The streams with a gap, in the order in which their gaps were found.
        self._waiting: dict[TcpStreamReassembler, None] = {}

    def process_segment(self, segment: Segment) -> Iterator[StreamEvent]:
        """Add a segment; yield what it completes."""
        self._ts = segment.ts
        if self._ended:
            yield from self._close_ended(segment.ts)
        if segment.source <= segment.target:
            key, side = (segment.source, segment.target), 0
        else:
            key, side = (segment.target, segment.source), 1
        connection = self._open.get(key)
        if connection is not None and _is_reuse(connection, side, segment):
            yield from self._close(self._open.pop(key), segment.ts, "reuse")
            connection = None
        if connection is None:
            # A connection is created by a SYN or by data, not by a stray ACK or RST.
            if not (segment.payload or segment.missing or segment.flags & SYN):
                if self._on_segment is not None:
                    self._on_segment(None, side, segment)
                return
            if len(self._open) >= OPEN_MAX:
                yield from self._close_quietest(segment.ts)
            connection = self._new_connection(key, segment.link)
        if self._on_segment is not None:
            self._on_segment(connection.flow, side, segment)
        end_reason = connection.end_reason
        yield from connection.process_segment(side, segment)
        if self._waiting or connection.streams[side].has_buffered:
            yield from self._enforce_budget(connection)
        if connection.end_reason and not end_reason:
            self._ended.append((key, connection))

    def _enforce_budget(self, connection: _Connection) -> Iterator[StreamEvent]:
        """Register the streams with gaps; while all together have too much buffered, skip the oldest gaps."""
        for stream in connection.streams:
            if stream.has_buffered:
                self._waiting.setdefault(stream)
            else:
                self._waiting.pop(stream, None)
        while self._budget.is_exceeded and self._waiting:
            stream = next(iter(self._waiting))
            del self._waiting[stream]
            yield from stream.skip_all_gaps()

    def _close(self, connection: _Connection, now: int, reason: str) -> Iterator[StreamEvent]:
        for stream in connection.streams:
            self._waiting.pop(stream, None)
        return connection.close(now, reason)

    def _new_connection(self, key: tuple[Endpoint, Endpoint], link: str) -> _Connection:
        epoch = self._epochs.get(key, -1) + 1
        self._epochs[key] = epoch
        connection = self._open[key] = _Connection(Flow(key, epoch, link), self._budget)
        return connection

    def _close_quietest(self, now: int) -> Iterator[StreamEvent]:
        by_time = sorted(self._open, key=lambda key: self._open[key].last_ts)
        for key in by_time[: max(len(self._open) // 2, 1)]:
            yield from self._close(self._open.pop(key), now, "quiet")
        if len(self._epochs) > _EPOCHS_MAX:
            self._epochs = {key: self._epochs[key] for key in self._open}

    def _close_ended(self, now: int) -> Iterator[StreamEvent]:
        while self._ended and now - self._ended[0][1].end_ts > LINGER_NS:
            key, connection = self._ended.popleft()
            if connection.ignored_reset:
                connection.end_reason = None
                continue
            # If its addresses were reused, it is closed already.
            if self._open.get(key) is connection:
                del self._open[key]
                yield from self._close(connection, now, "fin")

    def close_quiet_connections(self, before_ts: int) -> Iterator[StreamEvent]:
        """Close every connection without a packet since this time."""
        for key in [key for key, connection in self._open.items() if connection.last_ts < before_ts]:
            yield from self._close(self._open.pop(key), self._ts, "quiet")

    def close(self) -> Iterator[StreamEvent]:
        """Close every open connection."""
        for connection in self._open.values():
            yield from self._close(connection, self._ts, "end")
        self._open.clear()
