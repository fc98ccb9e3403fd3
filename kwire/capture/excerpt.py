"""The packets that carry chosen exchanges, as pcapng with comments: what Wireshark shall open of a large capture.

Packets are held until it is known whether they are wanted: until the exchange that they carry is complete. Which bytes
of a connection a packet carries, its sequence number tells; which bytes an exchange took, its frames do.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

from kwire.capture.exchange import Exchange, exchanges
from kwire.capture.extras import require_cryptography
from kwire.capture.held_packets import Held, Side
from kwire.capture.ip import segments
from kwire.capture.packets import packets
from kwire.capture.pcapng_write import PcapngWriter
from kwire.capture.pipeline import gathered
from kwire.capture.reassembly import Connections
from kwire.capture.talks import frames
from kwire.capture.values import Closed, Flow, Frame, FrameEvent, Lost, Packet, Segment, StreamEvent, Trouble

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import BinaryIO

    from kwire.capture.exchange import Outcome
    from kwire.capture.keylog import KeyLog
    from kwire.capture.options import Options
    from kwire.capture.source import Source

# What all packets that are held may take; beyond it the oldest are given up, and counted.
HELD_SIZE_MAX = 512 * 1024 * 1024
# What waits to be written in the order of the capture.
_QUEUE_SIZE_MAX = 32 * 1024 * 1024
_QUEUE_COUNT_MAX = 20_000
# Of a connection that never ends the handshake and its repetitions are enough.
_HANDSHAKE_MAX = 6
_SYN = 0x02
_NOT_READ = frozenset({"tls", "not_kafka"})


class _Connection:
    """What is held of a connection: its handshake, and each side's packets."""

    def __init__(self, forget: Callable[[Held], None]) -> None:
        self.handshake: list[Held] = []
        self.sides = Side(forget), Side(forget)


class _Wanted(NamedTuple):
    """A stretch of one side of a connection; `is_whole` where the capture has all of it."""

    is_request: bool
    offset: int
    size: int
    is_whole: bool
    comment: str


class Excerpt:
    """Reads captures, and writes the packets of what is chosen while it is read."""

    def __init__(self, file: BinaryIO, comment: str) -> None:
        """`file` is the owner's to close; `comment` is for the whole file."""
        self._file = file
        self._comment = comment
        self._writer: PcapngWriter | None = None
        self._interfaces: dict[int, int] = {}
        self._queue: list[tuple[int, Held]] = []
        self._queue_size = 0
        self._arrivals = 0
        self._packet: Packet | None = None
        self._connections: dict[Flow, _Connection] = {}
        self._all: dict[int, Held] = {}
        self._all_size = 0
        self.written = 0
        self.encrypted = 0
        """Chosen exchanges of TLS connections: of their packets a part would be of no use to anybody."""
        self.incomplete = 0
        """Chosen frames that lack a packet: it was given up before they were complete, or came in IP fragments."""

    def outcomes(self, source: Source, options: Options, keys: KeyLog) -> Iterator[Outcome]:
        """The outcomes of a capture. Each may be chosen until the next one is asked for."""
        if options.tls_keylog:
            require_cryptography()
        self._connections, self._all, self._all_size = {}, {}, 0
        events = self._events(segments(self._noted(packets(source, keys))))
        return gathered(exchanges(self._opened(frames(events, options, keys)), options))

    def choose(self, outcome: Outcome, request: str, response: str) -> None:
        """Write the packets of an outcome, with what is to be said of the first packet of each side."""
        if isinstance(outcome, Exchange):
            for side, text in ((outcome.request, request), (outcome.response, response)):
                if side is not None:
                    frame = side.frame
                    wanted = _Wanted(frame.is_request, frame.offset, frame.size + 4, frame.damage is None, text)
                    self._choose(outcome.flow, wanted)
        elif isinstance(outcome, Lost):
            size = outcome.missing + outcome.skipped
            self._choose(outcome.flow, _Wanted(outcome.is_request, outcome.offset, size, False, request))

    def release(self, outcome: Outcome) -> None:
        """The outcome has been looked at: packets that belong to nothing else are not needed any more."""
        if not isinstance(outcome, Exchange):
            return
        flow = outcome.flow
        connection = self._connections.get(flow)
        if connection is None or flow.client is None:
            return
        for message in (outcome.request, outcome.response):
            if message is not None:
                frame = message.frame
                side = flow.client if frame.is_request else 1 - flow.client
                connection.sides[side].release(
                    flow.starts[side], frame.offset, frame.size + 4, now=frame.end_ts, arrivals=self._arrivals
                )

    def flush(self) -> None:
        """Write all that is chosen."""
        self._begin()
        while self._queue:
            self._write_next()
        self._file.flush()

    def _noted(self, found: Iterable[Packet | Trouble]) -> Iterator[Packet | Trouble]:
        """The packets; the latest is the one that the next segment came with."""
        for each in found:
            if isinstance(each, Packet):
                self._packet = each
                self._arrivals += 1
            yield each

    def _events(self, found: Iterable[Segment | Trouble]) -> Iterator[StreamEvent | Trouble]:
        connections = Connections(self._hold)
        for segment in found:
            if isinstance(segment, Trouble):
                yield segment
            else:
                yield from self._until_closed(connections.take(segment))
        yield from self._until_closed(connections.close())

    def _until_closed(self, events: Iterable[StreamEvent]) -> Iterator[StreamEvent]:
        for event in events:
            yield event
            if isinstance(event, Closed):
                self._drop(self._connections.pop(event.flow, None))

    def _opened(self, found: Iterable[FrameEvent | Trouble]) -> Iterator[FrameEvent | Trouble]:
        """The frames; each is open until its exchange is released."""
        for event in found:
            if isinstance(event, Frame):
                flow = event.flow
                connection = self._connections.get(flow)
                if connection is not None and flow.client is not None:
                    side = flow.client if event.is_request else 1 - flow.client
                    connection.sides[side].open(flow.starts[side], event.offset, event.size + 4)
            yield event

    def _hold(self, flow: Flow | None, side: int, segment: Segment) -> None:
        """Keep the packet of a segment, if it may ever be asked for."""
        packet = self._packet
        if flow is None or packet is None:
            return
        connection = self._connections.get(flow)
        if connection is None:
            connection = self._connections[flow] = _Connection(self._forget)
        if flow.kind in _NOT_READ or flow.is_tls:
            self._drop(connection)
            return
        held = Held(packet, self._arrivals, segment.seq, len(segment.payload) + segment.missing)
        if segment.flags & _SYN and len(connection.handshake) < _HANDSHAKE_MAX:
            connection.handshake.append(held)
        # What came in IP fragments is not in one packet.
        if held.size and segment.payload in packet.data:
            connection.sides[side].hold(held)
            self._all[id(held)] = held
            self._all_size += len(packet.data)
        while self._all_size > HELD_SIZE_MAX:
            self._forget(next(iter(self._all.values())))

    def _choose(self, flow: Flow, wanted: _Wanted) -> None:
        if flow.is_tls:
            self.encrypted += wanted.is_request
            return
        connection = self._connections.get(flow)
        if connection is None or flow.client is None:
            return
        for held in connection.handshake:
            self._enqueue(held)
        side = flow.client if wanted.is_request else 1 - flow.client
        found = connection.sides[side].carrying(flow.starts[side], wanted.offset, wanted.size)
        if found and wanted.comment:
            found[0][1].comments.append(wanted.comment)
        reached = 0
        for at, held in found:
            # What lies behind a hole is wanted too, but does not fill it.
            reached = max(reached, at + held.size) if at <= reached else reached
            self._enqueue(held)
        self.incomplete += wanted.is_whole and reached < wanted.size

    def _enqueue(self, held: Held) -> None:
        if held.is_chosen:
            return
        held.is_chosen = True
        heappush(self._queue, (held.arrival, held))
        self._queue_size += len(held.packet.data)
        while self._queue_size > _QUEUE_SIZE_MAX or len(self._queue) > _QUEUE_COUNT_MAX:
            self._write_next()

    def _write_next(self) -> None:
        _, held = heappop(self._queue)
        packet = held.packet
        self._queue_size -= len(packet.data)
        writer = self._begin(packet.link)
        interface = self._interfaces.get(packet.link)
        if interface is None:
            interface = self._interfaces[packet.link] = writer.add_interface(packet.link)
        comment = "; ".join(held.comments) or None
        writer.write_packet(packet.ts, packet.data, comment, interface=interface, size=packet.size)
        self.written += 1

    def _begin(self, link: int = 1) -> PcapngWriter:
        """The file has a section even where nothing is chosen, so that it is a capture."""
        if self._writer is None:
            self._writer = PcapngWriter(self._file, link=link, comment=self._comment)
            self._interfaces[link] = 0
        return self._writer

    def _drop(self, connection: _Connection | None) -> None:
        for side in connection.sides if connection is not None else ():
            side.close()

    def _forget(self, held: Held) -> None:
        if self._all.pop(id(held), None) is not None:
            self._all_size -= len(held.packet.data)
        if held.side is not None:
            held.side.gone(held)
