"""Phase 1: the indexes of captures, built on all cores of this machine, or by the executors of a cluster beforehand."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import get_all_start_methods, get_context
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from kwire.capture.topic_map import names_in
from kwire.capture.values import CaptureError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from kwire.capture.index import Index
    from kwire.capture.options import Options
    from kwire.spark.options import PlanOptions

T = TypeVar("T")
R = TypeVar("R")

# What the user's cache folder may grow to; the sidecars that were used least lately go first.
CACHE_SIZE_MAX = 8 * 1024**3
# Nobody writes a sidecar for longer, in seconds: what is older was left by a run that was killed.
_WRITING_TIME_MAX = 3600


def default_folder(environ: Mapping[str, str] = os.environ) -> str:
    """Where sidecars are kept when the user names no place."""
    return os.fspath(Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "kwire", "index"))


def indexed(files: Sequence[str], cache: str) -> dict[str, Index | None]:
    """The index of each file, from its sidecar where that fits; None for a file that cannot have one, as a packed one.

    Raises: CaptureError for what is no capture.
    """
    found = dict(zip(files, _on_all_cores(_index, [(file, cache) for file in files]), strict=True))
    if files and cache == default_folder():
        trim(Path(cache), CACHE_SIZE_MAX)
    return found


def names_told(files: Sequence[str], options: Options, asked: PlanOptions) -> dict[str, str]:
    """The names of topics by id that these files tell anywhere, and those of the options.

    Only of files that are taken apart anyway is the index kept. A file that is no capture tells none here; whoever
    reads its rows says so.
    """
    names = dict(options.topics)
    caches = [asked.index if asked.takes_apart(os.stat(file).st_size) else None for file in files]
    for found in _on_all_cores(_names, [(file, options, cache) for file, cache in zip(files, caches, strict=True)]):
        names.update(found)
    return names


def _on_all_cores(work: Callable[[T], R], jobs: Sequence[T]) -> list[R]:
    cores = min(os.cpu_count() or 1, len(jobs))
    if cores < 2 or "fork" not in get_all_start_methods():
        return list(map(work, jobs))
    with ProcessPoolExecutor(cores, mp_context=get_context("fork")) as pool:
        return list(pool.map(work, jobs))


def _names(job: tuple[str, Options, str | None]) -> dict[str, str]:
    file, options, cache = job
    try:
        return names_in([file], options, cache=cache)
    except CaptureError:
        return {}


def trim(folder: Path, size_max: int) -> None:
    """Delete what killed runs left, and the sidecars used least lately until the folder is no larger than this."""
    held = []
    for file in folder.glob("*.kwire-index"):
        with suppress(FileNotFoundError):
            about = file.stat()
            if file.name.endswith(".part.kwire-index"):
                if about.st_mtime < time.time() - _WRITING_TIME_MAX:
                    file.unlink()
                continue
            held.append((max(about.st_atime, about.st_mtime), about.st_size, file))
    size = sum(each for _, each, _ in held)
    for _, own, file in sorted(held):
        if size <= size_max:
            break
        file.unlink(missing_ok=True)
        size -= own


def prepare(spark: SparkSession, files: Sequence[str], cache: str) -> DataFrame:
    """Phase 1 by the executors: a task for each file, which leaves its sidecar. The rows say what was found.

    Args: cache: `beside`, or a folder that driver and executors see.
    """
    jobs = spark.createDataFrame([(file,) for file in files], "file string").repartition(len(files))

    def build(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow

        for batch in batches:
            rows = [_told(file, cache) for file in batch.column(0).to_pylist()]
            if rows:
                yield pyarrow.RecordBatch.from_pylist(rows)

    return jobs.mapInArrow(build, "file string, flows bigint, packets bigint, bytes bigint, is_indexed boolean")


def _told(file: str, cache: str) -> dict[str, object]:
    found = _index((file, cache))
    if found is None:
        return {"file": file, "flows": None, "packets": None, "bytes": None, "is_indexed": False}
    size = sum(flow.bytes for flow in found.flows)
    return {
        "file": file,
        "flows": len(found.flows),
        "packets": found.packet_count,
        "bytes": size,
        "is_indexed": found.sidecar is not None,
    }


def _index(job: tuple[str, str | None]) -> Index | None:
    from kwire.capture import index

    file, cache = job
    try:
        return index.of(file, cache=cache)
    except index.NotIndexed:
        return None
