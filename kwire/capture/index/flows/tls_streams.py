"""Decrypt the streams of TLS connections: their pieces become pieces of the plaintext, which take the same way behind.

A connection is decrypted by `TlsSession`, and its client found by `ClientDetection`. The plaintext gets positions that
the capture does not have.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np

from kwire.capture.index.flows.frame_columns import FileWindow, ReadAt
from kwire.capture.index.flows.other_connections import OtherConnection
from kwire.capture.index.flows.undecided_flows import KAFKA, FindEnds
from kwire.capture.index.scan.packet_headers import LINK_NAMES
from kwire.capture.index.streams.flow_closing import FlowEnd
from kwire.capture.index.streams.flow_table import FlowTable
from kwire.capture.index.streams.stream_pieces import (
    AFTER_GAP,
    CAUSES,
    CLOSED_FRAMES,
    CLOSED_STREAM,
    PHASE_MASK,
    PieceRow,
    StreamPieces,
    moment_of,
    packet_number,
    piece_columns,
)
from kwire.capture.kafka.client_detection import (
    NO_REQUEST,
    TLS_FAILED,
    ClientDetection,
    DetectionSettings,
    UndecidedBudget,
    may_decrypt,
)
from kwire.capture.model import Flow, MissingBytes, NonKafkaConnection, StreamData
from kwire.capture.tls.key_log import KeyLog

if TYPE_CHECKING:
    from kwire.capture.tls.tls_session import TlsSession

_PLACES = {cause: place for place, cause in CAUSES.items()}

StreamEvent = StreamData | MissingBytes


class _Connection:
    """A TLS connection.

    first_packet: the number of its first one with data. size: of its captured bytes. starts: by side, the sequence
    number from which offsets count, -1 while it has no data. held: the events before it is known that it speaks TLS,
    with their moments. rows: the pieces of its plaintext while the client is not known. failure: why it is not read.
    """

    def __init__(self, flow: Flow, first_packet: int, detection: ClientDetection) -> None:
        self.flow = flow
        self.first_packet = first_packet
        self.size = 0
        self.starts = [-1, -1]
        self.detection = detection
        self.session: TlsSession | None = None
        self.held: list[tuple[StreamEvent, int]] = []
        self.rows: list[PieceRow] = []
        self.is_kafka = False
        self.failure: NonKafkaConnection | None = None

    def stop(self, failure: NonKafkaConnection) -> None:
        """The rest of the connection is not read."""
        self.failure = failure
        self.flow.kind = failure.kind
        self.rows = []
        self.detection.release()

    def stop_tls(self, ts: int, why: str) -> None:
        """It cannot be decrypted."""
        self.stop(NonKafkaConnection(self.flow, "tls", ts, TLS_FAILED.format(why), 0))


class TlsStreams:
    """Decrypts the connections of flows that speak TLS; its state continues from span to span.

    tls_flows: the numbers of these flows.
    """

    def __init__(
        self, flows: FlowTable, read: ReadAt, find_ends: FindEnds, settings: DetectionSettings, keys: KeyLog
    ) -> None:
        """`read` reads the capture by position."""
        self._settings = settings
        self.tls_flows: set[int] = set()
        self._others: list[OtherConnection] = []
        self._skipped: set[int] = set()
        self._flows = flows
        self._read = read
        self._find_ends = find_ends
        self._keys = keys
        self._budget = UndecidedBudget()
        self._connections: dict[int, _Connection] = {}
        self._rows: list[PieceRow] = []
        self._buffer = bytearray()
        self._begin = 0

    def decrypt(
        self, pieces: StreamPieces, window: FileWindow, closing: Mapping[int, FlowEnd], begin: int
    ) -> tuple[StreamPieces, bytes]:
        """The pieces of the plaintext that these pieces complete, by side and offset, and the plaintext of the span.

        Args: pieces: of a span. window: the part of the file in memory. closing: the flows that end now. begin: the
        position of the plaintext.
        """
        self._rows, self._buffer, self._begin = [], bytearray(), begin
        flow = pieces.side >> 1
        pieces = pieces.select(~np.isin(flow, np.fromiter(self._skipped, dtype=np.int64)))
        order = np.lexsort((pieces.offset, pieces.side, pieces.moment))
        for side, offset, size, at, ts, packet, moment in zip(*(c.tolist() for c in pieces.select(order)), strict=True):
            number = side >> 1
            if number in self._skipped:
                continue
            connection = self._connections.get(number) or self._open(number, moment)
            if connection.starts[side & 1] < 0:
                self._start_side(side, connection)
            place = side & 1, ts, offset - connection.starts[side & 1]
            event: StreamEvent
            if at < 0:
                event = MissingBytes(connection.flow, *place, size, CAUSES[at])
            else:
                event = StreamData(connection.flow, *place, window.read(at, size, self._read), packet)
                connection.size += size
            if connection.session is None:
                self._find_tls(number, connection, event, moment)
            else:
                self._take_event(number, connection, event, moment)
        for number, end in closing.items():
            if number in self._connections:
                self._close(number, end)
        self._skipped.difference_update(closing)
        for number, connection in self._connections.items():
            self._note_starts(number, connection)
        found = piece_columns(self._rows)
        return found.select(np.lexsort((found.offset, found.side))), bytes(self._buffer)

    def _open(self, number: int, moment: int) -> _Connection:
        """The connection of a flow whose first piece comes."""
        flows = self._flows
        ends, link = self._find_ends(int(flows.pair[number])), LINK_NAMES[int(flows.link[number])]
        opener, epoch = int(flows.opener[number]), int(flows.epoch[number])
        starts_known = [bool(known) for known in flows.starts_known[2 * number : 2 * number + 2]]
        model = Flow(ends, epoch, link, opener if opener >= 0 else None, starts_known=starts_known)
        detection = ClientDetection(model, self._settings, self._budget)
        connection = self._connections[number] = _Connection(model, packet_number(moment), detection)
        return connection

    def _start_side(self, side: int, connection: _Connection) -> None:
        """The first data of a side comes."""
        flows = self._flows
        connection.starts[side & 1] = int(flows.start_seq[side])
        if flows.known_from[side] - 1 > connection.first_packet:
            # The start was found after data of the other side.
            connection.flow.starts_known[side & 1] = bool(flows.starts_known[side])

    def _find_tls(self, number: int, connection: _Connection, event: StreamEvent, moment: int) -> None:
        """Take an event of a connection of which it is not known yet that it speaks TLS."""
        connection.held.append((event, moment))
        non_kafka = connection.detection.add(event, may_be_tls=True)
        if non_kafka is not None and non_kafka.kind == "tls" and may_decrypt(self._keys):
            self._start(number, connection)
        elif non_kafka is not None or connection.flow.client is not None:
            self._skip(number)

    def _start(self, number: int, connection: _Connection) -> None:
        """The connection speaks TLS."""
        from kwire.capture.tls.tls_session import TlsSession

        connection.flow.is_tls = True
        self.tls_flows.add(number)
        connection.session = TlsSession(connection.flow, self._keys)
        connection.detection.release()
        connection.detection.first_bytes = [b"", b""]
        held, connection.held = connection.held, []
        for event, moment in held:
            self._take_event(number, connection, event, moment)

    def _take_event(self, number: int, connection: _Connection, event: StreamEvent, moment: int) -> None:
        session = connection.session
        if session is None or connection.failure is not None:
            return
        contents = session.decrypt_whole_records(event) if isinstance(event, StreamData) else None
        if contents is not None:
            for content in contents:
                self._take_plaintext(number, connection, content, moment)
            return
        is_second = moment & PHASE_MASK in {CLOSED_STREAM + 1, AFTER_GAP + 1}
        swapped = (moment - 1, moment) if is_second else (moment, moment + 1)
        self._take_plaintexts(number, connection, session.process_event(event), (moment, *swapped), event.side)
        if session.failure is not None and not connection.is_kafka:
            connection.stop_tls(event.ts, session.failure)

    def _take_plaintexts(
        self,
        number: int,
        connection: _Connection,
        events: Iterable[StreamEvent],
        moments: tuple[int, int, int],
        side: int,
    ) -> None:
        """Take the plaintext that a piece of one side completes, which may be that of the other side, too.

        Args: moments: of all of it; and if that of the other side comes first, of the other side and of this one, since
        a response may precede its request.
        """
        moment, early, late = moments
        is_first, is_swapped = True, False
        for event in events:
            if is_first and event.side != side:
                moment, is_swapped = early, True
            elif is_swapped and event.side == side:
                moment = late
            is_first = False
            self._take_plaintext(number, connection, event, moment)

    def _take_plaintext(self, number: int, connection: _Connection, event: StreamEvent, moment: int) -> None:
        """Take bytes of the plaintext."""
        if connection.failure is not None:
            return
        row_place = 2 * number + event.side, connection.starts[event.side] + event.offset
        if isinstance(event, StreamData):
            at = self._begin + len(self._buffer)
            self._buffer += event.payload
            row = (*row_place, len(event.payload), at, event.ts, event.packet, moment)
        else:
            row = (*row_place, event.size, _PLACES[event.cause], event.ts, 0, moment)
        if connection.is_kafka:
            self._rows.append(row)
            return
        connection.rows.append(row)
        non_kafka = connection.detection.add(event, may_be_tls=False)
        if non_kafka is not None:
            connection.stop(non_kafka)
        elif connection.flow.client is not None:
            self._release(number, connection, moment)

    def _release(self, number: int, connection: _Connection, moment: int) -> None:
        """The client of a connection is known."""
        flows = self._flows
        connection.is_kafka = True
        connection.detection.release()
        flows.opener[number], flows.decided_at[number] = connection.flow.client_side, moment
        flows.detection[number] = KAFKA
        self._rows += connection.rows
        connection.rows = []

    def _close(self, number: int, end: FlowEnd) -> None:
        """A connection ends."""
        connection = self._connections[number]
        detection, session = connection.detection, connection.session
        if session is None and detection.find_tls() is not None and may_decrypt(self._keys):
            self._start(number, connection)
            session = connection.session
        if session is None:
            self._skip(number)
            return
        if connection.failure is None:
            moment = moment_of(end.number, CLOSED_STREAM + 1)
            client = connection.flow.opener or 0
            self._take_plaintexts(number, connection, session.close(), (moment, moment, moment + 1), client)
        if connection.failure is None and not connection.is_kafka:
            if not detection.held_size:
                connection.stop_tls(end.ts, session.failure or "it carries no data")
            else:
                connection.flow.client = detection.find_client()
                if connection.flow.client is not None:
                    self._release(number, connection, moment_of(end.number, CLOSED_FRAMES))
                else:
                    connection.stop(NonKafkaConnection(connection.flow, "not_kafka", detection.first_ts, NO_REQUEST, 0))
        if connection.failure is not None:
            failure, opener = connection.failure._replace(size=connection.size), connection.flow.opener
            self._others.append(OtherConnection(number, *failure[1:], completed_by=end.number))
            self._flows.opener[number] = -1 if opener is None else opener
        self._note_starts(number, connection)
        del self._connections[number]

    def _skip(self, number: int) -> None:
        """A connection does not speak TLS, or there are no secrets at all when it shows that it does."""
        self._connections.pop(number).detection.release()
        self._skipped.add(number)

    def take_closed(self) -> list[OtherConnection]:
        """Return the connections that cannot be read and were closed since the last call."""
        others, self._others = self._others, []
        return others

    def held_pieces(self) -> StreamPieces:
        """The pieces of the plaintext of connections whose client is not known."""
        return piece_columns([row for connection in self._connections.values() for row in connection.rows])

    def _note_starts(self, number: int, connection: _Connection) -> None:
        """Note where frames begin."""
        self._flows.plain_starts_known[2 * number : 2 * number + 2] = connection.flow.starts_known
