"""Flows that began before the capture: they are read by the streaming pipeline first, until columns can continue.

Their first exchanges are stored apart from those of spans, because they may be older than the span in which both sides
of the flow were synchronized. `Index.read_exchanges` merges them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kwire.capture.index.arrays import NO_NUMBERS, Ints, concatenate_rows, find_groups
from kwire.capture.index.flows import frame_columns, message_columns
from kwire.capture.index.flows.frame_columns import (
    BodyFragments,
    FileWindow,
    FragmentBuffer,
    FrameColumns,
    ReadAt,
    StreamGapRow,
)
from kwire.capture.index.flows.frame_headers import ClientIdTable, HeaderReader
from kwire.capture.index.flows.message_columns import ExchangeColumns, RequestColumns, ResponseColumns
from kwire.capture.index.flows.midstream_flow import PLACEHOLDER_ENDPOINTS, MidstreamFlow, SideState
from kwire.capture.index.scan.packet_headers import LINK_NAMES, PacketHeaders
from kwire.capture.index.streams.connection_control import BEFORE_CAPTURE
from kwire.capture.index.streams.flow_table import FlowTable
from kwire.capture.index.streams.stream_pieces import (
    AFTER_CAPTURE,
    NO_PIECES,
    PieceRow,
    StreamPieces,
    moment_of,
    moments_of,
    piece_columns,
)
from kwire.capture.kafka.exchange_pairing import OpenExchanges
from kwire.capture.kafka.message_decoder import Request
from kwire.capture.model import Frame, Segment
from kwire.capture.tcp.flags import SYN

_HEADER_FIELDS = [name for name in PacketHeaders._fields if name != "ends"]
# How a flow is read: no relevant packet yet; its beginning by the streaming pipeline; by columns only.
NOT_STARTED, MIDSTREAM, BY_COLUMNS = 0, 1, 2
# The most payload that is buffered for all midstream flows together.
BUFFERED_SIZE_MAX = 64 * 1024 * 1024
# After this many flows whose client was not found for long, a flow must show its client within fewer bytes, because the
# streaming pipeline buffers less of each flow then.
UNDECIDED_MAX = 16
_UNDECIDED_SIZE = 64 * 1024


class MidstreamExchanges(NamedTuple):
    """The exchanges and body fragments of midstream flows, in the order of completion.

    A request that was sent before the capture has size -1. Fragments are numbered from `MIDSTREAM_FRAGMENTS_START`.
    """

    exchanges: ExchangeColumns
    fragments: BodyFragments


class ResumedFlows(NamedTuple):
    """The state from which the columns continue: pending requests and segments of incomplete frames."""

    pending: RequestColumns
    partial: StreamPieces


NO_RESUMED_FLOWS = ResumedFlows(message_columns.missing_requests(NO_NUMBERS), NO_PIECES)


class MidstreamFlows:
    """All flows whose SYN was not captured."""

    def __init__(self, flows: FlowTable, read: ReadAt, client_ids: ClientIdTable, *, is_limited: bool) -> None:
        """`client_ids` is shared with the other flows. `is_limited`: these are all flows of the file."""
        self._flows = flows
        self._read = read
        self._fragments = FragmentBuffer(first=frame_columns.MIDSTREAM_FRAGMENTS_START)
        self._headers = HeaderReader(flows, read, self._fragments, client_ids)
        self._open: dict[int, MidstreamFlow] = {}
        self._is_limited = is_limited
        self._buffered_size = 0
        self.buffered_size_max = 0
        """An upper bound of the payload that was buffered since the last span."""
        self.undecided = 0
        """How many flows were dropped before they showed their client."""
        self._exchanges: list[ExchangeColumns] = []
        self._orphans = message_columns.missing_responses(0)
        self.gaps: list[StreamGapRow] = []
        """The bytes that were skipped before the flows were synchronized."""

    def add_packets(self, headers: PacketHeaders, flow: Ints, window: FileWindow) -> tuple[Ints | None, ResumedFlows]:
        """Add the packets of a span that belong to midstream flows.

        Returns: the indexes of the packets for the columns, None for all; and the state of the flows that are
        synchronized from now on.
        """
        self.buffered_size_max = self._buffered_size
        self._classify_new_flows(headers, flow)
        rows = np.nonzero(self._flows.read_stage[flow] == MIDSTREAM)[0]
        if not len(rows):
            return None, NO_RESUMED_FLOWS
        rows = rows[np.argsort(flow[rows], kind="stable")]
        is_for_columns = np.ones(len(flow), dtype=np.bool_)
        synchronized: list[_SynchronizedFlow] = []
        for packets in np.split(rows, find_groups(flow[rows])[1:]):
            count, synchronized_flow = self._add_flow_packets(int(flow[packets[0]]), headers, packets)
            is_for_columns[packets[:count]] = False
            if synchronized_flow is not None:
                synchronized.append(synchronized_flow)
        resumed = self._resume_flows(synchronized, window) if synchronized else NO_RESUMED_FLOWS
        return np.nonzero(is_for_columns)[0], resumed

    def check_requests(self, requests: RequestColumns) -> None:
        """Mark flows unclean in which a later request has the id of a response without a request."""
        orphans = self._orphans
        if len(orphans.correlation_id) and len(requests.number):
            is_known = np.isin(message_columns.correlation_keys(requests), message_columns.correlation_keys(orphans))
            self._flows.mark_unclean((requests.frame.side >> 1)[is_known], "pairing")

    def close(self) -> None:
        """Mark the flows that are not synchronized at the end as unclean."""
        self._flows.mark_unclean(np.array([*self._open], dtype=np.int64), "midstream")

    def build_results(self) -> MidstreamExchanges:
        """The results of all midstream flows that are clean."""
        flows, orphans = self._flows, self._orphans
        flow = orphans.frame.side >> 1
        completed_by = np.where(flows.end_reason[flow] > 0, flows.end_packet[flow], AFTER_CAPTURE)
        requests = message_columns.missing_requests(2 * flow + flows.opener[flow])
        orphan_exchanges = ExchangeColumns(requests, orphans, completed_by)
        exchanges = message_columns.concatenate_exchanges([*self._exchanges, orphan_exchanges])
        exchanges = exchanges.select(np.nonzero(flows.is_clean(exchanges.flow))[0])
        exchanges = exchanges.select(np.lexsort((exchanges.flow, exchanges.completed_by)))
        return MidstreamExchanges(exchanges, self._fragments.drain_fragments())

    def _classify_new_flows(self, headers: PacketHeaders, flow: Ints) -> None:
        """Decide for new flows whether they begin with a SYN. Packets before the SYN or the first data do not count."""
        stage = self._flows.read_stage
        new = np.nonzero(stage[flow] == NOT_STARTED)[0]
        if not len(new):
            return
        counts = (headers.captured[new] + headers.missing[new] > 0) | ((headers.flags[new] & SYN) > 0)
        new_flows, first = np.unique(flow[new[counts]], return_index=True)
        is_open = (headers.flags[new[counts][first]] & SYN) > 0
        stage[new_flows] = np.where(is_open, BY_COLUMNS, MIDSTREAM)

    def _add_flow_packets(
        self, number: int, headers: PacketHeaders, packets: Ints
    ) -> tuple[int, _SynchronizedFlow | None]:
        """Add packets of a flow until it is synchronized; return how many were used, 0 if it failed."""
        midstream_flow = self._open.get(number)
        if midstream_flow is None:
            midstream_flow = self._open[number] = MidstreamFlow()
        columns = [getattr(headers, name) for name in _HEADER_FIELDS]
        for taken in range(len(packets)):
            row = int(packets[taken])
            before = midstream_flow.size
            self._add_packet(midstream_flow, [int(column[row]) for column in columns])
            self._buffered_size += midstream_flow.size - before
            self.buffered_size_max += max(midstream_flow.size - before, 0)
            exceeds_limits = self._is_limited and self._exceeds_limits(midstream_flow)
            state = None if exceeds_limits else midstream_flow.resume_state()
            if midstream_flow.has_failed or exceeds_limits:
                self.undecided += midstream_flow.is_undecided
                self._flows.mark_unclean(np.array([number]), "midstream")
                self._close_flow(number, midstream_flow)
                return 0, None
            if state is not None:
                self._close_flow(number, midstream_flow)
                return taken + 1, _SynchronizedFlow(number, midstream_flow, *state)
        return len(packets), None

    def _add_packet(self, midstream_flow: MidstreamFlow, row: list[int]) -> None:
        number, ts, link, side, seq, ack, flags, window, at, captured, missing = row
        if at < 0 and captured:
            # The payload arrived in IP fragments.
            midstream_flow.has_failed = True
            return
        payload = self._read(at, captured) if captured else b""
        source, target = PLACEHOLDER_ENDPOINTS[side], PLACEHOLDER_ENDPOINTS[1 - side]
        segment = Segment(ts, LINK_NAMES[link], source, target, seq, ack, flags, payload, missing, number, window)
        midstream_flow.add_packet(segment, at)

    @property
    def fragment_count(self) -> int:
        """The number of body fragments so far."""
        return len(self._fragments.at)

    def _exceeds_limits(self, midstream_flow: MidstreamFlow) -> bool:
        if self._buffered_size > BUFFERED_SIZE_MAX:
            return True
        return self.undecided > UNDECIDED_MAX and midstream_flow.size > _UNDECIDED_SIZE and midstream_flow.is_undecided

    def _close_flow(self, number: int, midstream_flow: MidstreamFlow) -> None:
        del self._open[number]
        self._buffered_size -= midstream_flow.size
        self._flows.read_stage[number] = BY_COLUMNS

    def _resume_flows(self, synchronized: Sequence[_SynchronizedFlow], window: FileWindow) -> ResumedFlows:
        """Set the columns of these flows, store their exchanges, and return the state from which columns continue."""
        for flow in synchronized:
            self._set_columns(flow)
        rows: list[tuple[int, ...]] = []
        for flow in synchronized:
            rows += [self._frame_row(flow, frame, number) for frame, number in flow.midstream_flow.frames]
        columns = np.array(rows, dtype=np.int64).reshape(-1, len(FrameColumns._fields)).T
        requests, responses = self._headers.read_headers(FrameColumns(*columns), *window)
        frame_rows = _FrameRows(requests, responses)
        pending: list[int] = []
        for flow in synchronized:
            if not self._flows.unclean_reason[flow.number]:
                self._exchanges.append(frame_rows.build_exchanges(flow))
                pending += frame_rows.pending_rows(flow)
                orphans = responses.select(np.array(frame_rows.orphan_rows(flow), dtype=np.int64))
                self._orphans = concatenate_rows(self._orphans, orphans)
                self.gaps += flow.gaps
        pending_requests = frame_rows.requests.select(np.array(pending, dtype=np.int64))
        frames = pending_requests.frame
        frames = frames._replace(completed_by=moments_of(frames.completed_by))
        pending_requests = pending_requests._replace(frame=frames)
        return ResumedFlows(pending_requests, _partial_frames(synchronized))

    def _set_columns(self, synchronized: _SynchronizedFlow) -> None:
        flows, number, flow = self._flows, synchronized.number, synchronized.midstream_flow.flow
        for side, state in enumerate(synchronized.sides):
            at = 2 * number + side
            flows.start_seq[at], flows.next_seq[at] = state.start_seq, state.next_seq
            flows.acked_seq[at], flows.last_data_ts[at] = state.acked_seq, state.last_ts
            flows.syn_number[at] = BEFORE_CAPTURE
        flows.opener[number] = flow.client_side
        flows.link[number] = LINK_NAMES.index(flow.link)
        flows.has_data[number] = 1
        flows.request_count[number] = synchronized.open_exchanges.request_count
        flows.open_requests[number] = synchronized.open_exchanges.in_flight
        flows.last_answered[number] = synchronized.open_exchanges.last_answered

    def _frame_row(self, synchronized: _SynchronizedFlow, frame: Frame, completed_by: int) -> tuple[int, ...]:
        side = synchronized.side_number(frame)
        fragments = synchronized.midstream_flow.body_ranges(frame)
        at, count = (fragments[0][0] if fragments else 0), 0
        if len(fragments) > 1:
            at, count = -1 - self._fragments.first - len(self._fragments.at), len(fragments)
            self._fragments.at.extend(begin for begin, _ in fragments)
            self._fragments.size.extend(size for _, size in fragments)
            self._fragments.side.extend([side] * count)
        return side, frame.packet, frame.ts, frame.end_ts, frame.offset, frame.size, at, count, completed_by


class _SynchronizedFlow(NamedTuple):
    """A flow whose sides are both synchronized."""

    number: int
    midstream_flow: MidstreamFlow
    sides: tuple[SideState, SideState]
    open_exchanges: OpenExchanges

    def side_number(self, frame: Frame) -> int:
        """The number of the side that sent the frame."""
        return 2 * self.number + self.midstream_flow.side_of(frame)

    @property
    def gaps(self) -> list[StreamGapRow]:
        """The bytes that were skipped."""
        return [StreamGapRow(self.number, *gap[1:], number) for gap, number in self.midstream_flow.gaps]


class _FrameRows:
    """Finds the rows of frames among requests and responses."""

    def __init__(self, requests: RequestColumns, responses: ResponseColumns) -> None:
        """Columns that only the pairing can set are copied to `requests`, to be set later."""
        copies = {name: getattr(requests, name).copy() for name in ("number", "in_flight", "expects_response")}
        self.requests = requests._replace(**copies)
        self._responses = concatenate_rows(responses, message_columns.missing_responses(1))
        self._rows: dict[tuple[int, int], int] = {}
        for frames in (requests.frame, responses.frame):
            for index, key in enumerate(zip(frames.side.tolist(), frames.offset.tolist(), strict=True)):
                self._rows[key] = index

    def build_exchanges(self, synchronized: _SynchronizedFlow) -> ExchangeColumns:
        """The completed exchanges of a flow."""
        request_rows, response_rows, orders = [], [], []
        for exchange, _ in synchronized.midstream_flow.exchanges:
            request, response = exchange.request, exchange.response
            assert request is not None
            request_rows.append(self._request_row(synchronized, request))
            response_rows.append(-1 if response is None else self._row_of(synchronized, response.frame))
            orders.append(-1 if response is None else int(bool(response.order_ok)))
        responses = self._responses.select(np.array(response_rows, dtype=np.int64))
        responses = responses._replace(order_ok=np.array(orders, dtype=np.int64))
        completed_by = np.array([number for _, number in synchronized.midstream_flow.exchanges], dtype=np.int64)
        return ExchangeColumns(self.requests.select(np.array(request_rows, dtype=np.int64)), responses, completed_by)

    def pending_rows(self, synchronized: _SynchronizedFlow) -> list[int]:
        """The rows of pending requests."""
        return [self._request_row(synchronized, request) for request in synchronized.open_exchanges.requests]

    def orphan_rows(self, synchronized: _SynchronizedFlow) -> list[int]:
        """The rows of responses whose requests were not captured."""
        return [self._row_of(synchronized, frame) for frame in synchronized.open_exchanges.responses]

    def _request_row(self, synchronized: _SynchronizedFlow, request: Request) -> int:
        row = self._row_of(synchronized, request.frame)
        self.requests.number[row], self.requests.in_flight[row] = request.number, request.in_flight
        self.requests.expects_response[row] = request.expects_response
        return row

    def _row_of(self, synchronized: _SynchronizedFlow, frame: Frame) -> int:
        return self._rows[synchronized.side_number(frame), frame.offset]


def _partial_frames(synchronized: Sequence[_SynchronizedFlow]) -> StreamPieces:
    """The pieces of incomplete frames."""
    rows: list[PieceRow] = []
    for flow in synchronized:
        for side, state in enumerate(flow.sides):
            for offset, size, at, ts, number, completed_by in state.partial_frame:
                place = 2 * flow.number + side, state.start_seq + offset
                rows.append((*place, size, at, ts, number, moment_of(completed_by)))
    return piece_columns(rows)
