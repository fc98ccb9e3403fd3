"""Packets that were captured twice, as a mirror port for both directions or a capture of several interfaces does.

A copy has the IP identification, the addresses, the TCP header and the sizes of a packet shortly before it; its link
layer, VLAN and TTL may differ. A retransmission has another identification. Without one (IPv6, or 0, as of a SYN) only
packets with data, SYN or FIN are compared, in a time in which nothing is sent again: a receiver may acknowledge twice.
`kwire.capture.index.scan.packet_copies` finds the same copies in columns. Source: RFC 6864.
"""

from __future__ import annotations

from kwire.capture.model import CaptureIssue

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


def make_mark(identification: int, checksum: int) -> int:
    """What distinguishes packets with equal sequence numbers: IP identification, 0 without one, and TCP checksum."""
    return identification << IDENTIFICATION_SHIFT | checksum


def copies_issue(packet: int, ts: int, count: int) -> CaptureIssue:
    """The issue about the copies of a file. Args: packet, ts: of the first one."""
    return CaptureIssue(COPIES_KIND, _DETAIL, packet, ts, count)
