"""Build the exchanges of damaged flows, span by span, from the packets in an index."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kwire.capture.columnar.recovery.flow_pairing import NO_ID, FlowPairing, PairedRow
from kwire.capture.columnar.recovery.flow_reassembly import NO_HEAD, FlowReassembly, PieceRow
from kwire.capture.columnar.recovery.stream_frames import FoundFrame, StreamFrames
from kwire.capture.index.arrays import NO_NUMBERS, concatenate_rows, find_groups
from kwire.capture.index.flows import pairing
from kwire.capture.index.flows.flow_table import RST_END, FlowTable
from kwire.capture.index.flows.frame_headers import ClientIdTable, HeaderReader
from kwire.capture.index.flows.frame_scan import BodyFragments, FragmentBuffer, FrameColumns
from kwire.capture.index.flows.midstream_flow import IDENTIFYING_API_KEYS
from kwire.capture.index.flows.midstream_flows import StreamGapRow
from kwire.capture.index.flows.pairing import ExchangeColumns, RequestColumns, ResponseColumns
from kwire.capture.index.scan.packet_headers import gather_bytes
from kwire.capture.kafka.exchange_pairing import PENDING_SIZE_MAX
from kwire.capture.kafka.frame_resync import PartialFrameBudget
from kwire.capture.kafka.heuristics import REQUEST_HEAD, is_request, is_tls
from kwire.capture.model import Flow
from kwire.capture.options import FRAME_SIZE_MAX
from kwire.capture.tcp.flags import RST, SYN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from kwire.capture.index.arrays import Ints
    from kwire.capture.index.column_schema import PacketColumns
    from kwire.capture.index.flows.frame_scan import ReadAt

# The body fragments of recovered flows are numbered from here on; all other numbers are smaller.
FRAGMENTS_START = 1 << 41
DAMAGES = ("gap", "snaplen", "end", "frame_limit")
"""The last fragment of an incomplete body has no bytes; its place is the index of the damage."""

_FIRST_SIZE = 4 * REQUEST_HEAD
_HEADER_SIZE = 10
# What `order_ok` is for damaged responses that have not been paired.
_DAMAGED = -2
# Ends of streams come after all pieces.
_LAST_ORDER = 1 << 60


class RecoveredPart(NamedTuple):
    """What one span completes."""

    exchanges: ExchangeColumns
    fragments: BodyFragments


class _FlowRecovery:
    """One flow and its state between spans."""

    def __init__(self, number: int, read: ReadAt, budget: PartialFrameBudget) -> None:
        self.number = number
        self.has_failed = False
        self.is_ending = self.is_closed = False
        self.reassembly = FlowReassembly()
        self.flow = Flow(((b"\x00", 0), (b"\x00", 1)), 0, "")
        self.pairing = FlowPairing(number, self.flow.pending_requests)
        self._read = read
        self._budget = budget
        self._is_checked = False
        self.requests: StreamFrames | None = None
        self.responses: StreamFrames | None = None
        self.request_frames: list[FoundFrame] = []
        self.response_pieces: list[PieceRow] = []

    @property
    def client(self) -> int:
        """The side that opened the connection, and sends the requests."""
        assert self.reassembly.opener is not None
        return self.reassembly.opener

    def read_pieces(self) -> None:
        """Find the frames of the requests in the latest pieces, and keep the pieces of the other side."""
        if self.reassembly.has_failed or self.reassembly.opener is None:
            self.has_failed |= self.reassembly.has_failed
            return
        client = self.client
        asked, answered = self.reassembly.take_pieces(client), self.reassembly.take_pieces(1 - client)
        if not self._is_checked and (asked or answered):
            self._check_start(asked, answered)
        if self.requests is None:
            return
        self.request_frames, self.response_pieces = list(find_frames(self.requests, asked)), answered

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


def find_frames(frames: StreamFrames, pieces: Iterable[PieceRow]) -> Iterator[FoundFrame]:
    """The frames of one side that these pieces complete."""
    for piece in pieces:
        order, offset, size, at, ts, number, found_by, head, word = piece
        if head + 4 == size and frames.is_between_frames:
            yield FoundFrame(order, number, ts, ts, offset, head, at + 4, found_by, word)
        else:
            yield from frames.take_piece(piece)


class RecoveryBuilder:
    """Builds the exchanges of some flows of an index."""

    def __init__(self, numbers: Ints, openers: Ints, read: ReadAt, client_ids: list[str]) -> None:
        """Args: numbers: of the flows. openers: by flow number. client_ids: those of the index; new ones follow."""
        self._read_file = read
        self._base, self._data = 0, b""
        budget = PartialFrameBudget()
        self._flows = {number: _FlowRecovery(number, self._read, budget) for number in numbers.tolist()}
        self._table = FlowTable()
        self._table.grow_to(len(openers))
        self._table.opener[: len(openers)] = openers
        self._fragments = FragmentBuffer(first=FRAGMENTS_START)
        self._client_ids = ClientIdTable()
        for text in client_ids:
            self._client_ids.add_client_id(text.encode())
        self._headers = HeaderReader(self._table, self._read, self._fragments, self._client_ids)
        self._requests = pairing.missing_requests(NO_NUMBERS)
        self._request_numbers = NO_NUMBERS
        self._responses = pairing.missing_responses(0)
        self._response_numbers = NO_NUMBERS
        self._request_count = self._response_count = 0

    @property
    def client_ids(self) -> list[str]:
        """The client ids, by the numbers in requests."""
        return self._client_ids.texts

    def add_span(self, packets: PacketColumns, base: int, data: bytes) -> RecoveredPart:
        """Add the packets of one span. Args: base, data: the part of the file that has their payload."""
        self._base, self._data = base, data
        is_chosen = np.zeros(len(self._table), dtype=np.bool_)
        is_chosen[[flow.number for flow in self._flows.values() if not flow.has_failed]] = True
        chosen = np.nonzero(is_chosen[packets.flow])[0]
        chosen = chosen[np.argsort(packets.flow[chosen], kind="stable")]
        if not len(chosen):
            return self._part([])
        flow_numbers = packets.flow[chosen].astype(np.int64)
        columns = [
            getattr(packets, name)[chosen].tolist()
            for name in ("number", "ts", "side", "seq", "ack", "flags", "at", "captured", "missing")
        ]
        columns += self._first_words(packets, chosen)
        rows = list(zip(*columns, strict=True))
        firsts = find_groups(flow_numbers)
        touched = []
        for begin, end in zip(firsts.tolist(), [*firsts[1:].tolist(), len(rows)], strict=True):
            flow = self._flows[int(flow_numbers[begin])]
            if flow.is_closed:
                # Late acknowledgements change nothing after both sides have ended by a FIN.
                is_reset = flow.reassembly.end_reason == RST_END
                flow.has_failed |= is_reset or any(row[7] or row[8] or row[5] & (SYN | RST) for row in rows[begin:end])
                continue
            flow.reassembly.add_packets(rows[begin:end])
            if flow.reassembly.end_reason:
                flow.reassembly.close()
            flow.read_pieces()
            touched.append(flow)
        return self._build_part([flow for flow in touched if not flow.has_failed])

    def finish(self) -> RecoveredPart:
        """The capture ends: what is left of connections that are open."""
        self._base, self._data = 0, b""
        flows = [flow for flow in self._flows.values() if not flow.has_failed and not flow.is_closed]
        for flow in flows:
            flow.reassembly.close()
            flow.read_pieces()
        return self._build_part([flow for flow in flows if not flow.has_failed], is_last=True)

    def recovered_flows(self) -> Iterator[tuple[int, int, int]]:
        """The number of each flow that was read to its end, and its end reason and opener as in a `FlowTable`.

        The streaming pipeline drops pending requests when those of all connections exceed a limit.
        """
        pending_size = 0
        for flow in self._flows.values():
            is_clean = not self._table.unclean_reason[flow.number]
            if flow.has_failed or flow.pairing.has_failed or not is_clean or not flow.is_closed:
                continue
            pending_size += flow.pairing.pending_size_max
            if pending_size <= PENDING_SIZE_MAX // 4:
                yield flow.number, flow.reassembly.end_reason, flow.client

    def gaps(self) -> Iterator[StreamGapRow]:
        """The stream gaps of all flows."""
        for flow in self._flows.values():
            yield from flow.gaps

    def _first_words(self, packets: PacketColumns, chosen: Ints) -> list[list[int]]:
        """The first two words of each payload; `NO_HEAD` where it is too short."""
        at = packets.at[chosen].astype(np.int64) - self._base
        is_readable = (packets.captured[chosen] >= 8) & (at >= 0) & (at + 8 <= len(self._data))
        words = np.full((len(chosen), 2), NO_HEAD, dtype=np.int64)
        words[is_readable] = gather_bytes(self._data, at[is_readable], 8).view(">i4").reshape(-1, 2)
        return [words[:, 0].tolist(), words[:, 1].tolist()]

    def _read(self, at: int, size: int) -> bytes:
        begin = at - self._base
        if begin >= 0 and begin + size <= len(self._data):
            return self._data[begin : begin + size]
        return self._read_file(at, size)

    def _build_part(self, flows: list[_FlowRecovery], *, is_last: bool = False) -> RecoveredPart:
        closing = [flow for flow in flows if is_last or flow.reassembly.end_reason]
        for flow in closing:
            flow.is_ending = True
            if flow.requests is not None:
                last = flow.requests.close(flow.reassembly.end_number)
                flow.request_frames += [frame._replace(order=_LAST_ORDER + flow.client) for frame in last]
        requests = self._read_requests(flows)
        ids = np.where(requests.expects_response > 0, requests.correlation_id, NO_ID).tolist()
        rows: list[PairedRow] = []
        responses: list[tuple[int, FoundFrame]] = []
        counts: list[tuple[int, int]] = []
        for flow in flows:
            numbers = self._request_count + len(counts), self._response_count + len(responses)
            paired = pair_frames(flow, ids[len(counts) : len(counts) + len(flow.request_frames)], numbers)
            rows += paired.rows
            counts += paired.counts
            responses += [(2 * flow.number + 1 - flow.client, frame) for frame in paired.responses]
        for flow in closing:
            rows += flow.pairing.close(flow.reassembly.end_number)
            flow.is_closed = True
            # A stream that ends inside a length field is reported with the time of the end, which is not known here.
            flow.has_failed |= any(gap.kind == "cut_length" for gap in flow.gaps)
        number, in_flight = np.array(counts, dtype=np.int64).reshape(-1, 2).T
        self._add_rows(requests._replace(number=number, in_flight=in_flight), self._response_columns(responses))
        return self._part(rows)

    def _read_requests(self, flows: list[_FlowRecovery]) -> RequestColumns:
        """The requests of these flows with their headers; those that are damaged have no body."""
        found = [(2 * flow.number + flow.client, frame) for flow in flows for frame in flow.request_frames]
        frames = _frame_columns([self._frame_row(side, frame) for side, frame in found])
        is_damaged = np.array([frame.damage is not None for _, frame in found], dtype=np.bool_)
        have = np.array([frame.have for _, frame in found], dtype=np.int64)
        requests = self._read_headers(frames._replace(size=np.where(is_damaged, have, frames.size)))
        is_identifying = is_damaged & np.isin(requests.api_key, IDENTIFYING_API_KEYS)
        self._table.mark_unclean((frames.side >> 1)[is_identifying], "pairing")
        body = np.where(is_damaged, -1, requests.body)
        # Whether a damaged Produce request has acks is not known.
        expects_response = np.where(is_damaged, 1, requests.expects_response)
        return requests._replace(frame=frames, body=body, expects_response=expects_response)

    def _read_headers(self, frames: FrameColumns) -> RequestColumns:
        """The headers of requests; flows with headers that only the message decoder can read become unclean."""
        flow = frames.side >> 1
        self._table.mark_unclean(flow[frames.size < _HEADER_SIZE], "bad_length")
        clean = np.nonzero(self._table.is_clean(flow))[0]
        requests, _ = self._headers.read_headers(frames.select(clean), self._base, self._data)
        if len(clean) == len(flow):
            return requests
        place = np.full(len(flow), len(clean), dtype=np.int64)
        place[clean] = np.arange(len(clean))
        return concatenate_rows(requests, pairing.missing_requests(np.zeros(1, dtype=np.int64))).select(place)

    def _frame_row(self, side: int, frame: FoundFrame) -> tuple[int, ...]:
        at, count = frame.at, 0
        if frame.ranges is not None:
            fragments = self._fragments
            at = -1 - fragments.first - len(fragments.at)
            ranges = [*frame.ranges]
            if frame.damage is not None:
                ranges.append((DAMAGES.index(frame.damage), 0))
            count = len(ranges)
            fragments.at.extend(begin for begin, _ in ranges)
            fragments.size.extend(size for _, size in ranges)
            fragments.side.extend([side] * count)
        return side, frame.number, frame.ts, frame.end_ts, frame.offset, frame.size, at, count, frame.found_by

    def _response_columns(self, responses: list[tuple[int, FoundFrame]]) -> ResponseColumns:
        """The responses. Until they are paired, `order_ok` says which are damaged."""
        frames = _frame_columns([self._frame_row(side, frame) for side, frame in responses])
        ids = np.array([frame.word for _, frame in responses], dtype=np.int64)
        damaged = [_DAMAGED if frame.damage is not None else -1 for _, frame in responses]
        self._table.mark_unclean((frames.side >> 1)[frames.size < 4], "bad_length")
        return ResponseColumns(frames, ids, np.array(damaged, dtype=np.int64))

    def _add_rows(self, requests: RequestColumns, responses: ResponseColumns) -> None:
        counts = len(requests.number), len(responses.correlation_id)
        self._requests = concatenate_rows(self._requests, requests)
        self._responses = concatenate_rows(self._responses, responses)
        new_requests = self._request_count + np.arange(counts[0])
        new_responses = self._response_count + np.arange(counts[1])
        self._request_numbers = np.concatenate([self._request_numbers, new_requests])
        self._response_numbers = np.concatenate([self._response_numbers, new_responses])
        self._request_count, self._response_count = self._request_count + counts[0], self._response_count + counts[1]

    def _part(self, rows: list[PairedRow]) -> RecoveredPart:
        """The exchanges of these rows; requests and responses that no later row can use are dropped."""
        flow, asked, answered, order_ok, completed_by = np.array(rows, dtype=np.int64).reshape(-1, 5).T
        missing = pairing.missing_requests(np.zeros(1, dtype=np.int64))
        requests = concatenate_rows(self._requests, missing).select(_rows_of(self._request_numbers, asked))
        side = np.where(asked < 0, 2 * flow + self._table.opener[flow], requests.frame.side)
        responses = concatenate_rows(self._responses, pairing.missing_responses(1))
        responses = responses.select(_rows_of(self._response_numbers, answered))
        # The decoder of columns needs two whole frames.
        body = np.where(responses.order_ok == _DAMAGED, -1, requests.body)
        requests = requests._replace(frame=requests.frame._replace(side=side), body=body)
        exchanges = ExchangeColumns(requests, responses._replace(order_ok=order_ok), completed_by)
        exchanges = exchanges.select(np.argsort(completed_by, kind="stable"))
        self._drop_rows()
        return RecoveredPart(exchanges, self._fragments.drain_fragments())

    def _drop_rows(self) -> None:
        pending = [number for flow in self._flows.values() for number in flow.pairing.pending.values()]
        waiting = [number for flow in self._flows.values() for number in flow.pairing.waiting_responses()]
        rows = _rows_of(self._request_numbers, np.sort(np.array(pending, dtype=np.int64)))
        self._requests, self._request_numbers = self._requests.select(rows), self._request_numbers[rows]
        rows = _rows_of(self._response_numbers, np.sort(np.array(waiting, dtype=np.int64)))
        self._responses, self._response_numbers = self._responses.select(rows), self._response_numbers[rows]


class _PairedFrames(NamedTuple):
    """What pairing returns: exchanges, number and requests in flight of each request, and the responses."""

    rows: list[PairedRow]
    counts: list[tuple[int, int]]
    responses: list[FoundFrame]


def pair_frames(flow: _FlowRecovery, ids: list[int], numbers: tuple[int, int]) -> _PairedFrames:
    """Find the responses of a flow, and pair them with the requests, in the order in which both were complete.

    Args: ids: correlation ids of the requests, `NO_ID` where none is expected. numbers: of the first request, response.
    """
    rows: list[PairedRow] = []
    counts: list[tuple[int, int]] = []
    responses: list[FoundFrame] = []
    pairer, frames, requests = flow.pairing, flow.responses, flow.request_frames
    first_request, first_response = numbers
    add_response = pairer.add_response

    def add_requests(before: int) -> None:
        """Add the requests that were complete before a piece."""
        while len(counts) < len(requests) and requests[len(counts)].order < before:
            frame, correlation_id = requests[len(counts)], ids[len(counts)]
            number = first_request + len(counts)
            counts.append((pairer.count, pairer.in_flight))
            pairer.add_request(number, correlation_id, (frame.ts, frame.size, frame.found_by), rows)

    def add_frames(found: Iterable[FoundFrame]) -> None:
        """Add responses, each before the next one is searched for."""
        for frame in found:
            correlation_id = frame.word if frame.damage is None or frame.have >= 4 else NO_ID
            add_response(first_response + len(responses), correlation_id, frame.end_ts, frame.found_by, rows)
            responses.append(frame)

    if frames is not None:
        for piece in flow.response_pieces:
            order, offset, size, at, ts, number, found_by, head, word = piece
            add_requests(order)
            if head + 4 == size and frames.is_between_frames:
                add_response(first_response + len(responses), word, ts, found_by, rows)
                responses.append(FoundFrame(order, number, ts, ts, offset, head, at + 4, found_by, word))
            else:
                add_frames(frames.take_piece(piece))
        if flow.is_ending:
            add_requests(_LAST_ORDER + 1 - flow.client)
            add_frames(frames.close(flow.reassembly.end_number))
    add_requests(_LAST_ORDER + 2)
    return _PairedFrames(rows, counts, responses)


def _frame_columns(rows: list[tuple[int, ...]]) -> FrameColumns:
    return FrameColumns(*np.array(rows, dtype=np.int64).reshape(-1, len(FrameColumns._fields)).T)


def _rows_of(numbers: Ints, wanted: Ints) -> Ints:
    """The row of each wanted number; -1 for -1."""
    return np.where(wanted < 0, -1, np.searchsorted(numbers, wanted))
