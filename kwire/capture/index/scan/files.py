"""A capture file that is read by offset; compressed ones are unpacked to a temporary file."""

from __future__ import annotations

import os
import stat
import tempfile

from kwire.capture.files.source import Source as CompressedSource
from kwire.capture.files.source import is_compressed, open_source, source_name
from kwire.capture.index.columns import OpenFile, read_at
from kwire.capture.model import CaptureError

_CHUNK = 1 << 20


class NotIndexed(CaptureError):
    """The source cannot be indexed: compressed, not a regular file, or readable only packet by packet."""


class UnpackedFile:
    """The content of a compressed capture, in a file without a name: it is deleted with this object.

    name: of the capture.
    """

    def __init__(self, name: str) -> None:
        """It is empty."""
        self.name = name
        with tempfile.TemporaryFile(prefix="kwire-unpacked-") as file:
            self.file = OpenFile(file.fileno())


Source = str | os.PathLike[str] | bytes | UnpackedFile
"""A capture: the path of its file, its bytes, or its unpacked content."""


def unpack_capture(source: CompressedSource, size_max: int | None = None) -> UnpackedFile:
    """Unpack a compressed capture. Args: size_max: as `Options.unpacked_size_max`.

    Raises: NotIndexed if it is damaged or above the limit, or if the disk is full; OSError.
    """
    unpacked = UnpackedFile(source_name(source))
    with open_source(source, size_max) as reader:
        data = reader.magic
        while data:
            try:
                unpacked.file.write(data)
            except OSError as error:
                raise NotIndexed(f"the capture cannot be unpacked to {tempfile.gettempdir()}: {error}") from error
            data = reader.read(_CHUNK)
        if reader.error is not None:
            raise NotIndexed(reader.error)
    return unpacked


class CaptureFile:
    """Reads bytes by offset, from a path or from memory."""

    def __init__(self, source: Source) -> None:
        """Open the source. Raises: OSError; NotIndexed when it is not a regular file."""
        self.source = source
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


class FileStream:
    """Reads a capture file from its beginning on, as a source of packets."""

    def __init__(self, file: CaptureFile) -> None:
        """The caller closes the file."""
        self._file = file
        self._at = 0

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes; none at the end."""
        data = self._file.read(self._at, size)
        self._at += len(data)
        return data
