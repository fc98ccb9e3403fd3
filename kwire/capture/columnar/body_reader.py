"""Read the bodies of frames by offset. A window of the file is buffered, because most reads are in file order."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kwire.capture.index.flows.frame_columns import DAMAGES
from kwire.capture.index.flows.frame_headers import read_body
from kwire.capture.index.stored_payload import STORED_BASE

if TYPE_CHECKING:
    from kwire.capture.index import Index
    from kwire.capture.index.arrays import Ints
    from kwire.capture.index.flows.frame_columns import FrameColumns

# The window size; and how far after the window a frame may begin so that the next window begins there.
_WINDOW_SIZE = 1 << 20
_NEAR_SIZE = 1 << 18


class Damages(NamedTuple):
    """What frames lack.

    cause: an index of `DAMAGES`; -1 for a whole frame. have: how many bytes precede the first missing one.
    """

    cause: Ints
    have: Ints

    def select(self, rows: Ints) -> Damages:
        """Those of some frames."""
        return Damages(self.cause[rows], self.have[rows])


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

    def find_damages(self, frames: FrameColumns) -> Damages:
        """`find_damage` of many frames; a frame that is not in fragments is complete."""
        rows = np.nonzero((frames.at < 0) & (frames.fragment_count > 0))[0]
        cause, have = np.full(len(frames.at), -1, dtype=np.int64), frames.size.copy()
        if not len(rows):
            return Damages(cause, have)
        (places, sizes), first, count = self._fragments, -1 - frames.at[rows], frames.fragment_count[rows]
        begin = np.cumsum(count) - count
        numbers = np.repeat(first - begin, count) + np.arange(int(count.sum()))
        have[rows] = np.add.reduceat(sizes.take(numbers), begin)
        damaged = rows[have[rows] != frames.size[rows]]
        last = -2 - frames.at[damaged] + frames.fragment_count[damaged]
        cause[damaged] = places.take(last)
        return Damages(cause, have)

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
        if begin < 0 or size > _NEAR_SIZE or at >= STORED_BASE:
            return self._file.read(at, size)
        # A frame far ahead is read alone: there may be no other read near it.
        is_near = begin <= len(self._window) + _NEAR_SIZE
        self._base, self._window = at, self._file.read(at, _WINDOW_SIZE if is_near else size)
        return self._window[:size]
