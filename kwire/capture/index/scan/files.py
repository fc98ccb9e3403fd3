"""A capture file that is read by offset; compressed ones are unpacked to a temporary file."""

from __future__ import annotations

import os
import stat
import tempfile
from itertools import chain

from kwire.capture.files.source import Reader, is_compressed, open_source, source_name
from kwire.capture.files.source import Source as CompressedSource
from kwire.capture.index.columns import OpenFile, read_at
from kwire.capture.model import CaptureError


class NotIndexed(CaptureError):
    """The source cannot be indexed: compressed, not a regular file, or not a capture."""


class UnpackedFile:
    """The content of a compressed capture, in a file without a name: it is deleted with this object.

    name: of the capture. error: why the rest of it could not be unpacked.
    """

    def __init__(self, name: str) -> None:
        """It is empty."""
        self.name = name
        self.error: str | None = None
        with tempfile.TemporaryFile(prefix="kwire-unpacked-") as file:
            self.file = OpenFile(file.fileno())


Source = str | os.PathLike[str] | bytes | UnpackedFile
"""A capture: the path of its file, its bytes, or its unpacked content."""


def unpack_capture(source: CompressedSource, size_max: int | None = None) -> UnpackedFile:
    """Unpack a compressed capture, up to where it is damaged or above the limit.

    Args: size_max: as `Options.unpacked_size_max`.
    Raises: NotIndexed if the disk is full; OSError.
    """
    unpacked = UnpackedFile(source_name(source))
    with open_source(source, size_max) as reader:
        for data in chain([reader.magic], reader.unpack()):
            try:
                unpacked.file.write(data)
            except OSError as error:
                raise NotIndexed(f"the capture cannot be unpacked to {tempfile.gettempdir()}: {error}") from error
        unpacked.error = reader.error
    return unpacked


class CaptureFile:
    """Reads bytes by offset, from a path or from memory."""

    def __init__(self, source: Source) -> None:
        """Open the source. Raises: OSError; NotIndexed when it is not a regular file."""
        self.source = source
        self.error = source.error if isinstance(source, UnpackedFile) else None
        self._fd = -1
        if isinstance(source, bytes):
            self.size, self.mtime_ns = len(source), 0
            return
        if isinstance(source, UnpackedFile):
            self._fd = os.dup(source.file.number)
            self.size, self.mtime_ns = os.fstat(self._fd).st_size, 0
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

    @property
    def is_compressed(self) -> bool:
        """Whether it is compressed by gzip or zstd."""
        return is_compressed(self.read(0, 4))

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> CaptureFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class FileReader(Reader):
    """Reads a file from an offset on; at the end it has the error of unpacking, as a reader that unpacks itself.

    at: the offset of the next byte.
    """

    def __init__(self, file: CaptureFile, at: int) -> None:
        """The caller closes the file."""
        self._source = file
        self.at = at
        self._compressed = self.error = None

    def read(self, size: int) -> bytes:
        """Return `size` bytes, fewer only at the end."""
        data = self._source.read(self.at, max(min(size, self._source.size - self.at), 0))
        self.at += len(data)
        if len(data) < size and self._source.error is not None:
            self.error = self._source.error
            return b""
        return data

    def may_wait(self, size: int) -> bool:
        """No read waits."""
        return False
