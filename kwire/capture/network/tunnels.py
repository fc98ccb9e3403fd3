"""Tunnel headers: the protocol and the offset of the inner packet.

Sources: RFC 2784 and RFC 2890 (GRE), RFC 7348 (VXLAN), draft-ietf-nvo3-vxlan-gpe, RFC 8926 (Geneve),
draft-foschiano-erspan (ERSPAN types I to III), RFC 2003 and RFC 2473 (IP in IP), RFC 3032 and RFC 4385 (MPLS), RFC 2516
(PPPoE), RFC 1042 (SNAP).
"""

from __future__ import annotations

import struct

IPV4, IPV6 = 0x0800, 0x86DD
# "Transparent Ethernet bridging": a whole Ethernet frame.
ETHERNET = 0x6558
_ERSPAN, _ERSPAN_3 = 0x88BE, 0x22EB

_IPV4_INSIDE, _UDP, _IPV6_INSIDE, _GRE, _ESP, _AH = 4, 17, 41, 47, 50, 51
CARRIERS = frozenset({_IPV4_INSIDE, _UDP, _IPV6_INSIDE, _GRE, _ESP, _AH})

# VXLAN has the standard port, and the port that Linux used before.
_VXLAN, _VXLAN_LINUX, _VXLAN_GPE, _GENEVE, _GTP = 4789, 8472, 4790, 6081, 2152
UDP_PORTS = frozenset({_VXLAN, _VXLAN_LINUX, _VXLAN_GPE, _GENEVE, _GTP})
_VXLAN_HAS_ID, _VXLAN_HAS_PROTOCOL = 0x08, 0x04
_GTP_PAYLOAD = 255

_MPLS, _MPLS_MULTICAST, _PPPOE, _MACSEC, _BACKBONE = 0x8847, 0x8848, 0x8864, 0x88E5, 0x88E7
# Protocols between the link layer and IP. A length in place of the type means a SNAP header.
SHIMS = frozenset({_MPLS, _MPLS_MULTICAST, _PPPOE, _MACSEC, _BACKBONE})
LENGTH_MAX = 1500
_SNAP = b"\xaa\xaa\x03\0\0\0"
_PPP = {0x0021: IPV4, 0x0057: IPV6}

_GRE_CHECKSUM, _GRE_ROUTING, _GRE_KEY, _GRE_SEQUENCE, _GRE_VERSION = 0x8000, 0x4000, 0x2000, 0x1000, 0x0007


Inner = tuple[int, int]
"""An Ethernet type, and the offset of its packet."""


def parse_tunnel(data: bytes, protocol: int, at: int) -> Inner | str | None:
    """Parse the payload at `at` of an IP packet with this protocol. Returns the name of an unsupported tunnel."""
    if protocol == _UDP:
        return _parse_udp(data, at)
    if protocol == _GRE:
        return _parse_gre(data, at)
    if protocol in {_ESP, _AH}:
        return "ESP (IPsec)" if protocol == _ESP else "AH (IPsec)"
    return (IPV4 if protocol == _IPV4_INSIDE else IPV6), at


def parse_shim(data: bytes, kind: int, at: int) -> Inner | str | None:
    """Parse a protocol between link layer and IP that begins at `at`. Returns its name if it is not supported."""
    if kind in {_MPLS, _MPLS_MULTICAST}:
        return _parse_mpls(data, at)
    if kind == _PPPOE:
        inner = _PPP.get(data[at + 6] << 8 | data[at + 7])
        return None if inner is None else (inner, at + 8)
    if kind == _MACSEC:
        return "MACsec"
    if kind == _BACKBONE:
        return "provider backbone bridging"
    if data[at : at + 6] == _SNAP:
        return data[at + 6] << 8 | data[at + 7], at + 8
    return None


def _parse_mpls(data: bytes, at: int) -> Inner | str:
    """MPLS labels do not name the inner protocol; its first four bits show it."""
    while not data[at + 2] & 1:
        at += 4
    at += 4
    version = data[at] >> 4
    if version == 0:
        # The control word of an Ethernet pseudowire.
        return ETHERNET, at + 4
    return {4: (IPV4, at), 6: (IPV6, at)}.get(version, "MPLS without a control word")


def _parse_udp(data: bytes, at: int) -> Inner | str | None:
    """Most datagrams are no tunnel, so one that is too short for a tunnel is not reported."""
    port = int.from_bytes(data[at + 2 : at + 4], "big")
    if port not in UDP_PORTS or len(data) < at + 16:
        return None
    at += 8
    if port == _GENEVE:
        return None if data[at] >> 6 else (data[at + 2] << 8 | data[at + 3], at + 8 + (data[at] & 0x3F) * 4)
    if port == _GTP:
        return "GTP" if data[at] >> 4 == 3 and data[at + 1] == _GTP_PAYLOAD else None
    if not data[at] & _VXLAN_HAS_ID:
        return None
    if port == _VXLAN_GPE and data[at] & _VXLAN_HAS_PROTOCOL:
        kind = {1: IPV4, 2: IPV6, 3: ETHERNET, 5: _MPLS}.get(data[at + 3])
        return None if kind is None else (kind, at + 8)
    return ETHERNET, at + 8


def _parse_gre(data: bytes, at: int) -> Inner | None:
    flags, kind = struct.unpack_from(">HH", data, at)
    # Version 1 is PPTP; source routing was never used.
    if flags & (_GRE_VERSION | _GRE_ROUTING):
        return None
    at += 4 + 4 * sum(bool(flags & flag) for flag in (_GRE_CHECKSUM, _GRE_KEY, _GRE_SEQUENCE))
    if kind == _ERSPAN:
        # Type I has no header of its own, and no sequence number; type II has both.
        return ETHERNET, at + (8 if flags & _GRE_SEQUENCE else 0)
    if kind == _ERSPAN_3:
        # The last bit means that a platform-specific header follows the 12 bytes.
        return ETHERNET, at + (20 if data[at + 11] & 1 else 12)
    return kind, at
