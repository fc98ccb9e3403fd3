"""What the index says of packets is what the exact functions say, whatever the format, the link and the damage."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kwire.capture import index
from kwire.capture.ip import segments
from kwire.capture.options import Options
from kwire.capture.packets import packets
from kwire.capture.pipeline import rows, rows_of
from kwire.capture.schemas import LEVELS
from tests.kwire.capture.index.kit import FILES, made

MADE = made()


@pytest.mark.parametrize("name", MADE)
def test_segments_read_by_offset_are_those_of_the_generators(name: str) -> None:
    found = index.segments_of([index.built(MADE[name])])

    assert list(found) == list(segments(packets(MADE[name])))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_segments_of_real_captures_are_those_of_the_generators(path: Path) -> None:
    found = index.segments_of([index.built(path)])

    assert list(found) == list(segments(packets(path)))


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_generators_make_the_same_rows_of_indexed_segments(path: Path, level: str) -> None:
    own = index.built(path)
    found = rows_of(index.segments_of([own]), level, own.file, Options(), own.keys())

    assert list(found) == list(rows(path, level))


@pytest.mark.parametrize("name", MADE)
def test_each_flow_alone_has_its_own_segments(name: str) -> None:
    own = index.built(MADE[name])
    alone = [list(index.segments_of([own], [flow.key], troubles=False)) for flow in own.flows]

    assert [len(found) for found in alone] == [flow.packets for flow in own.flows]
    together = [each for found in alone for each in found]
    assert sorted(together, key=lambda each: each.packet) == list(index.segments_of([own], troubles=False))


def test_flows_that_span_files_come_in_the_order_of_the_files(tmp_path: Path) -> None:
    path = FILES[0]
    whole = index.built(path)
    key = whole.flows[0].key

    found = list(index.segments_of([whole, whole], [key], troubles=False))

    assert found == list(index.segments_of([whole], [key])) * 2


def test_what_is_packed_or_no_file_has_no_index(tmp_path: Path) -> None:
    import gzip

    packed = tmp_path / "packed.pcap.gz"
    packed.write_bytes(gzip.compress(FILES[0].read_bytes()))

    with pytest.raises(index.NotIndexed):
        index.built(packed)
    with pytest.raises(index.NotIndexed):
        index.built(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(index.NotIndexed):
        index.built(tmp_path / "pipe")
