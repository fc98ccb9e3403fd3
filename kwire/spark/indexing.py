"""Phase 1 on this machine: the indexes of captures, built on all of its cores."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import get_all_start_methods, get_context
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from kwire.capture.topic_map import names_in
from kwire.capture.values import CaptureError

if TYPE_CHECKING:
    from kwire.capture.index import Index
    from kwire.capture.options import Options
    from kwire.spark.options import PlanOptions

T = TypeVar("T")
R = TypeVar("R")

# What the user's cache folder may grow to; the sidecars that were used least lately go first.
CACHE_SIZE_MAX = 8 * 1024**3


def default_folder(environ: Mapping[str, str] = os.environ) -> str:
    """Where sidecars are kept when the user names no place."""
    return os.fspath(Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "kwire", "index"))


def indexed(files: Sequence[str], cache: str) -> dict[str, Index | None]:
    """The index of each file, from its sidecar where that fits; None for a file that cannot have one, as a packed one.

    Raises: CaptureError for what is no capture.
    """
    # Where there are more cores than files, several share a large one.
    share = max(1, (os.cpu_count() or 1) // max(1, len(files)))
    found = dict(zip(files, _on_all_cores(index_of, [(file, cache, share) for file in files]), strict=True))
    if files and cache == default_folder():
        trim(Path(cache), CACHE_SIZE_MAX)
    elif files:
        _sweep(files, cache)
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
    from kwire.capture.index.sidecar import PART_SUFFIX, SUFFIX, sweep

    sweep(folder)
    held = []
    for file in folder.glob("*" + SUFFIX):
        with suppress(FileNotFoundError):
            about = file.stat()
            if not file.name.endswith(PART_SUFFIX):
                held.append((max(about.st_atime, about.st_mtime), about.st_size, file))
    size = sum(each for _, each, _ in held)
    for _, own, file in sorted(held):
        if size <= size_max:
            break
        file.unlink(missing_ok=True)
        size -= own


def _sweep(files: Iterable[str], cache: str) -> None:
    """Delete what killed runs left where the sidecars of these files are."""
    from kwire.capture.index.sidecar import sidecar_of, sweep

    for folder in {sidecar_of(file, cache).parent for file in files}:
        sweep(folder)


def index_of(job: tuple[str, str, int]) -> Index | None:
    """The index of a file, kept in this place, by so many processes; None for a file that cannot have one.

    Raises: CaptureError for what is no capture.
    """
    from kwire.capture import index

    file, cache, processes = job
    try:
        return index.of(file, cache=cache, processes=processes)
    except index.NotIndexed:
        return None
