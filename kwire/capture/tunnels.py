"""Packets inside packets: where the inner one begins, and what it is.

Sources: RFC 2784 and RFC 2890 (GRE), RFC 7348 (VXLAN), draft-foschiano-erspan (ERSPAN types I to III), RFC 2003 and
RFC 2473 (IP in IP).
"""

from __future__ import annotations

import struct

IPV4, IPV6 = 0x0800, 0x86DD
# "Transparent Ethernet bridging": a whole Ethernet frame.
ETHERNET = 0x6558
_ERSPAN, _ERSPAN_3 = 0x88BE, 0x22EB

_IPV4_INSIDE, _UDP, _IPV6_INSIDE, _GRE = 4, 17, 41, 47
CARRIERS = frozenset({_IPV4_INSIDE, _UDP, _IPV6_INSIDE, _GRE})

# The port of the standard, and that of Linux before it.
_VXLAN_PORTS = frozenset({b"\x12\xb5", b"\x21\x18"})
_VXLAN_HAS_ID = 0x08

_GRE_CHECKSUM, _GRE_ROUTING, _GRE_KEY, _GRE_SEQUENCE, _GRE_VERSION = 0x8000, 0x4000, 0x2000, 0x1000, 0x0007


def carried(data: bytes, protocol: int, at: int) -> tuple[int, int] | None:
    """What the IP packet with this protocol, and data at `at`, carries: an Ethernet type, and where it begins."""
    if protocol == _UDP:
        return _vxlan(data, at)
    if protocol == _GRE:
        return _gre(data, at)
    return (IPV4 if protocol == _IPV4_INSIDE else IPV6), at


def _vxlan(data: bytes, at: int) -> tuple[int, int] | None:
    """Most datagrams are no tunnel; so nothing is made of one that is too short to be one."""
    if data[at + 2 : at + 4] not in _VXLAN_PORTS or len(data) < at + 16 or not data[at + 8] & _VXLAN_HAS_ID:
        return None
    return ETHERNET, at + 16


def _gre(data: bytes, at: int) -> tuple[int, int] | None:
    flags, kind = struct.unpack_from(">HH", data, at)
    # Version 1 is PPTP; source routes were never in use.
    if flags & (_GRE_VERSION | _GRE_ROUTING):
        return None
    at += 4 + 4 * sum(bool(flags & each) for each in (_GRE_CHECKSUM, _GRE_KEY, _GRE_SEQUENCE))
    if kind == _ERSPAN:
        # Type I has no header of its own, and no sequence number; type II has both.
        return ETHERNET, at + (8 if flags & _GRE_SEQUENCE else 0)
    if kind == _ERSPAN_3:
        # The last bit tells of a platform's own header behind the 12 bytes.
        return ETHERNET, at + (20 if data[at + 11] & 1 else 12)
    return kind, at
