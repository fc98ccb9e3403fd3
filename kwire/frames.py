"""Frames: an int32 length, and that many bytes. The first thing that is done with what a socket brings."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from kwire.errors import InvalidLength
from kwire.primitives import Part

#: Kafka's default of socket.request.max.bytes.
DEFAULT_MAX_SIZE = 104_857_600

#: Chunks below this are gathered: a peer that sends single bytes must not cost an object for each.
_SMALL = 4096


class FrameReader:
    """Cuts a stream of bytes into frames, copying each byte once.

    `max_size` is the greatest length a frame may claim. Use: `feed` what arrived, then iterate over the whole frames.
    """

    def __init__(self, max_size: int = DEFAULT_MAX_SIZE) -> None:
        self.max_size = max_size
        #: The offset in the stream behind the last frame that was given out.
        self.position = 0
        self._chunks: deque[bytes | bytearray] = deque()
        #: Where the unread part of the first chunk starts, and how many bytes there are in all.
        self._start = 0
        self._have = 0
        #: The size of the frame under way; its four bytes of length are gone from the chunks already.
        self._size: int | None = None

    @property
    def pending(self) -> int:
        """How many bytes wait for the rest of their frame."""
        return self._have + (0 if self._size is None else 4)

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Take in what a socket brought; any split of the stream will do."""
        size = len(data)
        if not size:
            return
        self._have += size
        if size < _SMALL and self._chunks:
            last = self._chunks[-1]
            if type(last) is bytearray and len(last) < 16 * _SMALL:
                last += data
                return
            self._chunks.append(bytearray(data))
            return
        self._chunks.append(data if type(data) is bytes else bytes(data))

    def __iter__(self) -> Iterator[bytes]:
        """The frames that are whole, without their lengths.

        Raises: InvalidLength when a length is negative or above the limit; the stream cannot go on after that.
        """
        while True:
            if self._size is None:
                if self._have < 4:
                    return
                self._size = self._checked(int.from_bytes(self._take(4), "big", signed=True))
            if self._have < self._size:
                return
            frame = self._take(self._size)
            self.position += 4 + self._size
            self._size = None
            yield frame

    def _checked(self, size: int) -> int:
        if size < 0:
            raise InvalidLength("frame", self.position, f"length {size} is negative")
        if size > self.max_size:
            raise InvalidLength("frame", self.position, f"length {size} is above the limit of {self.max_size}")
        return size

    def _take(self, size: int) -> bytes:
        """The next bytes; there are as many."""
        self._have -= size
        parts: list[Part] = []
        while size:
            chunk = self._chunks[0]
            end = self._start + size
            if end < len(chunk):
                # The rest of the chunk stays where it is: many small frames in one chunk cost a slice each.
                parts.append(chunk[self._start : end])
                self._start = end
                break
            parts.append(chunk[self._start :] if self._start else chunk)
            size = end - len(chunk)
            self._chunks.popleft()
            self._start = 0
        if len(parts) == 1 and type(parts[0]) is bytes:
            return parts[0]
        return b"".join(parts)


def frame(parts: bytes | Iterable[Part]) -> bytes:
    """A frame: the length of all parts, and the parts, copied once."""
    listed: list[Part] = [parts] if isinstance(parts, bytes) else list(parts)
    size = sum(map(len, listed))
    return b"".join([size.to_bytes(4, "big"), *listed])
