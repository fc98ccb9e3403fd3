"""The segments of an index are those of the packet dissector, for all formats, link types and damaged captures."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from kwire.capture import index
from kwire.capture.files.packet_reader import read_packets
from kwire.capture.index import FlowKey
from kwire.capture.model import Flow, Segment
from kwire.capture.options import Options
from kwire.capture.rows.columns import LEVELS
from tests.support.capture_model.indexed_segments import read_segments
from tests.support.capture_model.packet_dissection import dissect_packets
from tests.support.capture_model.pipeline import rows_from_segments
from tests.support.capture_model.reassembly import ConnectionTable
from tests.support.captures.index_captures import (
    FILES,
    build_test_captures,
    pipeline_rows,
    split_issues,
)

pytestmark = pytest.mark.slow

MADE = build_test_captures()


@pytest.mark.parametrize("name", MADE)
def test_segments_read_by_offset_are_those_of_the_pipeline(name: str) -> None:
    found = read_segments([index.build_index(MADE[name])])

    assert split_issues(found) == split_issues(dissect_packets(read_packets(MADE[name])))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_segments_of_real_captures_are_those_of_the_pipeline(path: Path) -> None:
    found = read_segments([index.build_index(path)])

    assert list(found) == list(dissect_packets(read_packets(path)))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_pipeline_builds_the_same_rows_from_indexed_segments(path: Path, level: str) -> None:
    built_index = index.build_index(path)
    segments = read_segments([built_index])
    found = rows_from_segments(segments, level, built_index.file, Options(), built_index.key_log())

    assert list(found) == pipeline_rows(path, level, Options())


@pytest.mark.parametrize("name", MADE)
def test_each_flow_alone_has_its_own_segments(name: str) -> None:
    built_index = index.build_index(MADE[name])
    segments = [each for each in read_segments([built_index], issues=False) if isinstance(each, Segment)]
    alone = [list(read_segments([built_index], [key], issues=False)) for key in built_index.keys]

    together = [each for found in alone for each in found]
    assert sorted(together, key=lambda each: each.packet) == segments


@pytest.mark.parametrize("name", MADE)
def test_connections_have_the_packets_that_the_pipeline_assigns_to_them(name: str) -> None:
    built_index = index.build_index(MADE[name])
    counts = Counter[tuple[FlowKey, int]]()

    def count_packet(flow: Flow | None, side: int, segment: Segment) -> None:
        if flow is not None:
            counts[flow.ends, flow.epoch] += 1

    table = ConnectionTable(count_packet)
    for segment in read_segments([built_index], issues=False):
        assert isinstance(segment, Segment)
        list(table.process_segment(segment))

    flows = built_index.flows
    assert [flow.packets for flow in flows] == [counts[flow.key, flow.epoch] for flow in flows]


def test_flows_that_span_files_are_read_in_the_order_of_the_files(tmp_path: Path) -> None:
    path = FILES[0]
    whole = index.build_index(path)
    key = whole.flows[0].key

    found = list(read_segments([whole, whole], [key], issues=False))

    assert found == list(read_segments([whole], [key])) * 2
