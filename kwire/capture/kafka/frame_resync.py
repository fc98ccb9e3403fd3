"""Search for the next frame in a stream, after a gap or where a capture begins inside a stream."""

from __future__ import annotations

from typing import NamedTuple

from kwire.capture.kafka.heuristics import find_request, find_response
from kwire.capture.model import Flow, StreamData, StreamGap

# Limit of bytes that a search stores; the oldest ones are dropped.
SEARCH_SIZE_MAX = 1 << 20
# Limit for incomplete frames and searches of all connections together. Beyond it the reduced size is the limit of each.
PARTIAL_SIZE_MAX = 512 * 1024 * 1024
PARTIAL_SIZE_REDUCED = 1 << 16
# Up to this size the buffer is searched at every packet, beyond it only after it grew by a quarter: so cost is linear.
_ALWAYS_SEARCHED = 1 << 16


class PartialFrameBudget:
    """Bytes that are stored for incomplete frames and for searches in all connections."""

    def __init__(self) -> None:
        self.size = 0

    @property
    def is_exceeded(self) -> bool:
        """Whether the stored bytes exceed the limit."""
        return self.size > PARTIAL_SIZE_MAX


class _Piece(NamedTuple):
    """The bytes of one packet, from `start` of the buffer on. `is_start`: they begin where the packet begins."""

    start: int
    ts: int
    offset: int
    is_start: bool
    packet: int


class FrameSearch:
    """Collects the bytes of one side until a frame is found among them."""

    def __init__(self, flow: Flow, budget: PartialFrameBudget, *, is_request: bool, size_max: int) -> None:
        """For requests or responses of the flow, with frames up to `size_max`."""
        self._flow = flow
        self._budget = budget
        self._is_request = is_request
        self._size_max = size_max
        self._buffer = bytearray()
        self.start("", "", 0, 0, 0)

    def start(self, kind: str, detail: str, ts: int, offset: int, missing: int, *, skipped: int = 0) -> None:
        """Start a search at this stream offset, because of `missing` bytes or for the reason in `detail`.

        Args: skipped: bytes before the missing ones that are not part of a frame and are not searched.
        """
        self._kind, self._detail = kind, detail
        self._ts, self._offset, self._missing = ts, offset, missing
        self._skipped = skipped
        self.clear()

    def clear(self) -> None:
        """Drop all stored bytes; `stream_gap` still describes what was skipped."""
        self._budget.size -= len(self._buffer)
        self._buffer = bytearray()
        self._pieces: list[_Piece] = []
        self._next_search = 0

    def add(self, event: StreamData, *, is_start: bool = True) -> None:
        """Add bytes to the search."""
        self._ts = self._ts or event.ts
        self._pieces.append(_Piece(len(self._buffer), event.ts, event.offset, is_start, event.packet))
        self._buffer += event.payload
        self._skipped += len(event.payload)
        self._budget.size += len(event.payload)
        size_max = PARTIAL_SIZE_REDUCED if self._budget.is_exceeded else SEARCH_SIZE_MAX
        if len(self._buffer) > size_max:
            self._drop(len(self._buffer) - size_max // 2)

    def find_frame(self) -> list[StreamData] | None:
        """The bytes from the found frame on, packet by packet; None if there is no frame yet."""
        at = self._find_position()
        if at is None:
            return None
        self._drop(at)
        self._skipped -= len(self._buffer)
        out: list[StreamData] = []
        for piece, end in zip(self._pieces, self._piece_ends(), strict=True):
            payload = bytes(self._buffer[piece.start : end])
            out.append(StreamData(self._flow, 0, piece.ts, piece.offset, payload, piece.packet))
        return out

    def stream_gap(self) -> StreamGap | None:
        """The bytes that were lost or skipped up to the current position; None if there are none."""
        if not (self._missing or self._skipped):
            return None
        return StreamGap(
            self._flow, self._is_request, self._ts, self._offset, self._missing, self._skipped, self._kind, self._detail
        )

    def _find_position(self) -> int | None:
        size = len(self._buffer)
        if size >= self._next_search:
            if size > _ALWAYS_SEARCHED:
                self._next_search = size + size // 4
            begin, starts = 0, {piece.start for piece in self._pieces if piece.is_start}
        else:
            begin, starts = self._pieces[-1].start, {0}
        data = self._buffer[begin:] if begin else self._buffer
        if self._is_request:
            at = find_request(data, starts, self._size_max)
        else:
            at = find_response(data, starts, self._size_max, self._flow.pending_requests)
        return None if at is None else at + begin

    def _drop(self, size: int) -> None:
        """Drop the first bytes; they remain counted as skipped."""
        pieces: list[_Piece] = []
        for piece, end in zip(self._pieces, self._piece_ends(), strict=True):
            if end > size:
                cut = max(size - piece.start, 0)
                is_start = piece.is_start and not cut
                pieces.append(_Piece(piece.start + cut - size, piece.ts, piece.offset + cut, is_start, piece.packet))
        self._pieces = pieces
        del self._buffer[:size]
        self._budget.size -= size
        self._next_search = 0

    def _piece_ends(self) -> list[int]:
        """Where each piece ends in the buffer."""
        return [*(piece.start for piece in self._pieces[1:]), len(self._buffer)]
