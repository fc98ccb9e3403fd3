"""A part of a capture in memory, with the frames of several segments joined behind it, so that all are read alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kwire.capture.columnar.body_walker import PADDING_SIZE
from kwire.capture.index.arrays import NO_NUMBERS
from kwire.capture.index.sparse import read_sparse

if TYPE_CHECKING:
    from collections.abc import Callable

    from kwire.capture.index import Index
    from kwire.capture.index.arrays import Bools, Ints
    from kwire.capture.index.flows.frame_columns import FrameColumns


class SpanData(NamedTuple):
    """A part of the file, `size` bytes from offset `base`, followed by joined frames and padding.

    joined: what `FrameColumns.at` has for each joined frame, ascending; joined_at: where it is in the data.
    """

    base: int
    data: bytes
    size: int = 0
    joined: Ints = NO_NUMBERS
    joined_at: Ints = NO_NUMBERS

    def positions(self, at: Ints) -> Ints:
        """Where frames are in the data; negative for those that are not. Args: at: as in `FrameColumns`."""
        found = at - self.base
        found[(at < 0) | (found >= self.size)] = -1
        if len(self.joined):
            rows = np.nonzero(at < 0)[0]
            places = np.minimum(np.searchsorted(self.joined, at[rows]), len(self.joined) - 1)
            is_joined = self.joined[places] == at[rows]
            found[rows[is_joined]] = self.joined_at[places[is_joined]]
        return found


NO_DATA = SpanData(0, bytes(PADDING_SIZE))


class SpanReader:
    """Reads the spans of one capture."""

    def __init__(self, index: Index, read: Callable[[int, int], bytes]) -> None:
        """`read` reads bytes of the file from an offset."""
        self._index = index
        self._read = read

    def read_span(self, part: int, *frames: FrameColumns) -> SpanData:
        """The data of the span that contains most of the frames of a part, also those of several segments.

        Args: frames: those that will be read; data far from all of them may be left out.
        """
        if not self._index.spans:
            return NO_DATA
        if part < 0:
            # What the end of the capture completes has no span of its own; the last one has the data closest to it.
            part = len(self._index.spans) - 1
        base, size = self._index.spans[part]
        fragments = _Fragments.of_part(self._index, part)
        split = fragments.find_frames(frames, base, size)
        data = read_sparse(self._read, base, size, self._ranges(frames, fragments, split, base, size))
        if not len(split.at):
            return SpanData(base, data + bytes(PADDING_SIZE), len(data))
        pieces, joined_at = fragments.join(split, base, data)
        return SpanData(base, b"".join([data, *pieces, bytes(PADDING_SIZE)]), len(data), split.at, joined_at)

    @staticmethod
    def _ranges(
        frames: tuple[FrameColumns, ...], fragments: _Fragments, split: _SplitFrames, base: int, size: int
    ) -> tuple[Ints, Ints]:
        """Where the bytes of frames begin and stop."""
        at = np.concatenate([each.at for each in frames])
        stop = at + np.concatenate([each.size for each in frames])
        in_span = (at >= base) & (stop <= base + size)
        is_needed = fragments.of_frames(split)
        begins = np.concatenate([at[in_span], fragments.at[is_needed]])
        stops = np.concatenate([stop[in_span], (fragments.at + fragments.size)[is_needed]])
        return begins, stops


class _SplitFrames(NamedTuple):
    """Frames of several segments: `at` as in `FrameColumns`, ascending; their first fragment, and the one after all."""

    at: Ints
    size: Ints
    first: Ints
    stop: Ints


class _Fragments(NamedTuple):
    """The body fragments of a part: offset in the file and size. start: the number of the first one."""

    start: int
    at: Ints
    size: Ints

    @classmethod
    def of_part(cls, index: Index, part: int) -> _Fragments:
        """The fragments of the frames that a span completes, except those of midstream flows."""
        columns = index.columns
        at, size = (columns[f"{part}.fragments.{name}"].astype(np.int64) for name in ("at", "size"))
        return cls(int(columns["fragments.first"][part]), at, size)

    def find_frames(self, frames: tuple[FrameColumns, ...], base: int, size: int) -> _SplitFrames:
        """The frames whose fragments are all in the span."""
        if not len(self.at):
            return _SplitFrames(*[NO_NUMBERS] * 4)
        rows = zip(*((each.at, each.size, each.fragment_count) for each in frames), strict=True)
        at, frame_size, count = (np.concatenate(parts) for parts in rows)
        first = -1 - at - self.start
        is_here = (at < 0) & (frame_size >= 0) & (count > 0) & (first >= 0) & (first + count <= len(self.at))
        at, frame_size, first, stop = at[is_here], frame_size[is_here], first[is_here], (first + count)[is_here]
        is_outside = (self.at < base) | (self.at + self.size > base + size)
        outside_before = np.append(0, np.cumsum(is_outside))
        size_before = np.append(0, np.cumsum(self.size))
        is_whole = outside_before[stop] == outside_before[first]
        is_whole &= size_before[stop] - size_before[first] == frame_size
        order = np.nonzero(is_whole)[0][np.argsort(at[is_whole], kind="stable")]
        return _SplitFrames(at[order], frame_size[order], first[order], stop[order])

    def of_frames(self, split: _SplitFrames) -> Bools:
        """Which fragments are those of frames."""
        change = np.zeros(len(self.at) + 1, dtype=np.int64)
        np.add.at(change, split.first, 1)
        np.add.at(change, split.stop, -1)
        is_needed: Bools = np.cumsum(change)[:-1] > 0
        return is_needed

    def join(self, split: _SplitFrames, base: int, data: bytes) -> tuple[list[bytes], Ints]:
        """The bytes of frames, fragment by fragment, and where each frame begins behind the data."""
        begins, sizes = (self.at - base).tolist(), self.size.tolist()
        pieces = [
            data[begins[number] : begins[number] + sizes[number]]
            for first, stop in zip(split.first.tolist(), split.stop.tolist(), strict=True)
            for number in range(first, stop)
        ]
        return pieces, len(data) + np.cumsum(split.size) - split.size
