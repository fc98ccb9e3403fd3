"""Tunnels give the same rows for the same traffic, and Wireshark finds the same segments."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from kwire import read_capture
from tests.support import needs
from tests.support.captures.capture_files import (
    SHARE,
    CapturedPacket,
    build_pcap,
    collect_issue_kinds,
    comparable_exchanges,
    convert_to_ipv6,
    fragment_ipv4,
    read_capture_rows,
    read_exchanges,
    read_ip_packets,
)

pytestmark = pytest.mark.slow

ORIGINAL = read_exchanges(SHARE)
PACKETS = read_ip_packets()
FRAME = bytes(12) + b"\x08\x00"
TAGGED = bytes(12) + b"\x81\x00\x00\x05\x08\x00"


def ipv4(protocol: int, payload: bytes) -> bytes:
    head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(payload), 1, 0, 64, protocol, 0)
    return head + b"\x0a\0\0\1\x0a\0\0\2" + payload


def ipv6(protocol: int, payload: bytes) -> bytes:
    return struct.pack(">IHBB", 6 << 28, len(payload), protocol, 64) + bytes(31) + b"\x01" + payload


def gre(kind: int, payload: bytes, flags: int = 0) -> bytes:
    options = sum(bool(flags & each) for each in (0x8000, 0x2000, 0x1000))
    return ipv4(47, struct.pack(">HH", flags, kind) + bytes(4 * options) + payload)


def udp(port: int, payload: bytes) -> bytes:
    return ipv4(17, struct.pack(">HHHH", 50_000, port, 8 + len(payload), 0) + payload)


def vxlan(frame: bytes, port: int = 4789) -> bytes:
    return udp(port, b"\x08\0\0\0\0\0\x2a\0" + frame)


def geneve(kind: int, payload: bytes, options: bytes = b"") -> bytes:
    return udp(6081, struct.pack(">BBHI", len(options) // 4, 0, kind, 42 << 8) + options + payload)


LABELS = struct.pack(">II", 100 << 12 | 64, 101 << 12 | 0x100 | 64)


ERSPAN_2 = b"\x10\x05\x00\x01" + bytes(4)
ERSPAN_3 = b"\x20\x05\x00\x01" + bytes(8)

TUNNELS: dict[str, Callable[[bytes], bytes]] = {
    "GRE": lambda packet: gre(0x0800, packet),
    "GRE with checksum": lambda packet: gre(0x0800, packet, 0x8000),
    "GRE with key and sequence": lambda packet: gre(0x0800, packet, 0x3000),
    "GRE with all": lambda packet: gre(0x0800, packet, 0xB000),
    "GRE with Ethernet": lambda packet: gre(0x6558, FRAME + packet),
    "GRE with IPv6": lambda packet: gre(0x86DD, convert_to_ipv6(packet)),
    "GRE in IPv6": lambda packet: ipv6(47, b"\0\0\x08\0" + packet),
    "VXLAN": lambda packet: vxlan(FRAME + packet),
    "VXLAN with a VLAN tag": lambda packet: vxlan(TAGGED + packet),
    "VXLAN on Linux's old port": lambda packet: vxlan(FRAME + packet, 8472),
    "VXLAN-GPE with Ethernet": lambda packet: udp(4790, b"\x0c\0\0\3\0\0\x2a\0" + FRAME + packet),
    "VXLAN-GPE with IP": lambda packet: udp(4790, b"\x0c\0\0\1\0\0\x2a\0" + packet),
    "Geneve": lambda packet: geneve(0x6558, FRAME + packet),
    "Geneve with options": lambda packet: geneve(0x6558, TAGGED + packet, b"\1\2\3\1abcd\0\0\0\0"),
    "Geneve with IP": lambda packet: geneve(0x0800, packet),
    "MPLS in GRE": lambda packet: gre(0x8847, LABELS + packet),
    "ERSPAN I": lambda packet: gre(0x88BE, FRAME + packet),
    "ERSPAN II": lambda packet: gre(0x88BE, ERSPAN_2 + FRAME + packet, 0x1000),
    "ERSPAN III": lambda packet: gre(0x22EB, ERSPAN_3 + FRAME + packet, 0x1000),
    "ERSPAN III with a platform's header": lambda packet: gre(
        0x22EB, ERSPAN_3[:11] + b"\x01" + bytes(8) + FRAME + packet, 0x1000
    ),
    "IP in IP": lambda packet: ipv4(4, packet),
    "IPv6 in IPv4": lambda packet: ipv4(41, convert_to_ipv6(packet)),
    "VXLAN in GRE in VXLAN": lambda packet: vxlan(FRAME + gre(0x0800, vxlan(FRAME + packet))),
}


@pytest.mark.parametrize("name", TUNNELS)
def test_packets_in_tunnels_are_read(name: str) -> None:
    packets = [CapturedPacket(each.ts, TUNNELS[name](each.data)) for each in PACKETS]

    assert read_exchanges(build_pcap(packets)) == ORIGINAL
    assert comparable_exchanges(read_capture(build_pcap(packets)).to_pylist()) == ORIGINAL


ETHERNET: dict[str, Callable[[bytes], bytes]] = {
    "MPLS": lambda packet: bytes(12) + b"\x88\x47" + LABELS + packet,
    "MPLS with IPv6": lambda packet: bytes(12) + b"\x88\x48" + LABELS + convert_to_ipv6(packet),
    "MPLS behind a VLAN tag": lambda packet: bytes(12) + b"\x81\0\0\5\x88\x47" + LABELS + packet,
    "a wire for Ethernet in MPLS": lambda packet: bytes(12) + b"\x88\x47" + LABELS + bytes(4) + TAGGED + packet,
    "PPPoE": lambda packet: bytes(12) + b"\x88\x64\x11\0\0\7" + struct.pack(">HH", len(packet) + 2, 0x21) + packet,
    "SNAP": lambda packet: bytes(12) + b"\5\xdc\xaa\xaa\3\0\0\0\x08\0" + packet,
}
UNREAD: dict[str, Callable[[bytes], bytes]] = {
    "ESP (IPsec)": lambda packet: FRAME + ipv4(50, bytes(40)),
    "AH (IPsec)": lambda packet: FRAME + ipv4(51, bytes(40)),
    "GTP": lambda packet: FRAME + udp(2152, struct.pack(">BBHI", 0x30, 255, len(packet), 7) + packet),
    "MACsec": lambda packet: bytes(12) + b"\x88\xe5" + bytes(60),
    "provider backbone bridging": lambda packet: bytes(12) + b"\x88\xe7" + bytes(60),
    "MPLS without a control word": lambda packet: bytes(12) + b"\x88\x47" + LABELS + b"\xfe" + bytes(60),
}


@pytest.mark.parametrize("name", ETHERNET)
def test_protocols_between_ethernet_and_ip_are_skipped(name: str) -> None:
    data = build_pcap([CapturedPacket(each.ts, ETHERNET[name](each.data)) for each in PACKETS], link=1)

    assert read_exchanges(data) == ORIGINAL
    assert comparable_exchanges(read_capture(data).to_pylist()) == ORIGINAL


@pytest.mark.parametrize("path", ["plain", "indexed"])
def test_unsupported_tunnels_are_reported_with_their_packet_count(path: str) -> None:
    packets = [CapturedPacket(7, make(each.data)) for make in UNREAD.values() for each in PACKETS[:3]]
    data = build_pcap([CapturedPacket(1, FRAME + PACKETS[0].data), *packets], link=1)

    found = read_capture_rows(data) if path == "plain" else read_capture(data).to_pylist()
    rows: list[dict[str, str]] = []
    for row in found:
        issues = row["issues"]
        assert isinstance(issues, list)
        rows += issues
    numbers = enumerate(UNREAD)
    expected = [f"packets inside {name} are not read (packet {2 + 3 * at}, 3 times)" for at, name in numbers]
    assert sorted(issue["detail"] for issue in rows) == sorted(expected)
    assert {issue["kind"] for issue in rows} == {"encapsulated"}


@pytest.mark.parametrize("name", sorted(TUNNELS.keys() - {"VXLAN on Linux's old port"}))
def test_wireshark_finds_the_same_segments_in_tunnels(name: str, tmp_path: Path) -> None:
    tshark = needs.tool("tshark")
    path = tmp_path / "tunnel.pcap"
    path.write_bytes(build_pcap([CapturedPacket(each.ts, TUNNELS[name](each.data)) for each in PACKETS]))
    command = [tshark, "-r", str(path), "-Y", "tcp.port == 21092", "-T", "fields", "-e", "frame.number"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()

    assert len(lines) == len(PACKETS)


def test_a_fragmented_tunnel_is_read() -> None:
    packets = []
    for ident, each in enumerate(PACKETS):
        packets += [CapturedPacket(each.ts, piece) for piece in fragment_ipv4(vxlan(FRAME + each.data), 512, ident)]

    assert read_exchanges(build_pcap(packets)) == ORIGINAL


def test_datagrams_that_are_no_tunnel_are_ignored() -> None:
    datagrams = [
        b"\0\0\x17\xc1\0\x10\0\0\xff" + bytes(7),
        b"\0\0\x12\xb6\0\x10\0\0\x0c\0\0\x09\0\0\0\0",
        b"\0\0\x08\x68\0\x10\0\0\x32\x01" + bytes(6),
        struct.pack(">HHHH", 4789, 53, 12, 0) + b"\x08abc",
        b"\0\0\x12\xb5\0\x08\0\0",
        b"\0\0\x12\xb5" + bytes(40),
    ]
    others = [gre(0x880B, bytes(20), 0x0001), gre(0x0800, bytes(40), 0x4000), gre(0x0806, bytes(28))]

    packets = [*(ipv4(17, each) for each in datagrams), *others]
    assert read_capture_rows(build_pcap([CapturedPacket(1, each) for each in packets])) == []


def test_nested_tunnels_are_limited() -> None:
    packet = PACKETS[3].data
    for _ in range(1500):
        packet = ipv4(4, packet)
    rows = read_capture_rows(build_pcap([CapturedPacket(1, packet)]))

    assert collect_issue_kinds(rows) == {"tunnel_depth"}
