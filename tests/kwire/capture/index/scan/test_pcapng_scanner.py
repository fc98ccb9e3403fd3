"""Blocks of pcapng files that a scan reads."""

from __future__ import annotations

import pytest

from kwire.capture import index
from kwire.capture.files.packet_reader import read_packets
from tests.support.capture_model.indexed_segments import read_segments
from tests.support.capture_model.packet_dissection import dissect_packets
from tests.support.captures.capture_files import (
    build_interface,
    build_packet_block,
    build_section,
    read_ip_packets,
)
from tests.support.captures.index_captures import (
    pcapng_with_blocks,
)

pytestmark = pytest.mark.slow


def test_blocks_between_packets_do_not_end_a_span() -> None:
    capture = pcapng_with_blocks(read_ip_packets(), "<")

    assert index.build_index(capture).spans == [(0, len(capture))]
    assert len(index.build_index(b"".join(capture for _ in range(3))).spans) == 1


def test_an_interface_is_valid_from_its_description_on() -> None:
    early, later, again = (build_packet_block(each.ts, each.data, number=1) for each in read_ip_packets()[:3])
    first = build_section() + build_interface()

    good = first + build_interface() + early + later
    # An invalid packet at the end of a section is not repaired by the next section.
    for capture in (good, first + early + build_interface() + later + again, first + early + good):
        found = read_segments([index.build_index(capture)])
        assert list(found) == list(dissect_packets(read_packets(capture)))
