"""One damaged flow: its state between spans, its frames, and their pairing."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kwire.capture.columnar.recovery.flow_pairing import NO_ID, FlowPairing
from kwire.capture.columnar.recovery.flow_reassembly import AFTER_CAPTURE, FlowReassembly
from kwire.capture.columnar.recovery.stream_frames import FrameList, StreamFrames, UnusualFrame
from kwire.capture.columnar.recovery.stream_pieces import PieceRow
from kwire.capture.index.flows.midstream_flows import StreamGapRow
from kwire.capture.kafka.heuristics import REQUEST_HEAD, is_request, is_tls
from kwire.capture.model import Flow
from kwire.capture.options import FRAME_SIZE_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kwire.capture.index.flows.frame_scan import ReadAt
    from kwire.capture.kafka.frame_resync import PartialFrameBudget

LAST_ORDER = 1 << 60
"""The ends of streams come after all pieces: by this and the side."""

_FIRST_SIZE = 4 * REQUEST_HEAD
_END: PieceRow = (LAST_ORDER + 2, 0, 0, 0, 0, 0, 0, 0, 0)


class FlowRecovery:
    """One flow and its state between spans."""

    def __init__(self, number: int, opener: int, read: ReadAt, budget: PartialFrameBudget) -> None:
        """Args: opener: the side that the index has as the client."""
        self.number = number
        self._opener = opener
        self.has_failed = False
        self.is_ending = self.is_closed = False
        self.closed_by = AFTER_CAPTURE
        self.reassembly = FlowReassembly()
        self.flow = Flow(((b"\x00", 0), (b"\x00", 1)), 0, "")
        self.pairing = FlowPairing(number, self.flow.pending_requests)
        self._read = read
        self._budget = budget
        self._is_checked = False
        self.requests: StreamFrames | None = None
        self.responses: StreamFrames | None = None
        self.asked = FrameList()
        self.response_pieces: list[PieceRow] = []

    @property
    def is_readable(self) -> bool:
        """Whether the connection is known to be Kafka."""
        return self.requests is not None and not self.has_failed

    @property
    def client(self) -> int:
        """The side that opened the connection, and sends the requests."""
        assert self.reassembly.opener is not None
        return self.reassembly.opener

    def end(self, number: int) -> None:
        """No packets follow. Args: number: of the packet at which the streaming pipeline closes the connection."""
        self.is_ending, self.closed_by = True, number
        self.reassembly.close(number)

    def read_pieces(self) -> None:
        """Find the frames of the requests in the latest pieces, and keep the pieces of the other side."""
        if self.reassembly.has_failed or self.reassembly.opener is None:
            self.has_failed |= self.reassembly.has_failed
            return
        client = self.client
        if client != self._opener:
            self.has_failed = True
            return
        asked, answered = self.reassembly.take_pieces(client), self.reassembly.take_pieces(1 - client)
        if not self._is_checked and (asked or answered):
            self._check_start(asked, answered)
        self.asked, self.response_pieces = FrameList(), answered
        if self.requests is not None:
            find_frames(self.requests, asked, self.asked)

    def _check_start(self, asked: list[PieceRow], answered: list[PieceRow]) -> None:
        """The first bytes of the connection must be a request from the side that opened it."""
        self._is_checked = True
        if not asked or (answered and answered[0][0] < asked[0][0]) or asked[0][3] < 0:
            self.has_failed = True
            return
        first = self._read(asked[0][3], min(asked[0][2], _FIRST_SIZE))
        if len(first) < REQUEST_HEAD or is_tls(first) or not is_request(first, 0, FRAME_SIZE_MAX):
            self.has_failed = True
            return
        self.requests, self.responses = (
            StreamFrames(self.flow, side, self._read, self._budget, is_request=side == self.client)
            for side in (self.client, 1 - self.client)
        )

    @property
    def gaps(self) -> Iterator[StreamGapRow]:
        """The stream gaps of both sides."""
        for frames in (self.requests, self.responses):
            if frames is not None:
                yield from (StreamGapRow(self.number, *gap[1:], found_by) for gap, found_by in frames.gaps)


def find_frames(frames: StreamFrames, pieces: Sequence[PieceRow], found: FrameList) -> None:
    """Add the frames of one side that these pieces complete."""
    rows, at, count = found.rows, 0, len(pieces)
    while at < count:
        piece = pieces[at]
        if piece[7] + 4 == piece[2] and frames.is_between_frames:
            rows.append(piece)
            at += 1
            continue
        unusual_frames, taken = frames.take_unusual(pieces, at)
        for row, unusual in unusual_frames:
            found.add(row, unusual)
        at += taken


class PairedFrames(NamedTuple):
    """What pairing returns: exchanges as in `FlowPairing`, number and `in_flight` of each request, the responses."""

    rows: list[int]
    counts: range
    in_flight: list[int]
    responses: FrameList


def pair_frames(flow: FlowRecovery, ids: list[int], numbers: tuple[int, int]) -> PairedFrames:
    """Find the responses of a flow, and pair them with the requests, in the order in which both were complete.

    Args: ids: correlation ids of the requests, `NO_ID` where none is expected. numbers: of the first request, response.
    """
    rows, in_flight = list[int](), list[int]()
    pairer, frames, answers = flow.pairing, flow.responses, FrameList()
    request_number, response_number = numbers
    add_request, add_response, answer_rows = pairer.add_request, pairer.add_response, answers.rows
    requests = zip(flow.asked.rows, ids, strict=True)
    last: tuple[PieceRow, int] = (_END, NO_ID)
    request, correlation_id = next(requests, last)

    def add_requests(before: int) -> None:
        """Add the requests that were complete before a piece."""
        nonlocal request, correlation_id, request_number
        while request[0] < before:
            in_flight.append(pairer.in_flight)
            add_request(request_number, correlation_id, request[4], request[6], rows)
            request_number += 1
            request, correlation_id = next(requests, last)

    def add_frames(found: Iterable[tuple[PieceRow, UnusualFrame]]) -> None:
        """Add responses, each before the next one is searched for."""
        for row, unusual in found:
            add_response(response_number + len(answer_rows), row[8], unusual.end_ts, row[6], rows)
            answers.add(row, unusual)

    if frames is not None:
        pieces, at = flow.response_pieces, 0
        while at < len(pieces):
            piece = pieces[at]
            if request[0] < piece[0]:
                add_requests(piece[0])
            if piece[7] + 4 == piece[2] and frames.is_between_frames:
                add_response(response_number + len(answer_rows), piece[8], piece[4], piece[6], rows)
                answer_rows.append(piece)
                at += 1
                continue
            found, taken = frames.take_unusual(pieces, at)
            add_frames(found)
            at += taken
        if flow.is_ending:
            order = LAST_ORDER + 1 - flow.client
            add_requests(order)
            add_frames(frames.close(order, flow.closed_by))
    add_requests(_END[0])
    pairer.count += len(ids)
    return PairedFrames(rows, range(pairer.count - len(ids), pairer.count), in_flight, answers)
