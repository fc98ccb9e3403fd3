"""The same traffic inside tunnels must give the same rows, and Wireshark must find the same inside."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kwire.capture.pipeline import rows
from tests import needs
from tests.kwire.capture.test_fragments import cut
from tests.kwire.capture.wire import SHARE, Wire, as_ipv6, ip_packets, issue_kinds, matched, pcap, read

ORIGINAL = matched(list(rows(SHARE)))
WIRES = ip_packets()
FRAME = bytes(12) + b"\x08\x00"
TAGGED = bytes(12) + b"\x81\x00\x00\x05\x08\x00"


def ipv4(protocol: int, payload: bytes) -> bytes:
    return (
        struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(payload), 1, 0, 64, protocol, 0) + b"\x0a\0\0\1\x0a\0\0\2" + payload
    )


def ipv6(protocol: int, payload: bytes) -> bytes:
    return struct.pack(">IHBB", 6 << 28, len(payload), protocol, 64) + bytes(31) + b"\x01" + payload


def gre(kind: int, payload: bytes, flags: int = 0) -> bytes:
    options = sum(bool(flags & each) for each in (0x8000, 0x2000, 0x1000))
    return ipv4(47, struct.pack(">HH", flags, kind) + bytes(4 * options) + payload)


def vxlan(frame: bytes, port: int = 4789) -> bytes:
    payload = b"\x08\0\0\0\0\0\x2a\0" + frame
    return ipv4(17, struct.pack(">HHHH", 50_000, port, 8 + len(payload), 0) + payload)


ERSPAN_2 = b"\x10\x05\x00\x01" + bytes(4)
ERSPAN_3 = b"\x20\x05\x00\x01" + bytes(8)

TUNNELS: dict[str, Callable[[bytes], bytes]] = {
    "GRE": lambda packet: gre(0x0800, packet),
    "GRE with checksum": lambda packet: gre(0x0800, packet, 0x8000),
    "GRE with key and sequence": lambda packet: gre(0x0800, packet, 0x3000),
    "GRE with all": lambda packet: gre(0x0800, packet, 0xB000),
    "GRE with Ethernet": lambda packet: gre(0x6558, FRAME + packet),
    "GRE with IPv6": lambda packet: gre(0x86DD, as_ipv6(packet)),
    "GRE in IPv6": lambda packet: ipv6(47, b"\0\0\x08\0" + packet),
    "VXLAN": lambda packet: vxlan(FRAME + packet),
    "VXLAN with a VLAN tag": lambda packet: vxlan(TAGGED + packet),
    "VXLAN on Linux's old port": lambda packet: vxlan(FRAME + packet, 8472),
    "ERSPAN I": lambda packet: gre(0x88BE, FRAME + packet),
    "ERSPAN II": lambda packet: gre(0x88BE, ERSPAN_2 + FRAME + packet, 0x1000),
    "ERSPAN III": lambda packet: gre(0x22EB, ERSPAN_3 + FRAME + packet, 0x1000),
    "ERSPAN III with a platform's header": lambda packet: gre(
        0x22EB, ERSPAN_3[:11] + b"\x01" + bytes(8) + FRAME + packet, 0x1000
    ),
    "IP in IP": lambda packet: ipv4(4, packet),
    "IPv6 in IPv4": lambda packet: ipv4(41, as_ipv6(packet)),
    "VXLAN in GRE in VXLAN": lambda packet: vxlan(FRAME + gre(0x0800, vxlan(FRAME + packet))),
}


@pytest.mark.parametrize("name", TUNNELS)
def test_what_a_tunnel_carries_is_read(name: str) -> None:
    wires = [Wire(each.ts, TUNNELS[name](each.packet)) for each in WIRES]

    assert matched(read(pcap(wires))) == ORIGINAL


@pytest.mark.parametrize("name", sorted(TUNNELS.keys() - {"VXLAN on Linux's old port"}))
def test_wireshark_finds_the_same_segments_inside(name: str, tmp_path: Path) -> None:
    tshark = needs.tool("tshark")
    path = tmp_path / "tunnel.pcap"
    path.write_bytes(pcap([Wire(each.ts, TUNNELS[name](each.packet)) for each in WIRES]))
    command = [tshark, "-r", str(path), "-Y", "tcp.port == 21092", "-T", "fields", "-e", "frame.number"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()

    assert len(lines) == len(WIRES)


def test_a_tunnel_whose_packets_are_cut_into_fragments_is_read() -> None:
    wires = []
    for ident, each in enumerate(WIRES):
        wires += [Wire(each.ts, piece) for piece in cut(vxlan(FRAME + each.packet), 512, ident)]

    assert matched(read(pcap(wires))) == ORIGINAL


def test_datagrams_that_are_no_tunnel_say_nothing() -> None:
    datagrams = [
        struct.pack(">HHHH", 4789, 53, 12, 0) + b"\x08abc",
        b"\0\0\x12\xb5\0\x08\0\0",
        b"\0\0\x12\xb5" + bytes(40),
    ]
    others = [gre(0x880B, bytes(20), 0x0001), gre(0x0800, bytes(40), 0x4000), gre(0x0806, bytes(28))]

    assert read(pcap([*(Wire(1, ipv4(17, each)) for each in datagrams), *(Wire(2, each) for each in others)])) == []


def test_tunnels_in_tunnels_have_an_end() -> None:
    packet = WIRES[3].packet
    for _ in range(1500):
        packet = ipv4(4, packet)
    found = read(pcap([Wire(1, packet)]))

    assert issue_kinds(found) == {"tunnel_depth"}
