"""Build the exchanges of damaged flows, span by span, from the packets in an index."""

from __future__ import annotations

from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kwire.capture.columnar.recovery.flow_pairing import NO_ID
from kwire.capture.columnar.recovery.flow_reassembly import AFTER_CAPTURE
from kwire.capture.columnar.recovery.flow_recovery import LAST_ORDER, FlowRecovery, pair_frames
from kwire.capture.columnar.recovery.packet_block import PacketBlock, PacketTable
from kwire.capture.columnar.recovery.stream_pieces import NO_HEAD
from kwire.capture.index.arrays import NO_NUMBERS, concatenate_rows, find_groups
from kwire.capture.index.flows import pairing
from kwire.capture.index.flows.flow_builder import LIMITS
from kwire.capture.index.flows.flow_table import RST_END, FlowTable
from kwire.capture.index.flows.frame_headers import ClientIdTable, HeaderReader
from kwire.capture.index.flows.frame_scan import BodyFragments, FragmentBuffer, FrameColumns
from kwire.capture.index.flows.midstream_flow import IDENTIFYING_API_KEYS
from kwire.capture.index.flows.pairing import ExchangeColumns, RequestColumns, ResponseColumns
from kwire.capture.index.scan.packet_headers import gather_bytes
from kwire.capture.kafka.frame_resync import PartialFrameBudget
from kwire.capture.tcp.flags import RST, SYN
from kwire.capture.tcp.reassembly import LINGER_NS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kwire.capture.columnar.recovery.stream_frames import FrameList, UnusualFrame
    from kwire.capture.index.arrays import Ints
    from kwire.capture.index.column_schema import PacketColumns
    from kwire.capture.index.flows.frame_scan import ReadAt
    from kwire.capture.index.flows.midstream_flows import StreamGapRow

# The body fragments of recovered flows are numbered from here on; all other numbers are smaller.
FRAGMENTS_START = 1 << 41
DAMAGES = ("gap", "snaplen", "end", "frame_limit")
"""The last fragment of an incomplete body has no bytes; its place is the index of the damage."""

_HEADER_SIZE = 10
# What `order_ok` is for damaged responses that have not been paired.
_DAMAGED = -2
_REQUEST_COST = 2000


class RecoveredPart(NamedTuple):
    """What one span completes."""

    exchanges: ExchangeColumns
    fragments: BodyFragments


class RecoveryBuilder:
    """Builds the exchanges of some flows of an index."""

    def __init__(self, numbers: Ints, openers: Ints, read: ReadAt, client_ids: list[str]) -> None:
        """Args: numbers: of the flows. openers: by flow number. client_ids: those of the index; new ones follow."""
        self._read_file = read
        self._base, self._data = 0, b""
        budget = PartialFrameBudget()
        sides = zip(numbers.tolist(), openers[numbers].tolist(), strict=True)
        self._flows = {number: FlowRecovery(number, opener, self._read, budget) for number, opener in sides}
        # The flows with a FIN of both sides, or an RST, that are not closed yet.
        self._lingering: dict[int, FlowRecovery] = {}
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
        self._pending_size_max = 0

    @property
    def client_ids(self) -> list[str]:
        """The client ids, by the numbers in requests."""
        return self._client_ids.texts

    def add_span(self, packets: PacketColumns, base: int, data: bytes) -> RecoveredPart:
        """Add the packets of one span. Args: base, data: the part of the file that has their payload."""
        self._base, self._data = base, data
        touched = self._add_packets(packets)
        closing = self._end_flows(packets)
        flows = sorted({*touched, *(flow.number for flow in closing)})
        return self._read_flows([self._flows[number] for number in flows], closing)

    def finish(self) -> RecoveredPart:
        """The capture ends: what is left of connections that are open, in the order in which they began."""
        self._base, self._data = 0, b""
        flows = [flow for flow in self._flows.values() if not flow.has_failed and not flow.is_closed]
        for flow in flows:
            flow.end(AFTER_CAPTURE)
        return self._read_flows(flows, flows)

    def _add_packets(self, packets: PacketColumns) -> list[int]:
        """Add the packets of a span to the flows; return the numbers of those that may have new data."""
        is_chosen = np.zeros(len(self._table), dtype=np.bool_)
        is_chosen[[flow.number for flow in self._flows.values() if not flow.has_failed]] = True
        chosen = np.nonzero(is_chosen[packets.flow])[0]
        chosen = chosen[np.argsort(packets.flow[chosen], kind="stable")]
        touched: list[int] = []
        if not len(chosen):
            return touched
        flow_numbers = packets.flow[chosen].astype(np.int64)
        names = ("number", "ts", "side", "seq", "ack", "flags", "at", "captured", "missing")
        words = self._first_words(packets, chosen)
        columns = PacketTable(*(getattr(packets, name)[chosen].astype(np.int64) for name in names), *words)
        block = PacketBlock(flow_numbers, columns)
        is_late = (columns.captured > 0) | (columns.missing > 0) | (columns.flags & (SYN | RST) != 0)
        firsts = find_groups(flow_numbers)
        for begin, end in zip(firsts.tolist(), [*firsts[1:].tolist(), len(chosen)], strict=True):
            flow = self._flows[int(flow_numbers[begin])]
            if flow.is_closed:
                # Late acknowledgements change nothing after both sides have ended by a FIN.
                flow.has_failed |= flow.reassembly.end_reason == RST_END or bool(is_late[begin:end].any())
                continue
            flow.reassembly.add_packets(block, begin, end)
            if flow.reassembly.end_reason:
                self._lingering.setdefault(flow.number, flow)
            touched.append(flow.number)
        return touched

    def _end_flows(self, packets: PacketColumns) -> list[FlowRecovery]:
        """The flows that a packet of any flow shows to be over, in the order in which the pipeline closes them.

        A connection may receive late packets for some time after its FIN or RST.
        """
        if not self._lingering or not len(packets.number):
            return []
        numbers, ts = packets.number.astype(np.int64), packets.ts.astype(np.int64)
        reached, closing = np.maximum.accumulate(ts), []
        for flow in self._lingering.values():
            end = flow.reassembly
            at = int(np.searchsorted(reached, end.end_ts + LINGER_NS, "right"))
            if at < len(numbers) and numbers[at] <= end.end_number:
                # A packet before the end has a later time.
                is_later = (ts > end.end_ts + LINGER_NS) & (numbers > end.end_number)
                at = int(np.argmax(is_later)) if is_later.any() else len(numbers)
            if at < len(numbers):
                closing.append((int(numbers[at]), end.end_number, flow))
        closing.sort(key=itemgetter(0, 1))
        for number, _, flow in closing:
            del self._lingering[flow.number]
            flow.end(number)
        return [flow for _, _, flow in closing]

    def _read_flows(self, flows: list[FlowRecovery], closing: list[FlowRecovery]) -> RecoveredPart:
        for flow in flows:
            flow.read_pieces()
        readable = [flow for flow in flows if flow.is_readable]
        return self._build_part(readable, [flow for flow in closing if flow.is_readable])

    def recovered_flows(self) -> Iterator[tuple[int, int, int]]:
        """The number of each flow that was read to its end, and its end reason and opener as in a `FlowTable`.

        The streaming pipeline drops pending requests when those of all connections exceed a limit.
        """
        if self._pending_size_max > LIMITS.unanswered_size // 2:
            return
        for flow in self._flows.values():
            is_clean = not self._table.unclean_reason[flow.number]
            if flow.has_failed or flow.pairing.has_failed or not is_clean or not flow.is_closed:
                continue
            yield flow.number, flow.reassembly.end_reason, flow.client

    def gaps(self) -> Iterator[StreamGapRow]:
        """The stream gaps of all flows."""
        for flow in self._flows.values():
            yield from flow.gaps

    def _first_words(self, packets: PacketColumns, chosen: Ints) -> Ints:
        """The first two words of each payload; `NO_HEAD` where it is too short."""
        at = packets.at[chosen].astype(np.int64) - self._base
        is_readable = (packets.captured[chosen] >= 8) & (at >= 0) & (at + 8 <= len(self._data))
        words = np.full((2, len(chosen)), NO_HEAD, dtype=np.int64)
        words[:, is_readable] = gather_bytes(self._data, at[is_readable], 8).view(">i4").reshape(-1, 2).T
        return words

    def _read(self, at: int, size: int) -> bytes:
        begin = at - self._base
        if begin >= 0 and begin + size <= len(self._data):
            return self._data[begin : begin + size]
        return self._read_file(at, size)

    def _build_part(self, flows: list[FlowRecovery], closing: list[FlowRecovery]) -> RecoveredPart:
        """What the latest pieces complete. Args: closing: those of the flows that end, in this order."""
        for flow in closing:
            if flow.requests is not None:
                for row, unusual in flow.requests.close(LAST_ORDER + flow.client, flow.closed_by):
                    flow.asked.add(row, unusual)
        requests = self._read_requests(flows)
        ids = np.where(requests.expects_response > 0, requests.correlation_id, NO_ID).tolist()
        rows: list[int] = []
        responses: list[tuple[int, FrameList]] = []
        counts: list[int] = []
        in_flight: list[int] = []
        answer_count = self._response_count
        for flow in flows:
            numbers = self._request_count + len(counts), answer_count
            paired = pair_frames(flow, ids[len(counts) : len(counts) + len(flow.asked.rows)], numbers)
            rows += paired.rows
            counts += paired.counts
            in_flight += paired.in_flight
            responses.append((2 * flow.number + 1 - flow.client, paired.responses))
            answer_count += len(paired.responses.rows)
        for flow in closing:
            rows += flow.pairing.close(flow.closed_by)
            flow.is_closed = True
            # A stream that ends inside a length field is reported with the time of the end, which is not known here.
            flow.has_failed |= any(gap.kind == "cut_length" for gap in flow.gaps)
        requests = requests._replace(number=np.array(counts, dtype=np.int64), in_flight=np.array(in_flight, np.int64))
        self._add_rows(requests, self._response_columns(responses))
        return self._part(rows, closing)

    def _read_requests(self, flows: list[FlowRecovery]) -> RequestColumns:
        """The requests of these flows with their headers; those that are damaged have no body."""
        found = [(2 * flow.number + flow.client, flow.asked) for flow in flows]
        frames, have, _ = self._frame_columns(found)
        is_damaged = have < frames.size
        requests = self._read_headers(frames._replace(size=have))
        is_identifying = is_damaged & np.isin(requests.api_key, IDENTIFYING_API_KEYS)
        self._table.mark_unclean((frames.side >> 1)[is_identifying], "pairing")
        body = np.where(is_damaged, _mark_damaged(requests.body), requests.body)
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

    def _frame_columns(self, found: list[tuple[int, FrameList]]) -> tuple[FrameColumns, Ints, Ints]:
        """The frames of these sides, how many bytes of each precede its first missing byte, and its first word."""
        counts = [len(frames.rows) for _, frames in found]
        side = np.repeat(np.array([side for side, _ in found], dtype=np.int64), counts)
        rows = [row for _, frames in found for row in frames.rows]
        _, offset, size, at, ts, number, found_by, _, word = _columns(rows, 9)
        size, at, end_ts, have, fragment_count = size - 4, at + 4, ts.copy(), size - 4, np.zeros_like(ts)
        first = 0
        for (own_side, frames), count in zip(found, counts, strict=True):
            for place, unusual in frames.unusual.items():
                row = first + place
                end_ts[row], have[row] = unusual.end_ts, unusual.have
                if len(unusual.ranges) != 1 or unusual.damage is not None:
                    at[row], fragment_count[row] = self._add_fragments(own_side, unusual)
            first += count
        return FrameColumns(side, number, ts, end_ts, offset, size, at, fragment_count, found_by), have, word

    def _add_fragments(self, side: int, frame: UnusualFrame) -> tuple[int, int]:
        """Add the fragments of a body; return the place of the body, and their count."""
        fragments, ranges = self._fragments, [*frame.ranges]
        at = -1 - fragments.first - len(fragments.at)
        if frame.damage is not None:
            ranges.append((DAMAGES.index(frame.damage), 0))
        fragments.at.extend(begin for begin, _ in ranges)
        fragments.size.extend(size for _, size in ranges)
        fragments.side.extend([side] * len(ranges))
        return at, len(ranges)

    def _response_columns(self, responses: list[tuple[int, FrameList]]) -> ResponseColumns:
        """The responses. Until they are paired, `order_ok` says which are damaged."""
        frames, have, word = self._frame_columns(responses)
        self._table.mark_unclean((frames.side >> 1)[frames.size < 4], "bad_length")
        return ResponseColumns(frames, word, np.where(have < frames.size, _DAMAGED, -1))

    def _add_rows(self, requests: RequestColumns, responses: ResponseColumns) -> None:
        counts = len(requests.number), len(responses.correlation_id)
        self._requests = concatenate_rows(self._requests, requests)
        self._responses = concatenate_rows(self._responses, responses)
        new_requests = self._request_count + np.arange(counts[0])
        new_responses = self._response_count + np.arange(counts[1])
        self._request_numbers = np.concatenate([self._request_numbers, new_requests])
        self._response_numbers = np.concatenate([self._response_numbers, new_responses])
        self._request_count, self._response_count = self._request_count + counts[0], self._response_count + counts[1]

    def _part(self, rows: list[int], closing: list[FlowRecovery]) -> RecoveredPart:
        """The exchanges of these rows; requests and responses that no later row can use are dropped."""
        flow, asked, answered, order_ok, completed_by = np.array(rows, dtype=np.int64).reshape(-1, 5).T
        missing = pairing.missing_requests(np.zeros(1, dtype=np.int64))
        requests = concatenate_rows(self._requests, missing).select(_rows_of(self._request_numbers, asked))
        side = np.where(asked < 0, 2 * flow + self._table.opener[flow], requests.frame.side)
        responses = concatenate_rows(self._responses, pairing.missing_responses(1))
        responses = responses.select(_rows_of(self._response_numbers, answered))
        # The decoder of columns needs two whole frames.
        body = np.where(responses.order_ok == _DAMAGED, _mark_damaged(requests.body), requests.body)
        requests = requests._replace(frame=requests.frame._replace(side=side), body=body)
        exchanges = ExchangeColumns(requests, responses._replace(order_ok=order_ok), completed_by)
        # A connection that a packet shows to be over is closed before the packet is read.
        rank = np.full(len(self._table), len(closing))
        rank[[flow.number for flow in closing]] = np.arange(len(closing))
        exchanges = exchanges.select(np.lexsort((rank[flow], completed_by)))
        self._drop_rows()
        return RecoveredPart(exchanges, self._fragments.drain_fragments())

    def _drop_rows(self) -> None:
        flows = self._flows.values()
        pending = np.array([number for flow in flows for number in flow.pairing.pending.values()], dtype=np.int64)
        waiting = np.array([number for flow in flows for number, _ in flow.pairing.orphans.values()], dtype=np.int64)
        rows = _rows_of(self._request_numbers, np.sort(pending))
        self._requests, self._request_numbers = self._requests.select(rows), self._request_numbers[rows]
        pending_size = int(self._requests.frame.size.sum()) + _REQUEST_COST * len(rows)
        self._pending_size_max = max(self._pending_size_max, pending_size)
        rows = _rows_of(self._response_numbers, np.sort(waiting))
        self._responses, self._response_numbers = self._responses.select(rows), self._response_numbers[rows]


def _columns(rows: Sequence[tuple[int, ...]], width: int) -> Ints:
    """Rows of numbers as columns."""
    numbers = np.fromiter(chain.from_iterable(rows), dtype=np.int64, count=len(rows) * width)
    return numbers.reshape(-1, width).T.copy()


def _rows_of(numbers: Ints, wanted: Ints) -> Ints:
    """The row of each wanted number; -1 for -1."""
    return np.where(wanted < 0, -1, np.searchsorted(numbers, wanted))


def _mark_damaged(body: Ints) -> Ints:
    """The places of bodies, marked as those that columns of whole exchanges do not read."""
    return np.where(body >= 0, -2 - body, body)


def body_offsets(body: Ints) -> Ints:
    """Where messages begin in their frames, also those of damaged exchanges; -1 where it is not known."""
    return np.where(body < -1, -2 - body, body)
