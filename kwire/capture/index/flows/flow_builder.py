"""Build flows from packet headers, span by span: exchanges, and the state and cleanness of each flow.

The headers may come from one file while it is scanned, or from stored columns; they may be those of all flows or of
some, and of one file or of a series of files whose offsets do not overlap. A span passes through these stages: packets
that open and end connections; pieces of streams (`reassembly`); frames (`frame_scan`); headers; pairs (`pairing`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kwire.capture.index.arrays import Ints, concatenate_rows
from kwire.capture.index.flows import undecided_flows
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
from kwire.capture.index.flows.pairing import RequestPairing
from kwire.capture.index.flows.pending_requests import PendingRequests
from kwire.capture.index.flows.tls_streams import TlsSecrets, TlsStreams
from kwire.capture.index.flows.undecided_flows import UndecidedFlows
from kwire.capture.index.scan.packet_headers import PacketHeaders
from kwire.capture.index.streams import stream_pieces
from kwire.capture.index.streams.flow_packets import FlowPackets
from kwire.capture.index.streams.flow_table import FlowTable
from kwire.capture.index.streams.reassembly import Reassembler
from kwire.capture.index.streams.stream_pieces import StreamPieces
from kwire.capture.kafka.exchange_pairing import FRAME_COST, PENDING_SIZE_MAX

_NO_WINDOW = FileWindow(0, b"")


class LimitedTotals(NamedTuple):
    """Totals over all flows of a file, after a span, that have limits.

    unanswered_size: of requests without a response. undecided_size: the most payload that was held for flows whose
    client is not known.
    """

    unanswered_size: int
    undecided_size: int


# The streaming pipeline drops the requests of some connections when the total exceeds twice this.
LIMITS = LimitedTotals(PENDING_SIZE_MAX // 2, undecided_flows.HELD_SIZE_MAX)


class SpanResult(NamedTuple):
    """The result of one span: the exchanges that it completes, and body fragments."""

    exchanges: ExchangeColumns
    fragments: BodyFragments
    totals: LimitedTotals


class FlowBuilder:
    """Builds flows; its state continues from span to span. `flows` and `client_ids` are the state so far."""

    def __init__(self, read: ReadAt, *, is_limited: bool = True, secrets: TlsSecrets | None = None) -> None:
        """`read` reads the file by offset. `is_limited`: all flows of the file are built here, so `LIMITS` apply.

        Args: secrets: of the flows, which all speak TLS and are decrypted; None to decrypt none.
        """
        self.flows = flows = FlowTable()
        self.tls = None if secrets is None else TlsStreams(flows, read, secrets)
        # Frames are found in what was decrypted.
        read = read if self.tls is None else self.tls.plaintext.read
        self._fragments = FragmentBuffer()
        self._reassembler = Reassembler(flows)
        self._request_frames = FrameScanner(flows, read, self._fragments, is_request=True)
        self._response_frames = FrameScanner(flows, read, self._fragments, is_request=False)
        self._headers = HeaderReader(flows, read, self._fragments, ClientIdTable())
        self._pairing = RequestPairing(flows)
        self._closing = FlowClosing(flows)
        self._undecided = UndecidedFlows(flows, read, is_limited=is_limited)
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
        pieces = self._reassembler.add_packets(headers, flow, packets)
        closing = self._closing.end_flows(headers, flow, times)
        exchanges = self._read_pieces(pieces, window, closing)
        totals = self._limited_totals()
        if self._is_limited and totals.unanswered_size > LIMITS.unanswered_size:
            # The streaming pipeline drops some of them when the total over all connections exceeds its limit.
            self._pairing.drop()
        return SpanResult(exchanges, self._fragments.drain_fragments(), totals)

    def finish_flows(self) -> SpanResult:
        """The end of the capture: what is left of all flows that are open."""
        exchanges = self._read_pieces(stream_pieces.NO_PIECES, _NO_WINDOW, self._closing.end_all())
        return SpanResult(exchanges, self._fragments.drain_fragments(), self._limited_totals())

    def gaps(self) -> list[StreamGapRow]:
        """The bytes that were lost or skipped in clean flows, in the order in which they were found."""
        flows, found = self.flows, [*self._request_frames.gaps, *self._response_frames.gaps]
        found = [gap for gap in found if not flows.unclean_reason[gap.flow]]
        moments = np.array([max(gap.completed_by, flows.decided_at[gap.flow]) for gap in found], dtype=np.int64)
        numbers = stream_pieces.packet_numbers(moments).tolist()
        return sort_gaps(gap._replace(completed_by=number) for gap, number in zip(found, numbers, strict=True))

    def _read_pieces(self, pieces: StreamPieces, window: FileWindow, closing: dict[int, FlowEnd]) -> ExchangeColumns:
        """The exchanges that these pieces complete, and those of flows that are closed."""
        numbers = np.array([end.number for end in closing.values()], dtype=np.int64)
        ended = self._reassembler.close_streams(np.array(list(closing), dtype=np.int64), numbers)
        if len(ended.side):
            pieces = concatenate_rows(pieces, ended)
            pieces = pieces.select(np.lexsort((pieces.offset, pieces.side)))
        if self.tls is not None:
            pieces, window = self.tls.decrypt(pieces, window, closing)
        pieces = self._undecided.decide(pieces, window, closing)
        asked = self._request_frames.scan(self._select_side(pieces, is_request=True), window, closing)
        requests = self._headers.read_requests(asked, *window)

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
        return LimitedTotals(unanswered_size, self._undecided.held_size)
