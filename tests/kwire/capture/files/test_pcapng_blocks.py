"""Blocks of pcapng files without packets, and the variant of pcap by Ixia."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.capture.files import pcapng_blocks
from kwire.capture.files.capture_info import CaptureInfo, read_capture_info
from kwire.capture.files.packet_reader import read_packets
from tests.support.captures.capture_files import (
    build_block,
    build_interface,
    build_named_interface,
    build_packet_block,
    build_pcap,
    build_section,
    build_statistics,
    collect_issue_kinds,
    read_capture_rows,
    read_exchanges,
    read_ip_packets,
)

PACKETS = read_ip_packets()
EXPECTED = read_exchanges(build_pcap(PACKETS))
ORDERS = ["<", ">"]


def with_between(order: str, between: bytes) -> bytes:
    """A pcapng file with a block before, between and after the packets."""
    body = [build_packet_block(each.ts // 1000, each.data, order) for each in PACKETS]
    parts = build_section(order), build_interface(order), b"".join(body[:50]), b"".join(body[50:])
    return b"".join(part + between for part in parts)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (4, b""),
        (5, b""),
        (9, bytes(40)),
        (0x0BAD, struct.pack("<I", 32473) + b"anything"),
        (0x40000BAD, struct.pack("<I", 32473) + b"anything"),
        (0x80000001, b"somebody's own"),
        (0x204, bytes(400)),
        (10, struct.pack("<II", 0x57474B4C, 4) + b"wire"),
        (0, b""),
    ],
    ids=["names", "statistics", "journal", "custom", "custom-nocopy", "local", "sysdig", "wireguard-keys", "reserved"],
)
def test_blocks_without_packets_are_skipped(kind: int, body: bytes, order: str) -> None:
    assert read_exchanges(with_between(order, build_block(kind, body, order))) == EXPECTED


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("magic", [0x1C0001AB, 0x1C0001AC])
@pytest.mark.parametrize("nanoseconds", [False, True])
def test_ixias_variant_has_a_longer_header(order: str, magic: int, nanoseconds: bool) -> None:
    plain = build_pcap(PACKETS, order=order, nanoseconds=nanoseconds)
    ixia = struct.pack(order + "I", magic) + plain[4:24] + struct.pack(order + "I", len(plain) - 24) + plain[24:]

    assert list(read_packets(ixia)) == list(read_packets(plain))
    assert read_capture_info(ixia) == CaptureInfo("pcap")
    (cut,) = read_packets(ixia[:26])
    assert cut.kind == "file_truncated"  # type: ignore[union-attr]


@pytest.mark.parametrize("order", ORDERS)
def test_dropped_packets_are_a_row(order: str) -> None:
    at = PACKETS[0].ts // 1000
    start = build_section(order) + build_named_interface(order)
    data = start + build_statistics(order, received=500, dropped=20, ticks=at)

    (row,) = read_capture_rows(data)
    assert row["status"] == "gap"
    assert row["req_ts"] == PACKETS[0].ts // 1000 * 1000
    assert collect_issue_kinds([row]) == {"dropped"}
    assert "interface eth0: 20 of 500 packets were dropped while they were captured" in str(row["issues"])
    assert read_capture_rows(start + build_statistics(order)) == []
    several = data + build_statistics(order, dropped=1) + build_statistics(order, dropped=2)
    assert [str(each["issues"]).count("were dropped") for each in read_capture_rows(several)] == [1, 1, 1]
    strange = read_capture_rows(build_section(order) + build_statistics(order, received=3, dropped=9, number=4))
    assert "interface 4: 9 packets were dropped" in str(strange[0]["issues"])


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60), st.sampled_from(ORDERS))
def test_any_names_and_options_can_be_read(body: bytes, order: str) -> None:
    assert all(isinstance(address, str) and found for address, found in pcapng_blocks.parse_names(body, order))
    assert all(len(value) <= len(body) for _, value in pcapng_blocks.read_options(body, 0, order))
