"""The bytes of frames, read by offset: a window of the file is held, since they are asked for nearly in file order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.capture.index.building.headers import body_of

if TYPE_CHECKING:
    from kwire.capture.index import Index

# How much is read at once, and how far behind the window a frame may begin so that the next window begins there.
_WINDOW_SIZE = 1 << 20
_NEAR_SIZE = 1 << 18


class Bodies:
    """Frames of one capture."""

    def __init__(self, index: Index) -> None:
        """Opens the file; `close` it."""
        self._file = index.opened()
        self._pieces = index.pieces()
        self._base = 0
        self._held = b""

    def frame(self, at: int, parts: int, size: int) -> bytes:
        """The first `size` bytes of a frame, as `Frames` says where it lies."""
        begin = at - self._base
        if begin >= 0 and begin + size <= len(self._held) and at >= 0:
            return self._held[begin : begin + size]
        return body_of(self._read, self._pieces, at, parts, size)

    def span(self, at: int, size: int) -> bytes:
        """A stretch of the file."""
        return self._file.read(at, size)

    def close(self) -> None:
        """Give the file back."""
        self._file.close()

    def _read(self, at: int, size: int) -> bytes:
        begin = at - self._base
        if 0 <= begin <= len(self._held) - size:
            return self._held[begin : begin + size]
        if begin < 0 or size > _NEAR_SIZE:
            return self._file.read(at, size)
        # What lies far ahead is read alone: perhaps nothing near it is asked for.
        is_near = begin <= len(self._held) + _NEAR_SIZE
        self._base, self._held = at, self._file.read(at, _WINDOW_SIZE if is_near else size)
        return self._held[:size]
