"""A capture file that is read by offset."""

from __future__ import annotations

import os
import stat

from kwire.capture.index.columns import read_at
from kwire.capture.model import CaptureError

Source = str | os.PathLike[str] | bytes
"""A capture: the path of its file, or its bytes."""


class NotIndexed(CaptureError):
    """The source cannot be indexed: compressed, not a regular file, or readable only packet by packet."""


class CaptureFile:
    """Reads bytes by offset, from a path or from memory."""

    def __init__(self, source: Source) -> None:
        """Open the source. Raises: OSError; NotIndexed when it is not a regular file."""
        self.source = source
        self._fd = -1
        if isinstance(source, bytes):
            self.size, self.mtime_ns = len(source), 0
            return
        # Opening a pipe would consume it: it is left to the streaming reader.
        if not stat.S_ISREG(os.stat(source).st_mode):
            raise NotIndexed(f"{os.fspath(source)} is not a regular file")
        self._fd = os.open(source, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        status = os.fstat(self._fd)
        self.size, self.mtime_ns = status.st_size, status.st_mtime_ns

    def read(self, at: int, size: int) -> bytes:
        """`size` bytes from offset `at`; fewer at the end."""
        if isinstance(self.source, bytes):
            return self.source[at : at + size]
        return read_at(self._fd, at, size)

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> CaptureFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
