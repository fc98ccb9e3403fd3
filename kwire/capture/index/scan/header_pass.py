"""Parse the packet headers of a file, span by span: all packets of a span at once, unusual ones one by one."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter

import numpy as np

from kwire.capture.index.arrays import Ints
from kwire.capture.index.scan import packet_headers
from kwire.capture.index.scan.packet_copies import CopyFinder
from kwire.capture.index.scan.packet_headers import PacketHeaders, ScannedPackets
from kwire.capture.index.scan.spans import ScanState, Span
from kwire.capture.index.stored_payload import STORED_BASE
from kwire.capture.merged_issues import MergedIssues, merge_numbered
from kwire.capture.model import CaptureIssue, Packet, Segment
from kwire.capture.network.ip_fragments import FragmentReassembler
from kwire.capture.network.packet_dissector import PacketDissector


class _DeferredFragment(Exception):
    """The packet is an IP fragment that must be reassembled later."""


class _DeferringFragments(FragmentReassembler):
    """Reassembles nothing: every fragment is deferred."""

    def add_ipv4_fragment(self, packet: Packet, at: int, start: int, stop: int) -> Packet | None:
        """Raises: _DeferredFragment."""
        raise _DeferredFragment

    def add_ipv6_fragment(self, packet: Packet, addresses: tuple[bytes, bytes], start: int, stop: int) -> Packet | None:
        """Raises: _DeferredFragment."""
        raise _DeferredFragment


class HeaderPass:
    """Parses the spans of one file; IP fragments are buffered from span to span."""

    def __init__(self, *, defers: bool = False) -> None:
        """`defers`: IP fragments are collected in `deferred`, since their packet may continue in another range."""
        self._dissector = PacketDissector()
        if defers:
            self._dissector.fragments = _DeferringFragments()
        self.copies = CopyFinder()
        self.issues = MergedIssues()
        self.deferred: list[tuple[int, ...]] = []
        """Deferred fragments: number, time, link type, file offset, captured size, size on the wire."""
        self.stored_at = STORED_BASE
        """The position of the next payload that is stored."""
        self._stored = bytearray()

    def read_span(self, span: Span) -> PacketHeaders:
        """The TCP packets of the span, without those that are copies of others before them."""
        packets, is_unusual = packet_headers.parse_plain_packets(span)
        unusual = np.nonzero(is_unusual)[0]
        if len(unusual):
            packets = packet_headers.merge_packets([packets, self._read_marked(_read_packets(span, unusual))])
        return self.copies.drop_copies(*packets)

    def read_packets(self, packets: Iterable[tuple[Packet, int]]) -> PacketHeaders:
        """The packets that the dissector reads one by one. Args: packets: each with its offset in the file."""
        return self._read_marked(packets).headers

    def _read_marked(self, packets: Iterable[tuple[Packet, int]]) -> ScannedPackets:
        marks: list[int] = []
        rows: list[tuple[int, ...]] = []
        endpoints: list[tuple[int, ...]] = []
        for packet, at in packets:
            try:
                dissected = self._dissector.dissect_packet(packet)
            except _DeferredFragment:
                self.deferred.append((packet.number, packet.ts, packet.link, at, len(packet.data), packet.size))
                continue
            except (struct.error, IndexError):
                dissected = CaptureIssue("header_cut", "a packet is cut inside its headers", packet.number, packet.ts)
            if isinstance(dissected, CaptureIssue):
                self.issues.add(packet.number, dissected)
            elif dissected is not None:
                row, words = _header_row(dissected, self._payload_position(dissected, at))
                rows.append(row)
                endpoints.append(words)
                marks.append(self._dissector.copy_mark)
            fragment_issues = self._dissector.fragments.issues
            for issue in fragment_issues:
                self.issues.add(packet.number, issue)
            fragment_issues.clear()
        columns = np.array(rows, dtype=np.int64).reshape(-1, len(PacketHeaders._fields) - 1).T
        # The endpoints follow number, time and link.
        ends = np.array(endpoints, dtype=np.uint64).reshape(-1, 5)
        headers = PacketHeaders._make([*columns[:3], ends, *columns[3:]])
        return ScannedPackets(headers, np.array(marks, dtype=np.int64))

    def close(
        self, state: ScanState, others: Sequence[tuple[int, CaptureIssue]] = ()
    ) -> list[tuple[int, CaptureIssue]]:
        """All issues of a scan, which has ended, each with the number of the packet at which it was found.

        At the end are incomplete fragments, and how many packets are in unsupported tunnels, or are copies.
        Args: others: more issues with their numbers.
        """
        found = sorted([*self.issues.numbered, *others, *state.issues.numbered], key=itemgetter(0))
        at_end = [(state.packet_count, issue) for issue in (*self._dissector.close(), *self.copies.close())]
        return merge_numbered([*found, *at_end])

    def take_stored(self) -> bytes:
        """Return the payloads since the last call that arrived in IP fragments: they are not contiguous in the file."""
        stored, self._stored = bytes(self._stored), bytearray()
        self.stored_at += len(stored)
        return stored

    def _payload_position(self, segment: Segment, at: int) -> int:
        """The position of a segment's payload, as in `PacketHeaders.at`. Args: at: offset of its packet."""
        begin = self._dissector.payload_offset
        if begin is not None:
            return at + begin
        position = self.stored_at + len(self._stored)
        self._stored += segment.payload
        return position


def _read_packets(span: Span, chosen: Ints) -> Iterator[tuple[Packet, int]]:
    for index in chosen.tolist():
        number, at = int(span.number[index]), int(span.at[index])
        data = span.data[at : at + int(span.captured[index])]
        packet = Packet(number, int(span.ts[index]), int(span.link[index]), data, int(span.size[index]))
        yield packet, span.base + at


def _header_row(segment: Segment, at: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    low, high = sorted((segment.source, segment.target))
    side = int(segment.source > segment.target)
    link = packet_headers.LINK_NAMES.index(segment.link)
    tcp_fields = (segment.seq, segment.ack, segment.flags, segment.window)
    row = (segment.packet, segment.ts, link, side, *tcp_fields, at, len(segment.payload), segment.missing)
    return row, packet_headers.endpoint_words(low, high)
