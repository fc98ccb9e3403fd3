"""Frames as columns, the fragments of their bodies, and the gaps between them."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple, Protocol

import numpy as np

from kwire.capture.index.arrays import NO_NUMBERS, Bools, Ints
from kwire.capture.model import Flow, StreamGap

ReadAt = Callable[[int, int], bytes]
"""Reads `size` bytes of the file from an offset."""


class FileWindow(NamedTuple):
    """A part of the file in memory, with its offset."""

    base: int
    data: bytes

    def read(self, at: int, size: int, read: ReadAt) -> bytes:
        """Bytes of the file. Args: read: reads what is not in memory."""
        begin = at - self.base
        if begin >= 0 and begin + size <= len(self.data):
            return self.data[begin : begin + size]
        return read(at, size)


NO_WINDOW = FileWindow(0, b"")


class FrameColumns(NamedTuple):
    """Frames, one row each; `side` and times as in `StreamPieces`.

    offset: of the length field, from the first byte of the stream. size: without the length field. at: file offset of
    the body; -1 - n if the body has several fragments, the first of which is fragment number n. completed_by: the
    moment at which it was complete.
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


NO_FRAMES = FrameColumns(*[NO_NUMBERS] * 9)
DAMAGES = ("gap", "snaplen", "end", "frame_limit")
"""The last fragment of an incomplete body has no bytes; its place is the index of the damage."""
NO_ID = 1 << 32
"""Stands for a correlation id where there is none, or where no response can follow."""
# Fragments of one span are ordered by kind, then by side: requests found one by one, cut ones, and so for responses.
KIND_KEY = 1 << 40


@dataclass(slots=True)
class FragmentBuffer:
    """The fragments of bodies that are not contiguous in the file: file offset and size; only those of one span.

    side: the side that sent each, plus `KIND_KEY` times its kind. first: the number of fragments in earlier spans.
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

    def first_parts(self, frames: FrameColumns, size: int) -> tuple[Ints, Bools]:
        """Where the first part of each body begins in the file, and whether it has these many bytes."""
        rows = np.nonzero(frames.at < 0)[0]
        if not len(rows):
            return frames.at, np.ones(len(frames.at), dtype=np.bool_)
        at, is_enough = frames.at.copy(), np.ones(len(frames.at), dtype=np.bool_)
        # A pending frame of an earlier span is not among these.
        numbers = -1 - frames.at[rows] - self.first
        at[rows] = np.frombuffer(self.at, dtype=np.int64)[numbers]
        is_enough[rows] = np.frombuffer(self.size, dtype=np.int64)[numbers] >= size
        return at, is_enough


class BodyFragments(NamedTuple):
    """Body fragments, ordered by side; columns as in `FragmentBuffer`."""

    at: Ints
    size: Ints
    side: Ints

    def select(self, chosen: Ints) -> BodyFragments:
        """The rows with these indexes."""
        return BodyFragments(*(column[chosen] for column in self))


class FoundFrames(NamedTuple):
    """Frames by side and offset, and how many bytes of each precede its first missing one."""

    frames: FrameColumns
    have: Ints


class StreamGapRow(NamedTuple):
    """A `StreamGap` of a flow number. completed_by: the packet at which it was found; its moment while it is built."""

    flow: int
    is_request: bool
    ts: int
    offset: int
    missing: int
    skipped: int
    kind: str
    detail: str
    completed_by: int

    def to_gap(self, flow: Flow) -> StreamGap:
        """The gap as a value."""
        return StreamGap(flow, *self[1:-1])


def sort_gaps(rows: Iterable[StreamGapRow]) -> list[StreamGapRow]:
    """The rows in the order in which they were found."""
    return sorted(rows, key=attrgetter("completed_by", "flow", "is_request", "offset"))


class MessageTimes(NamedTuple):
    """Requests or responses of one flow, in order: their moments, correlation ids, and times in nanoseconds."""

    moments: Ints
    ids: Ints
    ts: Ints


class OpenRequests(Protocol):
    """The pending requests of one flow, while its responses are found."""

    def add_response(self, moment: int, correlation_id: int, end_ts: int, /) -> None:
        """A response was found that was not known from the beginning."""

    def at(self, moment: int, /) -> dict[int, int]:
        """By correlation id, the requests that are pending at a moment."""


FindOpenRequests = Callable[[int, MessageTimes], OpenRequests]
"""Returns the pending requests of a flow. Args: the flow; the responses that are found for certain."""
