"""Where a capture's bytes come from: a path, bytes or a binary file object, each perhaps gzipped."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, cast

from kwire.capture.values import CaptureError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from _typeshed import WriteableBuffer

_GZIP_MAGIC = b"\x1f\x8b"
_CHUNK = 1 << 20


class Readable(Protocol):
    """A binary file object, as small as it can be: objects of remote stores need no more than `read`."""

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes; none at the end."""


Source = str | os.PathLike[str] | bytes | bytearray | memoryview | Readable


class Reader:
    """Reads exact sizes. A damaged gzip stream ends the input early, and `trouble` says so."""

    def __init__(self, file: io.BufferedReader | gzip.GzipFile) -> None:
        """Read from `file`, which stays its owner's to close."""
        self._file = file
        self.trouble: str | None = None

    def read(self, size: int) -> bytes:
        """`size` bytes, fewer only at the end of the input. Callers bound `size`."""
        if self.trouble:
            return b""
        try:
            data = self._file.read(size)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            self.trouble = f"the gzip stream is damaged: {error}"
            return b""
        return data or b""

    def skip(self, size: int) -> bool:
        """Pass over `size` bytes; False when the input ended before."""
        while size:
            passed = len(self.read(min(size, _CHUNK)))
            if not passed:
                return False
            size -= passed
        return True


@contextmanager
def opened(source: Source) -> Iterator[Reader]:
    """A reader of the source, unpacked where it is gzipped; closes only what it opened itself."""
    with _buffered(source) as file:
        if file.peek(2)[:2] != _GZIP_MAGIC:
            yield Reader(file)
            return
        with gzip.GzipFile(fileobj=file, mode="rb") as unpacked:
            yield Reader(unpacked)


def name_of(source: Source) -> str:
    """The path, a file object's own name, or `<bytes>`."""
    if isinstance(source, (str, os.PathLike)):
        # A path may hold bytes that are no text, which columns and JSON cannot.
        return os.fspath(source).encode("utf-8", "backslashreplace").decode()
    name = getattr(source, "name", None)
    return name if isinstance(name, str) else "<bytes>"


def _buffered(source: Source) -> io.BufferedReader:
    if isinstance(source, (str, os.PathLike)):
        return io.BufferedReader(io.FileIO(source), _CHUNK)
    if isinstance(source, (bytes, bytearray, memoryview)):
        return io.BufferedReader(cast("io.RawIOBase", io.BytesIO(source)))
    if not hasattr(source, "read"):
        raise CaptureError(f"a capture is a path, bytes or a binary file object, not {type(source).__name__}")
    return io.BufferedReader(_Adapter(source), _CHUNK)


class _Adapter(io.RawIOBase):
    """Lends `readinto` to an object that has only `read`; closing it leaves the object open."""

    def __init__(self, source: Readable) -> None:
        self._source = source

    def readable(self) -> bool:
        """What `io` asks before it reads."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Fill the buffer from the wrapped file."""
        view = memoryview(buffer)
        data: object = self._source.read(len(view))
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise CaptureError(f"the file object gives {type(data).__name__}; a capture is read in binary mode")
        view[: len(data)] = data
        return len(data)
