"""An index made by several, of ranges and of shards of flows, is the index that one makes."""

from __future__ import annotations

import os
import struct
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kwire.capture import index
from kwire.capture.index import keeping
from kwire.capture.index.building import beginnings, builder
from kwire.capture.index.columns import Columns
from kwire.capture.index.parallel import merging
from kwire.capture.index.parallel import work as parallel
from kwire.capture.index.parallel.joining import Folder, join
from kwire.capture.index.parallel.merging import merge
from kwire.capture.index.parallel.ranges import Range, RangeFile, cut, read_range
from kwire.capture.index.parallel.shards import build_shard
from kwire.capture.index.parallel.work import build_by, places_of
from kwire.capture.index.walking import walk
from kwire.capture.index.walking.spans import Place
from kwire.capture.packets import packets
from kwire.capture.values import Packet
from tests.kwire.capture.index.kit import FILES, copies, made, split
from tests.kwire.capture.index.nested import INNER, NESTED
from tests.kwire.capture.wire import SHARE, Wire, pcap, section

MADE = made()
SPAN_SIZE = 4_096


def by_ranges(
    path: Path, folder: Path, ranges: Sequence[Range], places: Sequence[Place | None], count: int
) -> index.Index:
    """The index of these ranges, each begun at its place where that is told."""
    own = Folder(folder)
    for number, (each, place) in enumerate(zip(ranges, places, strict=True)):
        read_range(path, each, place, own.range(number))
    join(path, own, ranges, count)
    for shard in range(count):
        build_shard(path, own, shard)
    columns = Columns()
    merge(path, own, columns)
    return index.Index(path, columns)


def assert_equal(found: index.Index, expected: index.Index) -> None:
    """Each column and whatever else an index says is the same."""
    assert sorted(found.columns) == sorted(expected.columns)
    for name in expected.columns:
        one, other = found.columns[name], expected.columns[name]
        assert one.dtype == other.dtype, name
        assert np.array_equal(one, other), name
    assert (found.troubles, found.spans, found.flows) == (expected.troubles, expected.spans, expected.flows)
    ours, theirs = (dict(each.columns.about) for each in (found, expected))
    for about in (ours, theirs):
        about["secrets_at"] = [tuple(each) for each in about["secrets_at"]]
        del about["troubles"]
    assert ours == theirs


@pytest.fixture(autouse=True)
def small_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walk, "SPAN_SIZE", SPAN_SIZE)


def check(path: Path, folder: Path, range_size: int, count: int, *, walks: bool) -> None:
    """By these ranges and shards the same comes out, whether it is an index or that there can be none."""
    try:
        expected = index.built(path)
    except index.NotIndexed as error:
        with pytest.raises(index.NotIndexed, match=str(error)):
            by_ranges(path, folder, *planned(path, range_size, walks=walks), count)
        return
    assert_equal(by_ranges(path, folder, *planned(path, range_size, walks=walks), count), expected)


def planned(path: Path, range_size: int, *, walks: bool) -> tuple[list[Range], list[Place | None]]:
    ranges = cut(path.stat().st_size, range_size, SPAN_SIZE)
    return ranges, list(places_of(path, ranges)) if walks else [None] * len(ranges)


@pytest.mark.parametrize("walks", [True, False], ids=["walked", "guessed"])
@pytest.mark.parametrize("name", MADE)
def test_made_captures_have_the_same_index_by_ranges_and_shards(name: str, walks: bool, tmp_path: Path) -> None:
    path = tmp_path / "made"
    path.write_bytes(MADE[name])

    check(path, tmp_path, 3 * SPAN_SIZE, 3, walks=walks)


@pytest.mark.parametrize(("range_size", "count"), [(1 << 40, 1), (SPAN_SIZE, 1), (1 << 40, 4), (5 * SPAN_SIZE, 2)])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_real_captures_have_the_same_index_by_ranges_and_shards(
    path: Path, range_size: int, count: int, tmp_path: Path
) -> None:
    check(path, tmp_path, range_size, count, walks=False)


@pytest.fixture(scope="module")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture of many connections at once, some of them damaged."""
    path = tmp_path_factory.mktemp("crowd") / "crowd.pcap"
    path.write_bytes(copies(SHARE, 4, noise=0.02))
    return path


@pytest.fixture(scope="module")
def joiners(crowd: Path) -> Path:
    """The same connections, which began before the capture; their bodies lie in many pieces."""
    wires = [Wire(each.ts, each.data) for each in packets(crowd) if isinstance(each, Packet)]
    path = crowd.with_name("joiners.pcap")
    path.write_bytes(pcap([piece for each in wires[len(wires) // 3 :] for piece in split(each, 60)]))
    return path


@pytest.fixture(scope="module")
def crowd_index(crowd: Path) -> index.Index:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(walk, "SPAN_SIZE", SPAN_SIZE)
        return index.built(crowd)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), count=st.integers(1, 6))
def test_wherever_a_file_is_cut_its_index_is_the_same(
    data: st.DataObject, count: int, crowd: Path, crowd_index: index.Index
) -> None:
    size = crowd.stat().st_size
    places = range(SPAN_SIZE, size, SPAN_SIZE)
    starts = sorted({0, *data.draw(st.lists(st.sampled_from(places), max_size=8))})
    ranges = [Range(start, stop) for start, stop in zip(starts, [*starts[1:], size], strict=True)]

    with tempfile.TemporaryDirectory() as folder:
        found = by_ranges(crowd, Path(folder), ranges, [None] * len(ranges), count)
    assert_equal(found, crowd_index)


@pytest.mark.parametrize("name", NESTED)
def test_a_capture_inside_a_packet_is_not_taken_for_the_capture(name: str, tmp_path: Path) -> None:
    path = tmp_path / "nested"
    path.write_bytes(NESTED[name])
    ranges, _ = planned(path, SPAN_SIZE, walks=False)

    assert_equal(by_ranges(path, tmp_path, ranges, [None] * len(ranges), 2), index.built(path))
    begun = [RangeFile(Folder(tmp_path).range(number)).head.begin for number in range(len(ranges))]
    truly = [place if place.at < own.stop else None for own, place in zip(ranges, places_of(path, ranges), strict=True)]
    assert begun == truly


@pytest.mark.parametrize("name", NESTED)
def test_a_range_that_began_inside_a_packet_is_read_again(name: str, tmp_path: Path) -> None:
    path = tmp_path / "nested"
    path.write_bytes(NESTED[name])
    ranges, _ = planned(path, SPAN_SIZE, walks=False)
    places: list[Place | None] = [
        place._replace(at=inner_record(NESTED[name], own) or place.at)
        for own, place in zip(ranges, places_of(path, ranges), strict=True)
    ]
    own = Folder(tmp_path)
    for number, (each, place) in enumerate(zip(ranges, places, strict=True)):
        read_range(path, each, place, own.range(number))

    assert join(path, own, ranges, 2) >= 6
    assert_equal(by_ranges(path, tmp_path, ranges, places, 2), index.built(path))


def inner_record(capture: bytes, own: Range) -> int | None:
    """Where the record of a packet of the inner capture begins in a range."""
    at = capture.find(INNER, own.start, own.stop)
    return None if at < 0 else at - (28 if capture[:4] == section()[:4] else 16)


def test_what_waits_for_answers_is_added_up_over_all_shards(
    crowd: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (builder, merging):
        monkeypatch.setattr(module, "LIMITS", builder.LIMITS._replace(waits_size=5_000))
    expected = index.built(crowd)

    assert "waiting" in {flow.why for flow in expected.flows}
    assert_equal(by_ranges(crowd, tmp_path, *planned(crowd, SPAN_SIZE * 4, walks=False), 4), expected)


@pytest.mark.parametrize(("range_size", "count"), [(SPAN_SIZE, 2), (7 * SPAN_SIZE, 5)])
def test_connections_that_began_before_the_capture_are_told_by_their_shards(
    joiners: Path, range_size: int, count: int, tmp_path: Path
) -> None:
    expected = index.built(joiners)

    assert len(expected.columns["-2.done"])
    assert len(expected.columns[f"{len(expected.spans)}.pieces.at"])
    assert_equal(by_ranges(joiners, tmp_path, *planned(joiners, range_size, walks=False), count), expected)


@pytest.mark.parametrize("limit", ["begun_size", "undecided"])
def test_what_is_held_of_beginnings_is_added_up_over_all_shards(
    limit: str, joiners: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = index.built(joiners)
    monkeypatch.setattr(merging, "LIMITS", builder.LIMITS._replace(**{limit: 0}))
    monkeypatch.setattr(beginnings, {"begun_size": "HELD_SIZE_MAX", "undecided": "UNDECIDED_MAX"}[limit], 0)
    expected = index.built(joiners)

    assert ([flow.why for flow in expected.flows] != [flow.why for flow in before.flows]) == (limit == "begun_size")
    assert_equal(by_ranges(joiners, tmp_path, *planned(joiners, SPAN_SIZE * 4, walks=False), 3), expected)


def test_connections_of_all_shards_may_be_too_many(
    crowd: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "OPEN_MAX", 5)
    expected = index.built(crowd)

    assert "clean" not in {flow.why for flow in expected.flows}
    assert_equal(by_ranges(crowd, tmp_path, *planned(crowd, SPAN_SIZE * 4, walks=False), 3), expected)


def test_several_processes_make_the_same_index_and_leave_nothing_behind(
    crowd: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    columns = Columns()
    assert len(parallel.cut_for(crowd.stat().st_size, 3)) == 3
    build_by(crowd, columns, 3)

    assert_equal(index.Index(crowd, columns), index.built(crowd))
    assert not list(tmp_path.iterdir())


def test_several_processes_refuse_what_one_refuses_and_leave_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture, work = tmp_path / "odd.pcapng", tmp_path / "work"
    work.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(work))
    good = MADE["pcapng"]
    # An old packet block is read one by one only.
    capture.write_bytes(good + struct.pack("<II", 2, 32) + bytes(20) + struct.pack("<I", 32) + good)
    with pytest.raises(index.NotIndexed) as expected:
        index.built(capture)

    with pytest.raises(index.NotIndexed, match=str(expected.value)):
        build_by(capture, Columns(), 2)
    assert not list(work.iterdir())


def test_a_file_that_grows_meanwhile_has_the_index_of_what_was_there(tmp_path: Path) -> None:
    path, folder = tmp_path / "growing.pcap", Folder(tmp_path)
    path.write_bytes(MADE["raw"])
    expected = index.built(path)
    ranges, _ = planned(path, 3 * SPAN_SIZE, walks=False)
    for number, own in enumerate(ranges):
        read_range(path, own, None, folder.range(number))
    with path.open("ab") as file:
        file.write(MADE["raw"][24:])
    os.utime(path, (9, 9))
    join(path, folder, ranges, 1)
    build_shard(path, folder, 0)
    columns = Columns()
    merge(path, folder, columns)

    found = index.Index(path, columns)
    assert list(index.segments_of([found])) == list(index.segments_of([expected]))
    assert (found.troubles, found.size) == (expected.troubles, expected.size)
    # So a sidecar of it is not used.
    assert found.size != path.stat().st_size
    assert found.mtime_ns == 9 * 10**9


def test_small_files_are_not_cut() -> None:
    span = walk.SPAN_SIZE
    assert parallel.cut_for(0, 8) == [Range(0, 1)]
    assert parallel.cut_for(4 * span, 8) == [Range(0, 4 * span)]
    assert parallel.cut_for(8 * span, 8) == [Range(0, 4 * span), Range(4 * span, 8 * span)]
    assert [own.stop - own.start for own in parallel.cut_for(80 * span, 2)] == [40 * span, 40 * span]
