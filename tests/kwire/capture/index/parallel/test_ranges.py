"""An index built from ranges and shards of flows equals the index that one process builds."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kwire.capture import index
from kwire.capture.index.parallel.ranges import FileRange
from tests.support.captures.index_captures import FILES, build_test_captures
from tests.support.captures.range_indexes import (
    SPAN_SIZE,
    assert_indexes_equal,
    build_by_ranges,
    plan,
)

pytestmark = pytest.mark.slow

MADE = build_test_captures()


def check(path: Path, folder: Path, range_size: int, count: int, *, walks: bool) -> None:
    """Ranges and shards have the same result as one pass: the same index, or the same error."""
    planned = plan(path, range_size, walks=walks)
    try:
        expected = index.build_index(path)
    except index.NotIndexed as error:
        with pytest.raises(index.NotIndexed, match=str(error)):
            build_by_ranges(path, folder, *planned, count)
    else:
        assert_indexes_equal(build_by_ranges(path, folder, *planned, count), expected)


@pytest.mark.parametrize("walks", [True, False], ids=["known", "guessed"])
@pytest.mark.parametrize("name", MADE)
def test_made_captures_have_the_same_index(name: str, walks: bool, tmp_path: Path) -> None:
    path = tmp_path / "made"
    path.write_bytes(MADE[name])

    check(path, tmp_path, 3 * SPAN_SIZE, 3, walks=walks)


@pytest.mark.parametrize(("range_size", "count"), [(1 << 40, 1), (SPAN_SIZE, 1), (1 << 40, 4), (5 * SPAN_SIZE, 2)])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_real_captures_have_the_same_index(path: Path, range_size: int, count: int, tmp_path: Path) -> None:
    check(path, tmp_path, range_size, count, walks=False)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), count=st.integers(1, 6))
def test_a_file_has_the_same_index_for_any_ranges(
    data: st.DataObject, count: int, many_connections: Path, many_connections_index: index.Index
) -> None:
    size = many_connections.stat().st_size
    offsets = range(SPAN_SIZE, size, SPAN_SIZE)
    starts = sorted({0, *data.draw(st.lists(st.sampled_from(offsets), max_size=8))})
    ranges = [FileRange(start, stop) for start, stop in zip(starts, [*starts[1:], size], strict=True)]

    with tempfile.TemporaryDirectory() as folder:
        found = build_by_ranges(many_connections, Path(folder), ranges, [None] * len(ranges), count)
    assert_indexes_equal(found, many_connections_index)
