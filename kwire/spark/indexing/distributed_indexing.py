"""Indexing of captures by the executors of a cluster: small files whole, large ones by ranges, then by flow shards.

Intermediate results are files in a folder next to the sidecars, which is removed at the end; tasks receive names only.
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

from kwire.capture.model import CaptureError
from kwire.spark import paths
from kwire.spark.indexing.local_indexing import load_or_build_index

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from kwire.capture.index import Index
    from kwire.capture.index.parallel.ranges import FileRange
    from kwire.capture.index.scan.spans import RecordPosition

# Each shard reads message headers from the whole file, so more shards mean more reads.
_SHARDS_MAX = 8
_SCHEMA = "file string, flows bigint, packets bigint, bytes bigint, is_indexed boolean"

Job = Callable[[], Any]
"""The work of a task; the result must be representable as JSON."""


@dataclass(frozen=True)
class LargeFile:
    """A file that several tasks index, and the folder for their intermediate results."""

    file: str
    size: int
    folder: str
    cache: str
    range_bytes: int

    def ranges(self) -> list[FileRange]:
        """The byte ranges that the tasks read."""
        from kwire.capture.index.parallel.ranges import split_file
        from kwire.capture.index.scan.scanner import SPAN_SIZE

        count = max(1, round(self.size / self.range_bytes))
        return split_file(self.size, -(-self.size // count), SPAN_SIZE)

    @property
    def shards(self) -> int:
        """How many tasks build the flows."""
        return min(len(self.ranges()), _SHARDS_MAX)


def prepare_indexes(spark: SparkSession, names: list[str], cache: str, *, range_bytes: int, walk: bool) -> DataFrame:
    """Index the captures that the names match; each row describes the index of one file.

    Args: as `kwire.spark.prepare_indexes`.
    Raises: FileNotFoundError, ValueError; Spark's exceptions for errors in a task.
    """
    if range_bytes < 1:
        raise ValueError(f"range_bytes is {range_bytes}; a range has at least one byte")
    sizes = _file_sizes(spark, names)
    token = uuid.uuid4().hex
    candidates = [
        LargeFile(file, size, _work_folder(file, cache, f"{token}-{number}"), cache, range_bytes)
        for number, (file, size) in enumerate(sizes.items())
        if size >= 2 * range_bytes
    ]
    large_files = [candidate for candidate in candidates if len(candidate.ranges()) > 1]
    try:
        rows = _build_all(spark, list(sizes), large_files, walk=walk, cache=cache)
    finally:
        _remove_folders(spark, large_files)
    return spark.createDataFrame([tuple(rows[file].values()) for file in sizes], _SCHEMA)


def _build_all(
    spark: SparkSession, files: list[str], large_files: list[LargeFile], *, walk: bool, cache: str
) -> dict[str, dict[str, object]]:
    index_rows = _run_jobs(spark, [partial(_find_index, large_file) for large_file in large_files])
    rows = {row["file"]: row for row in index_rows if isinstance(row, dict)}
    # Where the work folder cannot be created, no index can be stored: then one task indexes the file in memory.
    split_files = [large_file for large_file, is_split in zip(large_files, index_rows, strict=True) if is_split is True]
    done = {large_file.file for large_file in split_files} | rows.keys()
    small: list[Job] = [partial(_index_small_file, file, cache) for file in files if file not in done]
    ranges = [job for large_file in split_files for job in _range_jobs(large_file, walk=walk)]
    rows |= {row["file"]: row for row in _run_jobs(spark, [*small, *ranges])[: len(small)]}
    is_joined = _run_jobs(spark, [partial(_join_ranges, large_file) for large_file in split_files])
    joined_files = []
    for large_file, is_file_joined in zip(split_files, is_joined, strict=True):
        if is_file_joined:
            joined_files.append(large_file)
        else:
            rows[large_file.file] = _result_row(large_file.file, None)
    shards = [(large_file, shard) for large_file in joined_files for shard in range(large_file.shards)]
    _run_jobs(spark, [partial(_build_shard, large_file, shard) for large_file, shard in shards])
    merged = _run_jobs(spark, [partial(_merge_shards, large_file) for large_file in joined_files])
    return rows | {row["file"]: row for row in merged}


def _run_jobs(spark: SparkSession, jobs: Sequence[Job]) -> list[Any]:
    """Run each job in a task of its own; return the results in the order of the jobs."""
    if not jobs:
        return []

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow

        for batch in batches:
            numbers = batch.column(0).to_pylist()
            results = [json.dumps(jobs[number]()) for number in numbers]
            yield pyarrow.RecordBatch.from_pydict({"number": numbers, "result": results})

    rows = spark.range(0, len(jobs), 1, len(jobs)).mapInArrow(work, "number bigint, result string").collect()
    return [json.loads(result) for _, result in sorted(rows)]


def _file_sizes(spark: SparkSession, names: Sequence[str]) -> dict[str, int]:
    """The files that the names match, with their sizes; listed by an executor if the driver finds none."""
    try:
        return _local_file_sizes(names)
    except FileNotFoundError:
        sizes: dict[str, int] = _run_jobs(spark, [partial(_local_file_sizes, names)])[0]
        return sizes


def _local_file_sizes(names: Sequence[str]) -> dict[str, int]:
    return {file: os.stat(file).st_size for file in paths.expand_names(names)}


def _work_folder(file: str, cache: str, token: str) -> str:
    from kwire.capture.index.sidecar import PART_SUFFIX, sidecar_path

    return os.fspath(sidecar_path(file, cache).parent / f".{token}{PART_SUFFIX}")


def _range_jobs(large_file: LargeFile, *, walk: bool) -> Iterator[Job]:
    from kwire.capture.index.parallel.join_ranges import WorkFolder
    from kwire.capture.index.parallel.process_pool import find_range_starts, write_range

    ranges = large_file.ranges()
    positions: Sequence[RecordPosition | None] = [None] * len(ranges)
    # If the driver cannot walk the file, each task searches for its first record, or raises the error.
    with suppress(FileNotFoundError, CaptureError):
        positions = find_range_starts(large_file.file, ranges) if walk else positions
    write = partial(write_range, large_file.file, WorkFolder(Path(large_file.folder)))
    for number, (byte_range, position) in enumerate(zip(ranges, positions, strict=True)):
        yield partial(write, number, byte_range, position)


def _find_index(large_file: LargeFile) -> dict[str, object] | bool:
    """The result row of a file with a valid sidecar; else whether the work folder could be created."""
    from kwire.capture.index import load_index, sidecar_path
    from kwire.capture.index.sidecar import delete_leftovers

    file_index = load_index(large_file.file, sidecar_path(large_file.file, large_file.cache))
    if file_index is not None:
        return _result_row(large_file.file, file_index)
    with suppress(OSError):
        folder = Path(large_file.folder)
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        delete_leftovers(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
        return True
    return False


def _join_ranges(large_file: LargeFile) -> bool:
    from kwire.capture.index import NotIndexed
    from kwire.capture.index.parallel.join_ranges import WorkFolder, join_range_files

    try:
        join_range_files(large_file.file, WorkFolder(Path(large_file.folder)), large_file.ranges(), large_file.shards)
    except NotIndexed:
        return False
    return True


def _build_shard(large_file: LargeFile, shard: int) -> None:
    from kwire.capture.index.parallel.join_ranges import WorkFolder
    from kwire.capture.index.parallel.shards import build_shard

    build_shard(large_file.file, WorkFolder(Path(large_file.folder)), shard)


def _merge_shards(large_file: LargeFile) -> dict[str, object]:
    from kwire.capture.index import sidecar_path
    from kwire.capture.index.parallel.join_ranges import WorkFolder
    from kwire.capture.index.parallel.merge_shards import merge_shard_files
    from kwire.capture.index.sidecar import build_sidecar

    file = large_file.file
    merge = partial(merge_shard_files, file, WorkFolder(Path(large_file.folder)))
    return _result_row(file, build_sidecar(file, sidecar_path(file, large_file.cache), merge))


def _index_small_file(file: str, cache: str) -> dict[str, object]:
    return _result_row(file, load_or_build_index((file, cache, 1)))


def _result_row(file: str, file_index: Index | None) -> dict[str, object]:
    if file_index is None:
        return {"file": file, "flows": None, "packets": None, "bytes": None, "is_indexed": False}
    return {
        "file": file,
        "flows": len(file_index.flows),
        "packets": file_index.packet_count,
        "bytes": sum(flow.bytes for flow in file_index.flows),
        "is_indexed": file_index.sidecar is not None,
    }


def _remove_folders(spark: SparkSession, large_files: Sequence[LargeFile]) -> None:
    """Remove the work folders; an executor removes those that the driver cannot access."""
    folders = [large_file.folder for large_file in large_files]
    remote = [folder for folder in folders if not os.path.isdir(os.path.dirname(folder))]
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
    # If Spark itself failed, the next indexing run sweeps the folder.
    with suppress(Exception):
        _run_jobs(spark, [partial(shutil.rmtree, folder, ignore_errors=True) for folder in remote])
