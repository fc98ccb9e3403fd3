"""IP fragments are reassembled in any order, within limits; incomplete packets are reported."""

from __future__ import annotations

import random
import struct
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.capture.model import CaptureIssue, Packet, Segment
from kwire.capture.network import ip_fragments
from tests.support.capture_model.packet_dissection import dissect_packets
from tests.support.captures.capture_files import (
    SHARE,
    CapturedPacket,
    build_pcap,
    collect_issue_kinds,
    convert_to_ipv6,
    fragment_ipv4,
    read_capture_rows,
    read_exchanges,
    read_ip_packets,
)

pytestmark = pytest.mark.slow

ORIGINAL = read_exchanges(SHARE)
PACKETS = read_ip_packets()


def fragment_ipv6(packet: bytes, size: int, ident: int) -> list[bytes]:
    """Split an IPv6 packet without extension headers into fragments of `size` bytes."""
    payload = packet[40:]
    output = []
    for at in range(0, len(payload), size):
        piece = payload[at : at + size]
        fragment = struct.pack(">BxHI", packet[6], at | (at + size < len(payload)), ident)
        output.append(packet[:4] + struct.pack(">HB", 8 + len(piece), 44) + packet[7:40] + fragment + piece)
    return output


def fragment_capture(size: int, shuffle: random.Random | None = None, *, ipv6: bool = False) -> list[CapturedPacket]:
    """Split all packets of the real capture into fragments."""
    output = []
    for ident, packet in enumerate(PACKETS):
        data, fragment = (convert_to_ipv6(packet.data), fragment_ipv6) if ipv6 else (packet.data, fragment_ipv4)
        pieces = fragment(data, size, ident)
        if shuffle:
            shuffle.shuffle(pieces)
        output += [CapturedPacket(packet.ts, piece, packet.stored_size) for piece in pieces]
    return output


@pytest.mark.parametrize("size", [8, 24, 400, 1480])
@pytest.mark.parametrize("ipv6", [False, True])
def test_fragmented_packets_are_read(size: int, ipv6: bool) -> None:
    assert read_exchanges(build_pcap(fragment_capture(size, ipv6=ipv6))) == ORIGINAL


@pytest.mark.parametrize("ipv6", [False, True])
def test_fragments_may_come_in_any_order_and_twice(ipv6: bool) -> None:
    packets = fragment_capture(64, random.Random(1), ipv6=ipv6)
    assert read_exchanges(build_pcap(packets)) == ORIGINAL

    twice = [each for packet in packets for each in (packet, packet)]
    assert read_exchanges(build_pcap(twice)) == ORIGINAL


def test_of_overlapping_fragments_the_first_is_used() -> None:
    packet = max((each.data for each in PACKETS), key=len)
    (first, second, *others) = fragment_ipv4(packet, 512, 7)
    first = first[:2] + struct.pack(">H", len(first) + 8) + first[4:] + b"\xee" * 8
    packets = [Packet(1, 1, 101, each, len(each)) for each in (second, *others, first)]

    (found,) = dissect_packets(packets)
    assert isinstance(found, Segment)
    head = (packet[32] >> 4) * 4
    expected = packet[20 + head : 20 + 512] + b"\xee" * 8 + packet[20 + 512 + 8 :]
    assert found.payload == expected


def test_a_lost_fragment_and_its_gap_are_reported() -> None:
    packets = fragment_capture(400)
    later = [index for index, each in enumerate(packets) if each.data[6] & 0x20 or each.data[7]]
    rows = read_capture_rows(build_pcap([each for index, each in enumerate(packets) if index != later[-1]]))

    assert {"ip_fragment"} < collect_issue_kinds(rows)
    assert collect_issue_kinds(rows) <= {"ip_fragment", "lost", "gap", "no_response"}
    assert "not all fragments of an IP packet were captured" in str(rows)


def test_a_fragment_cut_by_the_snaplen_ends_the_packet_data() -> None:
    pieces = fragment_ipv4(PACKETS[3].data, 8 * 9, 1)
    stored = [Packet(1, 1, 101, each[:60], len(each)) for each in pieces]
    whole = PACKETS[3].data
    (expected,) = dissect_packets([Packet(1, 1, 101, whole, len(whole))])
    (found,) = dissect_packets(stored)

    assert isinstance(found, Segment)
    assert isinstance(expected, Segment)
    head = (whole[32] >> 4) * 4
    assert found.payload == expected.payload[: 40 - head]
    assert found.missing == len(expected.payload) - (40 - head)


def test_fragments_of_other_protocols_are_ignored() -> None:
    packets = [CapturedPacket(each.ts, each.data[:9] + b"\x11" + each.data[10:]) for each in fragment_capture(64)[:-1]]

    assert read_capture_rows(build_pcap(packets)) == []


def test_packets_with_too_many_fragments_are_discarded() -> None:
    data = PACKETS[0].data
    head = data[:2] + b"\0\x1c" + data[4:6]
    fields = [2, 0x2000, *range(0x2003, 0x2000 + 8000)]
    tiny_fragments = [CapturedPacket(1, head + struct.pack(">H", each) + data[8:20] + bytes(8)) for each in fields]

    begin = time.process_time()
    rows = read_capture_rows(build_pcap(tiny_fragments * 4))
    assert time.process_time() - begin < 10
    assert collect_issue_kinds(rows) == {"ip_fragment"}


def test_incomplete_packets_are_limited_in_number_time_and_size() -> None:
    def first(ident: int, ts: int, field: int = 0x2000, size: int = 64) -> Packet:
        head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + size, ident, field, 64, 6, 0) + bytes(8)
        return Packet(ident, ts, 101, head + bytes(size), 20 + size)

    many = [first(ident, 1) for ident in range(1000)]
    store = ip_fragments.FragmentReassembler()
    for each in many:
        assert store.add_ipv4_fragment(each, 0, 20, 84) is None
    assert len(store.issues) == 1000 - ip_fragments.OPEN_MAX - 1
    assert store.add_ipv4_fragment(first(5000, 2 + ip_fragments.REASSEMBLY_TIMEOUT_NS), 0, 20, 84) is None
    assert len(store.issues) == 1000

    found = [each for each in dissect_packets([first(1, 1, 0x3FFF)]) if isinstance(each, CaptureIssue)]
    assert [each.detail for each in found] == ["a fragment reaches beyond the largest IP packet"]
    overlapping = [first(1, 1, 0x2000 | offset, 60_000) for offset in range(600)]
    assert {type(each) for each in dissect_packets(overlapping)} == {CaptureIssue}


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 0x3FFF), st.integers(0, 40), st.integers(0, 2)), max_size=20))
def test_any_fragments(drawn: list[tuple[int, int, int]]) -> None:
    packets = []
    for field, size, ident in drawn:
        head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + size, ident, field & 0x200F, 64, 6, 0) + bytes(8)
        packets.append(CapturedPacket(1, head + bytes(size)))

    assert collect_issue_kinds(read_capture_rows(build_pcap(packets))) <= {"ip_fragment", "tcp_header", "header_cut"}
