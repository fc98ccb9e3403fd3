"""Phase 1 by the executors of a cluster: small files whole, large ones by ranges, then by shards of their flows.

What goes from task to task is in a folder beside the sidecars, which is gone afterwards. Only names travel.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kwire.capture.values import CaptureError
from kwire.spark import paths
from kwire.spark.indexing import index_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from kwire.capture.index import Index
    from kwire.capture.index.parallel.ranges import Range
    from kwire.capture.index.walking.spans import Place

# Each shard reads the payload's heads all over the file.
_SHARDS_MAX = 8
_SCHEMA = "file string, flows bigint, packets bigint, bytes bigint, is_indexed boolean"

Job = Callable[[], Any]
"""What a task does; the result is such as JSON can say."""


@dataclass(frozen=True)
class Large:
    """A file that several tasks index, and the folder for what goes between them."""

    file: str
    size: int
    folder: str
    cache: str
    range_bytes: int

    def ranges(self) -> list[Range]:
        """What the tasks read."""
        from kwire.capture.index.parallel.ranges import cut
        from kwire.capture.index.walking.walk import SPAN_SIZE

        count = max(1, round(self.size / self.range_bytes))
        return cut(self.size, -(-self.size // count), SPAN_SIZE)

    @property
    def shards(self) -> int:
        """How many tasks build flows."""
        return min(len(self.ranges()), _SHARDS_MAX)


def prepare(spark: SparkSession, names: Sequence[str], cache: str, *, range_bytes: int, walk: bool) -> DataFrame:
    """Index the captures that the names mean; the rows say what was found.

    Args: as `kwire.spark.prepare`.
    Raises: FileNotFoundError, ValueError; Spark's exceptions for what fails in a task.
    """
    if range_bytes < 1:
        raise ValueError(f"range_bytes is {range_bytes}; a range has one byte at least")
    sizes = _sizes(spark, names)
    token = uuid.uuid4().hex
    large = [
        Large(file, size, _folder(file, cache, f"{token}-{number}"), cache, range_bytes)
        for number, (file, size) in enumerate(sizes.items())
        if size >= 2 * range_bytes
    ]
    large = [each for each in large if len(each.ranges()) > 1]
    try:
        rows = _prepared(spark, list(sizes), large, walk=walk, cache=cache)
    finally:
        _clear(spark, large)
    return spark.createDataFrame([tuple(rows[file].values()) for file in sizes], _SCHEMA)


def _prepared(
    spark: SparkSession, files: list[str], large: list[Large], *, walk: bool, cache: str
) -> dict[str, dict[str, object]]:
    known = _run(spark, [partial(_known, each) for each in large])
    rows = {row["file"]: row for row in known if isinstance(row, dict)}
    # Where no folder can be made nothing is kept: then one task reads the file, for what it can tell.
    large = [each for each, can_cut in zip(large, known, strict=True) if can_cut is True]
    cut = {each.file for each in large}
    small: list[Job] = [partial(_told, file, cache) for file in files if file not in cut and file not in rows]
    ranges = [job for each in large for job in _range_jobs(each, walk=walk)]
    rows |= {row["file"]: row for row in _run(spark, [*small, *ranges])[: len(small)]}
    is_joined = _run(spark, [partial(_join, each) for each in large])
    rows |= {each.file: _row(each.file, None) for each, is_one in zip(large, is_joined, strict=True) if not is_one}
    large = [each for each, is_one in zip(large, is_joined, strict=True) if is_one]
    _run(spark, [partial(_shard, each, shard) for each in large for shard in range(each.shards)])
    return rows | {row["file"]: row for row in _run(spark, [partial(_merge, each) for each in large])}


def _run(spark: SparkSession, jobs: Sequence[Job]) -> list[Any]:
    """A task for each job; what they tell, in the order of the jobs."""
    if not jobs:
        return []

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow

        for batch in batches:
            numbers = batch.column(0).to_pylist()
            told = [json.dumps(jobs[number]()) for number in numbers]
            yield pyarrow.RecordBatch.from_pydict({"number": numbers, "told": told})

    rows = spark.range(0, len(jobs), 1, len(jobs)).mapInArrow(work, "number bigint, told string").collect()
    return [json.loads(told) for _, told in sorted(rows)]


def _sizes(spark: SparkSession, names: Sequence[str]) -> dict[str, int]:
    """The files that the names mean, with their sizes; an executor looks where the driver sees none."""
    try:
        return _seen(names)
    except FileNotFoundError:
        found: dict[str, int] = _run(spark, [partial(_seen, names)])[0]
        return found


def _seen(names: Sequence[str]) -> dict[str, int]:
    return {file: os.stat(file).st_size for file in paths.expand(names)}


def _folder(file: str, cache: str, token: str) -> str:
    from kwire.capture.index.sidecar import PART_SUFFIX, sidecar_of

    return os.fspath(sidecar_of(file, cache).parent / f".{token}{PART_SUFFIX}")


def _range_jobs(own: Large, *, walk: bool) -> Iterator[Job]:
    from kwire.capture.index.parallel.work import places_of, read_ranges

    ranges = own.ranges()
    places: Sequence[Place | None] = [None] * len(ranges)
    # What the driver cannot walk, its tasks find their way in, or say what is wrong with it.
    with suppress(FileNotFoundError, CaptureError):
        places = places_of(own.file, ranges) if walk else places
    for number, (each, place) in enumerate(zip(ranges, places, strict=True)):
        yield partial(_range, partial(read_ranges, own.file), own.folder, number, each, place)


def _range(read: Callable[..., None], folder: str, *rest: object) -> None:
    from kwire.capture.index.parallel.joining import Folder

    read(Folder(Path(folder)), *rest)


def _known(own: Large) -> dict[str, object] | bool:
    """The row of a file whose sidecar fits; else whether there can be a folder for the tasks."""
    from kwire.capture.index import load, sidecar_of
    from kwire.capture.index.sidecar import sweep

    found = load(own.file, sidecar_of(own.file, own.cache))
    if found is not None:
        return _row(own.file, found)
    with suppress(OSError):
        folder = Path(own.folder)
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        sweep(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
        return True
    return False


def _join(own: Large) -> bool:
    from kwire.capture.index import NotIndexed
    from kwire.capture.index.parallel.joining import Folder, join

    try:
        join(own.file, Folder(Path(own.folder)), own.ranges(), own.shards)
    except NotIndexed:
        return False
    return True


def _shard(own: Large, shard: int) -> None:
    from kwire.capture.index.parallel.joining import Folder
    from kwire.capture.index.parallel.shards import build_shard

    build_shard(own.file, Folder(Path(own.folder)), shard)


def _merge(own: Large) -> dict[str, object]:
    from kwire.capture.index import sidecar_of
    from kwire.capture.index.parallel.joining import Folder
    from kwire.capture.index.parallel.merging import merge
    from kwire.capture.index.sidecar import kept

    found = kept(own.file, sidecar_of(own.file, own.cache), partial(merge, own.file, Folder(Path(own.folder))))
    return _row(own.file, found)


def _told(file: str, cache: str) -> dict[str, object]:
    return _row(file, index_of((file, cache, 1)))


def _row(file: str, found: Index | None) -> dict[str, object]:
    if found is None:
        return {"file": file, "flows": None, "packets": None, "bytes": None, "is_indexed": False}
    return {
        "file": file,
        "flows": len(found.flows),
        "packets": found.packet_count,
        "bytes": sum(flow.bytes for flow in found.flows),
        "is_indexed": found.sidecar is not None,
    }


def _clear(spark: SparkSession, large: Sequence[Large]) -> None:
    """The folders go, whatever has happened; an executor removes those that the driver does not see."""
    hidden = [each.folder for each in large if not os.path.isdir(os.path.dirname(each.folder))]
    for each in large:
        shutil.rmtree(each.folder, ignore_errors=True)
    # When Spark itself has failed, whoever comes next sweeps the folder.
    with suppress(Exception):
        _run(spark, [partial(shutil.rmtree, folder, ignore_errors=True) for folder in hidden])
