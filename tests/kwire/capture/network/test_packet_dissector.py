"""Every link layer and every form of IP gives the same rows for the same traffic."""

from __future__ import annotations

import struct

import pytest

from kwire.capture.export.pcapng_writer import TcpConversation
from kwire.headers import encode_request
from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.captures.capture_files import (
    SHARE,
    CapturedConnection,
    CapturedPacket,
    build_pcap,
    collect_issue_kinds,
    comparable_exchanges,
    convert_to_ipv6,
    read_capture_rows,
    read_exchanges,
    read_ip_packets,
)

ORIGINAL = read_exchanges(SHARE)
PACKETS = read_ip_packets()
ETHERNET = bytes(12)
V4, V6 = b"\x08\x00", b"\x86\xdd"

LINKS = {
    "ethernet": (1, ETHERNET + V4),
    "vlan": (1, ETHERNET + b"\x81\x00\x00\x05" + V4),
    "qinq": (1, ETHERNET + b"\x88\xa8\x00\x05\x81\x00\x00\x06" + V4),
    "old qinq": (1, ETHERNET + b"\x91\x00\x00\x05\x81\x00\x00\x06" + V4),
    "cooked": (113, bytes(14) + V4),
    "cooked with vlan": (113, bytes(14) + b"\x81\x00\x00\x05" + V4),
    "cooked v2": (276, V4 + bytes(18)),
    "cooked v2 with vlan": (276, b"\x81\x00" + bytes(18) + b"\x00\x05" + V4),
    "null, little": (0, b"\x02\x00\x00\x00"),
    "null, big": (0, b"\x00\x00\x00\x02"),
    "loop": (108, b"\x00\x00\x00\x02"),
    "raw": (101, b""),
    "raw 12": (12, b""),
    "raw IPv4": (228, b""),
}


@pytest.mark.parametrize("name", LINKS)
def test_every_link_layer_is_dissected(name: str) -> None:
    link, link_header = LINKS[name]
    assert read_exchanges(build_pcap(PACKETS, link=link, link_header=link_header)) == ORIGINAL


@pytest.mark.parametrize(
    ("link", "name"), [(1, "ethernet"), (113, "linux_sll"), (276, "linux_sll2"), (0, "loopback"), (101, "raw")]
)
def test_rows_have_the_link_layer(link: int, name: str) -> None:
    link_header = next(header for number, header in LINKS.values() if number == link)
    assert {row["link"] for row in read_capture_rows(build_pcap(PACKETS, link=link, link_header=link_header))} == {name}


EXTENSIONS = {
    "none": (6, b""),
    "hop-by-hop": (0, b"\x06\x00" + bytes(6)),
    "routing, then destination options": (43, b"\x3c\x01" + bytes(14) + b"\x06\x00" + bytes(6)),
    "fragment header that cuts nothing": (44, b"\x06\x00\x00\x00" + bytes(4)),
    "authentication": (51, b"\x06\x04" + bytes(22)),
}


@pytest.mark.parametrize("name", EXTENSIONS)
@pytest.mark.parametrize(("link", "link_header"), [(229, b""), (1, ETHERNET + V6), (0, b"\x1e\x00\x00\x00")])
def test_ipv6_with_extension_headers(name: str, link: int, link_header: bytes) -> None:
    first, extensions = EXTENSIONS[name]
    packets = [CapturedPacket(each.ts, convert_to_ipv6(each.data, extensions, first)) for each in PACKETS]

    rows = read_capture_rows(build_pcap(packets, link=link, link_header=link_header))
    assert comparable_exchanges(rows) == ORIGINAL
    assert {row["conn_id"] for row in rows} > {"[::7f00:1]:43578>[::7f00:1]:21092"}


def test_ipv4_options_are_skipped() -> None:
    def widened(packet: bytes) -> bytes:
        total = struct.unpack_from(">H", packet, 2)[0] + 8
        return bytes([0x47, packet[1]]) + struct.pack(">H", total) + packet[4:20] + b"\x01" * 8 + packet[20:]

    assert read_exchanges(build_pcap([CapturedPacket(each.ts, widened(each.data)) for each in PACKETS])) == ORIGINAL


def test_a_total_length_of_zero_means_the_packet_length() -> None:
    packets = [CapturedPacket(each.ts, each.data[:2] + b"\0\0" + each.data[4:]) for each in PACKETS]

    assert read_exchanges(build_pcap(packets)) == ORIGINAL


@pytest.mark.parametrize("ipv6", [False, True])
def test_offloaded_packets_may_exceed_the_length_field(ipv6: bool) -> None:
    first = encode_request(ApiVersionsRequest("me", "1"), 3, 1, "me" * 500 + "x")
    connection = CapturedConnection().open().send_requests(first)
    *opening, _ = connection.packets
    body = encode_request(MetadataRequest(topics=[MetadataRequestTopic(name="x" * 20_000)] * 10), 1, 2, "me")
    frame = struct.pack(">i", len(body)) + body
    (template,) = TcpConversation(("127.0.0.1", 40_000), ("127.0.0.1", 9092), isn=(1001, 5001)).from_client(b"x")
    head, tcp = template[:2] + b"\0\0" + template[4:20], template[20:40]
    if ipv6:
        opening = [CapturedPacket(each.ts, convert_to_ipv6(each.data)) for each in opening]
        head = struct.pack(">IHBB", 6 << 28, 0, 6, 64) + 2 * (bytes(12) + b"\x7f\0\0\1")

    (row,) = read_capture_rows(build_pcap([*opening, CapturedPacket(connection.packets[-1].ts, head + tcp + frame)]))
    assert len(frame) > 200_000
    assert (row["api_name"], row["status"], row["req_bytes"]) == ("Metadata", "no_response", len(frame))


def test_a_length_above_the_offload_limit_is_an_issue() -> None:
    packet = PACKETS[3].data[:2] + b"\0\0" + PACKETS[3].data[4:]
    data = build_pcap([])[:24] + struct.pack("<IIII", 1, 1, len(packet), 0x7FFFFFFF) + packet

    assert collect_issue_kinds(read_capture_rows(data)) == {"ip_header"}


def test_padding_after_a_short_packet_is_not_data() -> None:
    packets = [CapturedPacket(each.ts, each.data + b"\xee" * 20) for each in PACKETS]

    assert read_exchanges(build_pcap(packets, link=1, link_header=ETHERNET + V4)) == ORIGINAL


def test_other_protocols_are_ignored() -> None:
    arp = CapturedPacket(1, b"\x00\x01" * 14)
    udp = CapturedPacket(2, PACKETS[0].data[:9] + b"\x11" + PACKETS[0].data[10:])

    assert read_capture_rows(build_pcap([arp], link=1, link_header=ETHERNET + b"\x08\x06")) == []
    assert read_capture_rows(build_pcap([udp])) == []


@pytest.mark.parametrize(
    ("packet", "kind"),
    [
        (b"", "header_cut"),
        (PACKETS[0].data[:30], "header_cut"),
        (b"\x41" + PACKETS[0].data[1:], "ip_header"),
        (PACKETS[0].data[:2] + b"\x00\x05" + PACKETS[0].data[4:], "ip_header"),
        (PACKETS[0].data[:32] + b"\x10" + PACKETS[0].data[33:], "tcp_header"),
        (PACKETS[0].data[:32] + b"\xf0" + PACKETS[0].data[33:40], "tcp_header"),
        (convert_to_ipv6(PACKETS[0].data, b"\x06\xff" + bytes(6), 0), "ip_header"),
    ],
)
def test_damaged_headers_are_reported(packet: bytes, kind: str) -> None:
    header = ETHERNET + (V6 if packet[:1] == b"\x60" else V4)
    rows = read_capture_rows(build_pcap([CapturedPacket(1, packet)], link=1, link_header=header))

    assert collect_issue_kinds(rows) == {kind}


def test_an_unknown_link_type_is_reported_once() -> None:
    rows = read_capture_rows(build_pcap(PACKETS, link=147))

    assert len(rows) == 1
    assert f"{len(PACKETS)} times" in str(rows[0]["issues"])
