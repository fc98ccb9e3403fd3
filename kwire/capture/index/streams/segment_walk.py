"""Treat the segments of one side that are out of order, one by one, and those that are buffered because of them."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from kwire.capture.index.arrays import Ints, concatenate_rows
from kwire.capture.index.streams import stream_pieces
from kwire.capture.index.streams.stream_pieces import (
    AFTER_CAPTURE,
    AFTER_GAP,
    LOST,
    SNAPLEN,
    PieceRow,
    StreamPieces,
    moment_of,
)
from kwire.capture.tcp.stream_limits import BUFFERED_COUNT_MAX, BUFFERED_SIZE_MAX, RESENT_DISTANCE_MAX

SkipNumber = Callable[[int, int, int], int]
"""The packet at which a gap is given up, `AFTER_CAPTURE` if it is none of the span.

Args: the side; where the gap begins; the number in its flow of the first packet behind it.
"""

_OFFSET = itemgetter(0)


class Segment(NamedTuple):
    """A segment, or a part of one. arrival: number of its packet in the flow."""

    offset: int
    size: int
    missing: int
    at: int
    ts: int
    number: int
    arrival: int


class Buffer:
    """The segments of one side after its first gap, in stream order; they do not overlap. size: of their bytes."""

    def __init__(self) -> None:
        """There are none."""
        self.segments: list[Segment] = []
        self.size = 0

    def add(self, new: Segment) -> None:
        """Add the bytes that are not buffered yet: where segments overlap, the bytes that came first are used."""
        segments = self.segments
        if not segments or new.offset >= segments[-1].offset + segments[-1].size:
            parts = [new] if new.size or new.missing else []
        else:
            parts = _new_parts(segments, new)
        for part in parts:
            insort(segments, part, key=_OFFSET)
            self.size += part.size

    def copy(self) -> Buffer:
        """The same segments in a buffer of their own."""
        other = Buffer()
        other.segments, other.size = self.segments.copy(), self.size
        return other

    @property
    def is_over_limit(self) -> bool:
        """Whether the first gap is given up for what is buffered after it."""
        return len(self.segments) > BUFFERED_COUNT_MAX or self.size > BUFFERED_SIZE_MAX


class Segments(NamedTuple):
    """The segments of a span, by side; columns as the fields of `Segment`. end: the offset after each."""

    offset: Ints
    size: Ints
    missing: Ints
    at: Ints
    ts: Ints
    number: Ints
    arrival: Ints
    side: Ints
    end: Ints

    def select(self, chosen: Ints) -> Segments:
        """The rows with these indexes."""
        return Segments(*(column[chosen] for column in self))

    def row(self, index: int) -> Segment:
        """One segment."""
        return Segment(*(int(column[index]) for column in self[:7]))


class SpanPieces:
    """The pieces of a span: its segments as they are, except those that are treated one by one."""

    def __init__(self, segments: Segments, rows: list[PieceRow]) -> None:
        """Args: rows: further pieces."""
        self._segments = segments
        self.is_piece = np.ones(len(segments.side), dtype=np.bool_)
        self.moment = stream_pieces.moments_of(segments.number)
        self.rows = rows

    def build(self) -> StreamPieces:
        """All pieces, by side and offset."""
        segments = self._segments
        offset, size, missing, at, ts, number, _, side, _ = segments
        own = StreamPieces(side, offset, size, at, ts, number, self.moment)
        has_bytes, has_rest = self.is_piece & (size > 0), self.is_piece & (missing > 0)
        is_plain = not self.rows and not bool(has_rest.any())
        if is_plain:
            return own if bool(has_bytes.all()) else own.select(has_bytes)
        rest = np.nonzero(has_rest)[0]
        none = np.zeros(len(rest), dtype=np.int64)
        cut = StreamPieces(
            side[rest], (offset + size)[rest], missing[rest], none + SNAPLEN, ts[rest], none, self.moment[rest]
        )
        merged = concatenate_rows(own.select(has_bytes), cut, stream_pieces.piece_columns(self.rows))
        return merged.select(np.lexsort((merged.offset, merged.side)))


class Stream:
    """One stream while its segments are treated one by one, as `TcpStreamReassembler` treats all of them.

    next: its next byte. last_ts: of the latest one. not_before: the moment of the latest piece; later pieces of the
    stream have no earlier moment.
    """

    def __init__(self, side: int, next_offset: int, last_ts: int, buffer: Buffer) -> None:
        self.side = side
        self.next = next_offset
        self.last_ts = last_ts
        self.buffer = buffer
        self.not_before = 0

    def add(self, segment: Segment, moment: int, rows: list[PieceRow]) -> None:
        """Add a segment."""
        if segment.offset > self.next or self.buffer.segments:
            self.buffer.add(segment)
            self.deliver_buffered(moment, rows)
        else:
            self._deliver(segment, moment, rows)

    def skip_gap(self, moment: int, rows: list[PieceRow]) -> None:
        """Give up the first gap."""
        first = self.buffer.segments[0]
        if first.offset > self.next:
            self.add_missing(first.ts, first.offset - self.next, LOST, moment, rows)
        self.deliver_buffered(moment, rows)

    def add_missing(self, ts: int, size: int, cause: int, moment: int, rows: list[PieceRow]) -> None:
        """Add missing bytes."""
        self.not_before = max(self.not_before, moment)
        rows.append((self.side, self.next, size, cause, ts, 0, self.not_before))
        self.next += size

    def deliver_buffered(self, moment: int, rows: list[PieceRow]) -> None:
        """Deliver the buffered segments up to the first gap."""
        buffer, count = self.buffer, 0
        for segment in buffer.segments:
            if segment.offset > self.next:
                break
            self._deliver(segment, moment, rows)
            buffer.size -= segment.size
            count += 1
        del buffer.segments[:count]

    def _deliver(self, segment: Segment, moment: int, rows: list[PieceRow]) -> None:
        """Deliver the new bytes of a segment that begins at or before the next byte."""
        offset, size, missing, at, ts, number, _ = segment
        known = self.next - offset
        if known >= size + missing:
            return
        self.last_ts = ts
        if known < size:
            self.not_before = max(self.not_before, moment)
            rows.append((self.side, self.next, size - known, at + known, ts, number, self.not_before))
            self.next += size - known
        if missing:
            self.add_missing(ts, offset + size + missing - self.next, SNAPLEN, moment, rows)


class SideWalk:
    """Treats the segments of one side that are out of order, and those that are buffered because of them."""

    def __init__(
        self, stream: Stream, span: tuple[Segments, SpanPieces, SkipNumber], own: tuple[int, int], breaks: Ints
    ) -> None:
        """Args: own: the rows of the side, the first and the one after the last. breaks: those out of order."""
        self._stream = stream
        self._segments, self._pieces, self._skip_number = span
        self._first, self._stop = own
        self._breaks = breaks.tolist()

    def run(self) -> bool:
        """Treat the segments of the span. Returns: False if one is as far back as only those of other connections."""
        stream, index = self._stream, self._first
        while True:
            if not stream.buffer.segments:
                at = bisect_left(self._breaks, index)
                stop = self._breaks[at] if at < len(self._breaks) else self._stop
                if index < stop and self._segments.offset[index] != stream.next:
                    # It would have filled a gap that was given up before.
                    stop = index
                if index < stop:
                    # In order.
                    stream.next = int(self._segments.end[stop - 1])
                    stream.last_ts = int(self._segments.ts[stop - 1])
                if stop == self._stop:
                    return True
                index = stop
                passed = self._pass_gap(index)
                if passed:
                    index = passed
                    continue
                if not self._add(index):
                    return False
                index += 1
                continue
            first = stream.buffer.segments[0]
            skip_at = self._skip_number(stream.side, stream.next, first.arrival)
            while index < self._stop and int(self._segments.number[index]) <= skip_at:
                before = stream.next
                if not self._add(index):
                    return False
                index += 1
                buffered = stream.buffer.segments
                if not buffered or buffered[0] is not first or stream.next != before or stream.buffer.is_over_limit:
                    break
            else:
                if skip_at == AFTER_CAPTURE:
                    return True
                self._skip(skip_at)
                continue
            self._skip_if_due(int(self._segments.number[index - 1]))

    def _pass_gap(self, index: int) -> int:
        """Give up a gap that nothing fills, and those that follow before it is given up; return the row behind, or 0.

        All segments from the gap on are buffered until then, so they become pieces as they are, at another moment.
        """
        segments, stream = self._segments, self._stream
        begin, skip_at, first = stream.next, 0, index
        gaps: list[tuple[int, int, int, int]] = []
        while True:
            if segments.offset[index] <= begin:
                return 0
            own = self._skip_number(stream.side, begin, int(segments.arrival[index]))
            if own == AFTER_CAPTURE:
                at = bisect_left(self._breaks, index + 1)
                if at < len(self._breaks) and segments.number[self._breaks[at]] <= skip_at:
                    # It may fill one of the gaps before they are given up.
                    return 0
                break
            skip_at = max(skip_at, own)
            stop = index + int(np.searchsorted(segments.number[index : self._stop], skip_at, "right"))
            at = bisect_left(self._breaks, index + 1)
            following = min(self._breaks[at], stop) if at < len(self._breaks) else stop
            gaps.append((index, following, begin, skip_at))
            index = following
            if index == stop:
                break
            begin = int(segments.end[index - 1])
        if not gaps or index - first > BUFFERED_COUNT_MAX or segments.size[first:index].sum() > BUFFERED_SIZE_MAX:
            return 0
        for row, following, begin, number in gaps:
            moment = moment_of(number, AFTER_GAP + (stream.side & 1))
            stream.next = begin
            missing = int(segments.offset[row]) - begin
            stream.add_missing(int(segments.ts[row]), missing, LOST, moment, self._pieces.rows)
            self._pieces.moment[row:following] = stream.not_before = moment
        stream.next, stream.last_ts = int(segments.end[index - 1]), int(segments.ts[index - 1])
        return index

    def _add(self, index: int) -> bool:
        segment = self._segments.row(index)
        self._pieces.is_piece[index] = False
        if self._stream.next - segment.offset > RESENT_DISTANCE_MAX:
            return False
        self._stream.add(segment, moment_of(segment.number), self._pieces.rows)
        return True

    def _skip(self, number: int) -> None:
        """Give up the first gap, and those that are due with it."""
        self._stream.skip_gap(moment_of(number, AFTER_GAP + (self._stream.side & 1)), self._pieces.rows)
        self._skip_if_due(number)

    def _skip_if_due(self, number: int) -> None:
        """Give up the gaps whose limits a packet has reached."""
        stream = self._stream
        moment = moment_of(number, AFTER_GAP + (stream.side & 1))
        while stream.buffer.segments:
            first = stream.buffer.segments[0]
            is_late = self._skip_number(stream.side, stream.next, first.arrival) <= number
            if not (is_late or stream.buffer.is_over_limit):
                break
            stream.skip_gap(moment, self._pieces.rows)


def _new_parts(buffered: list[Segment], new: Segment) -> list[Segment]:
    """The parts of a segment that lie between those that are buffered."""
    at, end = new.offset, new.offset + new.size
    index = max(bisect_left(buffered, at, key=_OFFSET) - 1, 0)
    parts: list[Segment] = []
    while index < len(buffered) and buffered[index].offset < end:
        offset, size = buffered[index][:2]
        if offset > at:
            parts.append(_part(new, at, offset - at, 0))
        at = max(at, offset + size)
        index += 1
    rest, missing = max(end - at, 0), end + new.missing - max(at, end)
    if rest or missing > 0:
        parts.append(_part(new, at, rest, max(missing, 0)))
    return parts


def _part(segment: Segment, offset: int, size: int, missing: int) -> Segment:
    """A part of a segment from an offset on."""
    return segment._replace(offset=offset, size=size, missing=missing, at=segment.at + offset - segment.offset)
