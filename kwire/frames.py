"""Frames of the Kafka protocol: an int32 length and that many bytes, read from a stream and written."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from kwire.errors import InvalidLength
from kwire.primitives import Part

#: Kafka's default of socket.request.max.bytes.
DEFAULT_MAX_SIZE = 104_857_600

#: Chunks below this size are merged: a peer that sends single bytes must not cost an object for each.
_SMALL = 4096


class FrameReader:
    """Splits a stream of bytes into frames; each byte is copied once.

    `max_size` is the limit of a frame's length. Use: `feed` received bytes, then iterate over the complete frames.
    """

    def __init__(self, max_size: int = DEFAULT_MAX_SIZE) -> None:
        self.max_size = max_size
        #: The offset in the stream behind the last frame that was returned.
        self.position = 0
        self._chunks: deque[bytes | bytearray] = deque()
        #: The offset of the unread part in the first chunk, and the number of unread bytes in all chunks.
        self._start = 0
        self._unread_bytes = 0
        #: The size of the incomplete frame; its four bytes of length are removed from the chunks already.
        self._size: int | None = None

    @property
    def pending(self) -> int:
        """The number of bytes of the incomplete frame."""
        return self._unread_bytes + (0 if self._size is None else 4)

    def feed(self, data: bytes | bytearray | memoryview) -> None:
        """Add received bytes; the stream may be split anywhere."""
        size = len(data)
        if not size:
            return
        self._unread_bytes += size
        last = self._chunks[-1] if self._chunks else None
        if last is None or size >= _SMALL:
            self._chunks.append(data if type(data) is bytes else bytes(data))
        elif type(last) is bytearray and len(last) < 16 * _SMALL:
            last += data
        else:
            self._chunks.append(bytearray(data))

    def __iter__(self) -> Iterator[bytes]:
        """The complete frames, without their lengths.

        Raises: InvalidLength when a length is negative or above the limit; the stream cannot be read any further.
        """
        while True:
            if self._size is None:
                if self._unread_bytes < 4:
                    return
                self._size = self._check_size(int.from_bytes(self._take_bytes(4), "big", signed=True))
            if self._unread_bytes < self._size:
                return
            frame = self._take_bytes(self._size)
            self.position += 4 + self._size
            self._size = None
            yield frame

    def _check_size(self, size: int) -> int:
        if size < 0:
            raise InvalidLength("frame", self.position, f"length {size} is negative")
        if size > self.max_size:
            raise InvalidLength("frame", self.position, f"length {size} is above the limit of {self.max_size}")
        return size

    def _take_bytes(self, size: int) -> bytes:
        """The next bytes; at least this many are unread."""
        self._unread_bytes -= size
        parts: list[Part] = []
        while size:
            chunk = self._chunks[0]
            end = self._start + size
            if end < len(chunk):
                # The rest of the chunk is not moved: many small frames in one chunk cost a slice each.
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


def encode_frame(parts: bytes | Iterable[Part]) -> bytes:
    """A frame: the length of all parts, and the parts, copied once."""
    part_list: list[Part] = [parts] if isinstance(parts, bytes) else list(parts)
    size = sum(map(len, part_list))
    return b"".join([size.to_bytes(4, "big"), *part_list])
