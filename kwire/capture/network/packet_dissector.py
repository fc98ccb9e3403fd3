"""Dissector of packets: link layer, tunnels, IP and its fragments, up to the TCP segment.

Sources: tcpdump.org/linktypes.html, RFC 791, RFC 8200, RFC 9293.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from kwire.capture.model import CaptureIssue, Packet, Segment
from kwire.capture.network.ip_fragments import FragmentReassembler
from kwire.capture.network.packet_copies import NO_MARK, make_mark
from kwire.capture.network.tunnels import (
    CARRIERS,
    ETHERNET,
    IPV4,
    IPV6,
    LENGTH_MAX,
    SHIMS,
    Inner,
    parse_shim,
    parse_tunnel,
)

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

# 802.1Q, 802.1ad (QinQ), and the number of QinQ before it became a standard.
_VLAN = frozenset({0x8100, 0x88A8, 0x9100})
_TCP = 6
# Hop-by-hop, routing, destination options, mobility, HIP, shim6: all have a length in units of 8 bytes.
_EXTENSIONS = frozenset({0, 43, 60, 135, 139, 140})
_FRAGMENT, _AUTHENTICATION = 44, 51
# Nested tunnels and fragments: a deeper packet is an attack.
_DEPTH_MAX = 8
# An offloaded packet has at most half of this; a greater length is taken as damage.
_OFFLOADED_SIZE_MAX = 1 << 20
_TCP_HEAD = struct.Struct(">HHIIBBH")


class _TcpRange(NamedTuple):
    """The position of a TCP segment in a packet: addresses, data, and where it begins and (on the wire) ends.

    identification: of IPv4; 0 for IPv6.
    """

    source: bytes
    target: bytes
    data: bytes
    start: int
    stop: int
    identification: int = 0


class PacketDissector:
    """Dissects packets layer by layer, and reassembles IP fragments."""

    def __init__(self) -> None:
        """No fragments are buffered."""
        self.fragments = FragmentReassembler()
        self.payload_offset: int | None = None
        """Offset of the latest segment's payload in its packet; None if the segment was reassembled from fragments."""
        self.copy_mark = NO_MARK
        """The mark of the latest segment, which its copies have too."""
        self._unread_tunnels: dict[str, CaptureIssue] = {}

    def close(self) -> Iterator[CaptureIssue]:
        """Yield the incomplete packets, and how many packets were in tunnels that are not supported."""
        yield from self.fragments.close()
        yield from self._unread_tunnels.values()
        self._unread_tunnels.clear()

    def dissect_packet(self, packet: Packet) -> Segment | CaptureIssue | None:
        """Return the TCP segment of a packet; None for another protocol, or a fragment that completes no packet."""
        link = LINKS.get(packet.link)
        if link is None:
            return _issue(packet, "link_type", f"link type {packet.link} is not known")
        kind, at = _network_protocol(packet.data, link)
        tcp_range = self._dissect_protocol(packet, kind, at, 0)
        if tcp_range is None or isinstance(tcp_range, CaptureIssue):
            return tcp_range
        source_ip, target_ip, data, start, stop, identification = tcp_range
        source_port, target_port, seq, ack, offset, flags, window = _TCP_HEAD.unpack_from(data, start)
        begin = start + (offset >> 4) * 4
        if offset < 0x50 or begin > stop:
            return _issue(packet, "tcp_header", "a TCP header states an impossible length")
        payload = data[begin:stop]
        missing = stop - begin - len(payload)
        is_whole = data is packet.data
        self.payload_offset = begin if is_whole else None
        checksum = int.from_bytes(data[start + 16 : start + 18], "big")
        self.copy_mark = make_mark(identification, checksum) if is_whole else NO_MARK
        source, target = (source_ip, source_port), (target_ip, target_port)
        return Segment(packet.ts, link, source, target, seq, ack, flags, payload, missing, packet.number, window)

    def _dissect_protocol(self, packet: Packet, kind: int, at: int, depth: int) -> _TcpRange | CaptureIssue | None:
        if depth > _DEPTH_MAX:
            return _issue(packet, "tunnel_depth", f"more than {_DEPTH_MAX} packets are inside each other")
        if kind == IPV4:
            return self._dissect_ipv4(packet, at, depth)
        if kind == IPV6:
            return self._dissect_ipv6(packet, at, depth)
        if kind in SHIMS or kind <= LENGTH_MAX:
            return self._dissect_inner(packet, parse_shim(packet.data, kind, at), depth)
        return None

    def _dissect_inner(self, packet: Packet, inner: Inner | str | None, depth: int) -> _TcpRange | CaptureIssue | None:
        """Dissect the packet inside a tunnel; count the packets of tunnels that are not supported."""
        if inner is None:
            return None
        if isinstance(inner, str):
            first = self._unread_tunnels.get(inner)
            if first is None:
                self._unread_tunnels[inner] = _issue(packet, "encapsulated", f"packets inside {inner} are not read")
            else:
                self._unread_tunnels[inner] = first._replace(packets=first.packets + 1)
            return None
        kind, at = inner
        if kind == ETHERNET:
            kind, at = _ethertype(packet.data, at + 12)
        return self._dissect_protocol(packet, kind, at, depth + 1)

    def _dissect_ipv4(self, packet: Packet, at: int, depth: int) -> _TcpRange | CaptureIssue | None:
        data = packet.data
        size = (data[at] & 0x0F) * 4
        if data[at] >> 4 != 4 or size < 20:
            return _issue(packet, "ip_header", "an IPv4 header states an impossible length or version")
        total, fragment = struct.unpack_from(">H2xH", data, at + 2)
        protocol = data[at + 9]
        if protocol != _TCP and protocol not in CARRIERS:
            return None
        # Segmentation offload leaves 0 if the packet is longer than the field allows: then the wire length is used.
        stop = at + total if total else packet.size
        if stop < at + size or (not total and stop - len(data) > _OFFLOADED_SIZE_MAX):
            return _issue(packet, "ip_header", "an IPv4 packet states an impossible length")
        # The offset of the fragment, and the flag "more fragments".
        if fragment & 0x3FFF:
            reassembled = self.fragments.add_ipv4_fragment(packet, at, at + size, stop)
            return None if reassembled is None else self._dissect_protocol(reassembled, IPV4, 0, depth + 1)
        if protocol == _TCP:
            identification = data[at + 4] << 8 | data[at + 5]
            return _TcpRange(data[at + 12 : at + 16], data[at + 16 : at + 20], data, at + size, stop, identification)
        return self._dissect_inner(packet, parse_tunnel(data, protocol, at + size), depth)

    def _dissect_ipv6(self, packet: Packet, at: int, depth: int) -> _TcpRange | CaptureIssue | None:
        data = packet.data
        size, protocol = struct.unpack_from(">HB", data, at + 4)
        # Length 0 is a jumbogram, or offload again.
        stop = at + 40 + size if size else packet.size
        if not size and stop - len(data) > _OFFLOADED_SIZE_MAX:
            return _issue(packet, "ip_header", "an IPv6 packet states an impossible length")
        source, target = data[at + 8 : at + 24], data[at + 24 : at + 40]
        at += 40
        while protocol != _TCP:
            if protocol in _EXTENSIONS:
                protocol, at = data[at], at + (data[at + 1] + 1) * 8
            elif protocol == _AUTHENTICATION:
                protocol, at = data[at], at + (data[at + 1] + 2) * 4
            elif protocol == _FRAGMENT:
                # A fragment header of a whole packet is allowed (RFC 6946); the two bits in the middle are reserved.
                if int.from_bytes(data[at + 2 : at + 4], "big") & 0xFFF9:
                    reassembled = self.fragments.add_ipv6_fragment(packet, (source, target), at, stop)
                    return None if reassembled is None else self._dissect_protocol(reassembled, IPV6, 0, depth + 1)
                protocol, at = data[at], at + 8
            elif protocol in CARRIERS:
                return self._dissect_inner(packet, parse_tunnel(data, protocol, at), depth)
            else:
                return None
            if at > stop:
                return _issue(packet, "ip_header", "IPv6 extension headers are longer than their packet")
        return _TcpRange(source, target, data, at, stop)


def _network_protocol(data: bytes, link: str) -> tuple[int, int]:
    """Return the protocol above the link layer, as an Ethernet type, and where it begins."""
    if link == "ethernet":
        return _ethertype(data, 12)
    if link == "linux_sll":
        return _ethertype(data, 14)
    if link == "linux_sll2":
        kind = int.from_bytes(data[:2], "big")
        return _ethertype(data, 22) if kind in _VLAN else (kind, 20)
    # Loopback has an address family, but its byte order and its numbers depend on the system: the version in the IP
    # header is used instead.
    at = 4 if link == "loopback" else 0
    return {4: IPV4, 6: IPV6}.get(data[at] >> 4, 0), at


def _ethertype(data: bytes, at: int) -> tuple[int, int]:
    """Return the protocol number at `at`, after any VLAN tags, and where its packet begins."""
    kind = data[at] << 8 | data[at + 1]
    while kind in _VLAN:
        at += 4
        kind = data[at] << 8 | data[at + 1]
    return kind, at + 2


def _issue(packet: Packet, kind: str, detail: str) -> CaptureIssue:
    return CaptureIssue(kind, detail, packet.number, packet.ts)
