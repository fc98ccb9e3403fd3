"""What an excerpt must have, computed in a simple way: all packets stay in memory, and each selection visits them."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from kwire.capture.export.pcapng_writer import PcapngWriter
from kwire.capture.files.packet_reader import read_packets
from kwire.capture.kafka.exchange import Exchange, Outcome
from kwire.capture.model import CaptureIssue, Flow, Packet, Segment, StreamEvent, StreamGap
from kwire.capture.options import Options
from kwire.capture.tcp.flags import SYN
from kwire.capture.tcp.sequence_numbers import seq_distance
from kwire.capture.tls.key_log import KeyLog
from tests.support.capture_model.detection import extract_frames
from tests.support.capture_model.exchange_pairing import pair_exchanges
from tests.support.capture_model.packet_dissection import dissect_packets
from tests.support.capture_model.reassembly import ConnectionTable

_HANDSHAKE_MAX = 6


class ExcerptResult(NamedTuple):
    """A written excerpt, and what `Excerpt` counts."""

    data: bytes
    written: int
    encrypted: int
    incomplete: int


class _Seen(NamedTuple):
    """A segment, and its packet. arrival: its place in the capture."""

    arrival: int
    packet: Packet
    side: int
    segment: Segment

    @property
    def size(self) -> int:
        """Of the payload, if it is in this packet."""
        size = len(self.segment.payload) + self.segment.missing
        return size if self.segment.payload in self.packet.data else 0


class _Model:
    def __init__(self) -> None:
        self.packet: Packet | None = None
        self.arrivals = 0
        self.seen: dict[Flow, list[_Seen]] = {}
        self.comments: dict[int, list[str]] = {}
        self.packets: dict[int, Packet] = {}
        self.encrypted = self.incomplete = 0

    def read_outcomes(self, source: bytes, options: Options, keys: KeyLog) -> Iterator[Outcome]:
        segments = dissect_packets(self._note_packets(read_packets(source, keys, options.unpacked_size_max)))
        return pair_exchanges(extract_frames(self._read_events(segments), options, keys), options)

    def _note_packets(self, packets: Iterable[Packet | CaptureIssue]) -> Iterator[Packet | CaptureIssue]:
        for packet in packets:
            if isinstance(packet, Packet):
                self.packet = packet
                self.arrivals += 1
            yield packet

    def _read_events(self, segments: Iterable[Segment | CaptureIssue]) -> Iterator[StreamEvent | CaptureIssue]:
        table = ConnectionTable(self._note_segment)
        for segment in segments:
            if isinstance(segment, CaptureIssue):
                yield segment
            else:
                yield from table.process_segment(segment)
        yield from table.close()

    def _note_segment(self, flow: Flow | None, side: int, segment: Segment) -> None:
        if flow is not None and self.packet is not None:
            self.seen.setdefault(flow, []).append(_Seen(self.arrivals, self.packet, side, segment))

    def select(self, outcome: Outcome) -> None:
        """Select the packets of an outcome."""
        if isinstance(outcome, StreamGap):
            size = outcome.missing + outcome.skipped
            self._select_range(outcome.flow, outcome.is_request, outcome.offset, size, "request")
        elif isinstance(outcome, Exchange):
            for message, comment in ((outcome.request, "request"), (outcome.response, "response")):
                if message is not None:
                    frame = message.frame
                    size = frame.size + 4
                    covered = self._select_range(outcome.flow, frame.is_request, frame.offset, size, comment)
                    self.incomplete += covered < size and frame.damage is None and not outcome.flow.is_tls

    def _select_range(self, flow: Flow, is_request: bool, offset: int, size: int, comment: str) -> int:
        """Select the packets of a range; return how many of its bytes from the begin on they have."""
        if flow.is_tls:
            self.encrypted += is_request
            return 0
        side, seen = flow.client_side if is_request else 1 - flow.client_side, self.seen.get(flow, [])
        for each in [each for each in seen if each.segment.flags & SYN][:_HANDSHAKE_MAX]:
            self._add_packet(each)
        begin, covered = flow.starts[side] + offset, 0
        placed = [
            (seq_distance(each.segment.seq + (each.segment.flags & SYN > 0), begin), each)
            for each in seen
            if each.side == side and each.size
        ]
        found = [(at, each) for at, each in placed if at < size and at + each.size > 0]
        for place, (at, each) in enumerate(sorted(found, key=lambda pair: pair[0])):
            self._add_packet(each, [comment] if place == 0 else [])
            covered = max(covered, at + each.size) if at <= covered else covered
        return covered

    def _add_packet(self, seen: _Seen, comments: Iterable[str] = ()) -> None:
        self.packets[seen.arrival] = seen.packet
        self.comments.setdefault(seen.arrival, []).extend(comments)


def write_model_excerpt(
    source: bytes, choose: Callable[[Outcome], bool], options: Options, comment: str
) -> ExcerptResult:
    """Write an excerpt of the chosen outcomes, whose packets have the comments `request` and `response`."""
    model, file = _Model(), io.BytesIO()
    for outcome in model.read_outcomes(source, options, KeyLog(options.tls_keylog)):
        if choose(outcome):
            model.select(outcome)
    packets = [model.packets[arrival] for arrival in sorted(model.packets)]
    # The file is opened before the link of any packet is known.
    writer, interfaces = PcapngWriter(file, link=1, comment=comment), {1: 0}
    for arrival, packet in zip(sorted(model.packets), packets, strict=True):
        if packet.link not in interfaces:
            interfaces[packet.link] = writer.add_interface(packet.link)
        text = "; ".join(model.comments[arrival]) or None
        writer.write_packet(packet.ts, packet.data, text, interface=interfaces[packet.link], size=packet.size)
    return ExcerptResult(file.getvalue(), len(packets), model.encrypted, model.incomplete)
