"""Extract frames from the bytes and gaps of one side of a connection; after a gap, search for the next frame."""

from __future__ import annotations

import struct
from collections import deque
from typing import TYPE_CHECKING

from kwire.capture.kafka.frame_gaps import GAP_REASONS, INVALID_LENGTHS_MAX, MIDSTREAM_REASON, describe_length
from kwire.capture.kafka.frame_resync import PARTIAL_SIZE_REDUCED, FrameSearch, PartialFrameBudget
from kwire.capture.model import Flow, Frame, MissingBytes, StreamData, StreamGap

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

_INT32 = struct.Struct(">i")


class FrameExtractor:
    """Extracts the frames of one side of a connection. It is synchronized, or searches for the next frame."""

    def __init__(
        self, flow: Flow, budget: PartialFrameBudget, *, is_request: bool, size_max: int, is_start_known: bool
    ) -> None:
        """`budget` is shared by all connections. `is_start_known`: the first byte is the first byte of a frame."""
        self._flow = flow
        self._budget = budget
        self._is_request = is_request
        self._size_max = size_max
        self._partial: _PartialFrame | None = None
        self._search = FrameSearch(flow, budget, is_request=is_request, size_max=size_max)
        self._is_searching = not is_start_known
        self._invalid_lengths = 0
        if self._is_searching:
            self._search.start("midstream", MIDSTREAM_REASON, 0, 0, 0)

    def take_data(self, event: StreamData) -> Iterator[Frame | StreamGap]:
        """The frames that these bytes complete."""
        if not self._is_searching:
            rest = yield from self._extract(event)
            if rest is None:
                return
            # A length was invalid; the search continues after it.
            event = rest
        # The bytes after a found frame may contain another invalid length, hence a queue instead of recursion.
        queue = deque([event])
        while queue:
            event = queue.popleft()
            if self._is_searching:
                if not event.payload:
                    continue
                self._search.add(event)
                frame_data = self._search.find_frame() if self._invalid_lengths <= INVALID_LENGTHS_MAX else None
                if frame_data is not None:
                    yield from self._end_search()
                    queue.extendleft(reversed(frame_data))
                continue
            rest = yield from self._extract(event)
            if rest is not None:
                queue.appendleft(rest)

    def take_gap(self, event: MissingBytes) -> Iterator[Frame | StreamGap]:
        """Skip missing bytes. Inside one frame they damage only that frame; otherwise a search starts."""
        missing, skipped = event.size, 0
        if self._is_searching:
            yield from self._end_search()
        elif self._partial is not None:
            missing = self._partial.take_gap(event)
            if self._partial.size is not None:
                if not self._partial.is_complete:
                    return
                yield self._partial.make_frame(self._flow, self._is_request)
            else:
                # Some bytes of the length are missing; the others are skipped.
                skipped = len(self._partial.length_bytes)
            self._partial = None
        if missing:
            begin = event.offset + event.size - missing - skipped
            self._start_search(event.cause, GAP_REASONS[event.cause], event.ts, begin, missing, skipped=skipped)

    def close(self, ts: int) -> Iterator[Frame | StreamGap]:
        """The stream ends: return an incomplete frame as it is."""
        partial = self._partial
        if self._is_searching:
            yield from self._end_search()
        elif partial is not None and partial.size is None:
            size = len(partial.length_bytes)
            detail = f"the stream ends after {size} of the 4 bytes of a frame's length"
            yield StreamGap(self._flow, self._is_request, ts, partial.offset, 0, size, "cut_length", detail)
        elif partial is not None:
            partial.damage = partial.damage or "end"
            yield partial.make_frame(self._flow, self._is_request)

    def _start_search(self, kind: str, detail: str, ts: int, offset: int, missing: int, *, skipped: int = 0) -> None:
        self._is_searching = True
        self._search.start(kind, detail, ts, offset, missing, skipped=skipped)

    def _end_search(self) -> Iterator[StreamGap]:
        self._is_searching = False
        self._search.clear()
        gap = self._search.stream_gap()
        if gap is not None:
            yield gap

    def _extract(self, event: StreamData) -> Generator[Frame | StreamGap, None, StreamData | None]:
        """Frames of a synchronized stream. Returns the bytes after an invalid length, else None."""
        payload, ts, packet = event.payload, event.ts, event.packet
        at, end = 0, len(payload)
        while at < end:
            if self._partial is None:
                # Most frames begin at the begin of a packet and are complete in it.
                size = _INT32.unpack_from(payload, at)[0] if end - at >= 4 else -1
                if 0 <= size <= end - at - 4:
                    start, at = at + 4, at + 4 + size
                    body = payload[start:at]
                    offset = event.offset + start - 4
                    yield Frame(self._flow, self._is_request, ts, ts, offset, size, body, None, packet)
                    continue
                self._partial = _PartialFrame(ts, event.offset + at, packet, self._budget)
            partial = self._partial
            at = partial.take_data(payload, at, ts, packet)
            if partial.size is not None and not 0 <= partial.size <= self._size_max:
                self._reject_length(partial)
                return StreamData(event.flow, event.side, ts, event.offset + at, payload[at:], packet)
            if partial.is_complete:
                self._partial = None
                yield partial.make_frame(self._flow, self._is_request)
        return None

    def _reject_length(self, partial: _PartialFrame) -> None:
        """Skip the four bytes of an invalid length, and start a search after them."""
        assert partial.size is not None
        self._invalid_lengths += 1
        kind, detail = describe_length(partial.size, self._size_max, is_request=self._is_request)
        self._partial = None
        self._start_search(kind, detail, partial.ts, partial.offset, 0)
        for place, piece, ts, packet in partial.heads:
            self._search.add(StreamData(self._flow, 0, ts, partial.offset + place, piece, packet), is_start=False)


class _PartialFrame:
    """An incomplete frame: its length after four bytes, and its bytes before the first missing one."""

    def __init__(self, ts: int, offset: int, packet: int, budget: PartialFrameBudget) -> None:
        self._budget = budget
        self.packet = packet
        self.ts = self.end_ts = ts
        self.offset = offset
        self.length_bytes = bytearray()
        # The parts of the length: place, bytes, time and packet of each.
        self.heads: list[tuple[int, bytes, int, int]] = []
        self.size: int | None = None
        self.damage: str | None = None
        self._parts: list[bytes] = []
        self._stored_size = 0
        self._missing_size = 0

    @property
    def is_complete(self) -> bool:
        """Whether every byte of the frame was received or is known to be missing."""
        return self.size is not None and self._missing_size == 0

    def take_data(self, payload: bytes, at: int, ts: int, packet: int) -> int:
        """Store the bytes of the frame, its length first; returns the position after them."""
        # Packets may have been captured in another order than they were sent.
        self.ts, self.end_ts = min(self.ts, ts), max(self.end_ts, ts)
        if self.size is None:
            piece = payload[at : at + 4 - len(self.length_bytes)]
            self.heads.append((len(self.length_bytes), piece, ts, packet))
            self.length_bytes += piece
            if len(self.length_bytes) == 4:
                # The caller checks the length before any byte of the frame is stored.
                self.size = _INT32.unpack(self.length_bytes)[0]
                self._missing_size = max(self.size, 0)
            return at + len(piece)
        piece = payload[at : at + self._missing_size]
        self._missing_size -= len(piece)
        if self.damage is None:
            self._parts.append(piece)
            self._add_to_budget(len(piece))
            if self._budget.is_exceeded and self._stored_size > PARTIAL_SIZE_REDUCED:
                self.damage = "frame_limit"
                self._parts = [b"".join(self._parts)[:PARTIAL_SIZE_REDUCED]]
                self._add_to_budget(PARTIAL_SIZE_REDUCED - self._stored_size)
        return at + len(piece)

    def _add_to_budget(self, size: int) -> None:
        self._stored_size += size
        self._budget.size += size

    def take_gap(self, gap: MissingBytes) -> int:
        """Note missing bytes; returns how many of them are after this frame, all if its length is incomplete."""
        if self.size is None:
            return gap.size
        self.damage = self.damage or ("snaplen" if gap.cause == "snaplen" else "gap")
        self.end_ts = max(self.end_ts, gap.ts)
        size_in_frame = min(gap.size, self._missing_size)
        self._missing_size -= size_in_frame
        return gap.size - size_in_frame

    def make_frame(self, flow: Flow, is_request: bool) -> Frame:
        """The frame with the bytes that were stored."""
        assert self.size is not None
        data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._add_to_budget(-self._stored_size)
        return Frame(flow, is_request, self.ts, self.end_ts, self.offset, self.size, data, self.damage, self.packet)
