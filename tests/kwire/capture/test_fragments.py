"""IP fragments are put together, in any order, within bounds; what never becomes whole is named."""

from __future__ import annotations

import random
import struct
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.capture import fragments
from kwire.capture.ip import segments
from kwire.capture.pipeline import rows
from kwire.capture.values import Packet, Segment, Trouble
from tests.kwire.capture.wire import SHARE, Wire, as_ipv6, ip_packets, issue_kinds, matched, pcap, read

ORIGINAL = matched(list(rows(SHARE)))
WIRES = ip_packets()


def cut(packet: bytes, size: int, ident: int) -> list[bytes]:
    """An IPv4 packet in fragments of `size` bytes."""
    head = (packet[0] & 15) * 4
    payload = packet[head : struct.unpack_from(">H", packet, 2)[0]]
    out = []
    for at in range(0, len(payload), size):
        piece = payload[at : at + size]
        field = at // 8 | (0x2000 if at + size < len(payload) else 0)
        fields = struct.pack(">HHH", head + len(piece), ident, field)
        out.append(packet[:2] + fields + packet[8:head] + piece)
    return out


def cut_ipv6(packet: bytes, size: int, ident: int) -> list[bytes]:
    """An IPv6 packet without extension headers in fragments of `size` bytes."""
    payload = packet[40:]
    out = []
    for at in range(0, len(payload), size):
        piece = payload[at : at + size]
        fragment = struct.pack(">BxHI", packet[6], at | (at + size < len(payload)), ident)
        out.append(packet[:4] + struct.pack(">HB", 8 + len(piece), 44) + packet[7:40] + fragment + piece)
    return out


def in_fragments(size: int, shuffle: random.Random | None = None, *, ipv6: bool = False) -> list[Wire]:
    """The packets of the real capture, each in fragments."""
    out = []
    for ident, wire in enumerate(WIRES):
        pieces = cut_ipv6(as_ipv6(wire.packet), size, ident) if ipv6 else cut(wire.packet, size, ident)
        if shuffle:
            shuffle.shuffle(pieces)
        out += [Wire(wire.ts, piece, wire.kept) for piece in pieces]
    return out


@pytest.mark.parametrize("size", [8, 24, 400, 1480])
@pytest.mark.parametrize("ipv6", [False, True])
def test_packets_in_fragments_read_as_whole_ones(size: int, ipv6: bool) -> None:
    assert matched(read(pcap(in_fragments(size, ipv6=ipv6)))) == ORIGINAL


@pytest.mark.parametrize("ipv6", [False, True])
def test_fragments_may_come_in_any_order_and_twice(ipv6: bool) -> None:
    wires = in_fragments(64, random.Random(1), ipv6=ipv6)
    assert matched(read(pcap(wires))) == ORIGINAL

    twice = [each for wire in wires for each in (wire, wire)]
    assert matched(read(pcap(twice))) == ORIGINAL


def test_where_fragments_overlap_the_one_that_begins_first_counts() -> None:
    packet = max((each.packet for each in WIRES), key=len)
    (first, second, *others) = cut(packet, 512, 7)
    first = first[:2] + struct.pack(">H", len(first) + 8) + first[4:] + b"\xee" * 8
    packets = [Packet(1, 1, 101, each, len(each)) for each in (second, *others, first)]

    (found,) = segments(packets)
    assert isinstance(found, Segment)
    head = (packet[32] >> 4) * 4
    expected = packet[20 + head : 20 + 512] + b"\xee" * 8 + packet[20 + 512 + 8 :]
    assert found.payload == expected


def test_a_lost_fragment_is_named_and_so_is_the_gap_that_it_leaves() -> None:
    wires = in_fragments(400)
    later = [index for index, each in enumerate(wires) if each.packet[6] & 0x20 or each.packet[7]]
    found = read(pcap([each for index, each in enumerate(wires) if index != later[-1]]))

    assert {"ip_fragment"} < issue_kinds(found)
    assert issue_kinds(found) <= {"ip_fragment", "lost", "gap", "no_response"}
    assert "not all fragments of an IP packet were captured" in str(found)


def test_what_the_snaplen_cuts_off_a_fragment_is_missing_from_there_on() -> None:
    pieces = cut(WIRES[3].packet, 8 * 9, 1)
    kept = [Packet(1, 1, 101, each[:60], len(each)) for each in pieces]
    whole = WIRES[3].packet
    (expected,) = segments([Packet(1, 1, 101, whole, len(whole))])
    (found,) = segments(kept)

    assert isinstance(found, Segment)
    assert isinstance(expected, Segment)
    head = (whole[32] >> 4) * 4
    assert found.payload == expected.payload[: 40 - head]
    assert found.missing == len(expected.payload) - (40 - head)


def test_fragments_of_other_protocols_say_nothing() -> None:
    wires = [Wire(each.ts, each.packet[:9] + b"\x11" + each.packet[10:]) for each in in_fragments(64)[:-1]]

    assert read(pcap(wires)) == []


def test_packets_cut_finer_than_any_link_does_are_given_up() -> None:
    head = WIRES[0].packet[:6]
    crumbs = [
        Wire(1, head[:2] + b"\0\x1c" + head[4:6] + struct.pack(">H", flags | at) + WIRES[0].packet[8:20] + bytes(8))
        for flags, at in [(0, 2), (0x2000, 0), *((0x2000, at) for at in range(3, 8000))]
    ]

    begin = time.process_time()
    found = read(pcap(crumbs * 4))
    assert time.process_time() - begin < 10
    assert issue_kinds(found) == {"ip_fragment"}


def test_packets_that_wait_are_bounded_in_number_time_and_size() -> None:
    def first(ident: int, ts: int, field: int = 0x2000, size: int = 64) -> Packet:
        head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + size, ident, field, 64, 6, 0) + bytes(8)
        return Packet(ident, ts, 101, head + bytes(size), 20 + size)

    many = [first(ident, 1) for ident in range(1000)]
    store = fragments.Fragments()
    for each in many:
        assert store.ipv4(each, 0, 20, 84) is None
    assert len(store.lost) == 1000 - fragments.OPEN_MAX - 1
    assert store.ipv4(first(5000, 2 + fragments.PATIENCE_NS), 0, 20, 84) is None
    assert len(store.lost) == 1000

    found = list(segments([first(1, 1, 0x3FFF)]))
    assert [each.detail for each in found if isinstance(each, Trouble)] == [
        "a fragment reaches beyond the largest IP packet"
    ]
    overlapping = [first(1, 1, 0x2000 | offset, 60_000) for offset in range(600)]
    assert {type(each) for each in segments(overlapping)} == {Trouble}


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 0x3FFF), st.integers(0, 40), st.integers(0, 2)), max_size=20))
def test_any_fragments(drawn: list[tuple[int, int, int]]) -> None:
    wires = []
    for field, size, ident in drawn:
        head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + size, ident, field & 0x200F, 64, 6, 0) + bytes(8)
        wires.append(Wire(1, head + bytes(size)))

    assert issue_kinds(read(pcap(wires))) <= {"ip_fragment", "tcp_header", "header_cut"}
