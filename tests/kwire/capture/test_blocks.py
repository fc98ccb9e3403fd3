"""What files say beside packets: blocks of every type, Ixia's header, names, interfaces, packets that were dropped."""

from __future__ import annotations

import io
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.capture import about as about_module
from kwire.capture import blocks
from kwire.capture.about import About, about
from kwire.capture.packets import packets
from kwire.capture.pcapng_write import PcapngWriter
from kwire.capture.values import CaptureError, Packet
from tests.kwire.capture.wire import (
    SHARE,
    block,
    enhanced,
    interface,
    ip_packets,
    issue_kinds,
    matched,
    option,
    pcap,
    read,
    section,
)

WIRES = ip_packets()
EXPECTED = matched(read(pcap(WIRES)))
ORDERS = ["<", ">"]


def names_block(order: str = "<") -> bytes:
    """Two addresses, the first with two names, and a record of a kind that nobody knows."""
    records = [
        (1, bytes([10, 0, 0, 1]) + b"broker-1\0kafka.example\0"),
        (77, b"whatever"),
        (2, bytes(15) + b"\1" + b"here\0"),
        (0, b""),
    ]
    return block(4, b"".join(option(kind, value, order) for kind, value in records), order)


def statistics(order: str = "<", *, received: int = 100, dropped: int = 0, number: int = 0, ticks: int = 0) -> bytes:
    body = struct.pack(order + "III", number, ticks >> 32, ticks & 0xFFFFFFFF)
    body += option(4, struct.pack(order + "Q", received), order) + option(5, struct.pack(order + "Q", dropped), order)
    return block(5, body + bytes(4), order)


def named_interface(order: str = "<") -> bytes:
    texts = option(2, b"eth0", order) + option(3, b"the first card", order) + option(11, b"\0tcp port 9092", order)
    return interface(order, options=texts + bytes(4))


def with_between(order: str, between: bytes) -> bytes:
    """A pcapng file with a block before, between and behind the packets."""
    body = [enhanced(each.ts // 1000, each.packet, order) for each in WIRES]
    return b"".join([section(order), between, interface(order), between, *body[:50], between, *body[50:], between])


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
def test_blocks_that_hold_no_packet_are_passed_over(kind: int, body: bytes, order: str) -> None:
    found = [row for row in read(with_between(order, block(kind, body, order))) if row["api_key"] is not None]

    assert matched(found) == EXPECTED


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("magic", [0x1C0001AB, 0x1C0001AC])
@pytest.mark.parametrize("nanoseconds", [False, True])
def test_ixias_variant_has_a_longer_header(order: str, magic: int, nanoseconds: bool) -> None:
    plain = pcap(WIRES, order=order, nanoseconds=nanoseconds)
    ixia = struct.pack(order + "I", magic) + plain[4:24] + struct.pack(order + "I", len(plain) - 24) + plain[24:]

    assert list(packets(ixia)) == list(packets(plain))
    assert about(ixia) == About("pcap")
    (cut,) = packets(ixia[:26])
    assert cut.kind == "file_truncated"  # type: ignore[union-attr]


@pytest.mark.parametrize("order", ORDERS)
def test_packets_that_were_dropped_are_a_row(order: str) -> None:
    at = WIRES[0].ts // 1000
    data = section(order) + named_interface(order) + statistics(order, received=500, dropped=20, ticks=at)

    (row,) = read(data)
    assert row["status"] == "gap"
    assert row["req_ts"] == WIRES[0].ts // 1000 * 1000
    assert issue_kinds([row]) == {"dropped"}
    assert "interface eth0: 20 of 500 packets were dropped while they were captured" in str(row["issues"])
    assert read(section(order) + named_interface(order) + statistics(order)) == []
    several = data + statistics(order, dropped=1) + statistics(order, dropped=2)
    assert [str(each["issues"]).count("were dropped") for each in read(several)] == [1, 1, 1]
    strange = read(section(order) + statistics(order, received=3, dropped=9, number=4))
    assert "interface 4: 9 packets were dropped" in str(strange[0]["issues"])


def test_a_file_tells_its_interfaces_names_and_origin() -> None:
    origin = option(1, b"a comment") + option(2, b"a machine") + option(3, b"a system") + option(4, b"a program")
    little = section(options=origin + bytes(4)) + named_interface() + names_block() + statistics(dropped=7)
    body = [enhanced(each.ts // 1000, each.packet) for each in WIRES]
    big = section(">") + interface(">", link=1) + names_block(">") + statistics(">", dropped=8)

    found = about(little + b"".join(body) + big)
    assert found.format == "pcapng"
    assert [(each.name, each.description, each.filter, each.link) for each in found.interfaces] == [
        ("eth0", "the first card", "tcp port 9092", 101),
        ("", "", "", 1),
    ]
    assert found.hosts == {"10.0.0.1": ["broker-1", "kafka.example"], "::1": ["here"]}
    assert (found.hardware, found.system, found.application) == ("a machine", "a system", "a program")
    assert found.comments == ["a comment"]
    assert found.dropped == [
        "interface eth0: 7 of 100 packets were dropped while they were captured",
        "interface 0: 8 of 100 packets were dropped while they were captured",
    ]


def test_an_address_has_no_more_than_a_hundred_names() -> None:
    names = [b"".join(b"host-%d\0" % number for number in range(at, at + 60)) for at in (0, 30, 60)]
    found = about(section() + b"".join(block(4, option(1, bytes([10, 0, 0, 1]) + each)) for each in names))

    assert found.hosts == {"10.0.0.1": [f"host-{number}" for number in range(100)]}


def test_addresses_with_names_are_bounded_inside_a_block_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(about_module, "_HOSTS_MAX", 2)
    records = [option(1, bytes([10, 0, 0, number % 4]) + b"host-%d\0" % number) for number in range(8)]

    found = about(section() + block(4, b"".join(records)))
    assert found.hosts == {"10.0.0.0": ["host-0", "host-4"], "10.0.0.1": ["host-1", "host-5"]}


def test_what_this_library_writes_says_so() -> None:
    file = io.BytesIO()
    PcapngWriter(file, application="tests", comment="hello", interface="tap")

    found = about(file.getvalue())
    assert (found.application, found.comments) == ("tests", ["hello"])
    assert [each.name for each in found.interfaces] == ["tap"]
    assert about(SHARE) == About("pcap")


def test_only_captures_tell_anything() -> None:
    with pytest.raises(CaptureError, match="neither pcap nor pcapng"):
        about(b"hello")


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_damage_ends_what_a_file_tells(data: st.DataObject) -> None:
    whole = section() + named_interface() + names_block() + statistics(dropped=7)
    whole += b"".join(enhanced(each.ts // 1000, each.packet) for each in WIRES[:3])
    damaged = bytearray(whole[: data.draw(st.integers(4, len(whole)))])
    for at, value in data.draw(st.lists(st.tuples(st.integers(4, len(whole) - 1), st.integers(0, 255)), max_size=4)):
        if at < len(damaged):
            damaged[at] = value

    assert about(bytes(damaged)).format == "pcapng"
    assert all(isinstance(each, Packet) or each.kind for each in packets(bytes(damaged)))


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=60), st.sampled_from(ORDERS))
def test_any_names_and_options_can_be_read(body: bytes, order: str) -> None:
    assert all(isinstance(address, str) and found for address, found in blocks.names(body, order))
    assert all(len(value) <= len(body) for _, value in blocks.options(body, 0, order))
