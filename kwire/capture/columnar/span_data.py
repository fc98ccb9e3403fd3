"""Parts of a capture in memory, with the frames of several segments joined behind it, so that all are read alike."""

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
    from kwire.capture.index.stored_payload import Extent


class SpanData(NamedTuple):
    """Parts of a capture, one behind the other, followed by joined frames and padding.

    parts: position and size of each. joined: what `FrameColumns.at` has for each joined frame, ascending; joined_at:
    where it is in the data.
    """

    data: bytes
    parts: tuple[Extent, ...] = ()
    joined: Ints = NO_NUMBERS
    joined_at: Ints = NO_NUMBERS

    def positions(self, at: Ints) -> Ints:
        """Where frames are in the data; negative for those that are not. Args: at: as in `FrameColumns`."""
        found, begin = np.full(len(at), -1, dtype=np.int64), 0
        for position, size in self.parts:
            found = np.where((at >= position) & (at < position + size), at - position + begin, found)
            begin += size
        if len(self.joined):
            rows = np.nonzero(at < 0)[0]
            places = np.minimum(np.searchsorted(self.joined, at[rows]), len(self.joined) - 1)
            is_joined = self.joined[places] == at[rows]
            found[rows[is_joined]] = self.joined_at[places[is_joined]]
        return found


NO_DATA = SpanData(bytes(PADDING_SIZE))


class SpanReader:
    """Reads the spans of one capture."""

    def __init__(self, index: Index, read: Callable[[int, int], bytes]) -> None:
        """`read` reads bytes of the capture from a position."""
        self._index = index
        self._read = read

    def read_span(self, part: int, *frames: FrameColumns) -> SpanData:
        """The data of the span that contains most of the frames of a part, also those of several segments.

        Args: frames: those that will be read; data far from all of them may be left out.
        """
        extents = self._index.extents(part)
        if not extents:
            return NO_DATA
        fragments = _Fragments.of_part(self._index, part)
        split = fragments.find_frames(frames, SpanData(b"", tuple(extents)))
        ranges = self._ranges(frames, fragments, split)
        extents = [(at, size) for at, size in extents if bool(((ranges[0] >= at) & (ranges[0] < at + size)).any())]
        datas = [read_sparse(self._read, *extent, ranges) for extent in extents]
        span = SpanData(b"".join(datas), tuple((at, len(data)) for (at, _), data in zip(extents, datas, strict=True)))
        pieces, joined_at = fragments.join(split, span) if len(split.at) else ([], NO_NUMBERS)
        return span._replace(
            data=b"".join([span.data, *pieces, bytes(PADDING_SIZE)]), joined=split.at, joined_at=joined_at
        )

    @staticmethod
    def _ranges(frames: tuple[FrameColumns, ...], fragments: _Fragments, split: _SplitFrames) -> tuple[Ints, Ints]:
        """Where the bytes of frames begin and stop."""
        at, size = (np.concatenate([getattr(each, name) for each in frames]) for name in ("at", "size"))
        is_plain, is_needed = (at >= 0) & (size > 0), fragments.of_frames(split)
        begins = np.concatenate([at[is_plain], fragments.at[is_needed]])
        stops = begins + np.concatenate([size[is_plain], fragments.size[is_needed]])
        return begins, stops


class _SplitFrames(NamedTuple):
    """Frames of several segments: `at` as in `FrameColumns`, ascending; their first fragment, and the one after all."""

    at: Ints
    size: Ints
    first: Ints
    stop: Ints


class _Fragments(NamedTuple):
    """The body fragments of a part: position and size. start: the number of the first one."""

    start: int
    at: Ints
    size: Ints

    @classmethod
    def of_part(cls, index: Index, part: int) -> _Fragments:
        """The fragments of the frames that a span completes."""
        return cls(*index.fragments(part))

    def find_frames(self, frames: tuple[FrameColumns, ...], span: SpanData) -> _SplitFrames:
        """The frames whose fragments are all in the span."""
        if not len(self.at):
            return _SplitFrames(*[NO_NUMBERS] * 4)
        rows = zip(*((each.at, each.size, each.fragment_count) for each in frames), strict=True)
        at, frame_size, count = (np.concatenate(parts) for parts in rows)
        first = -1 - at - self.start
        is_here = (at < 0) & (frame_size >= 0) & (count > 0) & (first >= 0) & (first + count <= len(self.at))
        at, frame_size, first, stop = at[is_here], frame_size[is_here], first[is_here], (first + count)[is_here]
        is_outside = span.positions(self.at) < 0
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

    def join(self, split: _SplitFrames, span: SpanData) -> tuple[list[bytes], Ints]:
        """The bytes of frames, fragment by fragment, and where each frame begins behind the data."""
        data = span.data
        begins, sizes = span.positions(self.at).tolist(), self.size.tolist()
        pieces = [
            data[begins[number] : begins[number] + sizes[number]]
            for first, stop in zip(split.first.tolist(), split.stop.tolist(), strict=True)
            for number in range(first, stop)
        ]
        return pieces, len(data) + np.cumsum(split.size) - split.size
