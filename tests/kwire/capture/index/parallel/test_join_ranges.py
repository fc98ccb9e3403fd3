"""Ranges whose begin was guessed wrongly are read again; later changes of the file are ignored."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kwire.capture import index
from kwire.capture.index.parallel.join_ranges import WorkFolder, join_range_files
from kwire.capture.index.parallel.process_pool import find_range_starts
from kwire.capture.index.parallel.ranges import FileRange, RangeFile
from tests.support.capture_model.indexed_segments import read_segments
from tests.support.captures.capture_files import build_pcap, build_section, read_ip_packets
from tests.support.captures.nested_captures import INNER_PACKET, NESTED
from tests.support.captures.range_indexes import (
    SPAN_SIZE,
    assert_indexes_equal,
    build_by_ranges,
    join_ranges,
    plan,
    read_ranges,
)

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("name", NESTED)
def test_a_capture_inside_a_packet_is_not_mistaken_for_the_capture(name: str, tmp_path: Path) -> None:
    path = tmp_path / "nested"
    path.write_bytes(NESTED[name])
    ranges, positions = plan(path, SPAN_SIZE, walks=False)

    assert_indexes_equal(build_by_ranges(path, tmp_path, ranges, positions, 2), index.build_index(path))
    begins = [RangeFile(WorkFolder(tmp_path).range_path(number)).summary.begin for number in range(len(ranges))]
    starts = zip(ranges, find_range_starts(path, ranges), strict=True)
    assert begins == [position if position.at < own.stop else None for own, position in starts]


@pytest.mark.parametrize("name", NESTED)
def test_a_range_that_begins_inside_a_packet_is_read_again(name: str, tmp_path: Path) -> None:
    path = tmp_path / "nested"
    path.write_bytes(NESTED[name])
    ranges, _ = plan(path, SPAN_SIZE, walks=False)
    starts = zip(ranges, find_range_starts(path, ranges), strict=True)
    positions = [start._replace(at=inner_record(NESTED[name], each) or start.at) for each, start in starts]

    assert join_range_files(path, read_ranges(path, tmp_path, ranges, positions), ranges, 2) >= 6
    assert_indexes_equal(build_by_ranges(path, tmp_path, ranges, positions, 2), index.build_index(path))


def inner_record(capture: bytes, file_range: FileRange) -> int | None:
    """The offset of the record of a packet of the inner capture in a range."""
    at = capture.find(INNER_PACKET, file_range.start, file_range.stop)
    return None if at < 0 else at - (28 if capture[:4] == build_section()[:4] else 16)


def test_a_file_that_grows_meanwhile_has_the_index_of_its_first_bytes(tmp_path: Path) -> None:
    path = tmp_path / "growing.pcap"
    path.write_bytes(build_pcap(read_ip_packets()))
    expected = index.build_index(path)
    ranges, positions = plan(path, 3 * SPAN_SIZE, walks=False)
    folder = read_ranges(path, tmp_path, ranges, positions)
    with path.open("ab") as file:
        file.write(build_pcap(read_ip_packets())[24:])
    os.utime(path, (9, 9))
    found = join_ranges(path, folder, ranges, 1)

    assert list(read_segments([found])) == list(read_segments([expected]))
    assert (found.issues, found.size) == (expected.issues, expected.size)
    # So its sidecar is not used.
    assert found.size != path.stat().st_size
    assert found.mtime_ns == 9 * 10**9
