"""Which flows are Kafka, and which side is the client: nearly always their first bytes show it.

The other flows hold their pieces until `ClientDetection` finds the client. Their frames and pairs have the moments of
their pieces all the same; only what they complete is not known before the client (`FlowTable.decided_at`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from kwire.capture.index.arrays import concatenate_rows, group_starts
from kwire.capture.index.flows.flow_closing import FlowEnd
from kwire.capture.index.flows.frame_columns import FileWindow, ReadAt
from kwire.capture.index.streams.flow_table import FlowTable
from kwire.capture.index.streams.stream_pieces import CAUSES, CLOSED_FRAMES, NO_PIECES, StreamPieces, moment_of
from kwire.capture.kafka.client_detection import ClientDetection, UndecidedBudget
from kwire.capture.kafka.heuristics import REQUEST_HEAD, is_request, is_tls
from kwire.capture.model import Endpoint, Flow, MissingBytes, StreamData
from kwire.capture.options import FRAME_SIZE_MAX

# The most payload that is held for all of them together; flows above it are read by the streaming pipeline.
HELD_SIZE_MAX = 64 * 1024 * 1024
# The size of a connection's first bytes that are checked.
_FIRST_SIZE = 4 * REQUEST_HEAD
_UNSEEN, _UNDECIDED, _DECIDED = 0, 1, 2
# The endpoints are not known here.
_ENDS: tuple[Endpoint, Endpoint] = (b"\x00", 0), (b"\x00", 1)


class _Undecided(NamedTuple):
    """A flow whose client is not known. held: its pieces so far."""

    flow: Flow
    detection: ClientDetection
    held: list[StreamPieces]


class UndecidedFlows:
    """Finds the clients of flows; its state continues from span to span."""

    def __init__(self, flows: FlowTable, read: ReadAt, *, is_limited: bool) -> None:
        """`read` reads the file by offset. `is_limited`: these are all flows of the file."""
        self._flows = flows
        self._read = read
        self._window = FileWindow(0, b"")
        self._is_limited = is_limited
        self._budget = UndecidedBudget()
        self._undecided: dict[int, _Undecided] = {}
        self.held_size = 0
        """The most payload that was held in the last span."""

    def decide(self, pieces: StreamPieces, window: FileWindow, closing: Mapping[int, FlowEnd]) -> StreamPieces:
        """Find the clients of flows by their pieces of a span.

        Args: pieces: by side and offset. closing: the flows that end now.
        Returns: the pieces of flows whose client is known, in the same order, with those that were held.
        """
        flows, flow = self._flows, pieces.side >> 1
        self._window, self.held_size = window, self._budget.size
        self._drop_unclean()
        self._check_first_bytes(pieces)
        numbers = np.unique(flow[flows.detection[flow] == _UNDECIDED])
        firsts, stops = np.searchsorted(flow, (numbers, numbers + 1))
        found = [
            self._add_pieces(number, pieces.select(np.arange(first, stop)))
            for number, first, stop in zip(numbers.tolist(), firsts.tolist(), stops.tolist(), strict=True)
        ]
        found += [self._close(number, end) for number, end in closing.items() if number in self._undecided]
        pieces = pieces.select(flows.is_clean(flow) & (flows.detection[flow] == _DECIDED) & ~np.isin(flow, numbers))
        if not found:
            return pieces
        pieces = concatenate_rows(pieces, *found)
        return pieces.select(np.lexsort((pieces.offset, pieces.side)))

    def _drop_unclean(self) -> None:
        """Drop the flows that became unclean for another reason; their payload is not held any more."""
        numbers = np.fromiter(self._undecided, dtype=np.int64)
        for number in numbers[~self._flows.is_clean(numbers)].tolist():
            self._drop(number)

    def _check_first_bytes(self, pieces: StreamPieces) -> None:
        """Check the first bytes of new flows, whether they are a request from the side that opened the connection."""
        flows, flow = self._flows, pieces.side >> 1
        new = np.nonzero(flows.detection[flow] == _UNSEEN)[0]
        new = new[np.lexsort((pieces.offset[new], pieces.moment[new], flow[new]))]
        for index in new[group_starts(flow[new])].tolist():
            side = int(pieces.side[index])
            number = side >> 1
            is_known = side & 1 == flows.opener[number] and flows.starts_known[side]
            first = self._read_first(pieces, index) if is_known else b""
            is_plain = len(first) >= REQUEST_HEAD and not is_tls(first) and is_request(first, 0, FRAME_SIZE_MAX)
            flows.detection[number] = _DECIDED if is_plain else _UNDECIDED
            if not is_plain:
                opener = int(flows.opener[number])
                starts_known = [bool(known) for known in flows.starts_known[2 * number : 2 * number + 2]]
                model = Flow(_ENDS, 0, "", opener if opener >= 0 else None, starts_known=starts_known)
                detection = ClientDetection(model, frozenset(), FRAME_SIZE_MAX, self._budget)
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
            if non_kafka is not None or (self._is_limited and self._budget.size > HELD_SIZE_MAX):
                return self._drop(number, "not_kafka" if non_kafka is None else non_kafka.kind)
            if flow.client is not None:
                return self._release(number, moment)
        return NO_PIECES

    def _close(self, number: int, end: FlowEnd) -> StreamPieces:
        """A flow ends; return its pieces if they show the client."""
        flow, detection, _ = self._undecided[number]
        if detection.find_tls() is not None:
            return self._drop(number, "tls")
        flow.client = detection.find_client()
        return (
            self._drop(number) if flow.client is None else self._release(number, moment_of(end.number, CLOSED_FRAMES))
        )

    def _release(self, number: int, moment: int) -> StreamPieces:
        """The client of a flow is known; return the pieces."""
        flow, detection, held = self._undecided[number]
        if detection.is_found_by_search and len(list(detection.sides_with_requests())) > 1:
            # Which side is chosen depends on the ports.
            return self._drop(number)
        del self._undecided[number]
        self._flows.opener[number], self._flows.decided_at[number] = flow.client_side, moment
        self._flows.detection[number] = _DECIDED
        detection.release()
        return concatenate_rows(*held)

    def _drop(self, number: int, reason: str = "not_kafka") -> StreamPieces:
        """A flow is not Kafka, or is left to the streaming pipeline; return no piece."""
        _, detection, _ = self._undecided.pop(number)
        detection.release()
        self._flows.mark_unclean(np.array([number]), reason)
        self._flows.detection[number] = _DECIDED
        return NO_PIECES
