"""Metadata of capture files: interfaces, names, writer, comments, dropped packets."""

from __future__ import annotations

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kwire.capture.export.pcapng_writer import PcapngWriter
from kwire.capture.files import capture_info, pcapng
from kwire.capture.files.capture_info import CaptureInfo, read_capture_info
from kwire.capture.files.packet_reader import read_packets
from kwire.capture.model import CaptureError, Packet
from tests.support.captures.capture_files import (
    SHARE,
    build_block,
    build_interface,
    build_named_interface,
    build_names_block,
    build_option,
    build_packet_block,
    build_section,
    build_statistics,
    read_ip_packets,
)

PACKETS = read_ip_packets()


def test_interfaces_names_and_writer_of_a_file_are_read() -> None:
    texts = (b"a comment", b"a machine", b"a system", b"a program")
    origin = b"".join(build_option(code, text) for code, text in enumerate(texts, 1))
    little = build_section(options=origin + bytes(4)) + build_named_interface() + build_names_block()
    little += build_statistics(dropped=7)
    body = [build_packet_block(each.ts // 1000, each.data) for each in PACKETS]
    big = build_section(">") + build_interface(">", link=1) + build_names_block(">") + build_statistics(">", dropped=8)

    found = read_capture_info(little + b"".join(body) + big)
    assert found.format == "pcapng"
    first, second = ((each.name, each.description, each.filter, each.link) for each in found.interfaces)
    assert first == ("eth0", "the first card", "tcp port 9092", 101)
    assert second == ("", "", "", 1)
    assert found.hosts == {"10.0.0.1": ["broker-1", "kafka.example"], "::1": ["here"]}
    assert (found.hardware, found.system, found.application) == ("a machine", "a system", "a program")
    assert found.comments == ["a comment"]
    assert found.dropped == [
        "interface eth0: 7 of 100 packets were dropped while they were captured",
        "interface 0: 8 of 100 packets were dropped while they were captured",
    ]


def _other_end(block: bytes) -> bytes:
    """The block with another length at its end."""
    return block[:-4] + bytes(4)


@pytest.mark.parametrize(
    ("block", "is_read"),
    [
        (_other_end(build_packet_block(0, PACKETS[0].data)), False),
        (_other_end(build_interface()), False),
        (_other_end(build_names_block()), True),
        (_other_end(build_section()) + build_interface(), True),
        (build_block(4, bytes(pcapng.BLOCK_SIZE_MAX)), True),
        (build_block(5, bytes(pcapng.BLOCK_SIZE_MAX)), False),
    ],
    ids=["packet", "interface", "names", "section", "long names", "long statistics"],
)
def test_metadata_ends_at_the_damage_at_which_the_packets_end(block: bytes, is_read: bool) -> None:
    data = build_section() + build_interface() + block + build_named_interface()
    data += build_packet_block(0, PACKETS[0].data)

    assert [each.name for each in read_capture_info(data).interfaces].count("eth0") == is_read
    assert any(isinstance(each, Packet) for each in read_packets(data)) == is_read


def test_an_address_has_no_more_than_a_hundred_names() -> None:
    names = [b"".join(b"host-%d\0" % number for number in range(at, at + 60)) for at in (0, 30, 60)]
    blocks = [build_block(4, build_option(1, bytes([10, 0, 0, 1]) + each)) for each in names]
    found = read_capture_info(build_section() + b"".join(blocks))

    assert found.hosts == {"10.0.0.1": [f"host-{number}" for number in range(100)]}


def test_named_addresses_are_limited_inside_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture_info, "_HOSTS_MAX", 2)
    records = [build_option(1, bytes([10, 0, 0, number % 4]) + b"host-%d\0" % number) for number in range(8)]

    found = read_capture_info(build_section() + build_block(4, b"".join(records)))
    assert found.hosts == {"10.0.0.0": ["host-0", "host-4"], "10.0.0.1": ["host-1", "host-5"]}


def test_files_of_the_pcapng_writer_name_the_application() -> None:
    file = io.BytesIO()
    PcapngWriter(file, application="tests", comment="hello", interface="tap")

    found = read_capture_info(file.getvalue())
    assert (found.application, found.comments) == ("tests", ["hello"])
    assert [each.name for each in found.interfaces] == ["tap"]
    assert read_capture_info(SHARE) == CaptureInfo("pcap")


def test_a_file_that_is_not_a_capture_has_no_metadata() -> None:
    with pytest.raises(CaptureError, match="neither pcap nor pcapng"):
        read_capture_info(b"hello")


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_metadata_before_damage_is_read(data: st.DataObject) -> None:
    whole = build_section() + build_named_interface() + build_names_block() + build_statistics(dropped=7)
    whole += b"".join(build_packet_block(each.ts // 1000, each.data) for each in PACKETS[:3])
    damaged = bytearray(whole[: data.draw(st.integers(4, len(whole)))])
    for at, value in data.draw(st.lists(st.tuples(st.integers(4, len(whole) - 1), st.integers(0, 255)), max_size=4)):
        if at < len(damaged):
            damaged[at] = value

    assert read_capture_info(bytes(damaged)).format == "pcapng"
    assert all(isinstance(each, Packet) or each.kind for each in read_packets(bytes(damaged)))
