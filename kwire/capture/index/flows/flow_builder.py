"""Build flows from packet headers, span by span: exchanges, and the state and cleanness of each flow.

The headers may come from one file while it is scanned, or from stored columns; they may be those of all flows or of
some, and of one file or of a series of files whose offsets do not overlap.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kwire.capture.index.arrays import NO_NUMBERS, Ints, concatenate_rows, group_starts
from kwire.capture.index.flows import midstream_flows, pairing, stream_order
from kwire.capture.index.flows.early_responses import EarlyResponses
from kwire.capture.index.flows.flow_table import FlowTable
from kwire.capture.index.flows.frame_headers import ClientIdTable, HeaderReader
from kwire.capture.index.flows.frame_scan import BodyFragments, FileWindow, FragmentBuffer, ReadAt, scan_frames
from kwire.capture.index.flows.midstream_flows import MidstreamExchanges, MidstreamFlows
from kwire.capture.index.flows.pairing import ExchangeColumns
from kwire.capture.index.flows.reorder_limits import mark_unclean_open_gaps
from kwire.capture.index.flows.segment_columns import NO_SEGMENTS, SegmentColumns
from kwire.capture.index.scan.packet_headers import PacketHeaders
from kwire.capture.kafka.exchange_pairing import PENDING_REQUESTS_MAX, PENDING_SIZE_MAX
from kwire.capture.kafka.heuristics import REQUEST_HEAD, is_request, is_tls
from kwire.capture.options import FRAME_SIZE_MAX
from kwire.capture.tcp.sequence_numbers import unwrap_seq

# The size of a connection's first bytes that the streaming pipeline checks.
_FIRST_SIZE = 4 * REQUEST_HEAD
_REQUEST_COST = 2000


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
        self.flows = FlowTable()
        self._fragments = FragmentBuffer()
        known = ClientIdTable()
        self._headers = HeaderReader(self.flows, read, self._fragments, known)
        self._midstream = MidstreamFlows(self.flows, read, known, is_limited=is_limited)
        self._read = read
        self._is_limited = is_limited
        self._early = EarlyResponses()
        self._partial: list[SegmentColumns] = [NO_SEGMENTS]
        self._pending = pairing.missing_requests(NO_NUMBERS)

    @property
    def client_ids(self) -> list[str]:
        """The client ids, by the numbers in requests."""
        return self._headers.client_ids.texts

    def add_span(self, headers: PacketHeaders, flow: Ints, window: FileWindow) -> SpanResult:
        """Add the packets of a span.

        Args: headers: in packet order; `ends` is not used. flow: by packet, flow numbers from 0 without gaps, in the
        order of first appearance. window: the part of the file in memory; other parts are read with `read`.
        """
        flows = self.flows
        if not len(flow):
            return self._span_result(pairing.unanswered_exchanges(self._pending.select(flow)), self._limited_totals())
        flows.grow_to(int(flow.max()) + 1)
        arrival = stream_order.count_packets(flows, flow, headers)
        chosen, resumed = self._midstream.add_packets(headers, flow, arrival, window)
        if chosen is not None:
            headers, flow, arrival = headers.select(chosen), flow[chosen], arrival[chosen]
        acks = stream_order.apply_control_flags(flows, flow, headers)
        new_segments = stream_order.select_segments(flows, flow, headers, arrival)
        segments = concatenate_rows(*self._partial, resumed.partial, new_segments)
        segments, after_gap = stream_order.order_segments(flows, segments, acks)
        self._check_first_bytes(segments)
        complete, partial = scan_frames(flows, segments, window, self._read, self._fragments)
        requests, responses = self._headers.read_headers(complete, *window)
        self._midstream.check_requests(requests)
        pending = concatenate_rows(self._pending, resumed.pending)
        early = self._early.match_responses(flows, pending, requests, responses)
        requests = pairing.number_requests(flows, requests, early)
        flows.mark_unclean((requests.frame.side >> 1)[requests.in_flight >= PENDING_REQUESTS_MAX], "waiting")
        completed, self._pending = pairing.pair_requests(flows, pending, requests, early)
        completed, self._pending = pairing.end_unanswered(flows, completed, self._pending)
        totals = self._limited_totals()
        if self._is_limited and totals.unanswered_size > LIMITS.unanswered_size:
            # The streaming pipeline drops some of them when the total over all connections exceeds its limit.
            flows.mark_unclean(self._pending.frame.side >> 1, "waiting")
            self._pending = self._pending.select(NO_NUMBERS)
        self._partial = [partial, after_gap]
        mark_unclean_open_gaps(flows, after_gap)
        return self._span_result(completed, totals)

    def finish_flows(self) -> ExchangeColumns:
        """The requests without a response at the end. Flows whose streams do not end with a frame become unclean."""
        flows = self.flows
        self._midstream.close()
        self._early.close(flows)
        for segments in self._partial:
            flows.mark_unclean(segments.side >> 1, "cut")
        end = np.where(flows.fin_seq >= 0, unwrap_seq(flows.fin_seq, flows.next_seq), flows.acked_seq - 1)
        is_short = (flows.start_seq >= 0) & (end > flows.next_seq)
        flows.mark_unclean(np.nonzero(is_short)[0] >> 1, "hole")
        clean = flows.is_clean(self._pending.frame.side >> 1)
        return pairing.unanswered_exchanges(self._pending.select(np.nonzero(clean)[0]))

    def midstream_exchanges(self) -> MidstreamExchanges:
        """The results of flows that began before the capture, after `finish_flows`."""
        return self._midstream.build_results()

    def _span_result(self, exchanges: ExchangeColumns, totals: LimitedTotals) -> SpanResult:
        return SpanResult(exchanges, self._fragments.drain_fragments(), totals, self._midstream.fragment_count)

    def _limited_totals(self) -> LimitedTotals:
        unanswered_size = int(self._pending.frame.size.sum()) + _REQUEST_COST * len(self._pending.number)
        return LimitedTotals(unanswered_size, self._midstream.buffered_size_max, self._midstream.undecided)

    def _check_first_bytes(self, segments: SegmentColumns) -> None:
        """Check the first bytes of new flows: they must be a request from the side that opened the connection."""
        flow = segments.side >> 1
        new = np.nonzero(self.flows.has_data[flow] == 0)[0]
        if not len(new):
            return
        new = new[np.lexsort((segments.offset[new], segments.completed_by[new], flow[new]))]
        for index in new[group_starts(flow[new])].tolist():
            number = int(flow[index])
            self.flows.has_data[number] = 1
            size = min(int(segments.size[index]), _FIRST_SIZE)
            first = self._read(int(segments.at[index]), size)
            is_from_opener = int(segments.side[index]) & 1 == self.flows.opener[number]
            if not is_from_opener or size < REQUEST_HEAD or is_tls(first) or not is_request(first, 0, FRAME_SIZE_MAX):
                self.flows.mark_unclean(np.array([number]), "not_kafka")
