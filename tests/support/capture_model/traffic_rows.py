"""Rows of the levels `flows` and `packets`: all TCP connections and their packets, Kafka or not.

Frames are extracted only to detect Kafka connections and their client side; no body is decoded.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from kwire.capture.kafka.client_detection import is_excluded
from kwire.capture.model import (
    CaptureIssue,
    FlowClosed,
    MissingBytes,
    NonKafkaConnection,
    connection_columns,
    connection_id,
    format_address,
)
from kwire.capture.rows.reorder_buffer import ORDER_WINDOW
from kwire.capture.tcp.flags import format_flags
from tests.support.capture_model.detection import ConnectionClassifier
from tests.support.capture_model.reassembly import ConnectionTable
from tests.support.capture_model.tcp_analysis import FlowSummary, PacketSummary, TcpAnalyzer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kwire.capture.model import Flow, Row, Segment, StreamEvent
    from kwire.capture.options import Options
    from kwire.capture.tls.key_log import KeyLog

TRAFFIC_LEVELS = frozenset({"flows", "packets"})
# Limit of packets that wait until the client side of their connection is known; the oldest are returned without it.
PENDING_PACKETS_MAX = 16_384

TrafficEvent = FlowSummary | PacketSummary | NonKafkaConnection | CaptureIssue


def traffic_events(
    segments: Iterable[Segment | CaptureIssue], options: Options, keys: KeyLog | None = None, *, each_packet: bool
) -> Iterator[TrafficEvent]:
    """Every connection at its end; with `each_packet` also every packet, in the order of the file."""
    tracker = TrafficTracker(options, keys, each_packet=each_packet)
    for segment in segments:
        if isinstance(segment, CaptureIssue):
            yield segment
            continue
        yield from tracker.take_segment(segment)
        yield from tracker.take_settled_packets()
    yield from tracker.close()


def read_traffic_rows(
    segments: Iterable[Segment | CaptureIssue], level: str, file: str, options: Options, keys: KeyLog
) -> Iterator[Row]:
    """The rows of `packets` in the order of the file, or of `flows` by their first times, within a window."""
    events = traffic_events(segments, options, keys, each_packet=level == "packets")
    if level == "packets":
        yield from (packet_row(file, event) for event in events if isinstance(event, PacketSummary))
        return
    waiting: list[tuple[int, int, Row]] = []
    for number, event in enumerate(events):
        if isinstance(event, FlowSummary):
            heappush(waiting, (event.statistics.first_ts, number, flow_row(file, event)))
            if len(waiting) > ORDER_WINDOW:
                yield heappop(waiting)[2]
    while waiting:
        yield heappop(waiting)[2]


class TrafficTracker:
    """Reassembles and classifies connections, and analyzes their TCP segments."""

    def __init__(self, options: Options, keys: KeyLog | None, *, each_packet: bool) -> None:
        self._options = options
        self._each_packet = each_packet
        self._analyzer = TcpAnalyzer()
        self._connections = ConnectionTable(self)
        self._classifier = ConnectionClassifier(options, keys)
        self._pending: deque[PacketSummary] = deque()

    def take_segment(self, segment: Segment) -> Iterator[TrafficEvent]:
        """The connections that a segment ends."""
        return self._classify(self._connections.process_segment(segment))

    def take_settled_packets(self) -> Iterator[PacketSummary]:
        """The packets of classified connections, and those beyond the limit of pending packets."""
        pending = self._pending
        while pending and (_is_settled(pending[0].flow) or len(pending) > PENDING_PACKETS_MAX):
            packet = pending.popleft()
            if not (packet.flow is not None and is_excluded(packet.flow.ends, self._options)):
                yield packet

    def close(self) -> Iterator[TrafficEvent]:
        """The open connections and pending packets at the end of the capture."""
        yield from self._classify(self._connections.close())
        yield from self.take_settled_packets()

    def expire(self, before_ts: int) -> Iterator[TrafficEvent]:
        """Close connections without a packet since this time."""
        yield from self._classify(self._connections.close_quiet_connections(before_ts))
        yield from self.take_settled_packets()

    def __call__(self, flow: Flow | None, side: int, segment: Segment) -> None:
        """Analyze a segment; `ConnectionTable` calls this."""
        anomaly = self._analyzer.analyze_segment(flow, side, segment)
        if not self._each_packet:
            return
        packet = PacketSummary(
            segment.packet,
            segment.ts,
            flow,
            side,
            segment.link,
            segment.source,
            segment.target,
            segment.seq,
            segment.ack,
            segment.flags,
            segment.window,
            len(segment.payload),
            segment.missing,
            anomaly,
        )
        self._pending.append(packet)

    def _classify(self, events: Iterable[StreamEvent]) -> Iterator[TrafficEvent]:
        for event in events:
            if isinstance(event, MissingBytes) and event.cause == "lost":
                self._analyzer.count_lost_bytes(event.flow, event.side, event.size)
            # Nothing changes that a connection is one of Kafka, and its frames are not used here.
            if event.flow.kind != "kafka" or isinstance(event, FlowClosed):
                for frame_event in self._classifier.take_event(event):
                    if isinstance(frame_event, NonKafkaConnection):
                        yield frame_event
            if isinstance(event, FlowClosed):
                summary = self._analyzer.summarize_flow(event)
                if not is_excluded(event.flow.ends, self._options):
                    yield summary


def _is_settled(flow: Flow | None) -> bool:
    return flow is None or flow.kind is not None


def flow_row(file: str, summary: FlowSummary) -> Row:
    """The row of a connection. `file` is the value of that column."""
    flow, traffic = summary.flow, summary.statistics
    side = flow.client_side
    client, broker = traffic.sides[side], traffic.sides[1 - side]
    return {
        **connection_columns(file, flow),
        "kind": flow.kind,
        "first_ts": traffic.first_ts,
        "last_ts": traffic.last_ts,
        "first_packet": traffic.first_packet or None,
        "last_packet": traffic.last_packet or None,
        "packets_client": client.packets,
        "packets_broker": broker.packets,
        "bytes_client": client.size,
        "bytes_broker": broker.size,
        "retransmits_client": client.retransmits,
        "retransmits_broker": broker.retransmits,
        "lost_bytes_client": client.lost_size,
        "lost_bytes_broker": broker.lost_size,
        "zero_windows_client": client.zero_windows,
        "zero_windows_broker": broker.zero_windows,
        "rtt_us": None if traffic.rtt_ns is None else traffic.rtt_ns // 1000,
        "ended": summary.reason,
        "ended_by": _closing_role(summary, side),
    }


def _closing_role(summary: FlowSummary, client_side: int) -> str | None:
    """The sender of the first FIN or RST, for connections that ended by one."""
    if summary.reason not in ("fin", "rst") or summary.statistics.closing_side is None:
        return None
    return "client" if summary.statistics.closing_side == client_side else "broker"


def packet_row(file: str, packet: PacketSummary) -> Row:
    """The row of a packet. `file` is the value of that column."""
    flow = packet.flow
    is_side_known = flow is not None and (flow.client is not None or flow.opener is not None)
    return {
        "file": file,
        "number": packet.packet or None,
        "ts": packet.ts,
        "conn_id": None if flow is None else connection_id(flow),
        "stream_epoch": None if flow is None else flow.epoch,
        "from_client": packet.side == flow.client_side if flow is not None and is_side_known else None,
        "source_ip": format_address(packet.source[0]),
        "source_port": packet.source[1],
        "target_ip": format_address(packet.target[0]),
        "target_port": packet.target[1],
        "link": packet.link,
        "seq": packet.seq,
        "ack": packet.ack,
        "flags": format_flags(packet.flags),
        "window": packet.window,
        "payload_bytes": packet.size,
        "missing_bytes": packet.missing,
        "anomaly": packet.anomaly,
    }
