"""The file of a capture, read by offset."""

from __future__ import annotations

import os
import stat

from kwire.capture.index.columns import read_at
from kwire.capture.values import CaptureError

Source = str | os.PathLike[str] | bytes
"""A capture: the path of its file, or its bytes."""


class NotIndexed(CaptureError):
    """The source has no index: packed, no regular file, or a file that is read only by the exact readers."""


class File:
    """Bytes by offset, from a path or from memory."""

    def __init__(self, source: Source) -> None:
        """Open it. Raises: OSError; NotIndexed for what is no regular file."""
        self._data = source if isinstance(source, bytes) else None
        self._fd = -1
        if isinstance(source, bytes):
            self.size, self.mtime_ns = len(source), 0
            return
        # A pipe that is opened is a pipe begun: it is left to its reader.
        if not stat.S_ISREG(os.stat(source).st_mode):
            raise NotIndexed(f"{os.fspath(source)} is no regular file")
        self._fd = os.open(source, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        found = os.fstat(self._fd)
        self.size, self.mtime_ns = found.st_size, found.st_mtime_ns

    def read(self, at: int, size: int) -> bytes:
        """`size` bytes from offset `at`; fewer at the end."""
        if self._data is not None:
            return self._data[at : at + size]
        return read_at(self._fd, at, size)

    def close(self) -> None:
        """Give the file back."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> File:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
