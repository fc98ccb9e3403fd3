"""One direction of a TCP connection: segments in any order become bytes in order, and what is missing gets a name."""

from __future__ import annotations

from bisect import bisect_left, insort
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from kwire.capture.values import Data, Flow, Gap, Segment

if TYPE_CHECKING:
    from collections.abc import Sequence

# How many packets of the connection a hole may wait for a late one, once its receiver has acknowledged it: then the
# capture has lost it. Captures are out of order by a few packets even on loopback.
PATIENCE = 64
# How much may wait behind a hole that nobody acknowledges (a capture of one direction only).
WAITING_COUNT_MAX = 4096
WAITING_SIZE_MAX = 32 * 1024 * 1024
# How much may wait in all connections together; beyond it those are given up that began to wait first.
HELD_SIZE_MAX = 256 * 1024 * 1024
# What a segment takes beside its bytes.
_SEGMENT_COST = 300

# How far behind the next byte a segment may lie: no sender has so much on its way. What lies further behind is of
# another connection of the same ports.
RESENT_DISTANCE_MAX = 256 * 1024 * 1024

_MASK = 0xFFFFFFFF
_HALF = 0x80000000
_SEQ = attrgetter("seq")


class _Waiting(NamedTuple):
    """A segment behind a hole. `seq` is unwrapped; `arrival` counts the connection's packets."""

    seq: int
    ts: int
    payload: bytes
    missing: int
    arrival: int
    packet: int


class Held:
    """What waits behind the holes of all connections."""

    def __init__(self) -> None:
        """Nothing waits."""
        self._size = 0

    @property
    def is_much(self) -> bool:
        """Whether it is more than it may be."""
        return self._size > HELD_SIZE_MAX

    def take(self, payload: bytes) -> None:
        """One more segment waits."""
        self._size += len(payload) + _SEGMENT_COST

    def give(self, payload: bytes) -> None:
        """One waits no longer."""
        self._size -= len(payload) + _SEGMENT_COST


class Half:
    """Reassembles one side. Sequence numbers are unwrapped: they go on growing where TCP's wrap at 2^32."""

    def __init__(self, flow: Flow, side: int, held: Held) -> None:
        """The side of the flow whose bytes are collected; its first sequence number is not known yet."""
        self._held = held
        self.flow = flow
        self.side = side
        self.start: int | None = None
        self.saw_syn = False
        self.next = 0
        self.acked = 0
        self.last_ts = 0
        self.fin: int | None = None
        self._waiting: list[_Waiting] = []
        self._waiting_size = 0

    @property
    def is_waiting(self) -> bool:
        """Whether segments wait behind a hole, or for the start to be known."""
        return bool(self._waiting)

    @property
    def waiting(self) -> Sequence[_Waiting]:
        """The segments that wait, in the order of the stream; no byte is in two of them."""
        return self._waiting

    def begin(self, seq: int, *, is_certain: bool) -> None:
        """The first byte has this sequence number."""
        self.flow.starts_known[self.side] = is_certain
        if self._waiting:
            # What waits was unwrapped around its own first number; move it so that both agree.
            seq = self._near(seq, self._waiting[0].seq)
        self.start = self.next = self.acked = seq
        self.flow.starts[self.side] = seq & _MASK

    def is_beyond(self, seq: int, distance: int) -> bool:
        """Whether the number lies further than `distance` from the start, either way."""
        assert self.start is not None
        return abs(self._near(seq, self.start) - self.start) > distance

    def is_far_behind(self, seq: int) -> bool:
        """Whether the number lies further behind the next byte than anybody sends again."""
        return self.start is not None and (seq - self.next + _HALF) & _MASK < _HALF - RESENT_DISTANCE_MAX

    def is_near(self, seq: int) -> bool:
        """Whether the number is one that this side may be at."""
        is_known = self.start is not None
        return is_known and (seq - self.next + RESENT_DISTANCE_MAX) & _MASK <= 2 * RESENT_DISTANCE_MAX

    def add(self, seq: int, segment: Segment, arrival: int) -> list[Data | Gap]:
        """Take one segment, whose first byte has this number; what can be given in order now."""
        reference = self.next if self.start is not None else (self._waiting[0].seq if self._waiting else seq)
        seq = self._near(seq, reference)
        taken = _Waiting(seq, segment.ts, segment.payload, segment.missing, arrival, segment.packet)
        out: list[Data | Gap] = []
        if self.start is None or seq > self.next or self._waiting:
            self._wait(taken)
            if self.start is not None:
                self._drain(out)
        else:
            self._deliver(taken, out)
        return out

    def _wait(self, new: _Waiting) -> None:
        """Keep what no waiting segment has brought yet: where they overlap, the bytes seen first stay."""
        at, end = new.seq, new.seq + len(new.payload)
        index = max(bisect_left(self._waiting, at, key=_SEQ) - 1, 0)
        pieces: list[_Waiting] = []
        while index < len(self._waiting) and self._waiting[index].seq < end:
            held = self._waiting[index]
            if held.seq > at:
                pieces.append(new._replace(seq=at, payload=new.payload[at - new.seq : held.seq - new.seq], missing=0))
            at = max(at, held.seq + len(held.payload))
            index += 1
        rest, missing = new.payload[at - new.seq :], end + new.missing - max(at, end)
        if rest or missing > 0:
            pieces.append(new._replace(seq=at, payload=rest, missing=max(missing, 0)))
        for piece in pieces:
            insort(self._waiting, piece, key=_SEQ)
            self._waiting_size += len(piece.payload)
            self._held.take(piece.payload)

    def acknowledge(self, ack: int) -> None:
        """The receiver has everything before `ack`."""
        if self.start is not None:
            self.acked = max(self.acked, self._near(ack, self.acked))

    def finish(self, seq: int) -> None:
        """A FIN with this sequence number: the side's bytes end before it."""
        if self.start is not None:
            self.fin = self._near(seq, self.next)

    def start_anywhere(self) -> list[Data | Gap]:
        """No SYN was seen: the lowest number that is waiting is taken for the start."""
        if self.start is not None or not self._waiting:
            return []
        self.begin(self._waiting[0].seq, is_certain=False)
        out: list[Data | Gap] = []
        self._drain(out)
        return out

    def give_up(self, arrival: int) -> list[Data | Gap]:
        """Name the holes that have waited long enough, and go on behind them."""
        out: list[Data | Gap] = []
        while self._waiting and self.start is not None:
            first = self._waiting[0]
            if first.seq <= self.next:
                # It waited for the start of the stream, which the other side has told by now.
                self._drain(out)
                continue
            late = self.acked > self.next and arrival - first.arrival >= PATIENCE
            if not (late or len(self._waiting) > WAITING_COUNT_MAX or self._waiting_size > WAITING_SIZE_MAX):
                break
            self._skip_hole(out)
        return out

    def let_go(self) -> list[Data | Gap]:
        """Name every hole, and go on behind the last."""
        out = self.start_anywhere()
        while self._waiting:
            self._skip_hole(out)
        return out

    def close(self) -> list[Data | Gap]:
        """Nothing more will come: name every hole, and the bytes at the end that only acknowledgements tell of."""
        out = self.let_go()
        if self.start is None:
            return out
        # A FIN takes one number itself; an acknowledgement of one number more than the data is taken for that.
        end = self.fin if self.fin is not None else self.acked - 1
        if end > self.next:
            out.append(self._gap(self.last_ts, end - self.next, "lost"))
        return out

    def _skip_hole(self, out: list[Data | Gap]) -> None:
        first = self._waiting[0]
        if first.seq > self.next:
            out.append(self._gap(first.ts, first.seq - self.next, "lost"))
        self._drain(out)

    def _drain(self, out: list[Data | Gap]) -> None:
        done = 0
        for waiting in self._waiting:
            if waiting.seq > self.next:
                break
            self._deliver(waiting, out)
            self._waiting_size -= len(waiting.payload)
            self._held.give(waiting.payload)
            done += 1
        del self._waiting[:done]

    def _deliver(self, segment: _Waiting, out: list[Data | Gap]) -> None:
        """Give what is new of a segment that begins at or before the next byte. What was seen first stays."""
        assert self.start is not None
        seen = self.next - segment.seq
        size = len(segment.payload)
        if seen >= size + segment.missing:
            return
        self.last_ts = segment.ts
        if seen < size:
            payload = segment.payload[seen:] if seen else segment.payload
            out.append(Data(self.flow, self.side, segment.ts, self.next - self.start, payload, segment.packet))
            self.next += size - seen
        if segment.missing:
            end = segment.seq + size + segment.missing
            out.append(self._gap(segment.ts, end - self.next, "snaplen"))

    def _gap(self, ts: int, size: int, why: str) -> Gap:
        assert self.start is not None
        gap = Gap(self.flow, self.side, ts, self.next - self.start, size, why)
        self.next += size
        return gap

    @staticmethod
    def _near(seq: int, reference: int) -> int:
        """The unwrapped number that is nearest to the reference."""
        return reference + ((seq - reference + _HALF) & _MASK) - _HALF
