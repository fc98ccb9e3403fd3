"""Find frames in the pieces of streams by reading only their length fields; no payload is copied.

Most frames fill exactly one piece, or one that the snaplen cut; these are found for all streams at once. The others are
found one by one. Where bytes are missing, a frame whose length is known is damaged; where the next frame begins is not
known behind other missing bytes, so it is searched for in the payload (`frame_resync`).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kwire.capture.index.arrays import NO_NUMBERS, Bools, Ints, concatenate_rows, find_groups
from kwire.capture.index.flows.frame_columns import (
    DAMAGES,
    NO_FRAMES,
    NO_WINDOW,
    FileWindow,
    FindOpenRequests,
    FoundFrames,
    FragmentBuffer,
    FrameColumns,
    ReadAt,
    StreamGapRow,
)
from kwire.capture.index.flows.side_scan import ScanContext, SideScan
from kwire.capture.index.scan.packet_headers import gather_bytes
from kwire.capture.index.streams.flow_closing import FlowEnd
from kwire.capture.index.streams.flow_table import FlowTable
from kwire.capture.index.streams.stream_pieces import NO_PIECES, SNAPLEN, StreamPieces
from kwire.capture.kafka.frame_gaps import MIDSTREAM_REASON

# The length field of a piece without one: no size is 4 more.
_NO_HEAD = -5


class FrameScanner:
    """Finds the frames of all streams of one kind, requests or responses; its state continues from span to span.

    partial: the pieces that belong to no complete frame yet.
    """

    def __init__(
        self, flows: FlowTable, read: ReadAt, fragments: FragmentBuffer, size_max: int, *, is_request: bool
    ) -> None:
        """`read` reads the file by offset. Body fragments are added to `fragments`. Args: size_max: of a frame."""
        self._context = ScanContext(flows, read, fragments, size_max, is_request=is_request)
        self.partial = NO_PIECES

    @property
    def is_request(self) -> bool:
        """Whether these are the frames of requests."""
        return self._context.is_request

    def drop_window(self) -> None:
        """Drop the part of the file in memory, after a span."""
        self._context.window = NO_WINDOW

    def take_gaps(self) -> list[StreamGapRow]:
        """Return the bytes that were lost or skipped since the last call, other than those inside a frame."""
        gaps, self._context.gaps = self._context.gaps, []
        return gaps

    def scan(
        self,
        pieces: StreamPieces,
        window: FileWindow,
        closing: Mapping[int, FlowEnd],
        pending: FindOpenRequests | None = None,
    ) -> FoundFrames:
        """The frames that these pieces complete.

        Args: pieces: by side and offset. window: the part of the file in memory; other parts are read with `read`.
        closing: the flows that end now. pending: returns the pending requests of a flow, for responses.
        """
        context = self._context
        context.window = window
        pieces, self.partial = self._with_partial(pieces, closing)
        if not len(pieces.side):
            return FoundFrames(NO_FRAMES, NO_NUMBERS)
        length, word = _read_heads(pieces, *window)
        is_whole = length + 4 == pieces.size
        is_cut = _find_cut_frames(pieces, length) & (length <= context.size_max)
        is_regular = is_whole | is_cut
        is_regular[1:] |= is_cut[:-1]
        firsts = find_groups(pieces.side)
        stops = np.append(firsts[1:], len(pieces.side))
        sides = pieces.side[firsts]
        self._begin_sides(sides)
        is_open = np.isin(sides, np.array(list(context.searches), dtype=np.int64))
        others = np.nonzero(~is_regular)[0]
        rows: list[tuple[int, ...]] = []
        kept: list[StreamPieces] = []
        for index in np.nonzero(is_open | ~np.logical_and.reduceat(is_regular, firsts))[0].tolist():
            side, first, stop = int(sides[index]), int(firsts[index]), int(stops[index])
            irregular = others[np.searchsorted(others, first) : np.searchsorted(others, stop)] - first
            own = pieces.select(np.arange(first, stop))
            scan = SideScan(context, side, own, (is_regular[first:stop], irregular.tolist()), rows)
            if pending is not None:
                scan.follow_responses(pending, word[first:stop])
            rest = scan.run(closing.get(side >> 1))
            if rest is not None:
                kept.append(rest)
        self.partial = concatenate_rows(self.partial, *kept)
        return self._build(pieces, (is_whole & is_regular, is_cut & is_regular), length, rows)

    def _begin_sides(self, sides: Ints) -> None:
        """Search for the first frames of sides whose stream begins anywhere."""
        flows, context = self._context.flows, self._context
        for side in sides[(flows.has_frames[sides] == 0) & ~flows.frame_starts_known(sides)].tolist():
            context.open_search(side, -1).search.start("midstream", MIDSTREAM_REASON, 0, 0, 0)
        flows.has_frames[sides] = 1

    def _with_partial(self, pieces: StreamPieces, closing: Mapping[int, FlowEnd]) -> tuple[StreamPieces, StreamPieces]:
        """The pieces with those of the incomplete frames that they continue, or that end; and those of all others."""
        partial = self.partial
        if not len(partial.side):
            return pieces, partial
        is_due = np.isin(partial.side, pieces.side)
        is_due |= np.isin(partial.side >> 1, np.array(list(closing), dtype=np.int64))
        merged = concatenate_rows(partial.select(is_due), pieces)
        return merged.select(np.lexsort((merged.offset, merged.side))), partial.select(~is_due)

    def _build(
        self, pieces: StreamPieces, regular: tuple[Bools, Bools], length: Ints, rows: list[tuple[int, ...]]
    ) -> FoundFrames:
        """The frames of regular pieces, with those that were found one by one."""
        whole, cut = (np.nonzero(each)[0] for each in regular)
        side, offset, size, at, ts, number, moment = pieces.select(whole)
        none = np.zeros(len(whole), dtype=np.int64)
        start = self._context.flows.start_seq
        frames = FrameColumns(side, number, ts, ts, offset - start[side], size - 4, at + 4, none, moment)
        have = size - 4
        if not len(cut) and not rows:
            return FoundFrames(frames, have)
        side, offset, size, at, ts, number, _ = pieces.select(cut)
        end_ts, moment = np.maximum(ts, pieces.ts[cut + 1]), pieces.moment[cut + 1]
        first = self._add_cut_fragments(side, at + 4, size - 4)
        cut_frames = FrameColumns(
            side, number, ts, end_ts, offset - start[side], length[cut], first, np.full(len(cut), 2), moment
        )
        columns = np.array(rows, dtype=np.int64).reshape(-1, 10).T
        merged = concatenate_rows(frames, cut_frames, FrameColumns(*columns[:9]))
        have = np.concatenate([have, size - 4, columns[9]])
        order = np.lexsort((merged.offset, merged.side))
        return FoundFrames(merged.select(order), have[order])

    def _add_cut_fragments(self, side: Ints, at: Ints, size: Ints) -> Ints:
        """Add two fragments of each cut body, the second of which has no bytes; return their places."""
        fragments = self._context.fragments
        places = -1 - fragments.first - len(fragments.at) - 2 * np.arange(len(side))
        key = side + self._context.fragment_kind(is_cut=True)
        ats = np.stack([at, np.full(len(at), DAMAGES.index("snaplen"))], axis=1)
        fragments.at.frombytes(ats.astype(np.int64).tobytes())
        fragments.size.frombytes(np.stack([size, np.zeros_like(size)], axis=1).tobytes())
        fragments.side.frombytes(np.repeat(key, 2).tobytes())
        return places


def _read_heads(pieces: StreamPieces, base: int, data: bytes) -> tuple[Ints, Ints]:
    """The first two words of each piece in the window; `_NO_HEAD` where it is shorter."""
    at = pieces.at - base
    rows = np.nonzero((pieces.at >= 0) & (at >= 0) & (pieces.size >= 8) & (at + 8 <= len(data)))[0]
    heads = np.full((2, len(at)), _NO_HEAD, dtype=np.int64)
    heads[:, rows] = gather_bytes(data, at[rows], 8).view(">i4").T
    return heads[0], heads[1]


def _find_cut_frames(pieces: StreamPieces, length: Ints) -> Bools:
    """Which pieces begin a frame whose rest is the next piece, which the snaplen cut."""
    out = np.zeros(len(length), dtype=np.bool_)
    is_rest = (pieces.at[1:] == SNAPLEN) & (pieces.side[1:] == pieces.side[:-1])
    is_exact = length[:-1] + 4 == pieces.size[:-1] + pieces.size[1:]
    out[:-1] = is_rest & is_exact & (length[:-1] >= 4)
    return out
