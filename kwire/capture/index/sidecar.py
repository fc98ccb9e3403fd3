"""The index kept in a file beside its capture or in a folder. One that does not fit its capture is not trusted."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from kwire.capture.index.build import built
from kwire.capture.index.columns import BadColumnsError, Columns
from kwire.capture.index.model import Index
from kwire.capture.index.parallel.work import build_by
from kwire.capture.index.walking.files import File

BESIDE = "beside"
"""The place of sidecars: next to their captures."""
SUFFIX = ".kwire-index"
PART_SUFFIX = ".part" + SUFFIX
"""Of a sidecar while it is written. A run that is killed leaves it behind."""
# Grows whenever the columns or their meaning change.
FORMAT = 9
# Nobody writes a sidecar or works in a folder for longer, in seconds: what is older was left by a run that was killed.
_WRITING_TIME_MAX, _WORKING_TIME_MAX = 3600, 24 * 3600
# The beginning and the end of the capture are checked: so much of each.
_CHECKED_SIZE = 64 * 1024

Path_ = str | os.PathLike[str]


def sidecar_of(capture: Path_, cache: Path_) -> Path:
    """Where the sidecar of a capture is: beside it, or in a folder under a name made of its whole path."""
    path = Path(capture)
    if cache == BESIDE:
        return path.with_name(path.name + SUFFIX)
    whole = os.fsencode(path.resolve())
    return Path(cache) / f"{path.name}-{hashlib.sha256(whole).hexdigest()[:16]}{SUFFIX}"


def of(capture: Path_, *, cache: Path_ | None = None, processes: int = 1) -> Index:
    """The index of a capture: from the sidecar where it fits, else built, and kept there if that can be written.

    Args: cache: `beside`, or a folder; None keeps no sidecar. processes: how many build the index of a large capture.
    Raises: NotIndexed when the capture is packed or no regular file; CaptureError; OSError.
    """

    def build(columns: Columns) -> None:
        build_by(capture, columns, processes)

    sidecar = None if cache is None else sidecar_of(capture, cache)
    index = None if sidecar is None else load(capture, sidecar)
    if index is None and sidecar is not None:
        # A folder that cannot be written costs time, and nothing else.
        with suppress(OSError):
            index = kept(capture, sidecar, build)
    if index is None:
        columns = Columns()
        build(columns)
        index = Index(capture, columns)
    return index


def kept(capture: Path_, sidecar: Path_, build: Callable[[Columns], None]) -> Index | None:
    """Build an index right into its sidecar; None when the capture has changed meanwhile.

    Raises: OSError; whatever `build` raises.
    """
    with _written(capture, Path(sidecar)) as file:
        columns = Columns(file)
        build(columns)
        columns.about = _signed(capture, columns)
        columns.finish()
    return load(capture, sidecar, checks=False)


def save(index: Index, sidecar: Path_) -> None:
    """Write the index to a sidecar."""
    if isinstance(index.source, bytes):
        raise ValueError("a capture that is no file has no sidecar")
    index.columns.about = _signed(index.source, index.columns)
    with _written(index.source, Path(sidecar)) as file:
        index.columns.write(file)


def sweep(folder: Path_) -> None:
    """Delete what runs that were killed have left in a folder of sidecars, files and folders."""
    for part in Path(folder).glob("*" + PART_SUFFIX):
        with suppress(OSError):
            age = time.time() - part.stat().st_mtime
            if part.is_dir() and age > _WORKING_TIME_MAX:
                shutil.rmtree(part, ignore_errors=True)
            elif not part.is_dir() and age > _WRITING_TIME_MAX:
                part.unlink()


@contextmanager
def _written(capture: Path_, path: Path) -> Iterator[BinaryIO]:
    """The sidecar is written under a name of its own first, so that nobody reads half of it."""
    # The cache names captures, and holds client ids and pieces of payload: it is nobody else's.
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=".", suffix=PART_SUFFIX, dir=path.parent)
    try:
        with os.fdopen(handle, "w+b") as file:
            yield file
        # mkstemp makes it for its owner alone; a sidecar may be read by whoever may read the capture, and no other.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, os.stat(capture).st_mode & 0o666 & ~umask)
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise


def _signed(capture: Path_, columns: Columns) -> dict[str, Any]:
    return {**columns.about, "format": FORMAT, "check": _check(capture)}


def load(capture: Path_, sidecar: Path_, *, checks: bool = True) -> Index | None:
    """The index in a sidecar; None when there is none, or when it is not of this capture as it is now.

    Args: checks: whether its checksums are compared, as is needed for all but what was written just now.
    Raises: OSError when the capture cannot be read.
    """
    with File(capture) as file:
        size, mtime_ns = file.size, file.mtime_ns
    try:
        with open(sidecar, "rb") as found:
            columns = Columns.read(found, checks=checks)
        about = columns.about
        is_fitting = (
            about["format"] == FORMAT
            and (about["size"], about["mtime_ns"]) == (size, mtime_ns)
            and about["check"] == _check(capture)
        )
        return Index(capture, columns, os.fspath(sidecar)) if is_fitting else None
    except (OSError, BadColumnsError, ValueError, KeyError, TypeError):
        return None


def _check(capture: Path_) -> int:
    """A checksum of the capture's two ends: a file of the same size and time may still be another."""
    with File(capture) as file:
        tail = file.read(max(file.size - _CHECKED_SIZE, 0), _CHECKED_SIZE)
        return zlib.crc32(tail, zlib.crc32(file.read(0, _CHECKED_SIZE)))


def restored(capture: str, sidecar: str) -> Index:
    """The index in the sidecar, or a new one where that does not fit any more."""
    return load(capture, sidecar) or built(capture)
