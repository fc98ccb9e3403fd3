"""From a packet to its TCP segment: link layer, IP, TCP header.

Sources: tcpdump.org/linktypes.html, RFC 791, RFC 8200, RFC 9293.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from kwire.capture.values import Packet, Segment, Trouble

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LINKS = {
    0: "loopback",
    1: "ethernet",
    12: "raw",
    14: "raw",
    101: "raw",
    108: "loopback",
    113: "linux_sll",
    228: "raw",
    229: "raw",
    276: "linux_sll2",
}

_IPV4, _IPV6 = 0x0800, 0x86DD
# 802.1Q, 802.1ad (QinQ), and the number that QinQ had before it was a standard.
_VLAN = frozenset({0x8100, 0x88A8, 0x9100})
_TCP = 6
# Hop-by-hop, routing, destination options, mobility, HIP, shim6: all tell their length in units of 8 bytes.
_EXTENSIONS = frozenset({0, 43, 60, 135, 139, 140})
_FRAGMENT, _AUTHENTICATION = 44, 51
_TCP_HEAD = struct.Struct(">HHIIBB")


class _Inner(NamedTuple):
    """A TCP segment inside a packet: addresses, and where it begins and (on the wire) ends."""

    source: bytes
    target: bytes
    start: int
    stop: int


def segments(packets: Iterable[Packet | Trouble]) -> Iterator[Segment | Trouble]:
    """The TCP segments of the packets. Other protocols are passed over; what looks like TCP and is damaged is named."""
    for packet in packets:
        if isinstance(packet, Trouble):
            yield packet
            continue
        try:
            segment = _segment(packet)
        except (struct.error, IndexError):
            segment = _trouble(packet, "header_cut", "a packet is cut inside its headers")
        if segment is not None:
            yield segment


def _segment(packet: Packet) -> Segment | Trouble | None:
    link = LINKS.get(packet.link)
    if link is None:
        return _trouble(packet, "link_type", f"link type {packet.link} is not known")
    found = _inner(packet, link)
    if found is None or isinstance(found, Trouble):
        return found
    data, start = packet.data, found.start
    source_port, target_port, seq, ack, offset, flags = _TCP_HEAD.unpack_from(data, start)
    begin = start + (offset >> 4) * 4
    if offset < 0x50 or begin > found.stop:
        return _trouble(packet, "tcp_header", "a TCP header states an impossible length")
    payload = data[begin : found.stop]
    return Segment(
        packet.ts,
        link,
        (found.source, source_port),
        (found.target, target_port),
        seq,
        ack,
        flags,
        payload,
        found.stop - begin - len(payload),
    )


def _inner(packet: Packet, link: str) -> _Inner | Trouble | None:
    """The TCP segment in a packet; None when it carries something else."""
    data = packet.data
    if link == "ethernet":
        kind, at = _ethertype(data, 12)
    elif link == "linux_sll":
        kind, at = _ethertype(data, 14)
    elif link == "linux_sll2":
        kind, at = int.from_bytes(data[:2], "big"), 20
        if kind in _VLAN:
            kind, at = _ethertype(data, 22)
    else:
        # Loopback names the address family in the byte order of a machine that nobody knows, with numbers that differ
        # between systems: the version in the IP header itself tells the same.
        at = 4 if link == "loopback" else 0
        kind = {4: _IPV4, 6: _IPV6}.get(data[at] >> 4, 0)
    if kind == _IPV4:
        return _ipv4(packet, at)
    if kind == _IPV6:
        return _ipv6(packet, at)
    return None


def _ethertype(data: bytes, at: int) -> tuple[int, int]:
    """The protocol number at `at`, past any VLAN tags, and where its packet begins."""
    kind = data[at] << 8 | data[at + 1]
    while kind in _VLAN:
        at += 4
        kind = data[at] << 8 | data[at + 1]
    return kind, at + 2


def _ipv4(packet: Packet, at: int) -> _Inner | Trouble | None:
    data = packet.data
    size = (data[at] & 0x0F) * 4
    if data[at] >> 4 != 4 or size < 20:
        return _trouble(packet, "ip_header", "an IPv4 header states an impossible length or version")
    total, fragment = struct.unpack_from(">H2xH", data, at + 2)
    if data[at + 9] != _TCP:
        return None
    # The offset of the fragment, and the flag "more fragments".
    if fragment & 0x3FFF:
        return _trouble(packet, "ip_fragment", "IP fragments are not put together")
    # Segmentation offload leaves 0 where the packet is longer than the field can tell: the wire length is right then.
    stop = at + total if total else packet.size
    if stop < at + size:
        return _trouble(packet, "ip_header", "an IPv4 packet is shorter than its header")
    return _Inner(data[at + 12 : at + 16], data[at + 16 : at + 20], at + size, stop)


def _ipv6(packet: Packet, at: int) -> _Inner | Trouble | None:
    data = packet.data
    size, kind = struct.unpack_from(">HB", data, at + 4)
    # Length 0 is a jumbogram, or offload again.
    stop = at + 40 + size if size else packet.size
    source, target = data[at + 8 : at + 24], data[at + 24 : at + 40]
    at += 40
    while kind != _TCP:
        if kind in _EXTENSIONS:
            kind, at = data[at], at + (data[at + 1] + 1) * 8
        elif kind == _AUTHENTICATION:
            kind, at = data[at], at + (data[at + 1] + 2) * 4
        elif kind == _FRAGMENT:
            # A fragment header that cuts nothing is allowed (RFC 6946); the two bits between are reserved.
            if int.from_bytes(data[at + 2 : at + 4], "big") & 0xFFF9:
                return _trouble(packet, "ip_fragment", "IP fragments are not put together")
            kind, at = data[at], at + 8
        else:
            return None
        if at > stop:
            return _trouble(packet, "ip_header", "IPv6 extension headers are longer than their packet")
    return _Inner(source, target, at, stop)


def _trouble(packet: Packet, kind: str, detail: str) -> Trouble:
    return Trouble(kind, detail, packet.number, packet.ts)
