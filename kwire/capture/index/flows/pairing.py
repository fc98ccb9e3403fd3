"""Pair requests with responses, for all flows at once, in the order of the capture (`matching`)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kwire.capture.index.arrays import NO_NUMBERS, Ints, concatenate_rows
from kwire.capture.index.flows.frame_columns import FrameColumns, MessageTimes
from kwire.capture.index.flows.matching import Matches, Pairs, match_messages
from kwire.capture.index.flows.message_columns import (
    DAMAGED,
    DROPPED,
    DUPLICATE,
    EXPIRED,
    TOKEN,
    ExchangeColumns,
    RequestColumns,
    ResponseColumns,
    mark_damaged,
    missing_requests,
    missing_responses,
)
from kwire.capture.index.flows.pending_requests import PendingRequests
from kwire.capture.index.flows.request_numbers import find_order, number_requests
from kwire.capture.index.flows.waiting_limits import WAITING_MAX, find_flows_over_limits, find_oldest, limit_responses
from kwire.capture.index.streams.flow_closing import FlowEnd
from kwire.capture.index.streams.flow_table import FlowTable
from kwire.capture.index.streams.stream_pieces import CLOSED_EXCHANGES, PHASE_MASK, moment_of


class RequestPairing:
    """The requests and responses that wait for their other half, from span to span."""

    def __init__(self, flows: FlowTable, size_max: int | None) -> None:
        """`flows` has the number of requests of each flow so far, and how many are open.

        Args: size_max: of the frames that wait, if their bytes are held.
        """
        self._flows = flows
        self._size_max = size_max
        self.pending = missing_requests(NO_NUMBERS)
        self._orphans = missing_responses(0)
        self.waiting_count = 0
        """How many messages waited at the end of the last span, before `WAITING_MAX` was applied."""

    def track(self, flow: int, requests: RequestColumns, found: MessageTimes) -> PendingRequests:
        """The pending requests of a flow while its responses are found.

        Args: requests: those of this span, by side. found: the responses that are found for certain.
        """
        new = requests.select(_rows_of_flow(requests.frame.side, flow))
        new = new.select(np.nonzero(new.expects_response)[0])
        both = concatenate_rows(self.pending.select(_rows_of_flow(self.pending.frame.side, flow)), new)
        orphans = self._orphans.select(_rows_of_flow(self._orphans.frame.side, flow))
        asked = MessageTimes(both.frame.completed_by, both.correlation_id, both.frame.ts)
        early = MessageTimes(orphans.frame.completed_by, orphans.correlation_id, orphans.frame.end_ts)
        return PendingRequests(asked, early, found)

    def waiting_frames(self) -> tuple[FrameColumns, FrameColumns]:
        """The requests that wait for responses, and the responses that wait for requests."""
        return self.pending.frame, self._orphans.frame

    def pair(
        self, requests: RequestColumns, responses: ResponseColumns, closing: dict[int, FlowEnd]
    ) -> ExchangeColumns:
        """The exchanges that are complete now, in the order of completion.

        Args: requests, responses: those of a span, by side and offset. closing: the flows that are closed now, in their
        order.
        """
        flows = self._flows
        pending = self.pending
        asked, answered = concatenate_rows(pending, requests), concatenate_rows(self._orphans, responses)
        asked, matches = self._match(asked, len(pending.number), answered)
        waiting, overflow = limit_responses(answered, matches.waiting)
        one_way = np.nonzero(asked.expects_response == 0)[0]
        closed = np.array(list(closing), dtype=np.int64)
        ends = np.isin(asked.frame.side[matches.open] >> 1, closed)
        is_left = np.isin(answered.frame.side[waiting] >> 1, closed)
        unanswered, orphans = matches.open[ends], waiting[is_left]
        asked, open_, waiting, oldest = self._limit_waiting(asked, matches.open[~ends], answered, waiting[~is_left])
        parts = [
            matches.pairs,
            Pairs.of_requests(one_way, *_places(asked.frame, one_way)),
            overflow,
            Pairs.of_requests(unanswered, *_closing_places(asked.frame, unanswered, closing)),
            Pairs.of_responses(orphans, *_closing_places(answered.frame, orphans, closing)),
            *oldest,
        ]
        exchanges = _build_exchanges(flows, asked, answered, concatenate_rows(*parts), closing)
        self._set_pending(asked.select(open_))
        self._orphans = answered.select(waiting)
        return exchanges

    def expire(self, before_ts: int, number: int) -> ExchangeColumns:
        """Complete the requests and responses that were sent before a time, flow by flow; SASL tokens wait on.

        Args: number: of the packet before which they are complete.
        """
        flows, requests, responses = self._flows, self.pending, self._orphans
        is_old = (requests.frame.ts < before_ts) & ((requests.marks & TOKEN) == 0)
        is_early = responses.frame.ts < before_ts
        old, early = np.nonzero(is_old)[0], np.nonzero(is_early)[0]
        asked = requests._replace(marks=np.where(is_old, requests.marks | EXPIRED, requests.marks))
        np.subtract.at(flows.open_requests, requests.frame.side[old] >> 1, 1)
        moment = moment_of(number, CLOSED_EXCHANGES)
        pairs = [
            Pairs.of_requests(old, np.full(len(old), moment), requests.frame.offset[old]),
            Pairs.of_responses(early, np.full(len(early), moment), responses.frame.offset[early]),
        ]
        numbers = np.union1d(requests.frame.side[old] >> 1, responses.frame.side[early] >> 1).tolist()
        order = dict.fromkeys(numbers, FlowEnd(number, before_ts))
        exchanges = _build_exchanges(flows, asked, responses, concatenate_rows(*pairs), order)
        self.pending = requests.select(np.nonzero(~is_old)[0])
        self._orphans = responses.select(np.nonzero(~is_early)[0])
        return exchanges

    def _limit_waiting(
        self, requests: RequestColumns, open_: Ints, responses: ResponseColumns, waiting: Ints
    ) -> tuple[RequestColumns, Ints, Ints, list[Pairs]]:
        """The rows that still wait, of all flows not more than the limit; the others are complete as they are."""
        self.waiting_count = len(open_) + len(waiting)
        if self.waiting_count <= WAITING_MAX and self._size_max is None:
            return requests, open_, waiting, []
        is_dropped, is_left = find_oldest(requests.frame.select(open_), responses.frame.select(waiting), self._size_max)
        if not (is_dropped.any() or is_left.any()):
            return requests, open_, waiting, []
        dropped, left, marks = open_[is_dropped], waiting[is_left], requests.marks.copy()
        marks[dropped] |= DROPPED
        np.subtract.at(self._flows.open_requests, requests.frame.side[dropped] >> 1, 1)
        # Behind everything else of the span.
        last = max(int(each.frame.completed_by.max(initial=0)) for each in (requests, responses)) | PHASE_MASK
        pairs = [
            Pairs.of_requests(dropped, np.full(len(dropped), last), requests.frame.offset[dropped]),
            Pairs.of_responses(left, np.full(len(left), last), responses.frame.offset[left]),
        ]
        return requests._replace(marks=marks), open_[~is_dropped], waiting[~is_left], pairs

    def _match(
        self, requests: RequestColumns, old_count: int, responses: ResponseColumns
    ) -> tuple[RequestColumns, Matches]:
        """Match the messages; return the requests with their numbers and marks.

        Args: old_count: of requests of earlier spans.
        """
        flows = self._flows
        walked = np.unique(requests.frame.side[(requests.marks & TOKEN) > 0] >> 1)
        matches = match_messages(requests, responses, walked)
        numbers = number_requests(flows, requests, old_count, responses, matches.pairs)
        limited = np.setdiff1d(find_flows_over_limits(requests, responses, matches, numbers), walked)
        if len(limited):
            matches = match_messages(requests, responses, np.union1d(walked, limited))
            numbers = number_requests(flows, requests, old_count, responses, matches.pairs)
        requests, marks = numbers.add_to(flows, requests), requests.marks.copy()
        marks[matches.duplicates] |= DUPLICATE
        marks[matches.pairs.request[matches.pairs.response < 0]] |= DROPPED
        return requests._replace(marks=marks), matches

    def _set_pending(self, pending: RequestColumns) -> None:
        """Set the open requests, by flow and number."""
        self.pending = pending.select(np.lexsort((pending.number, pending.frame.side)))


def _rows_of_flow(sides: Ints, flow: int) -> Ints:
    """The rows of one flow. Args: sides: ascending by flow."""
    first, stop = np.searchsorted(sides >> 1, (flow, flow + 1)).tolist()
    return np.arange(first, stop)


def _places(frames: FrameColumns, rows: Ints) -> tuple[Ints, Ints]:
    """When these frames were complete, and their offsets."""
    return frames.completed_by[rows], frames.offset[rows]


def _closing_places(frames: FrameColumns, rows: Ints, closing: Mapping[int, FlowEnd]) -> tuple[Ints, Ints]:
    """When the exchanges of these frames are closed with their flows, and the offsets of the frames."""
    flow = frames.side[rows] >> 1
    moments = [moment_of(closing[number].number, CLOSED_EXCHANGES) for number in flow.tolist()]
    return np.array(moments, dtype=np.int64), frames.offset[rows]


def _build_exchanges(
    flows: FlowTable, requests: RequestColumns, responses: ResponseColumns, pairs: Pairs, closing: dict[int, FlowEnd]
) -> ExchangeColumns:
    """The exchanges of these pairs in the order of completion."""
    is_response_only = pairs.request < 0
    answers = concatenate_rows(responses, missing_responses(1)).select(pairs.response)
    asked = concatenate_rows(requests, missing_requests(np.zeros(1, dtype=np.int64))).select(pairs.request)
    flow = np.where(is_response_only, answers.frame.side, asked.frame.side) >> 1
    # What was complete before the client of a flow was known becomes known with it.
    moment = np.maximum(pairs.moment, flows.decided_at[flow])
    keys = [pairs.offset, is_response_only, pairs.moment, moment]
    if closing:
        rank = {number: place for place, number in enumerate(closing)}
        is_closing = (moment & PHASE_MASK) <= CLOSED_EXCHANGES
        ranks = np.full(len(flow), len(rank))
        ranks[is_closing] = [rank[number] for number in flow[is_closing].tolist()]
        keys += [ranks, moment & ~PHASE_MASK]
    order = np.lexsort(keys)
    answers, asked, flow, moment = answers.select(order), asked.select(order), flow[order], moment[order]
    ends = pairs.moment[order], pairs.offset[order]
    # The decoder of columns needs two whole frames, and knows no marks.
    body = np.where(answers.order_ok == DAMAGED, mark_damaged(asked.body), asked.body)
    body[asked.marks > 0] = -1
    answers = answers._replace(order_ok=find_order(flows, flow, asked, answers))
    asked_frame, answered_frame = _set_ends(asked.frame, *ends), _set_ends(answers.frame, *ends)
    asked_frame = asked_frame._replace(side=2 * flow + flows.opener[flow])
    return ExchangeColumns(asked._replace(frame=asked_frame, body=body), answers._replace(frame=answered_frame), moment)


def _set_ends(frames: FrameColumns, moment: Ints, offset: Ints) -> FrameColumns:
    """The frames, with the place at which each of those that are missing was not awaited any more."""
    is_missing = frames.size < 0
    completed_by = np.where(is_missing, moment, frames.completed_by)
    return frames._replace(completed_by=completed_by, offset=np.where(is_missing, offset, frames.offset))
