"""From TCP segments to the ordered bytes of each connection, gaps named. Source: RFC 9293.

A connection ends by FIN on both sides or RST and some quiet time after it, by a SYN that reuses its addresses, with the
capture, or where too many are open and it has been quiet for longer than most.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from kwire.capture.halves import Half, Held
from kwire.capture.values import Closed, End, Flow, Segment, StreamEvent, Trouble

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

_FIN, _SYN, _RST, _ACK = 0x01, 0x02, 0x04, 0x10

# Without a SYN the first packets may come in any order: so many are awaited before the lowest number is the start.
START_PACKETS = 16
# A SYN whose number is this near to the start of the data, early in a connection, is only late.
LATE_SYN_DISTANCE = 1 << 16
# How long after its end a connection may still receive late packets.
LINGER_NS = 5_000_000_000
# New bytes that come so long after a reset show that nobody heeded it: it was made up, or late itself.
_HEEDED_NS = 1_000_000_000
# So many connections may be open at once; then the half that has been quiet for longest is closed. A scan of ports
# opens as many as it has packets.
OPEN_MAX = 100_000
# Addresses whose reuse is counted; beyond it those are forgotten that are not in use.
_EPOCHS_MAX = 10 * OPEN_MAX


class _Connection:
    """Both halves of a connection, and how it stands."""

    def __init__(self, flow: Flow, held: Held) -> None:
        self.flow = flow
        self.halves = (Half(flow, 0, held), Half(flow, 1, held))
        self.packets = 0
        self.last_ts = 0
        self.ended: str | None = None
        self.ended_ts = 0
        self.grew_ts = 0
        self.strays = 0
        """Packets since the latest new bytes that are far behind, and acknowledge what fits."""
        self._plain_syns: set[int] = set()

    def is_new(self, side: int, seq: int) -> bool:
        """Whether a SYN with this sequence number opens another connection than this one."""
        half = self.halves[side]
        if half.start is None:
            return self.ended is not None
        first = seq + 1 & 0xFFFFFFFF
        early = not half.saw_syn and self.packets < START_PACKETS * 2
        return half.is_beyond(first, LATE_SYN_DISTANCE if early else 0)

    @property
    def goes_on(self) -> bool:
        """Whether it was used further in spite of a reset."""
        return self.ended == "rst" and self.grew_ts - self.ended_ts > _HEEDED_NS

    def take(self, side: int, segment: Segment) -> Iterator[StreamEvent]:
        """One segment of this connection."""
        self.packets += 1
        self.last_ts = segment.ts
        half, other = self.halves[side], self.halves[1 - side]
        seq, flags = segment.seq, segment.flags
        if flags & _SYN:
            seq = self._syn(side, segment)
        if flags & _ACK:
            if other.start is None and half.saw_syn and seq == half.start:
                # Whoever has sent nothing yet has usually received nothing either: so this completes the handshake.
                other.begin(segment.ack, is_certain=True)
            # What a reset acknowledges is often made up; and who was asked to open a connection answers at first for
            # the one before.
            if not flags & _RST and (half.is_near(seq) or (half.start is None and not other.saw_syn)):
                other.acknowledge(segment.ack)
        if segment.payload or segment.missing:
            before = half.next
            yield from half.add(seq, segment, self.packets)
            if half.next > before:
                self.grew_ts, self.strays = segment.ts, 0
        if flags & _FIN:
            half.finish(seq + len(segment.payload) + segment.missing)
        for each in self.halves:
            if each.is_waiting:
                if each.start is None and self.packets >= START_PACKETS:
                    yield from each.start_anywhere()
                yield from each.give_up(self.packets)
        if self.ended is None and (flags & _RST or all(each.fin is not None for each in self.halves)):
            self.ended, self.ended_ts = "rst" if flags & _RST else "fin", segment.ts

    def _syn(self, side: int, segment: Segment) -> int:
        """The number of the first byte after the SYN."""
        half = self.halves[side]
        seq = segment.seq + 1 & 0xFFFFFFFF
        if half.start is None:
            half.begin(seq, is_certain=True)
        half.saw_syn = True
        if not segment.flags & _ACK:
            self._plain_syns.add(side)
        if len(self._plain_syns) == 2:
            # Both opened it at once (RFC 9293, 3.5): what they say must show who is the client.
            self.flow.opener = None
        elif self.flow.opener is None:
            self.flow.opener = 1 - side if segment.flags & _ACK else side
        return seq

    def close(self, ts: int, why: str) -> Iterator[StreamEvent]:
        """Give out what still waits, and the end of both directions."""
        for half in self.halves:
            yield from half.close()
        yield Closed(self.flow, ts, self.ended or why)


def streams(segments: Iterable[Segment | Trouble]) -> Iterator[StreamEvent | Trouble]:
    """The bytes of every connection in order, each connection followed by its `Closed`."""
    table = Connections()
    for segment in segments:
        if isinstance(segment, Trouble):
            yield segment
        else:
            yield from table.take(segment)
    yield from table.close()


def _is_reuse(connection: _Connection, side: int, segment: Segment) -> bool:
    if segment.flags & _SYN:
        return connection.is_new(side, segment.seq)
    if not connection.halves[side].is_far_behind(segment.seq) or not (segment.payload or segment.missing):
        return False
    # Only another connection can have sent what lies so far behind; its SYN was not captured. One packet that fits else
    # may also have a wrong number.
    if connection.halves[1 - side].is_near(segment.ack):
        connection.strays += 1
        return connection.strays > 1
    return True


class Connections:
    """All connections that are open, or ended a moment ago."""

    def __init__(self, watch: Callable[[Flow | None, int, Segment], None] | None = None) -> None:
        """`watch` is told the connection and the side of each segment, no connection where it belongs to none."""
        self._watch = watch
        self._open: dict[tuple[End, End], _Connection] = {}
        self._epochs: dict[tuple[End, End], int] = {}
        self._ended: deque[tuple[tuple[End, End], _Connection]] = deque()
        self._ts = 0
        self._held = Held()
        # The halves that wait behind a hole, in the order in which they began to.
        self._waiting: dict[Half, None] = {}

    def halves(self, ends: tuple[End, End]) -> tuple[Half, Half] | None:
        """Both sides of the connection that is open between two ends, the smaller one first; None once it has ended."""
        connection = self._open.get(ends)
        return None if connection is None or connection.ended else connection.halves

    def take(self, segment: Segment) -> Iterator[StreamEvent]:
        """What a segment completes."""
        self._ts = segment.ts
        if self._ended:
            yield from self._forget(segment.ts)
        if segment.source <= segment.target:
            key, side = (segment.source, segment.target), 0
        else:
            key, side = (segment.target, segment.source), 1
        connection = self._open.get(key)
        if connection is not None and _is_reuse(connection, side, segment):
            yield from self._close(connection, segment.ts, "reuse")
            connection = None
        if connection is None:
            # A connection is worth a place once it opens or carries data; a stray ACK or RST is not.
            if not (segment.payload or segment.missing or segment.flags & _SYN):
                if self._watch is not None:
                    self._watch(None, side, segment)
                return
            if len(self._open) >= OPEN_MAX:
                yield from self._close_quiet(segment.ts)
            connection = self._new(key, segment.link)
        if self._watch is not None:
            self._watch(connection.flow, side, segment)
        was_ended = connection.ended
        yield from connection.take(side, segment)
        if self._waiting or connection.halves[side].is_waiting:
            yield from self._make_room(connection)
        if connection.ended and not was_ended:
            self._ended.append((key, connection))

    def _make_room(self, connection: _Connection) -> Iterator[StreamEvent]:
        """Note who waits; where all together hold too much, those do not wait any longer who began first."""
        for half in connection.halves:
            if half.is_waiting:
                self._waiting.setdefault(half)
            else:
                self._waiting.pop(half, None)
        while self._held.is_much and self._waiting:
            half = next(iter(self._waiting))
            del self._waiting[half]
            yield from half.let_go()

    def _close(self, connection: _Connection, now: int, why: str) -> Iterator[StreamEvent]:
        for half in connection.halves:
            self._waiting.pop(half, None)
        return connection.close(now, why)

    def _new(self, key: tuple[End, End], link: str) -> _Connection:
        epoch = self._epochs.get(key, -1) + 1
        self._epochs[key] = epoch
        connection = self._open[key] = _Connection(Flow(key, epoch, link), self._held)
        return connection

    def _close_quiet(self, now: int) -> Iterator[StreamEvent]:
        quiet = sorted(self._open, key=lambda key: self._open[key].last_ts)[: max(len(self._open) // 2, 1)]
        for key in quiet:
            yield from self._close(self._open.pop(key), now, "quiet")
        if len(self._epochs) > _EPOCHS_MAX:
            self._epochs = {key: self._epochs[key] for key in self._open}

    def _forget(self, now: int) -> Iterator[StreamEvent]:
        while self._ended and now - self._ended[0][1].ended_ts > LINGER_NS:
            key, connection = self._ended.popleft()
            if connection.goes_on:
                connection.ended = None
                continue
            # A reused pair of addresses has closed it already.
            if self._open.get(key) is connection:
                del self._open[key]
                yield from self._close(connection, now, "fin")

    def expire(self, before_ts: int) -> Iterator[StreamEvent]:
        """End every connection that has been quiet since this time."""
        for key in [key for key, connection in self._open.items() if connection.last_ts < before_ts]:
            yield from self._close(self._open.pop(key), self._ts, "quiet")

    def close(self) -> Iterator[StreamEvent]:
        """End every connection that is open."""
        for connection in self._open.values():
            yield from self._close(connection, self._ts, "end")
        self._open.clear()
