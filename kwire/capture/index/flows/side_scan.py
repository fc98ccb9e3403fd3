"""Find the frames of one side in its pieces, from one irregular piece to the next."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kwire.capture.index.arrays import NO_NUMBERS, Bools, Ints
from kwire.capture.index.flows.frame_columns import (
    DAMAGES,
    KIND_KEY,
    NO_ID,
    NO_WINDOW,
    FindOpenRequests,
    FragmentBuffer,
    MessageTimes,
    OpenRequests,
    ReadAt,
    StreamGapRow,
)
from kwire.capture.index.streams.flow_closing import FlowEnd
from kwire.capture.index.streams.flow_table import FlowTable
from kwire.capture.index.streams.stream_pieces import CAUSES, CLOSED_FRAMES, SNAPLEN, StreamPieces, moment_of
from kwire.capture.kafka.frame_gaps import GAP_REASONS, INVALID_LENGTHS_MAX, describe_length
from kwire.capture.kafka.frame_resync import SEARCH_SIZE_MAX, FrameSearch, PartialFrameBudget
from kwire.capture.kafka.heuristics import find_request
from kwire.capture.model import Flow, StreamData

_DAMAGE_OF_CAUSE = {"lost": "gap", "snaplen": "snaplen", "tls": "gap"}


@dataclass(slots=True)
class OpenSearch:
    """A search for the next frame of a side. begin: where it began; fed_to: the offset up to which bytes were added."""

    search: FrameSearch
    flow: Flow
    begin: int
    fed_to: int


class ScanContext:
    """What the scans of all sides of one kind share. gaps: the bytes between frames that were lost or skipped."""

    def __init__(
        self, flows: FlowTable, read: ReadAt, fragments: FragmentBuffer, size_max: int, *, is_request: bool
    ) -> None:
        """`read` reads the file by offset. Body fragments are added to `fragments`. Args: size_max: of a frame."""
        self.flows = flows
        self.size_max = size_max
        self.is_request = is_request
        self.fragments = fragments
        self.budget = PartialFrameBudget()
        self.searches: dict[int, OpenSearch] = {}
        self.invalid_lengths: Counter[int] = Counter()
        self.gaps: list[StreamGapRow] = []
        self.window = NO_WINDOW
        self._read = read

    def read(self, at: int, size: int) -> bytes:
        """Bytes of the file."""
        return self.window.read(at, size, self._read)

    def open_search(self, side: int, begin: int) -> OpenSearch:
        """Open a search for the next frame of a side. Args: begin: the offset from which on it may be."""
        flow = Flow(((b"", 0), (b"", 1)), 0, "")
        search = FrameSearch(flow, self.budget, is_request=self.is_request, size_max=self.size_max)
        opened = self.searches[side] = OpenSearch(search, flow, begin, begin)
        return opened

    def fragment_kind(self, *, is_cut: bool) -> int:
        """What is added to a side in `FragmentBuffer.side`. Args: is_cut: of frames that the snaplen cut."""
        return KIND_KEY * (2 * (not self.is_request) + is_cut)

    def add_fragments(self, side: int, ranges: Sequence[tuple[int, int]]) -> int:
        """Add the fragments of a body; return its place as in `FrameColumns.at`."""
        fragments, key = self.fragments, side + self.fragment_kind(is_cut=False)
        at = -1 - fragments.first - len(fragments.at)
        fragments.at.extend(begin for begin, _ in ranges)
        fragments.size.extend(size for _, size in ranges)
        fragments.side.extend([key] * len(ranges))
        return at


class SideScan:
    """Finds the frames of one side in its pieces, from one irregular piece to the next."""

    def __init__(
        self,
        context: ScanContext,
        side: int,
        pieces: StreamPieces,
        regular: tuple[Bools, list[int]],
        rows: list[tuple[int, ...]],
    ) -> None:
        """Args: regular: whether each piece is exactly one frame, or one with its cut rest, if a frame begins with it;
        set to False here where it does not. And the indexes of the others. rows: receives the frames that are found
        here: the columns of `FrameColumns`, and `FoundFrames.have`.
        """
        self._context = context
        self._side = side
        self._pieces = pieces
        self._is_regular, self._irregular = regular
        self._rows = rows
        self._start = int(context.flows.start_seq[side])
        _, self._offsets, self._sizes, self._ats, self._ts, self._numbers, self._moments = (
            column.tolist() for column in pieces
        )
        self._ends = (pieces.offset + pieces.size).tolist()
        self._search = context.searches.get(side)
        self._not_before = 0
        self._pending: OpenRequests | None = None
        self._find_pending: FindOpenRequests | None = None
        self._words: Ints = NO_NUMBERS
        # Responses that are not known to `_pending` yet.
        self._found: list[tuple[int, int, int]] = []

    def follow_responses(self, find_pending: FindOpenRequests, words: Ints) -> None:
        """The side sends responses. Args: words: by piece, the correlation id if it is a frame."""
        self._find_pending, self._words = find_pending, words

    def run(self, end: FlowEnd | None) -> StreamPieces | None:
        """Find the frames; return the pieces that belong to an incomplete one, or to a search.

        Args: end: of the flow, if it ends now.
        """
        index, skip, count = 0, 0, len(self._offsets)
        while index < count:
            if self._search is not None:
                place = self._continue_search(index)
                if place is None:
                    break
                index, skip = place
                continue
            if not skip and self._is_regular[index]:
                at = bisect_left(self._irregular, index)
                index = self._irregular[at] if at < len(self._irregular) else count
                continue
            place = self._take_frame(index, skip)
            if place is None:
                break
            index, skip = place
        if end is not None:
            self._close(index, skip, moment_of(end.number, CLOSED_FRAMES + (self._side & 1)), end.ts)
            return None
        return self._keep(index, skip)

    def _take_frame(self, index: int, skip: int) -> tuple[int, int] | None:
        """Take the frame that begins at a place; return the place after it, None if it is incomplete."""
        begin, ends = self._offsets[index] + skip, self._ends
        if self._ats[index] < 0:
            self._skip_missing(index, skip)
            return index + 1, 0
        length, missing = self._read_length(index, skip)
        if missing is not None:
            self._start_search(missing, begin, 0)
            return missing + 1, 0
        if length is None:
            return None
        end = begin + 4 + length
        # A frame that is complete in one piece may be of any size.
        if length < 0 or (length > self._context.size_max and end > ends[index]):
            return self._reject_length(index, skip, length), 0
        last = index if end <= ends[index] else bisect_left(ends, end, index)
        if last >= len(ends):
            return None
        self._add_frame((index, last), begin, length, max(self._moments[last], self._not_before))
        # The next piece may be the rest of a cut one, which was taken here.
        self._is_regular[index : last + 2 if self._ats[last + 1 : last + 2] == [SNAPLEN] else last + 1] = False
        return (last + 1, 0) if end == ends[last] else (last, end - self._offsets[last])

    def _reject_length(self, index: int, skip: int, length: int) -> int:
        """Start a search behind an invalid length; return the piece in which it ends."""
        context, begin = self._context, self._offsets[index] + skip
        kind, detail = describe_length(length, context.size_max, is_request=context.is_request)
        last = bisect_left(self._ends, begin + 4, index)
        ts, offset = min(self._ts[index : last + 1]), begin - self._start
        self._search = context.open_search(self._side, begin)
        self._search.search.start(kind, detail, ts, offset, 0)
        head = StreamData(
            self._search.flow, 0, ts, offset, length.to_bytes(4, "big", signed=True), self._numbers[index]
        )
        self._search.search.add(head, is_start=False)
        self._search.fed_to = begin + 4
        self._is_regular[index : last + 1] = False
        context.invalid_lengths[self._side] += 1
        return last

    def _skip_missing(self, index: int, skip: int) -> None:
        """Skip missing bytes of which no frame is known; the next one is searched for, if it is not obvious."""
        begin = self._offsets[index] + skip
        if not self._begins_frame(index + 1):
            self._start_search(index, begin, skip)
            return
        kind, size = CAUSES[self._ats[index]], self._sizes[index] - skip
        gap = self._context.is_request, self._ts[index], begin - self._start, size, 0, kind, GAP_REASONS[kind]
        self._add_gap(*gap, self._moments[index + 1])

    def _begins_frame(self, index: int) -> bool:
        """Whether a piece is exactly one frame, as a search would find, too."""
        if not self._is_regular[index : index + 1].any() or self._ats[index + 1 : index + 2] == [SNAPLEN]:
            return False
        if self._sizes[index] - 4 > self._context.size_max:
            return False
        if not self._context.is_request:
            return True
        payload = self._context.read(self._ats[index], self._sizes[index])
        return find_request(payload, (0,), self._context.size_max) == 0

    def _add_gap(self, *gap: Any) -> None:
        """Add a row of `StreamGapRow` without its flow."""
        self._context.gaps.append(StreamGapRow(self._side >> 1, *gap))

    def _read_length(self, index: int, skip: int) -> tuple[int | None, int | None]:
        """The length field of a frame, None if it is incomplete; and the piece that lacks bytes of it, if any."""
        data = b""
        while index < len(self._ats):
            if self._ats[index] < 0:
                return None, index
            data += self._context.read(self._ats[index] + skip, min(4 - len(data), self._sizes[index] - skip))
            if len(data) == 4:
                return int.from_bytes(data, "big", signed=True), None
            index, skip = index + 1, 0
        return None, None

    def _add_frame(
        self, span: tuple[int, int], begin: int, length: int, moment: int, damage: str | None = None
    ) -> None:
        """Add the frame in these pieces. Args: damage: if it is incomplete for the end of the stream."""
        index, last = span
        ranges, cause = self._body_ranges(index, begin + 4, begin + 4 + length)
        have = sum(size for _, size in ranges)
        low = min(ts for ts, at in zip(self._ts[index : last + 1], self._ats[index : last + 1], strict=True) if at >= 0)
        high = max(self._ts[index : last + 1])
        damage = None if have == length else _DAMAGE_OF_CAUSE[CAUSES[cause]] if cause is not None else damage
        at, count = (ranges[0][0], 0) if ranges else (0, 0)
        if damage is not None:
            at = self._context.add_fragments(self._side, [*ranges, (DAMAGES.index(damage), 0)])
            count = len(ranges) + 1
        elif len(ranges) > 1:
            at, count = self._context.add_fragments(self._side, ranges), len(ranges)
        elif not ranges:
            at = self._ats[last] + begin + 4 - self._offsets[last]
        number, offset = self._numbers[index], begin - self._start
        self._rows.append((self._side, number, low, high, offset, length, at, count, moment, have))
        if self._find_pending is not None:
            head = b"".join(self._context.read(at, min(size, 4)) for at, size in ranges[:4])[:4]
            word = int.from_bytes(head, "big", signed=True) if len(head) == 4 else NO_ID
            self._found.append((moment, word, high))

    def _body_ranges(self, index: int, begin: int, end: int) -> tuple[list[tuple[int, int]], int | None]:
        """Offset and size of each part of a body up to its first missing byte; and the place of that, if any is."""
        ranges: list[tuple[int, int]] = []
        while begin < end and index < len(self._ends):
            taken = min(self._ends[index], end) - begin
            if taken > 0:
                if self._ats[index] < 0:
                    return ranges, self._ats[index]
                ranges.append((self._ats[index] + begin - self._offsets[index], taken))
                begin += taken
            index += 1
        return ranges, None

    def _start_search(self, index: int, begin: int, skip: int) -> None:
        """Start a search for the next frame: bytes of a piece are missing, where no frame is known.

        Args: begin: of the bytes that belong to no frame. skip: so many bytes of the piece belong to one.
        """
        context, kind = self._context, CAUSES[self._ats[index]]
        if self._search is None:
            self._search = context.open_search(self._side, begin)
        missing = self._sizes[index] - skip
        self._search.search.start(
            *(kind, GAP_REASONS[kind], self._ts[index], begin - self._start, missing),
            skipped=self._offsets[index] + skip - begin,
        )
        self._search.fed_to = self._ends[index]
        self._is_regular[index] = False

    def _continue_search(self, index: int) -> tuple[int, int] | None:
        """Search from a piece on; return where the next frame begins, None if that is not known yet."""
        assert self._search is not None
        while index < len(self._ats):
            self._is_regular[index] = False
            moment, state = self._moments[index], self._search
            if self._ends[index] <= state.fed_to:
                index += 1
                continue
            if self._ats[index] < 0:
                # The bytes before belong to no frame.
                self._end_search(moment)
                self._start_search(index, self._offsets[index], 0)
                index += 1
                continue
            state.flow.pending_requests = self._pending_at(moment)
            skip = max(0, state.fed_to - self._offsets[index])
            payload = self._context.read(self._ats[index] + skip, self._sizes[index] - skip)
            offset = self._offsets[index] + skip - self._start
            state.search.add(StreamData(state.flow, 0, self._ts[index], offset, payload, self._numbers[index]))
            state.fed_to = self._ends[index]
            is_given_up = self._context.invalid_lengths[self._side] > INVALID_LENGTHS_MAX
            found = None if is_given_up else state.search.find_frame()
            index += 1
            if found is not None:
                begin = found[0].offset + self._start
                self._end_search(moment)
                self._not_before = moment
                place = bisect_right(self._offsets, begin) - 1
                return place, begin - self._offsets[place]
        return None

    def _end_search(self, moment: int) -> None:
        """End the search, and report what was lost or skipped."""
        assert self._search is not None
        gap = self._search.search.stream_gap()
        if gap is not None:
            self._add_gap(*gap[1:], moment)
        self._drop_search()

    def _drop_search(self) -> None:
        """End the search, if there is one."""
        if self._search is not None:
            self._search.search.clear()
            self._search = None
            del self._context.searches[self._side]

    def _pending_at(self, moment: int) -> dict[int, int]:
        """The pending requests at a moment, after all responses that were found so far."""
        if self._find_pending is None:
            return {}
        if self._pending is None:
            self._pending = self._find_pending(self._side >> 1, self._regular_responses())
        for found in self._found:
            self._pending.add_response(*found)
        self._found.clear()
        return self._pending.at(moment)

    def _regular_responses(self) -> MessageTimes:
        """The responses in regular pieces."""
        pieces = self._pieces
        rows = np.nonzero(self._is_regular & (pieces.at >= 0))[0]
        # The second piece of a cut frame completes it.
        following = np.minimum(rows + 1, len(pieces.at) - 1)
        last = np.where(pieces.at[following] == SNAPLEN, following, rows)
        return MessageTimes(pieces.moment[last], self._words[rows], pieces.ts[last])

    def _close(self, index: int, skip: int, moment: int, ts: int) -> None:
        """The stream ends: report an incomplete frame as it is."""
        if self._search is not None:
            self._end_search(moment)
            return
        if index == len(self._ats):
            return
        self._is_regular[index:] = False
        length, _ = self._read_length(index, skip)
        if length is not None:
            self._add_frame((index, len(self._ats) - 1), self._offsets[index] + skip, length, moment, "end")
            return
        begin, size = self._offsets[index] + skip, self._ends[-1] - self._offsets[index] - skip
        detail = f"the stream ends after {size} of the 4 bytes of a frame's length"
        self._add_gap(self._context.is_request, ts, begin - self._start, 0, size, "cut_length", detail, moment)

    def _keep(self, index: int, skip: int) -> StreamPieces | None:
        """The pieces from a place on, for the next span."""
        if self._search is not None:
            # A search does not go back further.
            begin = max(self._search.begin, self._search.fed_to - 2 * SEARCH_SIZE_MAX)
            index, skip = bisect_right(self._ends, begin), 0
        count = len(self._ats)
        if index == count:
            return None
        self._is_regular[index:] = False
        kept = self._pieces.select(np.arange(index, count))
        kept.offset[0] += skip
        kept.size[0] -= skip
        if kept.at[0] >= 0:
            kept.at[0] += skip
        return kept
