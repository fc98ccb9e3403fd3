"""The index of a capture stored in a sidecar file, next to the capture or in a folder.

A sidecar that does not match its capture is not used.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import time
import zlib
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from kwire.capture.index.build import build_index
from kwire.capture.index.columns import BadColumnsError, Columns, Path_, replace_file
from kwire.capture.index.model import Index
from kwire.capture.index.parallel.process_pool import build_parallel
from kwire.capture.index.scan.files import CaptureFile

BESIDE = "beside"
"""The value of `cache` for sidecars next to their captures."""
SUFFIX = ".kwire-index"
PART_SUFFIX = ".part" + SUFFIX
"""The suffix of a sidecar that is being written. A killed process leaves such a file."""
# Incremented whenever the columns or their meaning change.
FORMAT = 18
# Sidecar parts and work folders older than this, in seconds, were left by a killed process.
_WRITING_TIME_MAX, _WORKING_TIME_MAX = 3600, 24 * 3600
# Size of the first and of the last bytes of the capture that the check covers.
_CHECKED_SIZE = 64 * 1024


class SidecarIndex(Index):
    """An index whose columns are in a sidecar; pickled as the name of that file."""

    def __init__(self, source: Path_, columns: Columns, sidecar: str) -> None:
        """`columns` were read from the sidecar."""
        super().__init__(source, columns)
        self.sidecar = sidecar

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the names of the capture and of the sidecar."""
        assert isinstance(self.source, str | os.PathLike)
        return reopen_index, (os.fspath(self.source), self.sidecar)


def sidecar_path(capture: Path_, cache: Path_) -> Path:
    """The sidecar of a capture: next to it, or in the folder `cache`, under a name derived from the capture's path."""
    path = Path(capture)
    if cache == BESIDE:
        return path.with_name(path.name + SUFFIX)
    whole = os.fsencode(path.resolve())
    return Path(cache) / f"{path.name}-{hashlib.sha256(whole).hexdigest()[:16]}{SUFFIX}"


def open_index(capture: Path_, *, cache: Path_ | None = None, processes: int = 1) -> Index:
    """Load the index of a capture from its sidecar, or build it, and store it there if that file can be written.

    Args: cache: `beside`, or a folder; None stores no sidecar. processes: how many build the index of a large capture.
    Raises: NotIndexed when the capture is compressed or not a regular file; CaptureError; OSError.
    """

    def build(columns: Columns) -> None:
        build_parallel(capture, columns, processes)

    if cache is not None:
        sidecar = sidecar_path(capture, cache)
        index = load_index(capture, sidecar)
        if index is None:
            # If the sidecar cannot be written, the index is built in memory.
            with suppress(OSError):
                index = build_sidecar(capture, sidecar, build)
        if index is not None:
            return index
    columns = Columns()
    build(columns)
    return Index(capture, columns)


def build_sidecar(capture: Path_, sidecar: Path_, build: Callable[[Columns], None]) -> Index | None:
    """Build an index directly in its sidecar; None when the capture was changed meanwhile.

    Raises: OSError; everything that `build` raises.
    """
    with _replace_sidecar(capture, Path(sidecar)) as file:
        columns = Columns(file)
        build(columns)
        columns.metadata = _signed_metadata(capture, columns)
        columns.finish_file()
    return load_index(capture, sidecar, checks=False)


def write_sidecar(index: Index, sidecar: Path_) -> None:
    """Write the index to a sidecar."""
    if not isinstance(index.source, str | os.PathLike):
        raise ValueError("only a capture in a file can have a sidecar")
    index.columns.metadata = _signed_metadata(index.source, index.columns)
    with _replace_sidecar(index.source, Path(sidecar)) as file:
        index.columns.write_file(file)


def delete_leftovers(folder: Path_) -> None:
    """Delete the files and folders that killed processes left in a folder of sidecars."""
    for part in Path(folder).glob("*" + PART_SUFFIX):
        with suppress(OSError):
            age = time.time() - part.stat().st_mtime
            if part.is_dir() and age > _WORKING_TIME_MAX:
                shutil.rmtree(part, ignore_errors=True)
            elif not part.is_dir() and age > _WRITING_TIME_MAX:
                part.unlink()


def _replace_sidecar(capture: Path_, path: Path) -> AbstractContextManager[BinaryIO]:
    """A temporary file that replaces the sidecar when it is complete, so that no reader sees a partial one."""
    # A sidecar contains the capture's name, client ids and fragmented payloads: only the owner may access the folder.
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return replace_file(path, suffix=PART_SUFFIX, permissions_of=capture)


def _signed_metadata(capture: Path_, columns: Columns) -> dict[str, Any]:
    return {**columns.metadata, "format": FORMAT, "check": _capture_checksum(capture)}


def load_index(capture: Path_, sidecar: Path_, *, checks: bool = True) -> Index | None:
    """Load the index in a sidecar; None when there is none, or when the capture was changed since.

    Args: checks: whether checksums are compared; only a sidecar that was just written needs no check.
    Raises: OSError when the capture cannot be read.
    """
    with CaptureFile(capture) as file:
        size, mtime_ns = file.size, file.mtime_ns
    try:
        with open(sidecar, "rb") as sidecar_file:
            columns = Columns.read_file(sidecar_file, checks=checks)
        metadata = columns.metadata
        is_valid = (
            metadata["format"] == FORMAT
            and (metadata["size"], metadata["mtime_ns"]) == (size, mtime_ns)
            and metadata["check"] == _capture_checksum(capture)
        )
        return SidecarIndex(capture, columns, os.fspath(sidecar)) if is_valid else None
    except (OSError, BadColumnsError, ValueError, KeyError, TypeError):
        return None


def _capture_checksum(capture: Path_) -> int:
    """A checksum of the first and last bytes of the capture, since a changed file may keep its size and time."""
    with CaptureFile(capture) as file:
        tail = file.read(max(file.size - _CHECKED_SIZE, 0), _CHECKED_SIZE)
        return zlib.crc32(tail, zlib.crc32(file.read(0, _CHECKED_SIZE)))


def reopen_index(capture: str, sidecar: str) -> Index:
    """The index in the sidecar; an index in memory if the sidecar is no longer valid."""
    return load_index(capture, sidecar) or build_index(capture)
