"""Build the index of one large file with a pool of processes: ranges, join, shards, merge."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_all_start_methods, get_context
from pathlib import Path

from kwire.capture.index.build import build_columns
from kwire.capture.index.columns import Columns, Path_
from kwire.capture.index.parallel.join_ranges import WorkFolder, join_range_files
from kwire.capture.index.parallel.merge_shards import merge_shard_files
from kwire.capture.index.parallel.ranges import FileRange, read_range, split_file
from kwire.capture.index.parallel.shards import build_shard
from kwire.capture.index.scan import scanner as scanners
from kwire.capture.index.scan.files import CaptureFile
from kwire.capture.index.scan.spans import RecordPosition

# A range has at least about this many spans; a file smaller than two such ranges is not divided.
RANGE_SPANS_MIN = 4


def build_parallel(source: Path_, columns: Columns, processes: int) -> None:
    """Write the index of a capture with this many processes; a small capture is indexed in this process.

    The index is the same as that of `build_index`. Intermediate results are in a temporary folder.
    Raises: NotIndexed when the capture is compressed or not a regular file; CaptureError; OSError.
    """
    with CaptureFile(source) as file:
        ranges = plan_ranges(file.size, processes)
        if len(ranges) > 1:
            # Raises NotIndexed before any process is started.
            scanners.open_scanner(file)
    if len(ranges) == 1 or "fork" not in get_all_start_methods():
        build_columns(source, columns)
        return
    count = len(ranges)
    with temporary_folder() as folder, ProcessPoolExecutor(count, mp_context=get_context("fork")) as pool:
        list(pool.map(partial(write_range, source, folder), range(count), ranges, [None] * count))
        join_range_files(source, folder, ranges, count)
        list(pool.map(partial(build_shard, source, folder), range(count)))
        merge_shard_files(source, folder, columns)


def plan_ranges(size: int, processes: int) -> list[FileRange]:
    """Divide a file of this size into ranges for this many processes."""
    span_size = scanners.SPAN_SIZE
    count = max(1, min(processes, size // (RANGE_SPANS_MIN * span_size)))
    # Whole spans, without a small last range.
    return split_file(size, -(-size // (count * span_size)) * span_size, span_size)


def find_range_starts(source: Path_, ranges: Sequence[FileRange]) -> list[RecordPosition]:
    """Find where each range begins by scanning the record headers of the file once. Raises: as `build_parallel`."""
    with CaptureFile(source) as file:
        return list(scanners.open_scanner(file).find_positions([file_range.start for file_range in ranges]))


def write_range(
    source: Path_, folder: WorkFolder, number: int, file_range: FileRange, begin: RecordPosition | None
) -> None:
    """Write the file of one range."""
    read_range(source, file_range, begin, folder.range_path(number))


@contextmanager
def temporary_folder() -> Iterator[WorkFolder]:
    """A temporary folder, removed at the end, also after an error."""
    with tempfile.TemporaryDirectory(prefix="kwire-index-") as path:
        yield WorkFolder(Path(path))
