"""Which flows are Kafka, and which side is the client: nearly always their first bytes show it.

The other flows hold their pieces until `ClientDetection` finds the client, or that they are not Kafka. Their frames and
pairs have the moments of their pieces all the same; only what they complete is not known before the client
(`FlowTable.decided_at`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

import numpy as np

from kwire.capture.index.arrays import concatenate_rows, group_starts
from kwire.capture.index.flows.frame_columns import NO_WINDOW, FileWindow, ReadAt
from kwire.capture.index.flows.other_connections import OtherConnections
from kwire.capture.index.streams.flow_closing import FlowEnd
from kwire.capture.index.streams.flow_table import FlowTable
from kwire.capture.index.streams.stream_pieces import CAUSES, CLOSED_FRAMES, NO_PIECES, StreamPieces, moment_of
from kwire.capture.kafka.client_detection import NO_REQUEST, ClientDetection, DetectionSettings, UndecidedBudget
from kwire.capture.kafka.heuristics import REQUEST_HEAD, is_request, is_tls
from kwire.capture.model import Endpoint, Flow, MissingBytes, NonKafkaConnection, StreamData

# The size of a connection's first bytes that are checked.
_FIRST_SIZE = 4 * REQUEST_HEAD
_UNSEEN, _UNDECIDED, KAFKA, _OTHER = 0, 1, 2, 3

FindEnds = Callable[[int], tuple[Endpoint, Endpoint]]
"""Returns the endpoints of a pair, by its number."""


class _Undecided(NamedTuple):
    """A flow whose client is not known. held: its pieces so far."""

    flow: Flow
    detection: ClientDetection
    held: list[StreamPieces]


class UndecidedFlows:
    """Finds the clients of flows; its state continues from span to span."""

    def __init__(self, flows: FlowTable, read: ReadAt, find_ends: FindEnds, settings: DetectionSettings) -> None:
        """`read` reads the file by offset."""
        self._flows = flows
        self._settings = settings
        self._read = read
        self._window = NO_WINDOW
        self._find_ends = find_ends
        self._budget = UndecidedBudget()
        self._undecided: dict[int, _Undecided] = {}
        self.others = OtherConnections(flows, read)
        self.held_size = 0
        """The most payload that was held in the last span."""

    def decide(self, pieces: StreamPieces, window: FileWindow, closing: Mapping[int, FlowEnd]) -> StreamPieces:
        """Find the clients of flows by their pieces of a span.

        Args: pieces: by side and offset. closing: the flows that end now.
        Returns: the pieces of flows whose client is known, in the same order, with those that were held.
        """
        flows, flow = self._flows, pieces.side >> 1
        self._window, self.held_size = window, self._budget.size
        self.others.skip_pieces(pieces.select(flows.detection[flow] == _OTHER), window)
        self._check_first_bytes(pieces)
        numbers = np.unique(flow[flows.detection[flow] == _UNDECIDED])
        firsts, stops = np.searchsorted(flow, (numbers, numbers + 1))
        found = [
            self._add_pieces(number, pieces.select(np.arange(first, stop)))
            for number, first, stop in zip(numbers.tolist(), firsts.tolist(), stops.tolist(), strict=True)
        ]
        found += [self._close(number, end) for number, end in closing.items() if number in self._undecided]
        self.others.close(closing)
        pieces = pieces.select((flows.detection[flow] == KAFKA) & ~np.isin(flow, numbers))
        if not found:
            return pieces
        pieces = concatenate_rows(pieces, *found)
        return pieces.select(np.lexsort((pieces.offset, pieces.side)))

    def drop_window(self) -> None:
        """Drop the part of the file in memory, after a span."""
        self._window = NO_WINDOW

    def drop_flows(self, numbers: Collection[int]) -> None:
        """Do not decide these flows, which are read in another way."""
        for number in self._undecided.keys() & numbers:
            self._undecided.pop(number).detection.release()

    def held_pieces(self) -> list[StreamPieces]:
        """The pieces of flows whose client is not known."""
        return [pieces for undecided in self._undecided.values() for pieces in undecided.held]

    def _check_first_bytes(self, pieces: StreamPieces) -> None:
        """Check the first bytes of new flows, whether they are a request from the side that opened the connection."""
        flows, flow = self._flows, pieces.side >> 1
        new = np.nonzero(flows.detection[flow] == _UNSEEN)[0]
        new = new[np.lexsort((pieces.offset[new], pieces.moment[new], flow[new]))]
        for index in new[group_starts(flow[new])].tolist():
            side = int(pieces.side[index])
            number = side >> 1
            is_known = side & 1 == flows.opener[number] and flows.starts_known[side] and not self._settings.ports
            first = self._read_first(pieces, index) if is_known else b""
            is_plain = len(first) >= REQUEST_HEAD and not is_tls(first)
            is_plain = is_plain and is_request(first, 0, self._settings.size_max)
            flows.detection[number] = KAFKA if is_plain else _UNDECIDED
            if not is_plain:
                opener = int(flows.opener[number])
                starts_known = [bool(known) for known in flows.starts_known[2 * number : 2 * number + 2]]
                ends, known_opener = self._find_ends(int(flows.pair[number])), opener if opener >= 0 else None
                model = Flow(ends, 0, "", known_opener, starts_known=starts_known)
                detection = ClientDetection(model, self._settings, self._budget)
                self._undecided[number] = _Undecided(model, detection, [])

    def _read_first(self, pieces: StreamPieces, index: int) -> bytes:
        """The first bytes of a side from a piece on, from as many pieces as hold the begin of a request."""
        first, side = b"", pieces.side[index]
        while len(first) < REQUEST_HEAD and index < len(pieces.side):
            at, size = int(pieces.at[index]), int(pieces.size[index])
            if at < 0 or pieces.side[index] != side:
                break
            first += self._window.read(at, min(size, _FIRST_SIZE), self._read)
            index += 1
        return first

    def _add_pieces(self, number: int, pieces: StreamPieces) -> StreamPieces:
        """Add pieces of a flow; return all of its pieces if they show the client."""
        flow, detection, held = self._undecided[number]
        start = self._flows.start_seq
        held.append(pieces)
        order = np.lexsort((pieces.offset, pieces.side, pieces.moment))
        for side, offset, size, at, ts, packet, moment in zip(*(c.tolist() for c in pieces.select(order)), strict=True):
            place = side & 1, ts, offset - int(start[side])
            if at < 0:
                event: StreamData | MissingBytes = MissingBytes(flow, *place, size, CAUSES[at])
            else:
                event = StreamData(flow, *place, self._window.read(at, size, self._read), packet)
            non_kafka = detection.add(event, may_be_tls=True)
            self.held_size = max(self.held_size, self._budget.size)
            if non_kafka is not None:
                return self._stop(number, non_kafka)
            if flow.client is not None:
                return self._release(number, moment)
        return NO_PIECES

    def _close(self, number: int, end: FlowEnd) -> StreamPieces:
        """A flow ends; return its pieces if they show the client."""
        flow, detection, _ = self._undecided[number]
        if not detection.held_size:
            # No bytes were captured.
            self._drop(number)
            return NO_PIECES
        non_kafka = detection.find_tls()
        flow.client = None if non_kafka is not None else detection.find_client()
        if flow.client is not None:
            return self._release(number, moment_of(end.number, CLOSED_FRAMES))
        default = NonKafkaConnection(flow, "not_kafka", detection.first_ts, NO_REQUEST, 0)
        return self._stop(number, non_kafka or default)

    def _release(self, number: int, moment: int) -> StreamPieces:
        """The client of a flow is known; return the pieces."""
        flow, detection, held = self._undecided.pop(number)
        self._flows.opener[number], self._flows.decided_at[number] = flow.client_side, moment
        self._flows.detection[number] = KAFKA
        detection.release()
        return concatenate_rows(*held)

    def _stop(self, number: int, non_kafka: NonKafkaConnection) -> StreamPieces:
        """A flow is not Kafka; return no piece."""
        _, detection, held = self._undecided[number]
        self.others.add(number, non_kafka, detection.first_bytes)
        self.others.skip_pieces(concatenate_rows(*held), self._window)
        self._drop(number)
        return NO_PIECES

    def _drop(self, number: int) -> None:
        """A flow has no client; its payload is not held any more."""
        self._undecided.pop(number).detection.release()
        self._flows.detection[number] = _OTHER
