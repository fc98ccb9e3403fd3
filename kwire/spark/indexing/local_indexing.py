"""Indexing of captures on this machine, on all of its cores: phase 1 of reading large files."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_all_start_methods, get_context
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from kwire.capture.model import CaptureError
from kwire.capture.reader import collect_topic_names
from kwire.spark.indexing.index_folder import INDEX_FOLDER_SIZE_MAX, default_index_folder, sweep_folders, trim_folder

if TYPE_CHECKING:
    from kwire.capture.index import Index
    from kwire.capture.options import Options

#: Files of this size together are read by several processes; smaller ones take less time than the start of processes.
PARALLEL_SIZE_MIN = 4 * 1024 * 1024

T = TypeVar("T")
R = TypeVar("R")


def build_indexes(files: Sequence[str], cache: str) -> dict[str, Index | None]:
    """The index of each file, from its sidecar if that is valid; None for a file that cannot be indexed (compressed).

    Raises: CaptureError for a file that is no capture.
    """
    # With more cores than files, several processes index one large file.
    processes = max(1, (os.cpu_count() or 1) // max(1, len(files)))
    jobs = [(file, cache, processes) for file in files]
    indexes = dict(zip(files, _map_on_all_cores(load_or_build_index, jobs, files), strict=True))
    if files and cache == default_index_folder():
        trim_folder(Path(cache), INDEX_FOLDER_SIZE_MAX)
    elif files:
        sweep_folders(files, cache)
    return indexes


def load_or_build_index(job: tuple[str, str, int]) -> Index | None:
    """The index of a file; None for a file that cannot be indexed.

    Args: job: the file, the folder where its index is stored, and how many processes build it.
    Raises: CaptureError for a file that is no capture.
    """
    from kwire.capture import index

    file, cache, processes = job
    try:
        return index.open_index(file, cache=cache, processes=processes)
    except index.NotIndexed:
        return None


def load_topic_names(caches: Sequence[tuple[str, str | None]], options: Options) -> dict[str, str]:
    """Topic names by id: those that any message of these files contains, and those of the options.

    Args: caches: each file, and where its index is stored; None for a file whose index is not stored.
    A file that is no capture adds nothing here; reading its rows raises the error.
    """
    names = dict(options.topics)
    jobs = [(file, options, cache) for file, cache in caches]
    for file_names in _map_on_all_cores(_topic_names, jobs, [file for file, _ in caches]):
        names.update(file_names)
    return names


def _topic_names(job: tuple[str, Options, str | None]) -> dict[str, str]:
    file, options, cache = job
    try:
        return collect_topic_names([file], options, cache=cache)
    except CaptureError:
        return {}


def _map_on_all_cores(work: Callable[[T], R], jobs: Sequence[T], files: Sequence[str]) -> list[R]:
    """The results of the jobs, each of which reads one of the files."""
    cores = min(os.cpu_count() or 1, len(jobs))
    if cores < 2 or "fork" not in get_all_start_methods() or sum(map(_size, files)) < PARALLEL_SIZE_MIN:
        return list(map(work, jobs))
    with ProcessPoolExecutor(cores, mp_context=get_context("fork")) as pool:
        return list(pool.map(work, jobs))


def _size(file: str) -> int:
    try:
        return os.path.getsize(file)
    except OSError:  # The job says what is wrong with it.
        return 0
