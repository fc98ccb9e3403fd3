"""Where a capture's bytes come from: a path, bytes or a binary file object, each perhaps packed by gzip or zstd.

Sources: RFC 1952 (gzip), RFC 8878 (zstd: frames, and skippable frames, with which some tools begin).
"""

from __future__ import annotations

import gzip
import io
import os
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, cast

import zstandard

from kwire.capture.values import CaptureError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from _typeshed import WriteableBuffer

    from kwire.capture.keylog import KeyLog
    from kwire.capture.values import Packet, Trouble

_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_CHUNK = 1 << 20

# What a packed capture may unpack to: captures shrink to a third or a thirtieth, those of idle polls to a hundredth;
# beyond this size only something made to fill a machine is left.
UNPACKED_SIZE_FREE = 256 * 1024 * 1024
UNPACKED_RATIO_MAX = 250
# The memory that a zstd frame may ask for; `zstd --long` goes that far without further options.
_ZSTD_WINDOW_MAX = 1 << 27


class Readable(Protocol):
    """A binary file object, as small as it can be: objects of remote stores need no more than `read`."""

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes; none at the end."""


class Feed(Protocol):
    """What gives packets itself: files that follow each other, an interface."""

    def packets(self, keys: KeyLog | None) -> Iterator[Packet | Trouble]:
        """The packets as they come. `keys` takes the TLS secrets that are among them."""


Source = str | os.PathLike[str] | bytes | bytearray | memoryview | Readable | Feed


class Reader:
    """Reads exact sizes. A packed stream that is damaged or a bomb ends the input early, and `trouble` says so.

    `magic` are the first four bytes, which are read already.
    """

    def __init__(self, file: Readable, packed: _Counted | None = None) -> None:
        """Read from `file`, which stays its owner's to close; it unpacks what `packed` counts."""
        self._file = file
        self._packed = packed
        self._size = 0
        self.trouble: str | None = None
        self.magic = self.read(4)
        if packed is not None and not self.magic and self.trouble is None:
            self.trouble = f"the {packed.name} stream ends before anything can be unpacked"

    def read(self, size: int) -> bytes:
        """`size` bytes, fewer only at the end of the input. Callers bound `size`."""
        if self._packed is None:
            return self._file.read(size)
        return self._unpack(self._packed, size)

    def skip(self, size: int) -> bool:
        """Pass over `size` bytes; False when the input ended before."""
        while size:
            passed = len(self.read(min(size, _CHUNK)))
            if not passed:
                return False
            size -= passed
        return True

    def _unpack(self, packed: _Counted, size: int) -> bytes:
        if self.trouble:
            return b""
        try:
            data = self._file.read(size)
        except (EOFError, gzip.BadGzipFile, zlib.error, zstandard.ZstdError) as error:
            self.trouble = f"the {packed.name} stream is damaged: {error}"
            return b""
        self._size += len(data)
        if self._size > max(UNPACKED_SIZE_FREE, UNPACKED_RATIO_MAX * packed.size):
            self.trouble = (
                f"the {packed.name} stream unpacks to more than {UNPACKED_RATIO_MAX} times its size, and to more than "
                f"{UNPACKED_SIZE_FREE >> 20} MiB: what follows is not read (unpack it yourself if you trust it)"
            )
            return b""
        return data


class _Counted:
    """What an unpacker reads: bytes that were read to look at them, then the file; both counted."""

    def __init__(self, name: str, head: bytes, file: io.BufferedReader) -> None:
        self.name = name
        self.size = 0
        self._head = head
        self._file = file

    def read(self, size: int = -1, /) -> bytes:
        """Up to `size` bytes; none at the end."""
        if self._head:
            data, self._head = (self._head, b"") if size < 0 else (self._head[:size], self._head[size:])
        else:
            data = self._file.read(size)
        self.size += len(data)
        return data


@contextmanager
def opened(source: Source) -> Iterator[Reader]:
    """A reader of the source, unpacked where its first bytes say that it is packed; closes only what it opened itself.

    Raises: CaptureError when the source cannot be one.
    """
    with _buffered(source) as file:
        plain = Reader(cast("Readable", file))
        if plain.magic[:2] == _GZIP_MAGIC:
            packed = _Counted("gzip", plain.magic, file)
            # The buffer saves the way through Python for each of the small reads.
            with gzip.GzipFile(fileobj=cast("io.BytesIO", packed), mode="rb") as unpacked:
                yield Reader(cast("Readable", unpacked), packed)
        elif plain.magic == _ZSTD_MAGIC or _is_skippable(plain.magic):
            packed = _Counted("zstd", plain.magic, file)
            unpacker = zstandard.ZstdDecompressor(max_window_size=_ZSTD_WINDOW_MAX)
            with unpacker.stream_reader(cast("io.BytesIO", packed), read_across_frames=True, closefd=False) as raw:
                # Read piece by piece: what was unpacked in front of a damage must not be lost with it.
                yield Reader(cast("Readable", io.BufferedReader(_Adapter(cast("Readable", raw)), _CHUNK)), packed)
        else:
            yield plain


def _is_skippable(magic: bytes) -> bool:
    """Whether a zstd file begins with a frame that is no data, as pzstd writes."""
    return magic[1:] == b"\x2a\x4d\x18" and magic[0] & 0xF0 == 0x50


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
    return io.BufferedReader(_Adapter(cast("Readable", source)), _CHUNK)


class _Adapter(io.RawIOBase):
    """Lends `readinto` to an object that has only `read`; closing it leaves the object open."""

    def __init__(self, source: Readable) -> None:
        # A pipe gives what it has; `read` would wait until all that was asked for is there.
        self._read: Callable[[int], object] = getattr(source, "read1", source.read)

    def readable(self) -> bool:
        """What `io` asks before it reads."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Fill the buffer from the wrapped file."""
        view = memoryview(buffer)
        data = self._read(len(view))
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise CaptureError(f"the file object gives {type(data).__name__}; a capture is read in binary mode")
        view[: len(data)] = data
        return len(data)


def no_capture(magic: bytes) -> CaptureError:
    """What to say of a file that begins with these bytes."""
    if not magic:
        return CaptureError("it is empty")
    return CaptureError(f"neither pcap nor pcapng: the file begins with {magic.hex(' ')}")
