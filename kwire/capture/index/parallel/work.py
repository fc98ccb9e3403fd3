"""Phase 1 of one large file by several processes: its ranges, then its flows, then all of it together."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_all_start_methods, get_context
from pathlib import Path

from kwire.capture.index.build import build
from kwire.capture.index.columns import Columns
from kwire.capture.index.parallel.joining import Folder, join
from kwire.capture.index.parallel.merging import merge
from kwire.capture.index.parallel.ranges import Range, cut, read_range
from kwire.capture.index.parallel.shards import build_shard
from kwire.capture.index.walking import walk as walking
from kwire.capture.index.walking.files import File
from kwire.capture.index.walking.spans import Place

# A range has so many spans, nearly, at least: what is smaller than two of them is not cut.
RANGE_SPANS_MIN = 4

Path_ = str | os.PathLike[str]


def build_by(source: Path_, columns: Columns, processes: int) -> None:
    """Fill the columns of the index of a capture by so many processes at once; a small capture is read by this one.

    The index is the same that `built` makes. What goes between the processes is in a temporary folder.
    Raises: NotIndexed when it is packed or no regular file; CaptureError; OSError.
    """
    with File(source) as file:
        ranges = cut_for(file.size, processes)
        way = walking.walk(file, source) if len(ranges) > 1 else None
    if way is None or "fork" not in get_all_start_methods():
        build(source, columns)
        return
    count = len(ranges)
    with temporary_folder() as folder, ProcessPoolExecutor(count, mp_context=get_context("fork")) as pool:
        list(pool.map(partial(read_ranges, source, folder), range(count), ranges, [None] * count))
        join(source, folder, ranges, count)
        list(pool.map(partial(build_shard, source, folder), range(count)))
        merge(source, folder, columns)


def cut_for(size: int, processes: int) -> list[Range]:
    """The ranges of a file of this size for so many processes."""
    span_size = walking.SPAN_SIZE
    count = max(1, min(processes, size // (RANGE_SPANS_MIN * span_size)))
    # Whole spans, and no small rest.
    return cut(size, -(-size // (count * span_size)) * span_size, span_size)


def places_of(source: Path_, ranges: Sequence[Range]) -> list[Place]:
    """Where each range really begins: the file is walked once, by the heads of its records. Raises: as `built_by`."""
    with File(source) as file:
        return list(walking.walk(file, source).places([own.start for own in ranges]))


def read_ranges(source: Path_, folder: Folder, number: int, own: Range, begin: Place | None) -> None:
    """Write the file of one range."""
    read_range(source, own, begin, folder.range(number))


@contextmanager
def temporary_folder() -> Iterator[Folder]:
    """A folder that is gone afterwards, also when something fails."""
    with tempfile.TemporaryDirectory(prefix="kwire-index-") as path:
        yield Folder(Path(path))
