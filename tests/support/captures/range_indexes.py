"""Indexes that are built from ranges of a file and shards of its flows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from kwire.capture import index
from kwire.capture.index.columns import Columns
from kwire.capture.index.parallel.join_ranges import WorkFolder, join_range_files
from kwire.capture.index.parallel.merge_shards import merge_shard_files
from kwire.capture.index.parallel.process_pool import find_range_starts
from kwire.capture.index.parallel.ranges import FileRange, read_range, split_file
from kwire.capture.index.parallel.shards import build_shard
from kwire.capture.index.scan.spans import RecordPosition

SPAN_SIZE = 4_096
Ranges = Sequence[FileRange]
Positions = Sequence[RecordPosition | None]


def read_ranges(path: Path, folder: Path, ranges: Ranges, positions: Positions) -> WorkFolder:
    """The folder with the files of these ranges; each begins at its position if that is known."""
    work_folder = WorkFolder(folder)
    for number, (file_range, position) in enumerate(zip(ranges, positions, strict=True)):
        read_range(path, file_range, position, work_folder.range_path(number))
    return work_folder


def join_ranges(path: Path, work_folder: WorkFolder, ranges: Ranges, count: int) -> index.Index:
    """The index from the files of these ranges."""
    join_range_files(path, work_folder, ranges, count)
    for shard in range(count):
        build_shard(path, work_folder, shard)
    columns = Columns()
    merge_shard_files(path, work_folder, columns)
    return index.Index(path, columns)


def build_by_ranges(path: Path, folder: Path, ranges: Ranges, positions: Positions, count: int) -> index.Index:
    """The index from these ranges."""
    return join_ranges(path, read_ranges(path, folder, ranges, positions), ranges, count)


def build_by_size(path: Path, folder: Path, range_size: int, count: int) -> index.Index:
    """The index from ranges of this size, whose positions are guessed."""
    return build_by_ranges(path, folder, *plan(path, range_size, walks=False), count)


def plan(path: Path, range_size: int, *, walks: bool) -> tuple[Ranges, Positions]:
    """Ranges of this size, and their positions, which are known if the file `walks`."""
    ranges = split_file(path.stat().st_size, range_size, SPAN_SIZE)
    return ranges, list(find_range_starts(path, ranges)) if walks else [None] * len(ranges)


def assert_indexes_equal(found: index.Index, expected: index.Index) -> None:
    """All columns and all metadata of both indexes are equal."""
    assert sorted(found.columns) == sorted(expected.columns)
    for name in expected.columns:
        one, other = found.columns[name], expected.columns[name]
        assert one.dtype == other.dtype, name
        assert np.array_equal(one, other), name
    assert (found.issues, found.spans, found.flows) == (expected.issues, expected.spans, expected.flows)
    metadata = [{**each.columns.metadata, "issues": [], "secrets_at": []} for each in (found, expected)]
    assert metadata[0] == metadata[1]
    secrets = [list(map(tuple, each.columns.metadata["secrets_at"])) for each in (found, expected)]
    assert secrets[0] == secrets[1]
