"""Find the frames of one side of a connection in the pieces of its stream, by position.

Nearly every packet is one frame, which its length field shows. All other pieces go through the frame extractor of the
streaming pipeline, and its frames are located in the file again.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from kwire.capture.columnar.recovery.flow_pairing import NO_ID
from kwire.capture.columnar.recovery.stream_pieces import CAUSES, SNAPLEN, PieceRow
from kwire.capture.kafka.frame_extractor import FrameExtractor
from kwire.capture.kafka.frame_resync import PARTIAL_SIZE_REDUCED, SEARCH_SIZE_MAX, PartialFrameBudget
from kwire.capture.model import Flow, Frame, MissingBytes, StreamData, StreamGap
from kwire.capture.options import FRAME_SIZE_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kwire.capture.index.flows.frame_scan import ReadAt

_CHUNKS_MAX = 1024
# The length field and the first word of a frame.
_CUT_SIZE_MIN = 8


class UnusualFrame(NamedTuple):
    """What is known in addition of a frame that is not exactly one packet.

    ranges: offset in the file and size of the parts of its body, up to the first missing byte. damage: as in `Frame`;
    then `have` bytes precede the first missing one.
    """

    end_ts: int
    ranges: list[tuple[int, int]]
    damage: str | None
    have: int


class FrameList:
    """Frames of one side in the order of their completion.

    rows: the piece that is the frame, with its length field; for others a piece as if it were. unusual: by row.
    """

    def __init__(self) -> None:
        """There are none."""
        self.rows: list[PieceRow] = []
        self.unusual: dict[int, UnusualFrame] = {}

    def add(self, row: PieceRow, unusual: UnusualFrame) -> None:
        """Add a frame that is not exactly one packet."""
        self.unusual[len(self.rows)] = unusual
        self.rows.append(row)


class _Chunk(NamedTuple):
    """Captured bytes of the stream: offset in the stream, size, offset in the file."""

    offset: int
    size: int
    at: int


class StreamFrames:
    """One side. `gaps`: the stream gaps so far, each with the packet at which it was found."""

    def __init__(self, flow: Flow, side: int, read: ReadAt, budget: PartialFrameBudget, *, is_request: bool) -> None:
        """`flow`: its `pending_requests` are used to find responses. `read` reads the file by offset."""
        self._flow = flow
        self._side = side
        self._read = read
        self._chunks: list[_Chunk] = []
        self._extractor = FrameExtractor(
            flow, budget, is_request=is_request, size_max=FRAME_SIZE_MAX, is_start_known=True
        )
        self.gaps: list[tuple[StreamGap, int]] = []
        self.is_between_frames = True

    def take_unusual(self, pieces: Sequence[PieceRow], at: int) -> tuple[Iterable[tuple[PieceRow, UnusualFrame]], int]:
        """The frames that a piece completes that is not exactly one frame, and how many pieces were taken: two where
        the next one is the end of its frame, which the snaplen cut.
        """
        piece = pieces[at]
        if piece[7] >= piece[2] and self.is_between_frames and at + 1 < len(pieces):
            cut = _find_cut_frame(piece, pieces[at + 1])
            if cut is not None:
                return (cut,), 2
        return self.take_piece(piece), 1

    def take_piece(self, piece: PieceRow) -> Iterator[tuple[PieceRow, UnusualFrame]]:
        """The frames that a piece completes. A piece that is exactly one frame needs no call of it."""
        order, offset, size, at, ts, number, found_by, _, _ = piece
        events: Iterator[Frame | StreamGap]
        if at < 0:
            events = self._extractor.take_gap(MissingBytes(self._flow, self._side, ts, offset, size, CAUSES[at]))
        else:
            self._chunks.append(_Chunk(offset, size, at))
            payload = self._read(at, size)
            events = self._extractor.take_data(StreamData(self._flow, self._side, ts, offset, payload, number))
        yield from self._locate(events, order, found_by)
        self.is_between_frames = self._extractor.is_between_frames
        if self.is_between_frames:
            self._chunks.clear()
        elif len(self._chunks) > _CHUNKS_MAX and self._extractor.partial_offset is None:
            # A search does not go back further.
            begin = offset - 2 * SEARCH_SIZE_MAX
            self._chunks = [chunk for chunk in self._chunks if chunk.offset + chunk.size > begin]

    def close(self, order: int, found_by: int) -> Iterator[tuple[PieceRow, UnusualFrame]]:
        """The stream ends: an incomplete frame."""
        return self._locate(self._extractor.close(0), order, found_by)

    def _locate(
        self, events: Iterator[Frame | StreamGap], order: int, found_by: int
    ) -> Iterator[tuple[PieceRow, UnusualFrame]]:
        for event in events:
            if isinstance(event, StreamGap):
                self.gaps.append((event, found_by))
                continue
            _, _, ts, end_ts, offset, size, data, damage, number = event
            ranges = self._body_ranges(offset + 4, len(data))
            at = ranges[0][0] - 4 if ranges else 0
            word = int.from_bytes(data[:4], "big", signed=True) if len(data) >= 4 else NO_ID
            row = (order, offset, size + 4, at, ts, number, found_by, size, word)
            yield row, UnusualFrame(end_ts, ranges, damage, len(data))

    def _body_ranges(self, begin: int, size: int) -> list[tuple[int, int]]:
        """The ranges of the file that have these bytes of the stream."""
        end, ranges = begin + size, []
        index = max(bisect_right(self._chunks, begin, key=_chunk_offset) - 1, 0)
        while begin < end:
            chunk = self._chunks[index]
            skip = begin - chunk.offset
            taken = min(chunk.size - skip, end - begin)
            if taken > 0:
                ranges.append((chunk.at + skip, taken))
                begin += taken
            index += 1
        return ranges


def _chunk_offset(chunk: _Chunk) -> int:
    return chunk.offset


def _find_cut_frame(piece: PieceRow, rest: PieceRow) -> tuple[PieceRow, UnusualFrame] | None:
    """The frame that begins with a piece, and is cut for the rest of it; None if it is not that simple.

    The frame extractor would find the same, and be between frames again.
    """
    order, offset, size, at, ts, number, _, head, word = piece
    is_rest = rest[0] == order + 1 and rest[3] == SNAPLEN and head + 4 == size + rest[2]
    if not (is_rest and _CUT_SIZE_MIN <= size <= PARTIAL_SIZE_REDUCED and head <= FRAME_SIZE_MAX):
        return None
    row = (rest[0], offset, head + 4, at, ts, number, rest[6], head, word)
    return row, UnusualFrame(max(ts, rest[4]), [(at + 4, size - 4)], "snaplen", size - 4)
