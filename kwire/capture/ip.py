"""From a packet to its TCP segment: link layer, tunnels, IP and its fragments, TCP header.

Sources: tcpdump.org/linktypes.html, RFC 791, RFC 8200, RFC 9293.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from kwire.capture.fragments import Fragments
from kwire.capture.tunnels import CARRIERS, ETHERNET, IPV4, IPV6, LENGTH_MAX, SHIMS, Inner, beneath, carried
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

# 802.1Q, 802.1ad (QinQ), and the number that QinQ had before it was a standard.
_VLAN = frozenset({0x8100, 0x88A8, 0x9100})
_TCP = 6
# Hop-by-hop, routing, destination options, mobility, HIP, shim6: all tell their length in units of 8 bytes.
_EXTENSIONS = frozenset({0, 43, 60, 135, 139, 140})
_FRAGMENT, _AUTHENTICATION = 44, 51
# Tunnels and fragments inside each other: more is made to exhaust.
_DEPTH_MAX = 8
# Systems put at most half of this into one offloaded packet; a length that is beyond it is not believed.
_OFFLOADED_SIZE_MAX = 1 << 20
_TCP_HEAD = struct.Struct(">HHIIBBH")


class _Inner(NamedTuple):
    """A TCP segment inside a packet: addresses, and where in the data it begins and (on the wire) ends."""

    source: bytes
    target: bytes
    data: bytes
    start: int
    stop: int


def segments(packets: Iterable[Packet | Trouble]) -> Iterator[Segment | Trouble]:
    """The TCP segments of the packets. Other protocols are passed over; what looks like TCP and is damaged is named."""
    unwrapping = Unwrapping()
    given_up = unwrapping.fragments.lost
    for packet in packets:
        if isinstance(packet, Trouble):
            yield packet
            continue
        try:
            segment = unwrapping.segment(packet)
        except (struct.error, IndexError):
            segment = _trouble(packet, "header_cut", "a packet is cut inside its headers")
        if segment is not None:
            yield segment
        if given_up:
            yield from given_up
            given_up.clear()
    yield from unwrapping.close()


class Unwrapping:
    """Takes one layer after the other off a packet."""

    def __init__(self) -> None:
        """No fragments are waiting."""
        self.fragments = Fragments()
        self.payload_at: int | None = None
        """Where the payload of the latest segment begins in its packet; None where it was put together of fragments."""
        self._unread: dict[str, Trouble] = {}

    def close(self) -> Iterator[Trouble]:
        """What never became whole, and how many packets were in tunnels that are not read."""
        yield from self.fragments.close()
        yield from self._unread.values()
        self._unread.clear()

    def segment(self, packet: Packet) -> Segment | Trouble | None:
        """The TCP segment in a packet; None when it carries something else, or a part that does not complete one."""
        link = LINKS.get(packet.link)
        if link is None:
            return _trouble(packet, "link_type", f"link type {packet.link} is not known")
        kind, at = _network(packet.data, link)
        found = self._inside(packet, kind, at, 0)
        if found is None or isinstance(found, Trouble):
            return found
        data, start = found.data, found.start
        source_port, target_port, seq, ack, offset, flags, window = _TCP_HEAD.unpack_from(data, start)
        begin = start + (offset >> 4) * 4
        if offset < 0x50 or begin > found.stop:
            return _trouble(packet, "tcp_header", "a TCP header states an impossible length")
        payload = data[begin : found.stop]
        self.payload_at = begin if data is packet.data else None
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
            packet.number,
            window,
        )

    def _inside(self, packet: Packet, kind: int, at: int, depth: int) -> _Inner | Trouble | None:
        if depth > _DEPTH_MAX:
            return _trouble(packet, "tunnel_depth", f"more than {_DEPTH_MAX} packets are inside each other")
        if kind == IPV4:
            return self._ipv4(packet, at, depth)
        if kind == IPV6:
            return self._ipv6(packet, at, depth)
        if kind in SHIMS or kind <= LENGTH_MAX:
            return self._within(packet, beneath(packet.data, kind, at), depth)
        return None

    def _within(self, packet: Packet, found: Inner | str | None, depth: int) -> _Inner | Trouble | None:
        """What a tunnel carries; of those that are not read it is counted how many packets they have."""
        if found is None:
            return None
        if isinstance(found, str):
            detail = f"packets inside {found} are not read"
            before = self._unread.get(found)
            first = _trouble(packet, "encapsulated", detail) if before is None else before
            self._unread[found] = first._replace(packets=1 if before is None else before.packets + 1)
            return None
        kind, at = found
        if kind == ETHERNET:
            kind, at = _ethertype(packet.data, at + 12)
        return self._inside(packet, kind, at, depth + 1)

    def _ipv4(self, packet: Packet, at: int, depth: int) -> _Inner | Trouble | None:
        data = packet.data
        size = (data[at] & 0x0F) * 4
        if data[at] >> 4 != 4 or size < 20:
            return _trouble(packet, "ip_header", "an IPv4 header states an impossible length or version")
        total, fragment = struct.unpack_from(">H2xH", data, at + 2)
        protocol = data[at + 9]
        if protocol != _TCP and protocol not in CARRIERS:
            return None
        # Segmentation offload leaves 0 where the packet is longer than the field can tell: the wire length is right
        # then.
        stop = at + total if total else packet.size
        if stop < at + size or (not total and stop - len(data) > _OFFLOADED_SIZE_MAX):
            return _trouble(packet, "ip_header", "an IPv4 packet states an impossible length")
        # The offset of the fragment, and the flag "more fragments".
        if fragment & 0x3FFF:
            whole = self.fragments.ipv4(packet, at, at + size, stop)
            return None if whole is None else self._inside(whole, IPV4, 0, depth + 1)
        if protocol == _TCP:
            return _Inner(data[at + 12 : at + 16], data[at + 16 : at + 20], data, at + size, stop)
        return self._within(packet, carried(data, protocol, at + size), depth)

    def _ipv6(self, packet: Packet, at: int, depth: int) -> _Inner | Trouble | None:
        data = packet.data
        size, protocol = struct.unpack_from(">HB", data, at + 4)
        # Length 0 is a jumbogram, or offload again.
        stop = at + 40 + size if size else packet.size
        if not size and stop - len(data) > _OFFLOADED_SIZE_MAX:
            return _trouble(packet, "ip_header", "an IPv6 packet states an impossible length")
        source, target = data[at + 8 : at + 24], data[at + 24 : at + 40]
        at += 40
        while protocol != _TCP:
            if protocol in _EXTENSIONS:
                protocol, at = data[at], at + (data[at + 1] + 1) * 8
            elif protocol == _AUTHENTICATION:
                protocol, at = data[at], at + (data[at + 1] + 2) * 4
            elif protocol == _FRAGMENT:
                # A fragment header that cuts nothing is allowed (RFC 6946); the two bits between are reserved.
                if int.from_bytes(data[at + 2 : at + 4], "big") & 0xFFF9:
                    whole = self.fragments.ipv6(packet, (source, target), at, stop)
                    return None if whole is None else self._inside(whole, IPV6, 0, depth + 1)
                protocol, at = data[at], at + 8
            elif protocol in CARRIERS:
                return self._within(packet, carried(data, protocol, at), depth)
            else:
                return None
            if at > stop:
                return _trouble(packet, "ip_header", "IPv6 extension headers are longer than their packet")
        return _Inner(source, target, data, at, stop)


def _network(data: bytes, link: str) -> tuple[int, int]:
    """What the link layer carries, as an Ethernet type, and where it begins."""
    if link == "ethernet":
        return _ethertype(data, 12)
    if link == "linux_sll":
        return _ethertype(data, 14)
    if link == "linux_sll2":
        kind = int.from_bytes(data[:2], "big")
        return _ethertype(data, 22) if kind in _VLAN else (kind, 20)
    # Loopback names the address family in the byte order of a machine that nobody knows, with numbers that differ
    # between systems: the version in the IP header itself tells the same.
    at = 4 if link == "loopback" else 0
    return {4: IPV4, 6: IPV6}.get(data[at] >> 4, 0), at


def _ethertype(data: bytes, at: int) -> tuple[int, int]:
    """The protocol number at `at`, past any VLAN tags, and where its packet begins."""
    kind = data[at] << 8 | data[at + 1]
    while kind in _VLAN:
        at += 4
        kind = data[at] << 8 | data[at + 1]
    return kind, at + 2


def _trouble(packet: Packet, kind: str, detail: str) -> Trouble:
    return Trouble(kind, detail, packet.number, packet.ts)
