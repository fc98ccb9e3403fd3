"""Captures whose packets contain captures, as when the transfer of a capture file is captured."""

from __future__ import annotations

import struct

from tests.support.captures.capture_files import (
    CapturedPacket,
    build_interface,
    build_option,
    build_packet_block,
    build_pcap,
    build_section,
    read_ip_packets,
)


def _wrap_in_datagram(data: bytes, packet: CapturedPacket) -> CapturedPacket:
    """Build a datagram with this data, at the time of another packet."""
    head = struct.pack(">BBHHHBBH", 0x45, 0, 28 + len(data), 1, 0, 64, 17, 0) + packet.data[12:20]
    return packet._replace(data=head + struct.pack(">HHHH", 7000, 7001, 8 + len(data), 0) + data)


def _nested_captures() -> dict[str, bytes]:
    packets = read_ip_packets()
    clock = build_option(9, b"\x09")

    def blocks(chosen: list[CapturedPacket], order: str = "<") -> bytes:
        interface_options = clock if order == "<" else build_option(9, b"\x09", order)
        return (
            build_section(order)
            + build_interface(order, options=interface_options)
            + b"".join(build_packet_block(*each[:2], order) for each in chosen)
        )

    def interleave(inner: bytes) -> list[CapturedPacket]:
        return [each for packet in packets[:12] for each in (packet, _wrap_in_datagram(inner, packet))]

    inner = packets[40:80]
    return {
        "pcap in pcap": build_pcap(interleave(build_pcap(inner))),
        "pcap in pcap, big-endian": build_pcap(interleave(build_pcap(inner, order=">")), order=">"),
        "pcapng in pcapng": blocks(interleave(blocks(inner))),
        "pcapng in pcapng, big-endian": blocks(interleave(blocks(inner, ">")), ">"),
    }


NESTED = _nested_captures()
INNER_PACKET = read_ip_packets()[45].data
"""A packet of the inner captures."""
