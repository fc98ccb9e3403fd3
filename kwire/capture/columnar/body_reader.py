"""Read the bodies of frames by offset. A window of the file is buffered, because most reads are in file order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.capture.columnar.recovery.recovery_builder import DAMAGES
from kwire.capture.index.flows.frame_headers import read_body

if TYPE_CHECKING:
    from kwire.capture.index import Index

# The window size; and how far after the window a frame may begin so that the next window begins there.
_WINDOW_SIZE = 1 << 20
_NEAR_SIZE = 1 << 18


class BodyReader:
    """Reads the frames of one capture."""

    def __init__(self, index: Index) -> None:
        """Open the file; the caller closes it."""
        self._file = index.open_file()
        self._fragments = index.body_fragments()
        self._base = 0
        self._window = b""

    def read_frame(self, at: int, fragment_count: int, size: int) -> bytes:
        """The first `size` bytes of a frame. Args: at, fragment_count: as in `FrameColumns`."""
        begin = at - self._base
        if begin >= 0 and begin + size <= len(self._window) and at >= 0:
            return self._window[begin : begin + size]
        return read_body(self._read, self._fragments, at, fragment_count, size)

    def find_damage(self, at: int, fragment_count: int, size: int) -> tuple[str, int] | None:
        """Why a frame in fragments is incomplete, and how many bytes of it there are; None if it is complete."""
        first, (places, sizes) = -1 - at, self._fragments
        have = sum(sizes[number] for number in range(first, first + fragment_count))
        return None if have == size else (DAMAGES[places[first + fragment_count - 1]], have)

    def read_span(self, at: int, size: int) -> bytes:
        """A part of the file."""
        return self._file.read(at, size)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _read(self, at: int, size: int) -> bytes:
        begin = at - self._base
        if 0 <= begin <= len(self._window) - size:
            return self._window[begin : begin + size]
        if begin < 0 or size > _NEAR_SIZE:
            return self._file.read(at, size)
        # A frame far ahead is read alone: there may be no other read near it.
        is_near = begin <= len(self._window) + _NEAR_SIZE
        self._base, self._window = at, self._file.read(at, _WINDOW_SIZE if is_near else size)
        return self._window[:size]
