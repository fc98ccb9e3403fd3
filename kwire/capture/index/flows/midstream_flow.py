"""One flow whose SYN was not captured, read by the streaming pipeline until both of its sides are synchronized.

Only the pipeline can find the first frames and the client. After that, the next frames follow the known ones, so the
columns continue.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

from kwire.capture.kafka.detection import ConnectionClassifier
from kwire.capture.kafka.exchange import Exchange
from kwire.capture.kafka.exchange_pairing import IDENTIFYING_API_KEYS, ExchangePairer, OpenExchanges
from kwire.capture.kafka.frame_extractor import FrameExtractor
from kwire.capture.model import Endpoint, Flow, Frame, FrameEvent, Segment, StreamData, StreamEvent, StreamGap
from kwire.capture.options import Options
from kwire.capture.tcp.flags import SYN
from kwire.capture.tcp.reassembly import ConnectionTable
from kwire.capture.tcp.sequence_numbers import SEQ_MODULUS
from kwire.capture.tcp.tcp_stream import TcpStreamReassembler

# The pipeline only compares the endpoints.
PLACEHOLDER_ENDPOINTS: tuple[Endpoint, Endpoint] = (b"\x00", 0), (b"\x00", 1)
# Whether a Produce request expects a response is in its body; no other body is needed.
_OPTIONS = Options(sessions=False, decoded_messages=frozenset({"ProduceRequest"}))
# Limits of packets, payload bytes and pending requests; only the streaming pipeline reads flows above them.
PACKETS_MAX = 2048
SIZE_MAX = 2 * 1024 * 1024
_PENDING_MAX = 1000


class StreamChunk(NamedTuple):
    """New bytes from one packet: their offset in the stream and in the file (`at`).

    completed_by: the packet with which all bytes up to the end were there.
    """

    offset: int
    size: int
    at: int
    ts: int
    number: int
    completed_by: int


class SideState(NamedTuple):
    """The state of a side: unwrapped sequence numbers of its first byte, of its next byte, and of the acknowledgement.

    last_ts: of the latest byte. partial_frame: the chunks of the incomplete frame.
    """

    start_seq: int
    next_seq: int
    acked_seq: int
    last_ts: int
    partial_frame: list[StreamChunk]


class MidstreamFlow:
    """Reads the packets of one flow until `resume_state` returns a state or `has_failed` is true."""

    def __init__(self) -> None:
        """No packet has been added."""
        self._connections = ConnectionTable()
        self._classifier = ConnectionClassifier(_OPTIONS)
        self._pairer = ExchangePairer(_OPTIONS)
        self._flow: Flow | None = None
        self._packets: dict[int, tuple[int, int]] = {}
        self._chunks: tuple[list[StreamChunk], list[StreamChunk]] = ([], [])
        self._has_pair = False
        self.size = 0
        self.has_failed = False
        self.frames: list[tuple[Frame, int]] = []
        """The frames, each with the number of the packet that completed it; also exchanges and gaps."""
        self.exchanges: list[tuple[Exchange, int]] = []
        self.gaps: list[tuple[StreamGap, int]] = []

    @property
    def flow(self) -> Flow:
        """The connection, once it has data."""
        assert self._flow is not None
        return self._flow

    @property
    def is_undecided(self) -> bool:
        """Whether the client is not known yet."""
        return self._flow is None or self._flow.client is None

    def add_packet(self, segment: Segment, at: int) -> None:
        """Add a packet. Args: at: file offset of its payload."""
        self._packets[segment.packet] = at, segment.seq
        self.size += len(segment.payload)
        exceeds_limits = len(self._packets) > PACKETS_MAX or self.size > SIZE_MAX
        self.has_failed |= bool(segment.flags & SYN) or segment.missing > 0 or exceeds_limits
        for event in self._connections.process_segment(segment):
            if self.has_failed:
                break
            self._add_data(event, segment.packet)

    def resume_state(self) -> tuple[tuple[SideState, SideState], OpenExchanges] | None:
        """The state of both sides and of the pairing if both sides are synchronized; None before."""
        if self._flow is None or not self._has_pair or self.has_failed:
            return None
        reassemblers = self._connections.stream_reassemblers(PLACEHOLDER_ENDPOINTS)
        extractors = self._classifier.frame_extractors(self._flow)
        open_exchanges = self._pairer.open_exchanges(self._flow)
        if reassemblers is None or open_exchanges is None or not self._is_simple(open_exchanges):
            return None
        first, second = map(self._side_state, reassemblers, extractors)
        return None if first is None or second is None else ((first, second), open_exchanges)

    def side_of(self, frame: Frame) -> int:
        """The side that sent the frame."""
        return self.flow.client_side if frame.is_request else 1 - self.flow.client_side

    def body_ranges(self, frame: Frame) -> list[tuple[int, int]]:
        """The ranges of the file that contain the body of a frame: offset and size of each."""
        chunks = self._chunks[self.side_of(frame)]
        at, end = frame.offset + 4, frame.offset + 4 + frame.size
        index = bisect_right(chunks, at, key=_chunk_offset) - 1
        out = []
        while at < end:
            chunk = chunks[index]
            skip = at - chunk.offset
            size = min(chunk.size - skip, end - at)
            out.append((chunk.at + skip, size))
            at, index = at + size, index + 1
        return out

    def _add_data(self, event: StreamEvent, number: int) -> None:
        if not isinstance(event, StreamData):
            self.has_failed = True
            return
        self._flow = event.flow
        at, seq = self._packets[event.packet]
        skip = (event.flow.starts[event.side] + event.offset - seq) % SEQ_MODULUS
        chunk = StreamChunk(event.offset, len(event.payload), at + skip, event.ts, event.packet, number)
        self._chunks[event.side].append(chunk)
        for frame_event in self._classifier.take_event(event):
            self._add_frame(frame_event, number)
        self.has_failed |= event.flow.kind not in {None, "kafka"}

    def _add_frame(self, event: FrameEvent, number: int) -> None:
        if isinstance(event, StreamGap):
            self.gaps.append((event, number))
        elif isinstance(event, Frame) and event.damage is None:
            self.frames.append((event, number))
            for exchange in self._pairer.take_event(event):
                self.exchanges.append((exchange, number))
                self._check_exchange(exchange)
        else:
            self.has_failed = True

    def _check_exchange(self, exchange: Exchange) -> None:
        """Fail unless columns can represent the exchange."""
        request = exchange.request
        if (
            request is None
            or request.is_token
            or request.api_key in IDENTIFYING_API_KEYS
            or any(issue.kind == "duplicate_correlation" for issue in request.issues)
        ):
            self.has_failed = True
        elif exchange.response is not None:
            # Brokers respond in order: so requests from before the capture have been answered, too.
            self._has_pair = True

    def _is_simple(self, open_exchanges: OpenExchanges) -> bool:
        ids = {request.correlation_id for request in open_exchanges.requests}
        is_known = not any(request.api_key in IDENTIFYING_API_KEYS for request in open_exchanges.requests)
        return is_known and len(ids) == len(open_exchanges.requests) < _PENDING_MAX

    def _side_state(self, reassembler: TcpStreamReassembler, extractor: FrameExtractor | None) -> SideState | None:
        """The state of a side; None if it is not synchronized."""
        if extractor is None or not extractor.is_synchronized:
            return None
        if reassembler.start_seq is None or reassembler.has_buffered or reassembler.fin_seq is not None:
            return None
        open_at = extractor.partial_offset
        # The columns use negative starts for unknown ones.
        start = reassembler.start_seq if reassembler.start_seq >= 0 else reassembler.start_seq + SEQ_MODULUS
        shift = start - reassembler.start_seq
        partial_frame: list[StreamChunk] = []
        if open_at is not None:
            chunks = self._chunks[reassembler.side]
            for chunk in chunks[bisect_right(chunks, open_at, key=_chunk_offset) - 1 :]:
                skip = max(open_at - chunk.offset, 0)
                rest = chunk._replace(offset=chunk.offset + skip, size=chunk.size - skip, at=chunk.at + skip)
                partial_frame.append(rest)
        next_seq, acked_seq = reassembler.next_seq + shift, reassembler.acked_seq + shift
        return SideState(start, next_seq, acked_seq, reassembler.last_ts, partial_frame)


def _chunk_offset(chunk: StreamChunk) -> int:
    return chunk.offset
