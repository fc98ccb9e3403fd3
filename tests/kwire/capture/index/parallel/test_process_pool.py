"""Several processes build the index that one process builds."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from kwire.capture import index
from kwire.capture.index.columns import Columns
from kwire.capture.index.parallel import process_pool
from kwire.capture.index.parallel.process_pool import build_parallel
from kwire.capture.index.parallel.ranges import FileRange
from kwire.capture.index.scan import scanner
from tests.support.captures.range_indexes import (
    assert_indexes_equal,
)

pytestmark = pytest.mark.slow


def test_several_processes_build_the_same_index_and_leave_no_files(
    many_connections: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    columns = Columns()
    assert len(process_pool.plan_ranges(many_connections.stat().st_size, 3)) == 3
    build_parallel(many_connections, columns, 3)

    assert_indexes_equal(index.Index(many_connections, columns), index.build_index(many_connections))
    assert not list(tmp_path.iterdir())


def test_several_processes_raise_the_error_of_one_and_leave_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    capture, work = tmp_path / "capture.pcap.gz", tmp_path / "work"
    work.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(work))
    capture.write_bytes(b"\x1f\x8b" + bytes(100 * scanner.SPAN_SIZE))
    with pytest.raises(index.NotIndexed) as expected:
        index.build_index(capture)

    with pytest.raises(index.NotIndexed, match=str(expected.value)):
        build_parallel(capture, Columns(), 2)
    assert not list(work.iterdir())


def test_small_files_are_not_divided() -> None:
    span = scanner.SPAN_SIZE
    assert process_pool.plan_ranges(0, 8) == [FileRange(0, 1)]
    assert process_pool.plan_ranges(4 * span, 8) == [FileRange(0, 4 * span)]
    assert process_pool.plan_ranges(8 * span, 8) == [FileRange(0, 4 * span), FileRange(4 * span, 8 * span)]
    sizes = [file_range.stop - file_range.start for file_range in process_pool.plan_ranges(80 * span, 2)]
    assert sizes == [40 * span, 40 * span]
