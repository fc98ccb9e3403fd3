"""From frame to frame along the streams: only the lengths are read, and nothing is joined.

Most frames fill one segment; runs of those are taken at once. The others are hopped over one by one.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kwire.capture.index.building.flows import Flows
from kwire.capture.index.building.order import Pieces
from kwire.capture.index.walking.heads import gather
from kwire.capture.options import FRAME_SIZE_MAX

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]

Read = Callable[[int, int], bytes]
"""`size` bytes of the file from an offset."""


class Held(NamedTuple):
    """A stretch of the file that is in memory, and where it begins."""

    base: int
    data: bytes


class Frames(NamedTuple):
    """Frames, one row each; `side` and times as in `Pieces`.

    offset: of the length field in the stream, from its first byte. size: without the length field. at: where the body
    begins in the file, or -1 - n where it lies in several pieces, of which the first is the n-th of `parts`.
    """

    side: Ints
    packet: Ints
    ts: Ints
    end_ts: Ints
    offset: Ints
    size: Ints
    at: Ints
    parts: Ints
    done: Ints

    def of(self, chosen: Ints) -> Frames:
        """Some of them."""
        return Frames(*(column[chosen] for column in self))


# The pieces of bodies in beginnings of flows are numbered from here on: so many no span reaches.
BEGUN_FIRST = 1 << 40
NO_FRAMES = Frames(*[np.zeros(0, dtype=np.int64)] * 9)


@dataclass(slots=True)
class Parts:
    """The pieces of bodies that lie in several: offset in the file, and size. Only those of one span are held.

    side: of the flow that each belongs to. first: how many there were before.
    """

    at: array[int] = field(default_factory=lambda: array("q"))
    size: array[int] = field(default_factory=lambda: array("q"))
    side: array[int] = field(default_factory=lambda: array("q"))
    first: int = 0

    def taken(self) -> Places:
        """Those of a span, which are held no longer."""
        found = Places(*(np.array(each, dtype=np.int64) for each in (self.at, self.size, self.side)))
        self.first += len(self.at)
        self.at, self.size, self.side = array("q"), array("q"), array("q")
        return found


class Places(NamedTuple):
    """Pieces of bodies, in the order of the sides of flows; columns as in `Parts`."""

    at: Ints
    size: Ints
    side: Ints


def frames(flows: Flows, found: Pieces, held: Held, read: Read, parts: Parts) -> tuple[Frames, Pieces]:
    """The frames that these segments complete, and the segments of those that they only begin.

    Args: found: in the order of their streams. held: what of the file is at hand; `read` has the rest.
    """
    if not len(found.side):
        return NO_FRAMES, found
    is_whole = _fills(found, *held)
    firsts = np.nonzero(np.append(True, found.side[1:] != found.side[:-1]))[0]
    stops = np.append(firsts[1:], len(found.side))
    sides = found.side[firsts]
    flows.next[sides] = (found.offset + found.size)[stops - 1]
    # Where nothing is left over from before, the first segment begins a frame.
    all_whole = np.logical_and.reduceat(is_whole, firsts)
    flows.frame_at[sides] = flows.next[sides]
    hopper = _Hopper(flows, found, is_whole, read, parts)
    for index in np.nonzero(~all_whole)[0].tolist():
        hopper.hop(int(firsts[index]), int(stops[index]))
    whole = np.nonzero(is_whole)[0]
    start = flows.start[found.side[whole]]
    ts, nothing = found.ts[whole], np.zeros(len(whole), dtype=np.int64)
    simple = Frames(
        found.side[whole],
        found.number[whole],
        ts,
        ts,
        found.offset[whole] - start,
        found.size[whole] - 4,
        found.at[whole] + 4,
        nothing,
        found.done[whole],
    )
    return hopper.merged(simple), hopper.left


def _fills(found: Pieces, base: int, data: bytes) -> npt.NDArray[np.bool_]:
    """Whether a segment that lies in the span holds one frame, and nothing else, if a frame begins with it."""
    at = found.at - base
    can = np.nonzero((at >= 0) & (found.size >= 4) & (at + 4 <= len(data)))[0]
    sizes = gather(data, at[can], 4).view(">i4").astype(np.int64)[:, 0]
    out = np.zeros(len(at), dtype=np.bool_)
    out[can] = sizes + 4 == found.size[can]
    return out


class _Hopper:
    """Goes along the sides that have other segments than such of one frame each."""

    def __init__(self, flows: Flows, found: Pieces, is_whole: npt.NDArray[np.bool_], read: Read, parts: Parts) -> None:
        self._flows = flows
        self._found = found
        self._is_whole = is_whole
        self._read = read
        self._parts = parts
        self._rows: list[tuple[int, ...]] = []
        self._left: list[Pieces] = []

    @property
    def left(self) -> Pieces:
        """The segments of frames that are not whole yet."""
        if not self._left:
            return self._found.of(np.zeros(0, dtype=np.int64))
        return Pieces(*(np.concatenate(columns) for columns in zip(*self._left, strict=True)))

    def merged(self, simple: Frames) -> Frames:
        """Those that fill a segment, and those found here, side by side in the order of their streams."""
        if not self._rows:
            return simple
        columns = np.array(self._rows, dtype=np.int64).T
        both = Frames(*(np.concatenate(pair) for pair in zip(simple, columns, strict=True)))
        return both.of(np.lexsort((both.offset, both.side)))

    def hop(self, first: int, stop: int) -> None:
        """One side of one flow: its segments `first` to `stop`."""
        found = self._found
        own = slice(first, stop)
        side = int(found.side[first])
        start = int(self._flows.start[side])
        offsets, sizes = found.offset[own].tolist(), found.size[own].tolist()
        ats, stamps = found.at[own].tolist(), found.ts[own].tolist()
        numbers, done = found.number[own].tolist(), found.done[own].tolist()
        is_whole = self._is_whole[own].tolist()
        ends = [offset + size for offset, size in zip(offsets, sizes, strict=True)]
        count, index, skip = stop - first, 0, 0
        rows = self._rows
        while index < count:
            if not skip and is_whole[index]:
                index += 1
                continue
            # A segment in the middle of which a frame begins is no frame of its own.
            self._is_whole[first + index] = False
            begin = offsets[index] + skip
            size = self._size(index, skip, ats, sizes)
            if size is None:
                break
            if not 0 <= size <= FRAME_SIZE_MAX:
                self._flows.spoil(np.array([side >> 1]), "bad_length")
                return
            end = begin + 4 + size
            last = index if end <= ends[index] else bisect_left(ends, end, index)
            if last >= count:
                break
            at, parts = self._place((index, last), skip, (ats, sizes), end - offsets[last])
            self._parts.side.extend([side] * parts)
            low = high = stamps[index]
            if last > index:
                low, high = min(stamps[index : last + 1]), max(stamps[index : last + 1])
                self._is_whole[first + index : first + last + 1] = False
            rows.append((side, numbers[index], low, high, begin - start, size, at, parts, done[last]))
            index, skip = (last + 1, 0) if end == ends[last] else (last, end - offsets[last])
        if index < count:
            self._keep(first + index, stop, skip)
            self._flows.frame_at[side] = offsets[index] + skip

    def _size(self, index: int, skip: int, ats: list[int], sizes: list[int]) -> int | None:
        """The length that a frame states; None where its four bytes are not all there."""
        have = b""
        while len(have) < 4:
            if index == len(ats):
                return None
            have += self._read(ats[index] + skip, min(4 - len(have), sizes[index] - skip))
            index, skip = index + 1, 0
        return int.from_bytes(have, "big", signed=True)

    def _place(
        self, span: tuple[int, int], skip: int, places: tuple[list[int], list[int]], stop: int
    ) -> tuple[int, int]:
        """Where the body lies: its offset in the file, or its pieces and their count."""
        (index, last), (ats, sizes) = span, places
        skip += 4
        while skip >= sizes[index] and index < last:
            skip, index = skip - sizes[index], index + 1
        if index == last:
            return ats[index] + skip, 0
        parts = self._parts
        at = -1 - parts.first - len(parts.at)
        parts.at.extend([ats[index] + skip, *ats[index + 1 : last + 1]])
        parts.size.extend([sizes[index] - skip, *sizes[index + 1 : last], stop])
        return at, last - index + 1

    def _keep(self, first: int, stop: int, skip: int) -> None:
        """These segments wait for the rest of their frame; what of the first one belongs to another is left out."""
        self._is_whole[first:stop] = False
        kept = Pieces(*(column[first:stop].copy() for column in self._found))
        kept.offset[0] += skip
        kept.at[0] += skip
        kept.size[0] -= skip
        self._left.append(kept)
