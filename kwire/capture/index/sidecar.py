"""The index kept in a file beside its capture or in a folder. One that does not fit its capture is not trusted."""

from __future__ import annotations

import hashlib
import os
import tempfile
import zlib
from contextlib import suppress
from pathlib import Path

from kwire.capture.index.build import built
from kwire.capture.index.columns import BadColumnsError, Columns
from kwire.capture.index.files import File
from kwire.capture.index.model import Index

BESIDE = "beside"
"""The place of sidecars: next to their captures."""
SUFFIX = ".kwire-index"
PART_SUFFIX = ".part" + SUFFIX
"""Of a sidecar while it is written. A run that is killed leaves it behind."""
# Grows whenever the columns or their meaning change.
FORMAT = 7
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


def of(capture: Path_, *, cache: Path_ | None = None) -> Index:
    """The index of a capture: from the sidecar where it fits, else built, and kept there if that can be written.

    Args: cache: `beside`, or a folder; None keeps no sidecar.
    Raises: NotIndexed when the capture is packed or no regular file; CaptureError; OSError.
    """
    if cache is None:
        return built(capture)
    sidecar = sidecar_of(capture, cache)
    index = load(capture, sidecar)
    if index is None:
        index = built(capture)
        # A folder that cannot be written costs time, and nothing else.
        with suppress(OSError):
            save(index, sidecar)
            index = load(capture, sidecar) or index
    return index


def save(index: Index, sidecar: Path_) -> None:
    """Write the sidecar under a name of its own first, so that nobody reads half of it."""
    if isinstance(index.source, bytes):
        raise ValueError("a capture that is no file has no sidecar")
    path = Path(sidecar)
    # The cache names captures, and holds client ids and pieces of payload: it is nobody else's.
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    columns = index.columns
    columns.about = {**columns.about, "format": FORMAT, "check": _check(index.source)}
    handle, name = tempfile.mkstemp(prefix=".", suffix=PART_SUFFIX, dir=path.parent)
    try:
        with os.fdopen(handle, "w+b") as file:
            columns.write(file)
        # mkstemp makes it for its owner alone; a sidecar may be read by whoever may read the capture, and no other.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, os.stat(index.source).st_mode & 0o666 & ~umask)
        os.replace(name, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise


def load(capture: Path_, sidecar: Path_) -> Index | None:
    """The index in a sidecar; None when there is none, or when it is not of this capture as it is now.

    Raises: OSError when the capture cannot be read.
    """
    with File(capture) as file:
        size, mtime_ns = file.size, file.mtime_ns
    try:
        with open(sidecar, "rb") as found:
            columns = Columns.read(found)
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
