"""Find frames in ordered segments by reading only their length fields; no payload is copied.

Most frames fill exactly one segment; runs of those are found together. The others are found one by one.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from kwire.capture.index.arrays import NO_NUMBERS, Bools, Ints, concatenate_rows, find_groups
from kwire.capture.index.flows.flow_table import FlowTable
from kwire.capture.index.flows.segment_columns import NO_SEGMENTS, SegmentColumns
from kwire.capture.index.scan.packet_headers import gather_bytes
from kwire.capture.options import FRAME_SIZE_MAX

ReadAt = Callable[[int, int], bytes]
"""Reads `size` bytes of the file from an offset."""


class FileWindow(NamedTuple):
    """A part of the file in memory, with its offset."""

    base: int
    data: bytes


class FrameColumns(NamedTuple):
    """Frames, one row each; `side` and times as in `SegmentColumns`.

    offset: of the length field, from the first byte of the stream. size: without the length field. at: file offset of
    the body; -1 - n if the body has several fragments, the first of which is fragment number n.
    """

    side: Ints
    packet: Ints
    ts: Ints
    end_ts: Ints
    offset: Ints
    size: Ints
    at: Ints
    fragment_count: Ints
    completed_by: Ints

    def select(self, chosen: Ints) -> FrameColumns:
        """The rows with these indexes."""
        return FrameColumns(*(column[chosen] for column in self))


# The body fragments of midstream flows are numbered from here on; the numbers of other fragments are smaller.
MIDSTREAM_FRAGMENTS_START = 1 << 40
NO_FRAMES = FrameColumns(*[NO_NUMBERS] * 9)


@dataclass(slots=True)
class FragmentBuffer:
    """The fragments of bodies that are not contiguous in the file: file offset and size; only those of one span.

    side: the side that sent each. first: the number of fragments in earlier spans.
    """

    at: array[int] = field(default_factory=lambda: array("q"))
    size: array[int] = field(default_factory=lambda: array("q"))
    side: array[int] = field(default_factory=lambda: array("q"))
    first: int = 0

    def drain_fragments(self) -> BodyFragments:
        """Return the fragments of a span and remove them."""
        fragments = BodyFragments(*(np.array(column, dtype=np.int64) for column in (self.at, self.size, self.side)))
        self.first += len(self.at)
        self.at, self.size, self.side = array("q"), array("q"), array("q")
        return fragments


class BodyFragments(NamedTuple):
    """Body fragments, ordered by side; columns as in `FragmentBuffer`."""

    at: Ints
    size: Ints
    side: Ints

    def select(self, chosen: Ints) -> BodyFragments:
        """The rows with these indexes."""
        return BodyFragments(*(column[chosen] for column in self))


def scan_frames(
    flows: FlowTable, segments: SegmentColumns, window: FileWindow, read: ReadAt, fragments: FragmentBuffer
) -> tuple[FrameColumns, SegmentColumns]:
    """The frames that these segments complete, and the segments of incomplete frames.

    Args: segments: in stream order. window: the part of the file in memory; other parts are read with `read`.
    """
    if not len(segments.side):
        return NO_FRAMES, segments
    is_whole = _holds_one_frame(segments, *window)
    firsts = find_groups(segments.side)
    stops = np.append(firsts[1:], len(segments.side))
    sides = segments.side[firsts]
    flows.next_seq[sides] = (segments.offset + segments.size)[stops - 1]
    # Without an incomplete frame from an earlier span, the first segment begins a frame.
    all_whole = np.logical_and.reduceat(is_whole, firsts)
    flows.frame_seq[sides] = flows.next_seq[sides]
    scanner = _FrameScanner(flows, segments, is_whole, read, fragments)
    for index in np.nonzero(~all_whole)[0].tolist():
        scanner.scan_side(int(firsts[index]), int(stops[index]))
    whole = np.nonzero(is_whole)[0]
    side, offset, size, at, ts, number, _, completed_by = segments.select(whole)
    stream_offset = offset - flows.start_seq[side]
    no_fragments = np.zeros(len(whole), dtype=np.int64)
    simple = FrameColumns(side, number, ts, ts, stream_offset, size - 4, at + 4, no_fragments, completed_by)
    return scanner.merge_frames(simple), scanner.partial_segments


def _holds_one_frame(segments: SegmentColumns, base: int, data: bytes) -> Bools:
    """Whether a segment in the window is exactly one frame, if a frame begins with it."""
    at = segments.at - base
    is_readable = np.nonzero((at >= 0) & (segments.size >= 4) & (at + 4 <= len(data)))[0]
    sizes = gather_bytes(data, at[is_readable], 4).view(">i4").astype(np.int64)[:, 0]
    out = np.zeros(len(at), dtype=np.bool_)
    out[is_readable] = sizes + 4 == segments.size[is_readable]
    return out


class _FrameScanner:
    """Scans the sides that have other segments than one frame each."""

    def __init__(
        self, flows: FlowTable, segments: SegmentColumns, is_whole: Bools, read: ReadAt, fragments: FragmentBuffer
    ) -> None:
        self._flows = flows
        self._segments = segments
        self._is_whole = is_whole
        self._read = read
        self._fragments = fragments
        self._rows: list[tuple[int, ...]] = []
        self._partial: list[SegmentColumns] = []

    @property
    def partial_segments(self) -> SegmentColumns:
        """The segments of incomplete frames."""
        return concatenate_rows(*self._partial) if self._partial else NO_SEGMENTS

    def merge_frames(self, simple: FrameColumns) -> FrameColumns:
        """Merge these frames, each one segment, with those found here, by side and stream offset."""
        if not self._rows:
            return simple
        merged = concatenate_rows(simple, FrameColumns(*np.array(self._rows, dtype=np.int64).T))
        return merged.select(np.lexsort((merged.offset, merged.side)))

    def scan_side(self, first: int, stop: int) -> None:
        """Scan one side: its segments from `first` to `stop`."""
        side = int(self._segments.side[first])
        start = int(self._flows.start_seq[side])
        columns = (column[first:stop].tolist() for column in self._segments)
        _, offsets, sizes, ats, stamps, numbers, _, completed_by = columns
        is_whole = self._is_whole[first:stop].tolist()
        ends = [offset + size for offset, size in zip(offsets, sizes, strict=True)]
        count, index, skip = stop - first, 0, 0
        rows = self._rows
        while index < count:
            if not skip and is_whole[index]:
                index += 1
                continue
            # A frame begins inside this segment, so the segment is not one frame.
            self._is_whole[first + index] = False
            begin = offsets[index] + skip
            size = self._frame_size(index, skip, ats, sizes)
            if size is None:
                break
            if not 0 <= size <= FRAME_SIZE_MAX:
                self._flows.mark_unclean(np.array([side >> 1]), "bad_length")
                return
            end = begin + 4 + size
            last = index if end <= ends[index] else bisect_left(ends, end, index)
            if last >= count:
                break
            at, fragments = self._locate_body((index, last), skip, (ats, sizes), end - offsets[last])
            self._fragments.side.extend([side] * fragments)
            low = high = stamps[index]
            if last > index:
                low, high = min(stamps[index : last + 1]), max(stamps[index : last + 1])
                self._is_whole[first + index : first + last + 1] = False
            rows.append((side, numbers[index], low, high, begin - start, size, at, fragments, completed_by[last]))
            index, skip = (last + 1, 0) if end == ends[last] else (last, end - offsets[last])
        if index < count:
            self._keep_partial(first + index, stop, skip)
            self._flows.frame_seq[side] = offsets[index] + skip

    def _frame_size(self, index: int, skip: int, ats: list[int], sizes: list[int]) -> int | None:
        """The length field of a frame; None if its four bytes are not all captured."""
        length = b""
        while len(length) < 4:
            if index == len(ats):
                return None
            length += self._read(ats[index] + skip, min(4 - len(length), sizes[index] - skip))
            index, skip = index + 1, 0
        return int.from_bytes(length, "big", signed=True)

    def _locate_body(
        self, span: tuple[int, int], skip: int, ranges: tuple[list[int], list[int]], stop: int
    ) -> tuple[int, int]:
        """The file offset of the body; or the number of its first fragment, and their count."""
        (index, last), (ats, sizes) = span, ranges
        skip += 4
        while skip >= sizes[index] and index < last:
            skip, index = skip - sizes[index], index + 1
        if index == last:
            return ats[index] + skip, 0
        fragments = self._fragments
        at = -1 - fragments.first - len(fragments.at)
        fragments.at.extend([ats[index] + skip, *ats[index + 1 : last + 1]])
        fragments.size.extend([sizes[index] - skip, *sizes[index + 1 : last], stop])
        return at, last - index + 1

    def _keep_partial(self, first: int, stop: int, skip: int) -> None:
        """Keep these segments for the next span, without the bytes of the first one that precede the frame."""
        self._is_whole[first:stop] = False
        partial = SegmentColumns(*(column[first:stop].copy() for column in self._segments))
        partial.offset[0] += skip
        partial.at[0] += skip
        partial.size[0] -= skip
        self._partial.append(partial)
