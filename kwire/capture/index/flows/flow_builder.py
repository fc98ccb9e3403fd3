"""Build flows from packet headers, span by span: exchanges, and the state and cleanness of each flow.

The headers may come from one file while it is scanned, or from stored columns; they may be those of all flows or of
some, and of one file or of a series of files whose offsets do not overlap. A span passes through these stages: packets
that open and end connections; pieces of streams (`reassembly`); frames (`frame_scan`); headers; pairs (`pairing`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kwire.capture.index.arrays import Ints, concatenate_rows, group_starts
from kwire.capture.index.flows import midstream_flows
from kwire.capture.index.flows.flow_closing import FlowClosing, FlowEnd, PacketTimes
from kwire.capture.index.flows.frame_columns import (
    BodyFragments,
    FileWindow,
    FragmentBuffer,
    MessageTimes,
    ReadAt,
    StreamGapRow,
    sort_gaps,
)
from kwire.capture.index.flows.frame_headers import ClientIdTable, HeaderReader
from kwire.capture.index.flows.frame_scan import FrameScanner
from kwire.capture.index.flows.message_columns import ExchangeColumns
from kwire.capture.index.flows.midstream_flows import MidstreamExchanges, MidstreamFlows
from kwire.capture.index.flows.pairing import RequestPairing
from kwire.capture.index.flows.pending_requests import PendingRequests
from kwire.capture.index.scan.packet_headers import PacketHeaders
from kwire.capture.index.streams import stream_pieces
from kwire.capture.index.streams.connection_control import apply_control_flags
from kwire.capture.index.streams.flow_packets import FlowPackets
from kwire.capture.index.streams.flow_table import FlowTable
from kwire.capture.index.streams.reassembly import Reassembler
from kwire.capture.index.streams.stream_pieces import StreamPieces
from kwire.capture.kafka.exchange_pairing import FRAME_COST, PENDING_SIZE_MAX
from kwire.capture.kafka.heuristics import REQUEST_HEAD, is_request, is_tls
from kwire.capture.options import FRAME_SIZE_MAX

# The size of a connection's first bytes that are checked.
_FIRST_SIZE = 4 * REQUEST_HEAD
_NO_WINDOW = FileWindow(0, b"")


class LimitedTotals(NamedTuple):
    """Totals over all flows of a file, after a span, that have limits.

    unanswered_size: of requests without a response. midstream_size: the most payload that was buffered for midstream
    flows that are not synchronized. undecided: midstream flows that were dropped before they showed their client.
    """

    unanswered_size: int
    midstream_size: int
    undecided: int


# The streaming pipeline drops the requests of some connections when the total exceeds twice this.
LIMITS = LimitedTotals(PENDING_SIZE_MAX // 2, midstream_flows.BUFFERED_SIZE_MAX, midstream_flows.UNDECIDED_MAX)


class SpanResult(NamedTuple):
    """The result of one span: the exchanges that it completes, and body fragments.

    midstream_fragment_count: the number of body fragments of midstream flows so far.
    """

    exchanges: ExchangeColumns
    fragments: BodyFragments
    totals: LimitedTotals
    midstream_fragment_count: int


class FlowBuilder:
    """Builds flows; its state continues from span to span. `flows` and `client_ids` are the state so far."""

    def __init__(self, read: ReadAt, *, is_limited: bool = True) -> None:
        """`read` reads the file by offset. `is_limited`: all flows of the file are built here, so `LIMITS` apply."""
        self.flows = flows = FlowTable()
        self._fragments = FragmentBuffer()
        known = ClientIdTable()
        self._reassembler = Reassembler(flows)
        self._request_frames = FrameScanner(flows, read, self._fragments, is_request=True)
        self._response_frames = FrameScanner(flows, read, self._fragments, is_request=False)
        self._headers = HeaderReader(flows, read, self._fragments, known)
        self._pairing = RequestPairing(flows)
        self._closing = FlowClosing(flows)
        self._midstream = MidstreamFlows(flows, read, known, is_limited=is_limited)
        self._read = read
        self._is_limited = is_limited

    @property
    def client_ids(self) -> list[str]:
        """The client ids, by the numbers in requests."""
        return self._headers.client_ids.texts

    def add_span(
        self, headers: PacketHeaders, flow: Ints, window: FileWindow, times: PacketTimes | None = None
    ) -> SpanResult:
        """Add the packets of a span.

        Args: headers: in packet order; `ends` is not used. flow: by packet, flow numbers from 0 without gaps, in the
        order of first appearance. window: the part of the file in memory; other parts are read with `read`. times:
        of all packets of the span; None if these are all.
        """
        flows = self.flows
        times = times or PacketTimes(headers.number, headers.ts)
        if len(flow):
            flows.grow_to(int(flow.max()) + 1)
        packets = FlowPackets(flows, flow, headers)
        arrival = packets.arrival
        chosen, resumed = self._midstream.add_packets(headers, flow, window)
        if chosen is not None:
            headers, flow, arrival = headers.select(chosen), flow[chosen], arrival[chosen]
        for scanner in (self._request_frames, self._response_frames):
            scanner.resume(self._select_side(resumed.partial, is_request=scanner.is_request))
        self._pairing.resume(resumed.pending)
        apply_control_flags(flows, flow, headers)
        pieces = self._reassembler.add_packets(headers, flow, arrival, packets)
        closing = self._closing.end_flows(headers, flow, times)
        exchanges = self._read_pieces(pieces, window, closing)
        totals = self._limited_totals()
        if self._is_limited and totals.unanswered_size > LIMITS.unanswered_size:
            # The streaming pipeline drops some of them when the total over all connections exceeds its limit.
            self._pairing.drop()
        return SpanResult(exchanges, self._fragments.drain_fragments(), totals, self._midstream.fragment_count)

    def finish_flows(self) -> SpanResult:
        """The end of the capture: what is left of all flows that are open."""
        self._midstream.close()
        exchanges = self._read_pieces(stream_pieces.NO_PIECES, _NO_WINDOW, self._closing.end_all())
        return SpanResult(exchanges, self._fragments.drain_fragments(), self._limited_totals(), 0)

    def midstream_exchanges(self) -> MidstreamExchanges:
        """The results of flows that began before the capture, after `finish_flows`."""
        return self._midstream.build_results()

    def gaps(self) -> list[StreamGapRow]:
        """The bytes that were lost or skipped in clean flows, in the order in which they were found."""
        found = [*self._request_frames.gaps, *self._response_frames.gaps]
        numbers = stream_pieces.packet_numbers(np.array([gap.completed_by for gap in found], dtype=np.int64)).tolist()
        rows = [gap._replace(completed_by=number) for gap, number in zip(found, numbers, strict=True)]
        rows = [*rows, *self._midstream.gaps]
        return sort_gaps(gap for gap in rows if not self.flows.unclean_reason[gap.flow])

    def _read_pieces(self, pieces: StreamPieces, window: FileWindow, closing: dict[int, FlowEnd]) -> ExchangeColumns:
        """The exchanges that these pieces complete, and those of flows that are closed."""
        flows = self.flows
        numbers = np.array([end.number for end in closing.values()], dtype=np.int64)
        ended = self._reassembler.close_streams(np.array(list(closing), dtype=np.int64), numbers)
        if len(ended.side):
            pieces = concatenate_rows(pieces, ended)
            pieces = pieces.select(np.lexsort((pieces.offset, pieces.side)))
        self._check_first_bytes(pieces)
        pieces = pieces.select(flows.is_clean(pieces.side >> 1))
        asked = self._request_frames.scan(self._select_side(pieces, is_request=True), window, closing)
        requests = self._headers.read_requests(asked, *window)
        self._midstream.check_requests(requests)

        def pending(flow: int, found: MessageTimes) -> PendingRequests:
            return self._pairing.track(flow, requests, found)

        answered = self._response_frames.scan(self._select_side(pieces, is_request=False), window, closing, pending)
        responses = self._headers.read_responses(answered, *window)
        return self._pairing.pair(requests, responses, closing)

    def _select_side(self, pieces: StreamPieces, *, is_request: bool) -> StreamPieces:
        """The pieces of the sides that send requests, or of the others."""
        is_client = (pieces.side & 1) == self.flows.opener[pieces.side >> 1]
        return pieces.select(is_client if is_request else ~is_client)

    def _limited_totals(self) -> LimitedTotals:
        pending = self._pairing.pending
        unanswered_size = int(pending.frame.size.sum()) + FRAME_COST * len(pending.number)
        return LimitedTotals(unanswered_size, self._midstream.buffered_size_max, self._midstream.undecided)

    def _check_first_bytes(self, pieces: StreamPieces) -> None:
        """Check the first bytes of new flows: they must be a request from the side that opened the connection."""
        flow = pieces.side >> 1
        new = np.nonzero(self.flows.has_data[flow] == 0)[0]
        if not len(new):
            return
        new = new[np.lexsort((pieces.offset[new], pieces.moment[new], flow[new]))]
        for index in new[group_starts(flow[new])].tolist():
            number = int(flow[index])
            self.flows.has_data[number] = 1
            first = self._read_first(pieces, index)
            is_from_opener = int(pieces.side[index]) & 1 == self.flows.opener[number]
            is_readable = is_from_opener and len(first) >= REQUEST_HEAD and not is_tls(first)
            if not (is_readable and is_request(first, 0, FRAME_SIZE_MAX)):
                self.flows.mark_unclean(np.array([number]), "not_kafka")

    def _read_first(self, pieces: StreamPieces, index: int) -> bytes:
        """The first bytes of a side from a piece on, from as many pieces as hold the begin of a request."""
        first, side = b"", pieces.side[index]
        while len(first) < REQUEST_HEAD and index < len(pieces.side):
            at, size = int(pieces.at[index]), int(pieces.size[index])
            if at < 0 or pieces.side[index] != side:
                break
            first += self._read(at, min(size, _FIRST_SIZE))
            index += 1
        return first
