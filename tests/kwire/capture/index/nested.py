"""Captures with captures inside their packets, as somebody has who captures the transfer of one."""

from __future__ import annotations

import struct

from tests.kwire.capture.wire import Wire, enhanced, interface, ip_packets, option, pcap, section


def _carrying(data: bytes, wire: Wire) -> Wire:
    """A datagram with this data, at the time of another packet."""
    head = struct.pack(">BBHHHBBH", 0x45, 0, 28 + len(data), 1, 0, 64, 17, 0) + wire.packet[12:20]
    return wire._replace(packet=head + struct.pack(">HHHH", 7000, 7001, 8 + len(data), 0) + data)


def _nested() -> dict[str, bytes]:
    wires = ip_packets()
    clock = option(9, b"\x09")

    def blocks(chosen: list[Wire], order: str = "<") -> bytes:
        own = clock if order == "<" else option(9, b"\x09", order)
        return section(order) + interface(order, options=own) + b"".join(enhanced(*each[:2], order) for each in chosen)

    def among(inner: bytes) -> list[Wire]:
        return [each for wire in wires[:12] for each in (wire, _carrying(inner, wire))]

    inner = wires[40:80]
    return {
        "pcap in pcap": pcap(among(pcap(inner))),
        "pcap in pcap, big-endian": pcap(among(pcap(inner, order=">")), order=">"),
        "pcapng in pcapng": blocks(among(blocks(inner))),
        "pcapng in pcapng, big-endian": blocks(among(blocks(inner, ">")), ">"),
    }


NESTED = _nested()
INNER = ip_packets()[45].packet
"""A packet of those inside."""
