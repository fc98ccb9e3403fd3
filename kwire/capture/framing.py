"""From one side's bytes and gaps to frames: length, then so many bytes; after a loss, a search for the next frame."""

from __future__ import annotations

import struct
from collections import deque
from typing import TYPE_CHECKING

from kwire.capture.looking import is_tls
from kwire.capture.search import BEGUN_SIZE_LESSER, Begun, Search
from kwire.capture.values import Data, Flow, Frame, Gap, Lost

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

_INT32 = struct.Struct(">i")
# A side on which so many lengths were impossible is not Kafka any more, and is not searched further.
REFUSALS_MAX = 32

_WHY = {
    "lost": "bytes were not captured",
    "snaplen": "packets were captured only in part",
    "tls": "TLS records do not open",
}


class Assembler:
    """Cuts one side of a connection into frames. It is either inside the chain of frames, or searching for it."""

    def __init__(self, flow: Flow, begun: Begun, *, is_request: bool, size_max: int, is_start_known: bool) -> None:
        """`begun` is shared by all. `is_start_known`: the first byte given is the first byte of a frame."""
        self._flow = flow
        self._begun = begun
        self._is_request = is_request
        self._size_max = size_max
        self._partial: _Partial | None = None
        self._search = Search(flow, begun, is_request=is_request, size_max=size_max)
        self._is_searching = not is_start_known
        self._refusals = 0
        if self._is_searching:
            self._search.begin("midstream", "the capture began inside the stream", 0, 0, 0)

    @property
    def is_in_step(self) -> bool:
        """Whether it is inside the chain of frames, and has never left it."""
        return not (self._is_searching or self._refusals or (self._partial and self._partial.damage))

    @property
    def open_at(self) -> int | None:
        """Where the frame begins of which only a part has come; None between frames."""
        return None if self._partial is None else self._partial.offset

    def data(self, event: Data) -> Iterator[Frame | Lost]:
        """The frames that these bytes complete."""
        if not self._is_searching:
            rest = yield from self._cut(event)
            if rest is None:
                return
            # A length was refused; the search goes on in what lies behind it.
            event = rest
        # What a search finds may end in another refused length: so it is a queue, and no recursion.
        queue = deque([event])
        while queue:
            event = queue.popleft()
            if self._is_searching:
                if not event.payload:
                    continue
                self._search.add(event)
                found = self._search.found() if self._refusals <= REFUSALS_MAX else None
                if found is not None:
                    yield from self._report()
                    queue.extendleft(reversed(found))
                continue
            rest = yield from self._cut(event)
            if rest is not None:
                queue.appendleft(rest)

    def gap(self, event: Gap) -> Iterator[Frame | Lost]:
        """Pass over missing bytes: inside a frame that is harmless to its neighbours, else a search begins."""
        beyond, skipped = event.size, 0
        if self._is_searching:
            yield from self._report()
        elif self._partial is not None:
            beyond = self._partial.miss(event)
            if self._partial.size is not None:
                if not self._partial.is_done:
                    return
                yield self._partial.frame(self._flow, self._is_request)
            else:
                # What there was of a length is of no use without the rest.
                skipped = len(self._partial.head)
            self._partial = None
        if beyond:
            begin = event.offset + event.size - beyond - skipped
            self._begin_search(event.why, _WHY[event.why], event.ts, begin, beyond, skipped=skipped)

    def close(self, ts: int) -> Iterator[Frame | Lost]:
        """Nothing more will come: what is begun is cut here."""
        partial = self._partial
        if self._is_searching:
            yield from self._report()
        elif partial is not None and partial.size is None:
            detail = f"the stream ends after {len(partial.head)} of the 4 bytes of a frame's length"
            yield Lost(self._flow, self._is_request, ts, partial.offset, 0, len(partial.head), "cut_length", detail)
        elif partial is not None:
            partial.damage = partial.damage or "end"
            yield partial.frame(self._flow, self._is_request)

    def _begin_search(self, kind: str, detail: str, ts: int, offset: int, missing: int, *, skipped: int = 0) -> None:
        self._is_searching = True
        self._search.begin(kind, detail, ts, offset, missing, skipped=skipped)

    def _report(self) -> Iterator[Lost]:
        """The search is over."""
        self._is_searching = False
        self._search.end()
        lost = self._search.lost()
        if lost is not None:
            yield lost

    def _cut(self, event: Data) -> Generator[Frame | Lost, None, Data | None]:
        """Frames from bytes inside the chain. Returns what lies behind a refused length, else None."""
        payload, ts, packet = event.payload, event.ts, event.packet
        at, end = 0, len(payload)
        while at < end:
            if self._partial is None:
                # Nearly always a frame begins where its packet does, and is whole in it.
                size = _INT32.unpack_from(payload, at)[0] if end - at >= 4 else -1
                if 0 <= size <= end - at - 4:
                    start, at = at + 4, at + 4 + size
                    body = payload[start:at]
                    offset = event.offset + start - 4
                    yield Frame(self._flow, self._is_request, ts, ts, offset, size, body, None, packet)
                    continue
                self._partial = _Partial(ts, event.offset + at, packet, self._begun)
            partial = self._partial
            at = partial.take(payload, at, ts)
            if partial.size is not None and not 0 <= partial.size <= self._size_max:
                self._refuse(partial)
                return Data(event.flow, event.side, ts, event.offset + at, payload[at:], packet)
            if partial.is_done:
                self._partial = None
                yield partial.frame(self._flow, self._is_request)
        return None

    def _refuse(self, partial: _Partial) -> None:
        """A length that no frame has: its four bytes are skipped, and a search begins behind them."""
        self._refusals += 1
        detail = f"a frame length of {partial.size} is not within 0 and {self._size_max}"
        kind = "bad_length"
        if not self._is_request and is_tls(bytes(partial.head) + bytes(1)):
            kind, detail = "tls", "the answer is a TLS record: the port speaks TLS, and the client does not"
        self._partial = None
        self._begin_search(kind, detail, partial.ts, partial.offset, 0)
        head = Data(self._flow, 0, partial.ts, partial.offset, bytes(partial.head), partial.packet)
        self._search.add(head, is_start=False)


class _Partial:
    """A frame that has begun: its length once four bytes are there, and what came of it before anything was missing."""

    def __init__(self, ts: int, offset: int, packet: int, begun: Begun) -> None:
        self._begun = begun
        self.packet = packet
        self.ts = self.end_ts = ts
        self.offset = offset
        self.head = bytearray()
        self.size: int | None = None
        self.damage: str | None = None
        self._parts: list[bytes] = []
        self._held = 0
        self._need = 0

    @property
    def is_done(self) -> bool:
        """Whether every byte of the frame has come."""
        return self.size is not None and self._need == 0

    def take(self, payload: bytes, at: int, ts: int) -> int:
        """Take what belongs to the frame, its length first; where the rest begins."""
        # Packets may have been captured in another order than they were sent.
        self.ts, self.end_ts = min(self.ts, ts), max(self.end_ts, ts)
        if self.size is None:
            piece = payload[at : at + 4 - len(self.head)]
            self.head += piece
            if len(self.head) == 4:
                # The caller judges the length before anything is kept for it.
                self.size = _INT32.unpack(self.head)[0]
                self._need = max(self.size, 0)
            return at + len(piece)
        piece = payload[at : at + self._need]
        self._need -= len(piece)
        if self.damage is None:
            self._parts.append(piece)
            self._hold(len(piece))
            if self._begun.is_much and self._held > BEGUN_SIZE_LESSER:
                self.damage = "much"
                self._parts = [b"".join(self._parts)[:BEGUN_SIZE_LESSER]]
                self._hold(BEGUN_SIZE_LESSER - self._held)
        return at + len(piece)

    def _hold(self, size: int) -> None:
        self._held += size
        self._begun.size += size

    def miss(self, gap: Gap) -> int:
        """Bytes are missing; how many of them lie behind this frame, all of them where its length is among them."""
        if self.size is None:
            return gap.size
        self.damage = self.damage or ("snaplen" if gap.why == "snaplen" else "gap")
        self.end_ts = max(self.end_ts, gap.ts)
        inside = min(gap.size, self._need)
        self._need -= inside
        return gap.size - inside

    def frame(self, flow: Flow, is_request: bool) -> Frame:
        """What there is of the frame, whole or not."""
        assert self.size is not None
        data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
        self._hold(-self._held)
        return Frame(flow, is_request, self.ts, self.end_ts, self.offset, self.size, data, self.damage, self.packet)
