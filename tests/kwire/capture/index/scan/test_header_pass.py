"""A capture above a limit of the index is read as a stream."""

from __future__ import annotations

import struct

import pytest

from kwire.capture import index
from kwire.capture.index.scan.header_pass import ISSUES_MAX
from kwire.capture.index.stored_payload import STORED_BASE
from kwire.capture.reader import read_batches, read_rows
from tests.support.captures.capture_files import (
    CapturedPacket,
    build_block,
    build_interface,
    build_option,
    build_pcap,
    build_section,
    read_ip_packets,
)
from tests.support.captures.index_captures import (
    batch_rows,
    fragment_packet,
    tcp_payload,
)

pytestmark = pytest.mark.slow


def many(*packets: CapturedPacket, link: int = 101) -> bytes:
    """A capture of these packets, repeated so that it exceeds the limits of an index."""
    return build_pcap(list(packets) * (ISSUES_MAX + 1), link=link)


def test_any_number_of_fragments_can_be_indexed() -> None:
    whole = next(each for each in read_ip_packets() if len(each.data) > 100)
    capture = build_pcap(
        [each._replace(ts=each.ts + number) for number in range(ISSUES_MAX + 1) for each in fragment_packet(whole)]
    )

    found = index.build_index(capture)
    assert found.issues == []
    assert found.stored == [(STORED_BASE, (ISSUES_MAX + 1) * len(tcp_payload(whole)))]


def test_a_capture_with_too_many_issues_is_read_as_a_stream() -> None:
    packets = read_ip_packets()
    drop = build_block(5, struct.pack("<III", 0, 0, 0) + build_option(5, struct.pack("<Q", 1)))
    captures = {
        "unknown link types": many(packets[0], link=147),
        "headers that are cut": many(packets[0]._replace(stored_size=30)),
        "reported drops": build_section() + build_interface() + drop * (ISSUES_MAX + 1),
    }

    for name, capture in captures.items():
        with pytest.raises(index.NotIndexed):
            pytest.fail(f"{name}: {len(index.build_index(capture).issues)} issues")
    capture = captures["headers that are cut"]
    streamed_rows = batch_rows(read_batches(capture, "messages"))
    assert [row["issues"] for row in streamed_rows] == [row["issues"] for row in read_rows(capture, "messages")]
