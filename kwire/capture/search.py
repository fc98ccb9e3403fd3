"""Bytes in which the next frame is sought, after a loss or where a capture begins inside a stream."""

from __future__ import annotations

from typing import NamedTuple

from kwire.capture.looking import find_request, find_response
from kwire.capture.values import Data, Flow, Lost

# What a search holds of bytes in which no frame has begun; older ones are given up.
HELD_SIZE_MAX = 1 << 20
# What frames that are not whole yet and searches may hold in all connections together; beyond it, each no more than the
# lesser size.
BEGUN_SIZE_MAX = 512 * 1024 * 1024
BEGUN_SIZE_LESSER = 1 << 16
# So much is searched through at every packet; beyond it only when a quarter has come, so that the cost stays linear.
_ALWAYS_SEARCHED = 1 << 16


class Begun:
    """What is held in all connections of frames that are not whole yet, and of bytes in which one is sought."""

    def __init__(self) -> None:
        """Nothing is."""
        self.size = 0

    @property
    def is_much(self) -> bool:
        """Whether it is more than it may be."""
        return self.size > BEGUN_SIZE_MAX


class _Piece(NamedTuple):
    """Where in the buffer the bytes of one packet begin. `is_start`: its first byte began the packet."""

    start: int
    ts: int
    offset: int
    is_start: bool
    packet: int


class Search:
    """Collects one side's bytes until a frame is found among them."""

    def __init__(self, flow: Flow, begun: Begun, *, is_request: bool, size_max: int) -> None:
        """For requests or responses of the flow, with frames up to `size_max`."""
        self._flow = flow
        self._begun = begun
        self._is_request = is_request
        self._size_max = size_max
        self._buffer = bytearray()
        self.begin("", "", 0, 0, 0)

    def begin(self, kind: str, detail: str, ts: int, offset: int, missing: int, *, skipped: int = 0) -> None:
        """A search begins at this stream offset, because of `missing` bytes or what `detail` says.

        Args: skipped: bytes before the missing ones that are of no use, and are not searched either.
        """
        self._kind, self._detail = kind, detail
        self._ts, self._offset, self._missing = ts, offset, missing
        self._skipped = skipped
        self.end()

    def end(self) -> None:
        """Hold nothing any more; what was lost can still be told."""
        self._begun.size -= len(self._buffer)
        self._buffer = bytearray()
        self._pieces: list[_Piece] = []
        self._next_search = 0

    def add(self, event: Data, *, is_start: bool = True) -> None:
        """More bytes."""
        self._ts = self._ts or event.ts
        self._pieces.append(_Piece(len(self._buffer), event.ts, event.offset, is_start, event.packet))
        self._buffer += event.payload
        self._skipped += len(event.payload)
        self._begun.size += len(event.payload)
        held_max = BEGUN_SIZE_LESSER if self._begun.is_much else HELD_SIZE_MAX
        if len(self._buffer) > held_max:
            self._drop(len(self._buffer) - held_max // 2)

    def found(self) -> list[Data] | None:
        """The bytes from the found frame on, packet by packet; None while there is none."""
        at = self._find()
        if at is None:
            return None
        self._skipped -= len(self._buffer) - at
        out: list[Data] = []
        for index, piece in enumerate(self._pieces):
            end = self._pieces[index + 1].start if index + 1 < len(self._pieces) else len(self._buffer)
            begin = max(piece.start, at)
            if begin < end:
                payload = bytes(self._buffer[begin:end])
                offset = piece.offset + begin - piece.start
                out.append(Data(self._flow, 0, piece.ts, offset, payload, piece.packet))
        return out

    def lost(self) -> Lost | None:
        """What was lost, up to where the search has come; None when it is nothing."""
        if not (self._missing or self._skipped):
            return None
        return Lost(
            self._flow,
            self._is_request,
            self._ts,
            self._offset,
            self._missing,
            self._skipped,
            self._kind,
            self._detail,
        )

    def _find(self) -> int | None:
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
            at = find_response(data, starts, self._size_max, self._flow.awaited)
        return None if at is None else at + begin

    def _drop(self, size: int) -> None:
        """Forget the first bytes; they stay counted as skipped."""
        del self._buffer[:size]
        self._begun.size -= size
        pieces: list[_Piece] = []
        for index, piece in enumerate(self._pieces):
            end = self._pieces[index + 1].start if index + 1 < len(self._pieces) else size + len(self._buffer)
            if end <= size:
                continue
            cut = max(size - piece.start, 0)
            is_start = piece.is_start and not cut
            pieces.append(_Piece(piece.start + cut - size, piece.ts, piece.offset + cut, is_start, piece.packet))
        self._pieces = pieces
        self._next_search = 0
