"""Opens files of a directory that somebody else may have made: no link is followed, and no open waits."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

FILE_MODE = 0o644
# A symbolic link is refused by the system; the open of a named pipe does not wait for its other end.
_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_FLAGS |= getattr(os, "O_BINARY", 0) | getattr(os, "O_NOCTTY", 0)


class RefusedFileError(OSError):
    """A path that is no regular file, or no folder, where there has to be one."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(errno.EINVAL, problem, str(path))

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror}"


def open_regular(path: Path, flags: int) -> int:
    """Open a regular file. Returns: its descriptor. Raises: RefusedFileError; OSError."""
    try:
        descriptor = os.open(path, flags | _FLAGS, FILE_MODE)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.EMLINK):
            require_regular(path, path.lstat())
        raise
    try:
        require_regular(path, os.fstat(descriptor))
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def require_regular(path: Path, found: os.stat_result) -> None:
    """Raises: RefusedFileError for anything but a regular file."""
    if not stat.S_ISREG(found.st_mode):
        raise RefusedFileError(path, f"{_name_kind(found)}, not a file; remove it, or put the file there")


def require_folder(path: Path) -> None:
    """Raises: RefusedFileError for anything but a folder; OSError."""
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise RefusedFileError(path, f"{_name_kind(found)}, not a folder; remove it, or put the folder there")


def _name_kind(found: os.stat_result) -> str:
    mode = found.st_mode
    if stat.S_ISLNK(mode):
        return "a symbolic link, which is not followed"
    if stat.S_ISDIR(mode):
        return "a folder"
    if stat.S_ISREG(mode):
        return "a file"
    return "a named pipe" if stat.S_ISFIFO(mode) else "a device or a socket"
