"""Export of selected exchanges: their packets as a pcapng file with comments, to open a part of a capture in Wireshark.

Packets are buffered until the exchange that they carry is complete. The sequence number of a packet gives its position
in the stream, and the frames give the range of an exchange.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

from kwire.capture.export.pcapng_writer import PcapngWriter
from kwire.capture.files.packet_reader import read_packets
from kwire.capture.kafka.detection import extract_frames
from kwire.capture.kafka.exchange import Exchange
from kwire.capture.kafka.exchange_pairing import pair_exchanges
from kwire.capture.model import CaptureIssue, FlowClosed, Frame, Packet, StreamGap
from kwire.capture.network.packet_dissector import dissect_packets
from kwire.capture.optional_dependencies import require_cryptography
from kwire.capture.pipeline import merge_issues
from kwire.capture.tcp.flags import SYN
from kwire.capture.tcp.packet_buffer import BufferedPacket, PacketBuffer
from kwire.capture.tcp.reassembly import ConnectionTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import BinaryIO

    from kwire.capture.files.source import Source
    from kwire.capture.kafka.exchange import Outcome
    from kwire.capture.model import Flow, FrameEvent, Segment, StreamEvent
    from kwire.capture.options import Options
    from kwire.capture.tls.key_log import KeyLog

# Memory of all buffered packets; above it the oldest are removed, and counted.
BUFFERED_SIZE_MAX = 512 * 1024 * 1024
# Memory of the packets that wait to be written in the order of the capture.
_QUEUE_SIZE_MAX = 32 * 1024 * 1024
_QUEUE_COUNT_MAX = 20_000
# For a connection that is not closed, the handshake and its retransmissions are enough.
_HANDSHAKE_MAX = 6
_UNREADABLE_KINDS = frozenset({"tls", "not_kafka"})


class _Connection:
    """The buffered packets of a connection: its handshake, and those of each side."""

    def __init__(self, on_release: Callable[[BufferedPacket], None]) -> None:
        self.handshake: list[BufferedPacket] = []
        self.sides = PacketBuffer(on_release), PacketBuffer(on_release)


class _StreamRange(NamedTuple):
    """A selected range of one side of a connection; `is_complete` if the capture has all of it."""

    is_request: bool
    offset: int
    size: int
    is_complete: bool
    comment: str


class Excerpt:
    """Reads captures, and writes the packets of the selected outcomes while it reads."""

    def __init__(self, file: BinaryIO, comment: str) -> None:
        """The caller closes `file`; `comment` is for the whole file."""
        self._file = file
        self._comment = comment
        self._writer: PcapngWriter | None = None
        self._interfaces: dict[int, int] = {}
        self._queue: list[tuple[int, BufferedPacket]] = []
        self._queue_size = 0
        self._arrivals = 0
        self._packet: Packet | None = None
        self._connections: dict[Flow, _Connection] = {}
        self._buffered: dict[int, BufferedPacket] = {}
        self._buffered_size = 0
        self.written = 0
        self.encrypted = 0
        """Selected exchanges of TLS connections. They are not written: a part of their packets cannot be decrypted."""
        self.incomplete = 0
        """Selected frames without all their packets: removed before the frame was complete, or sent in IP fragments."""

    def read_outcomes(self, source: Source, options: Options, keys: KeyLog) -> Iterator[Outcome]:
        """Yield the outcomes of a capture. Each may be selected until the next one is requested."""
        if options.has_key_logs:
            require_cryptography()
        self._connections, self._buffered, self._buffered_size = {}, {}, 0
        events = self._read_events(
            dissect_packets(self._record_packets(read_packets(source, keys, options.unpacked_size_max)))
        )
        return merge_issues(pair_exchanges(self._open_frames(extract_frames(events, options, keys)), options))

    def select_packets(self, outcome: Outcome, request_comment: str, response_comment: str) -> None:
        """Write the packets of an outcome, with a comment on the first packet of each side."""
        if isinstance(outcome, Exchange):
            for side, comment in ((outcome.request, request_comment), (outcome.response, response_comment)):
                if side is not None:
                    frame, is_complete = side.frame, side.frame.damage is None
                    selected = _StreamRange(frame.is_request, frame.offset, frame.size + 4, is_complete, comment)
                    self._select_range(outcome.flow, selected)
        elif isinstance(outcome, StreamGap):
            size = outcome.missing + outcome.skipped
            selected = _StreamRange(outcome.is_request, outcome.offset, size, False, request_comment)
            self._select_range(outcome.flow, selected)

    def release_packets(self, outcome: Outcome) -> None:
        """Release the packets that only this outcome needs."""
        if not isinstance(outcome, Exchange):
            return
        flow = outcome.flow
        connection = self._connections.get(flow)
        if connection is None or flow.client is None:
            return
        for message in (outcome.request, outcome.response):
            if message is not None:
                frame = message.frame
                side = flow.client if frame.is_request else 1 - flow.client
                buffer = connection.sides[side]
                start = flow.starts[side]
                buffer.release_frame(start, frame.offset, frame.size + 4, now=frame.end_ts, arrivals=self._arrivals)

    def flush(self) -> None:
        """Write all selected packets."""
        self._open_writer()
        while self._queue:
            self._write_next()
        self._file.flush()

    def _record_packets(self, packets: Iterable[Packet | CaptureIssue]) -> Iterator[Packet | CaptureIssue]:
        """Record the latest packet: the next segment comes from it."""
        for packet in packets:
            if isinstance(packet, Packet):
                self._packet = packet
                self._arrivals += 1
            yield packet

    def _read_events(self, segments: Iterable[Segment | CaptureIssue]) -> Iterator[StreamEvent | CaptureIssue]:
        connections = ConnectionTable(self._buffer_packet)
        for segment in segments:
            if isinstance(segment, CaptureIssue):
                yield segment
            else:
                yield from self._until_closed(connections.process_segment(segment))
        yield from self._until_closed(connections.close())

    def _until_closed(self, events: Iterable[StreamEvent]) -> Iterator[StreamEvent]:
        for event in events:
            yield event
            if isinstance(event, FlowClosed):
                self._close_buffers(self._connections.pop(event.flow, None))

    def _open_frames(self, events: Iterable[FrameEvent | CaptureIssue]) -> Iterator[FrameEvent | CaptureIssue]:
        """Open each frame in its buffer, until its exchange is released."""
        for event in events:
            if isinstance(event, Frame):
                flow = event.flow
                connection = self._connections.get(flow)
                if connection is not None and flow.client is not None:
                    side = flow.client if event.is_request else 1 - flow.client
                    connection.sides[side].open_frame(flow.starts[side], event.offset, event.size + 4)
            yield event

    def _buffer_packet(self, flow: Flow | None, side: int, segment: Segment) -> None:
        """Buffer the packet of a segment, if an exchange may need it."""
        packet = self._packet
        if flow is None or packet is None:
            return
        connection = self._connections.get(flow)
        if connection is None:
            connection = self._connections[flow] = _Connection(self._remove_packet)
        if flow.kind in _UNREADABLE_KINDS or flow.is_tls:
            self._close_buffers(connection)
            return
        buffered = BufferedPacket(packet, self._arrivals, segment.seq, len(segment.payload) + segment.missing)
        if segment.flags & SYN and len(connection.handshake) < _HANDSHAKE_MAX:
            connection.handshake.append(buffered)
        # A segment that came in IP fragments is not in one packet.
        if buffered.size and segment.payload in packet.data:
            connection.sides[side].add_packet(buffered)
            self._buffered[id(buffered)] = buffered
            self._buffered_size += len(packet.data)
        while self._buffered_size > BUFFERED_SIZE_MAX:
            self._remove_packet(next(iter(self._buffered.values())))

    def _select_range(self, flow: Flow, selected: _StreamRange) -> None:
        if flow.is_tls:
            self.encrypted += selected.is_request
            return
        connection = self._connections.get(flow)
        if connection is None or flow.client is None:
            return
        for packet in connection.handshake:
            self._enqueue_packet(packet)
        side = flow.client if selected.is_request else 1 - flow.client
        packets = connection.sides[side].find_packets(flow.starts[side], selected.offset, selected.size)
        if packets and selected.comment:
            packets[0][1].comments.append(selected.comment)
        covered = 0
        for distance, packet in packets:
            # Packets after a gap are written too, but do not fill it.
            covered = max(covered, distance + packet.size) if distance <= covered else covered
            self._enqueue_packet(packet)
        self.incomplete += selected.is_complete and covered < selected.size

    def _enqueue_packet(self, buffered: BufferedPacket) -> None:
        if buffered.is_selected:
            return
        buffered.is_selected = True
        heappush(self._queue, (buffered.arrival, buffered))
        self._queue_size += len(buffered.packet.data)
        while self._queue_size > _QUEUE_SIZE_MAX or len(self._queue) > _QUEUE_COUNT_MAX:
            self._write_next()

    def _write_next(self) -> None:
        _, buffered = heappop(self._queue)
        packet = buffered.packet
        self._queue_size -= len(packet.data)
        writer = self._open_writer(packet.link)
        interface = self._interfaces.get(packet.link)
        if interface is None:
            interface = self._interfaces[packet.link] = writer.add_interface(packet.link)
        comment = "; ".join(buffered.comments) or None
        writer.write_packet(packet.ts, packet.data, comment, interface=interface, size=packet.size)
        self.written += 1

    def _open_writer(self, link: int = 1) -> PcapngWriter:
        """The writer. The file has a section even if nothing is selected, so that it is a valid capture."""
        if self._writer is None:
            self._writer = PcapngWriter(self._file, link=link, comment=self._comment)
            self._interfaces[link] = 0
        return self._writer

    def _close_buffers(self, connection: _Connection | None) -> None:
        for buffer in connection.sides if connection is not None else ():
            buffer.close()

    def _remove_packet(self, buffered: BufferedPacket) -> None:
        if self._buffered.pop(id(buffered), None) is not None:
            self._buffered_size -= len(buffered.packet.data)
        if buffered.buffer is not None:
            buffered.buffer.remove_packet(buffered)
