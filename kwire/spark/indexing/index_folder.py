"""The user's index folder: where it lies, and removal of old sidecars and leftovers from it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from kwire.user_cache import cache_root

# Size limit of the user's index folder, bytes; the least recently used sidecars are deleted first.
INDEX_FOLDER_SIZE_MAX = 8 * 1024**3


def default_index_folder(environ: Mapping[str, str] = os.environ) -> str:
    """Where sidecars are stored when the user names no folder."""
    return os.fspath(cache_root(environ) / "index")


def trim_folder(folder: Path, size_max: int) -> None:
    """Delete leftovers of killed runs, then the least recently used sidecars until the folder is within `size_max`."""
    from kwire.capture.index.sidecar import PART_SUFFIX, SUFFIX, delete_leftovers

    delete_leftovers(folder)
    sidecars = []
    for file in folder.glob("*" + SUFFIX):
        with suppress(FileNotFoundError):
            status = file.stat()
            if not file.name.endswith(PART_SUFFIX):
                sidecars.append((max(status.st_atime, status.st_mtime), status.st_size, file))
    folder_size = sum(size for _, size, _ in sidecars)
    for _, size, file in sorted(sidecars):
        if folder_size <= size_max:
            break
        file.unlink(missing_ok=True)
        folder_size -= size


def sweep_folders(files: Iterable[str], cache: str) -> None:
    """Delete leftovers of killed runs from the folders with the sidecars of these files."""
    from kwire.capture.index.sidecar import delete_leftovers, sidecar_path

    for folder in {sidecar_path(file, cache).parent for file in files}:
        delete_leftovers(folder)
