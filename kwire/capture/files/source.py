"""Sources of captures: paths, bytes and binary file objects, plain or compressed by gzip or zstd.

Sources: RFC 1952 (gzip), RFC 8878 (zstd: frames, and skippable frames, with which some tools begin).
"""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from typing import TYPE_CHECKING, Protocol, cast

import zstandard

from kwire.capture.model import CaptureError, CaptureIssue, NoPacket, Packet

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_CHUNK = 1 << 20

# Limits of decompression, if none is given: captures are compressed to a third or a thirtieth, those of idle polls to a
# hundredth. Above both limits the input is a decompression bomb: packets without data are 16 bytes each, and 32 MiB of
# them take some seconds.
DECOMPRESSED_SIZE_FREE = 32 * 1024 * 1024
DECOMPRESSED_RATIO_MAX = 250
# The memory that a zstd frame may request; `zstd --long` uses as much without further options.
_ZSTD_WINDOW_MAX = 1 << 27


class Readable(Protocol):
    """A binary file object. Only `read` is needed, so that objects of remote stores can be sources."""

    def read(self, size: int, /) -> bytes:
        """Return up to `size` bytes; none at the end."""


class WaitingSource(Readable, Protocol):
    """A file object that may have no data at the moment: a pipe, or a file that grows."""

    def is_ready(self) -> bool:
        """Whether a read returns at once, with data or at the end."""


class KeyLogSink(Protocol):
    """Receives the TLS secrets of a capture file."""

    may_grow: bool
    """Whether the file may contain more secrets."""

    def add_lines(self, text: str) -> None:
        """Add the lines of a TLS key log."""


class PacketSource(Protocol):
    """A source that yields packets itself: a series of files, or an interface."""

    def packets(self, keys: KeyLogSink | None) -> Iterator[Packet | CaptureIssue | NoPacket]:
        """Yield the packets as they come, and `NO_PACKET` before a wait. `keys` receives the TLS secrets among them."""


Source = str | os.PathLike[str] | bytes | bytearray | memoryview | Readable | PacketSource


class Reader:
    """Reads exact sizes. A compressed stream that is damaged or a bomb ends early; `error` then has the reason."""

    def __init__(
        self,
        file: _Buffer,
        compressed: _CompressedInput | None = None,
        unpacked_max: int | None = None,
        on_unpacked: Callable[[int], None] | None = None,
    ) -> None:
        """Read from `file`, which the caller closes; it decompresses the bytes of `compressed`.

        `on_unpacked` is called about once for each MiB, with the bytes that were unpacked so far.
        """
        self._file = file
        self._compressed = compressed
        self._unpacked_max = unpacked_max
        self._on_unpacked = on_unpacked
        self._size = self._reported = 0
        self.error: str | None = None

    @cached_property
    def magic(self) -> bytes:
        """The first four bytes, which are read before all others."""
        magic = self.read(4)
        if self._compressed is not None and not magic and self.error is None:
            self.error = f"the {self._compressed.name} stream ends before anything can be unpacked"
        return magic

    def read(self, size: int) -> bytes:
        """Return `size` bytes, fewer only at the end of the input. The caller limits `size`."""
        if self._compressed is None:
            return self._file.read(size)
        return self._decompress(self._compressed, size)

    def read1(self, size: int) -> bytes:
        """Return up to `size` bytes, as many as one read gives; none at the end."""
        if self._compressed is None:
            return self._file.read1(size)
        return self._decompress(self._compressed, size, is_partial=True)

    def may_wait(self, size: int) -> bool:
        """Whether a read of `size` bytes may wait for data. If `size` is above 1 MiB, it may."""
        file = self._file
        return isinstance(file, _LookaheadBuffer) and not (size <= _CHUNK and file.is_available(size))

    def skip(self, size: int) -> bool:
        """Skip `size` bytes; return False if the input ended before."""
        while size:
            skipped = len(self.read(min(size, _CHUNK)))
            if not skipped:
                return False
            size -= skipped
        return True

    def unpack(self) -> Iterator[bytes]:
        """Yield the rest of a compressed input up to the end, the damage or the limit, in parts of at most 1 MiB."""
        while data := self.read1(_CHUNK):
            yield data

    def _decompress(self, compressed: _CompressedInput, size: int, *, is_partial: bool = False) -> bytes:
        """Read `size` bytes, or if it `is_partial` up to that: then what precedes damage or the limit is read, too."""
        if self.error:
            return b""
        try:
            data = self._file.read1(size) if is_partial else self._file.read(size)
        except (EOFError, gzip.BadGzipFile, zlib.error, zstandard.ZstdError) as error:
            self.error = f"the {compressed.name} stream is damaged: {error}"
            return b""
        self._size += len(data)
        if self._size - self._reported >= _CHUNK and self._on_unpacked is not None:
            self._reported = self._size
            self._on_unpacked(self._size)
        limit = self._unpacked_max
        if limit is None:
            limit = max(DECOMPRESSED_SIZE_FREE, DECOMPRESSED_RATIO_MAX * compressed.size)
        if self._size > limit:
            self.error = f"the {compressed.name} stream unpacks to more than {self._describe_limit()}"
            return data[: limit - self._size] if is_partial else b""
        return data

    def _describe_limit(self) -> str:
        rest = "what follows is not read"
        if self._unpacked_max is not None:
            return f"{self._unpacked_max} bytes, the limit that was set: {rest}"
        return (
            f"{DECOMPRESSED_RATIO_MAX} times its size, and to more than {DECOMPRESSED_SIZE_FREE >> 20} MiB: {rest} "
            "(set a greater limit if you trust it: --unpacked-max, or unpacked_size_max in Python and Spark)"
        )


class _CompressedInput:
    """The input of a decompressor: the bytes of the magic number, then the file. `size` counts both."""

    def __init__(self, name: str, head: bytes, file: _Buffer) -> None:
        self.name = name
        self.size = 0
        self._head = head
        self._file = file

    def read(self, size: int = -1, /) -> bytes:
        """Return up to `size` bytes; none at the end."""
        if self._head:
            data, self._head = (self._head, b"") if size < 0 else (self._head[:size], self._head[size:])
        else:
            # What is available: a decompressor that waits for more delays the packets that it could return.
            data = self._file.read1(size)
        self.size += len(data)
        return data


@contextmanager
def open_source(source: Source, unpacked_max: int | None = None) -> Iterator[Reader]:
    """Open a source for reading, decompressed if its first bytes show a compression. Closes only what it opened itself.

    Args: unpacked_max: as `Options.unpacked_size_max`.
    Raises: CaptureError when the source cannot be one.
    """
    on_unpacked = getattr(source, "on_unpacked", None)
    with _buffered(source) as file:
        plain = Reader(file)
        if plain.magic[:2] == _GZIP_MAGIC:
            compressed = _CompressedInput("gzip", plain.magic, file)
            with gzip.GzipFile(fileobj=cast("io.BytesIO", compressed), mode="rb") as decompressed:
                yield Reader(_buffered_output(decompressed, file), compressed, unpacked_max, on_unpacked)
        elif is_compressed(plain.magic):
            compressed = _CompressedInput("zstd", plain.magic, file)
            decompressor = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_MAX)
            with decompressor.stream_reader(
                cast("io.BytesIO", compressed), read_across_frames=True, closefd=False
            ) as raw:
                yield Reader(_buffered_output(raw, file), compressed, unpacked_max, on_unpacked)
        else:
            yield plain


def is_compressed(magic: bytes) -> bool:
    """Whether a file with these first four bytes is compressed by gzip or zstd."""
    # A zstd file may begin with a skippable frame, as pzstd writes it.
    is_skippable = magic[1:] == b"\x2a\x4d\x18" and magic[0] & 0xF0 == 0x50
    return magic[:2] == _GZIP_MAGIC or magic == _ZSTD_MAGIC or is_skippable


def source_name(source: Source) -> str:
    """Return the path, the name of a file object, or `<bytes>`."""
    if isinstance(source, (str, os.PathLike)):
        # A path may contain bytes that are not text; columns and JSON cannot.
        return os.fspath(source).encode("utf-8", "backslashreplace").decode()
    name = getattr(source, "name", None)
    return name if isinstance(name, str) else "<bytes>"


def _buffered(source: Source) -> AbstractContextManager[_Buffer]:
    if isinstance(source, (str, os.PathLike)):
        return io.BufferedReader(io.FileIO(source), _CHUNK)
    if isinstance(source, (bytes, bytearray, memoryview)):
        return io.BufferedReader(cast("io.RawIOBase", io.BytesIO(source)))
    if not hasattr(source, "read"):
        raise CaptureError(f"a capture is a path, bytes or a binary file object, not {type(source).__name__}")
    if hasattr(source, "is_ready"):
        waiting = cast("WaitingSource", source)
        return nullcontext(_LookaheadBuffer(waiting, waiting.is_ready))
    return io.BufferedReader(_Adapter(cast("Readable", source)), _CHUNK)


def _buffered_output(decompressor: object, file: _Buffer) -> _Buffer:
    """The output of a decompressor that reads `file`. It is read in pieces, so that damage loses nothing before it."""
    output = cast("Readable", decompressor)
    if isinstance(file, _LookaheadBuffer):
        # How much input the decompressor needs for its next byte is not known.
        return _LookaheadBuffer(output, lambda: False)
    return io.BufferedReader(_Adapter(output), _CHUNK)


class _LookaheadBuffer:
    """Buffers a source that may wait for data, and knows whether a read returns at once."""

    def __init__(self, source: Readable, is_ready: Callable[[], bool]) -> None:
        """`is_ready`: as in `WaitingSource`; it may be False also where a read does not wait."""
        self._read: Callable[[int], bytes] = getattr(source, "read1", source.read)
        self._is_ready = is_ready
        self._data = bytearray()
        self._is_ended = False

    def is_available(self, size: int) -> bool:
        """Whether `size` bytes, or all until the end, can be read without waiting."""
        while len(self._data) < size and not self._is_ended:
            if not self._is_ready():
                return False
            self._read_more()
        return True

    def read(self, size: int, /) -> bytes:
        """Return `size` bytes, fewer only at the end."""
        while len(self._data) < size and not self._is_ended:
            self._read_more()
        return self._take(size)

    def read1(self, size: int, /) -> bytes:
        """Return up to `size` bytes; none at the end."""
        if not self._data and not self._is_ended:
            self._read_more()
        return self._take(size)

    def _read_more(self) -> None:
        data = self._read(_CHUNK)
        self._data += data
        self._is_ended = not data

    def _take(self, size: int) -> bytes:
        data = bytes(self._data[:size])
        del self._data[:size]
        return data


_Buffer = io.BufferedReader | _LookaheadBuffer


class _Adapter(io.RawIOBase):
    """Adds `readinto` to an object that has only `read`; closing the adapter leaves the object open."""

    def __init__(self, source: Readable) -> None:
        # `read1` returns what a pipe has; `read` would wait until the requested size is available.
        self._read: Callable[[int], object] = getattr(source, "read1", source.read)

    def readable(self) -> bool:
        """`io` requires this before it reads."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Fill the buffer from the wrapped file."""
        view = memoryview(buffer)
        data = self._read(len(view))
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise CaptureError(f"the file object gives {type(data).__name__}; a capture is read in binary mode")
        view[: len(data)] = data
        return len(data)


def not_a_capture(magic: bytes) -> CaptureError:
    """Return the error for a file that begins with these bytes."""
    if not magic:
        return CaptureError("it is empty")
    return CaptureError(f"neither pcap nor pcapng: the file begins with {magic.hex(' ')}")
