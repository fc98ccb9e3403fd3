"""The TCP segments of packets, one by one, without those that are copies of others."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from kwire.capture.model import CaptureIssue, Endpoint, Packet, Segment
from kwire.capture.network import packet_copies
from kwire.capture.network.packet_copies import (
    IDENTIFICATION_SHIFT,
    MARKED_NS,
    NO_MARK,
    SEQUENCE_FLAGS,
    UNMARKED_NS,
    copies_issue,
)
from kwire.capture.network.packet_dissector import PacketDissector

_Key = tuple[Endpoint, Endpoint, int, int, int, int, int, int, int]


def dissect_packets(packets: Iterable[Packet | CaptureIssue]) -> Iterator[Segment | CaptureIssue]:
    """Yield the TCP segments of the packets. Other protocols are skipped; damaged TCP packets become issues.

    Packets that were captured twice are read once, and counted in an issue at the end.
    """
    dissector, copies = PacketDissector(), CopyFilter()
    fragment_issues = dissector.fragments.issues
    for packet in packets:
        if isinstance(packet, CaptureIssue):
            yield packet
            continue
        try:
            segment = dissector.dissect_packet(packet)
        except (struct.error, IndexError):
            segment = CaptureIssue("header_cut", "a packet is cut inside its headers", packet.number, packet.ts)
        if isinstance(segment, CaptureIssue) or (segment and not copies.is_copy(segment, dissector.copy_mark)):
            yield segment
        if fragment_issues:
            yield from fragment_issues
            fragment_issues.clear()
    yield from dissector.close()
    yield from copies.close()


class CopyFilter:
    """Finds the copies among the segments of a file, in the order of the file, and counts them."""

    def __init__(self) -> None:
        """No packet was read yet."""
        # The latest packet of each key: its number and time, the oldest first.
        self._latest: dict[_Key, tuple[int, int]] = {}
        self._first: Segment | None = None
        self._count = 0

    def is_copy(self, segment: Segment, mark: int) -> bool:
        """Whether a segment is a copy of one before it. Args: mark: as `make_mark` returns it."""
        size = len(segment.payload)
        has_identification = mark >> IDENTIFICATION_SHIFT > 0
        if mark == NO_MARK or not (has_identification or size or segment.missing or segment.flags & SEQUENCE_FLAGS):
            return False
        _, _, source, target, seq, ack, flags, _, missing, number, window = segment
        key = (source, target, mark, seq, ack, flags, window, size, missing)
        latest = self._latest
        before = latest.pop(key, None)
        latest[key] = number, segment.ts
        if len(latest) > packet_copies.DISTANCE_MAX:
            del latest[next(iter(latest))]
        if before is None:
            return False
        time_max = MARKED_NS if has_identification else UNMARKED_NS
        if not (0 < number - before[0] <= packet_copies.DISTANCE_MAX and abs(segment.ts - before[1]) <= time_max):
            return False
        self._first = self._first or segment
        self._count += 1
        return True

    def close(self) -> Iterator[CaptureIssue]:
        """Yield an issue with the number of copies, if there are any."""
        if self._first is not None:
            yield copies_issue(self._first.packet, self._first.ts, self._count)
