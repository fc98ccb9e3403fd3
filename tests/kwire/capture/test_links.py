"""The same traffic over every link layer, and in every form of IP, must give the same rows."""

from __future__ import annotations

import struct

import pytest

from kwire.capture.pcapng_write import TcpConversation
from kwire.capture.pipeline import rows
from kwire.headers import encode_request
from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.kwire.capture.wire import SHARE, Talk, Wire, as_ipv6, ip_packets, issue_kinds, matched, pcap, read

ORIGINAL = matched(list(rows(SHARE)))
WIRES = ip_packets()
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
def test_a_link_layer_is_passed_through(name: str) -> None:
    link, before = LINKS[name]
    assert matched(read(pcap(WIRES, link=link, before=before))) == ORIGINAL


@pytest.mark.parametrize(
    ("link", "name"), [(1, "ethernet"), (113, "linux_sll"), (276, "linux_sll2"), (0, "loopback"), (101, "raw")]
)
def test_the_link_is_named(link: int, name: str) -> None:
    before = next(before for number, before in LINKS.values() if number == link)
    assert {row["link"] for row in read(pcap(WIRES, link=link, before=before))} == {name}


EXTENSIONS = {
    "none": (6, b""),
    "hop-by-hop": (0, b"\x06\x00" + bytes(6)),
    "routing, then destination options": (43, b"\x3c\x01" + bytes(14) + b"\x06\x00" + bytes(6)),
    "fragment header that cuts nothing": (44, b"\x06\x00\x00\x00" + bytes(4)),
    "authentication": (51, b"\x06\x04" + bytes(22)),
}


@pytest.mark.parametrize("name", EXTENSIONS)
@pytest.mark.parametrize(("link", "before"), [(229, b""), (1, ETHERNET + V6), (0, b"\x1e\x00\x00\x00")])
def test_ipv6_with_extension_headers(name: str, link: int, before: bytes) -> None:
    first, extensions = EXTENSIONS[name]
    wires = [Wire(each.ts, as_ipv6(each.packet, extensions, first)) for each in WIRES]

    found = read(pcap(wires, link=link, before=before))
    assert matched(found) == ORIGINAL
    assert {row["conn_id"] for row in found} > {"[::7f00:1]:43578>[::7f00:1]:21092"}


def test_ipv4_options_are_passed_over() -> None:
    def widened(packet: bytes) -> bytes:
        total = struct.unpack_from(">H", packet, 2)[0] + 8
        return bytes([0x47, packet[1]]) + struct.pack(">H", total) + packet[4:20] + b"\x01" * 8 + packet[20:]

    assert matched(read(pcap([Wire(each.ts, widened(each.packet)) for each in WIRES]))) == ORIGINAL


def test_a_total_length_of_zero_means_the_whole_packet() -> None:
    wires = [Wire(each.ts, each.packet[:2] + b"\0\0" + each.packet[4:]) for each in WIRES]

    assert matched(read(pcap(wires))) == ORIGINAL


@pytest.mark.parametrize("ipv6", [False, True])
def test_offloaded_packets_are_longer_than_any_field_tells(ipv6: bool) -> None:
    talk = Talk().open().asks(encode_request(ApiVersionsRequest("me", "1"), 3, 1, "me" * 500 + "x"))
    *opening, _ = talk.wires
    body = encode_request(MetadataRequest(topics=[MetadataRequestTopic(name="x" * 20_000)] * 10), 1, 2, "me")
    frame = struct.pack(">i", len(body)) + body
    (template,) = TcpConversation(("127.0.0.1", 40_000), ("127.0.0.1", 9092), isn=(1001, 5001)).from_client(b"x")
    head, tcp = template[:2] + b"\0\0" + template[4:20], template[20:40]
    if ipv6:
        opening = [Wire(each.ts, as_ipv6(each.packet)) for each in opening]
        head = struct.pack(">IHBB", 6 << 28, 0, 6, 64) + 2 * (bytes(12) + b"\x7f\0\0\1")

    (row,) = read(pcap([*opening, Wire(talk.wires[-1].ts, head + tcp + frame)]))
    assert len(frame) > 200_000
    assert (row["api_name"], row["status"], row["req_bytes"]) == ("Metadata", "no_response", len(frame))


def test_a_length_that_no_offload_makes_is_not_believed() -> None:
    packet = WIRES[3].packet[:2] + b"\0\0" + WIRES[3].packet[4:]
    data = pcap([])[:24] + struct.pack("<IIII", 1, 1, len(packet), 0x7FFFFFFF) + packet

    assert issue_kinds(read(data)) == {"ip_header"}


def test_padding_behind_a_short_packet_is_no_data() -> None:
    wires = [Wire(each.ts, each.packet + b"\xee" * 20) for each in WIRES]

    assert matched(read(pcap(wires, link=1, before=ETHERNET + V4))) == ORIGINAL


def test_other_protocols_say_nothing() -> None:
    arp = Wire(1, b"\x00\x01" * 14)
    udp = Wire(2, WIRES[0].packet[:9] + b"\x11" + WIRES[0].packet[10:])

    assert read(pcap([arp], link=1, before=ETHERNET + b"\x08\x06")) == []
    assert read(pcap([udp])) == []


@pytest.mark.parametrize(
    ("packet", "kind"),
    [
        (b"", "header_cut"),
        (WIRES[0].packet[:30], "header_cut"),
        (b"\x41" + WIRES[0].packet[1:], "ip_header"),
        (WIRES[0].packet[:2] + b"\x00\x05" + WIRES[0].packet[4:], "ip_header"),
        (WIRES[0].packet[:32] + b"\x10" + WIRES[0].packet[33:], "tcp_header"),
        (WIRES[0].packet[:32] + b"\xf0" + WIRES[0].packet[33:40], "tcp_header"),
        (as_ipv6(WIRES[0].packet, b"\x06\xff" + bytes(6), 0), "ip_header"),
    ],
)
def test_broken_headers_are_named(packet: bytes, kind: str) -> None:
    found = read(pcap([Wire(1, packet)], link=1, before=ETHERNET + (V6 if packet[:1] == b"\x60" else V4)))

    assert issue_kinds(found) == {kind}


def test_an_unknown_link_type_is_named_once() -> None:
    found = read(pcap(WIRES, link=147))

    assert len(found) == 1
    assert f"{len(WIRES)} times" in str(found[0]["issues"])
