"""Packets that were captured twice, as a mirror port for both directions or a capture of several interfaces does.

A copy has the IP identification, the addresses, the TCP header and the sizes of a packet shortly before it; its link
layer, VLAN and TTL may differ. A retransmission has another identification. Without one (IPv6, or 0, as of a SYN) only
packets with data, SYN or FIN are compared, in a time in which nothing is sent again: a receiver may acknowledge twice.
`kwire.capture.index.scan.packet_copies` finds the same copies in columns. Source: RFC 6864.
"""

from __future__ import annotations

from collections.abc import Iterator

from kwire.capture.model import CaptureIssue, Endpoint, Segment

# How much later a copy may come, in packets of the file and in time; with IP identification, and without.
DISTANCE_MAX = 8192
MARKED_NS, UNMARKED_NS = 1_000_000_000, 3_000_000
COPIES_KIND = "duplicate_packets"
_DETAIL = "packets were captured twice, as at a mirror port; each is read once"

SEQUENCE_FLAGS = 0x03
"""FIN and SYN, which take a sequence number."""
IDENTIFICATION_SHIFT = 16
"""A mark is a TCP checksum, and above these bits an IP identification."""
NO_MARK = -1
"""The mark of a packet that is no copy of any other: it came in fragments."""

_Key = tuple[Endpoint, Endpoint, int, int, int, int, int, int, int]


def make_mark(identification: int, checksum: int) -> int:
    """What distinguishes packets with equal sequence numbers: IP identification, 0 without one, and TCP checksum."""
    return identification << IDENTIFICATION_SHIFT | checksum


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
        if len(latest) > DISTANCE_MAX:
            del latest[next(iter(latest))]
        if before is None:
            return False
        time_max = MARKED_NS if has_identification else UNMARKED_NS
        if not (0 < number - before[0] <= DISTANCE_MAX and abs(segment.ts - before[1]) <= time_max):
            return False
        self._first = self._first or segment
        self._count += 1
        return True

    def close(self) -> Iterator[CaptureIssue]:
        """Yield an issue with the number of copies, if there are any."""
        if self._first is not None:
            yield copies_issue(self._first.packet, self._first.ts, self._count)


def copies_issue(packet: int, ts: int, count: int) -> CaptureIssue:
    """The issue about the copies of a file. Args: packet, ts: of the first one."""
    return CaptureIssue(COPIES_KIND, _DETAIL, packet, ts, count)
