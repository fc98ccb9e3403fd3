"""Pair requests with responses, for all flows at once: by flow and correlation id, in the order of the capture.

Nearly always a correlation id has one request, then one response. Other ids are paired one by one (`flow_pairing`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from kwire.capture.index.arrays import NO_NUMBERS, Bools, Ints, concatenate_rows, find_groups, group_starts
from kwire.capture.index.flows.flow_pairing import FlowPairing, PairRow
from kwire.capture.index.flows.frame_columns import NO_ID, FrameColumns, MessageTimes
from kwire.capture.index.flows.message_columns import (
    DAMAGED,
    ExchangeColumns,
    RequestColumns,
    ResponseColumns,
    correlation_keys,
    mark_damaged,
    missing_requests,
    missing_responses,
)
from kwire.capture.index.flows.pending_requests import PendingRequests
from kwire.capture.index.streams.flow_closing import FlowEnd
from kwire.capture.index.streams.flow_table import FlowTable
from kwire.capture.index.streams.stream_pieces import CLOSED_EXCHANGES, PHASE_MASK, moment_of, packet_numbers
from kwire.capture.kafka.exchange_pairing import DISORDER_NS, ORPHANS_MAX, PENDING_REQUESTS_MAX


class _Pairs(NamedTuple):
    """Rows of requests and of responses, -1 for none, and the moment at which each pair was complete."""

    request: Ints
    response: Ints
    moment: Ints


class _Matches(NamedTuple):
    """What pairing finds: pairs; rows of requests that stay open; rows of responses that wait for a request."""

    pairs: _Pairs
    open: Ints
    waiting: Ints


class RequestPairing:
    """The requests and responses that wait for their other half, from span to span."""

    def __init__(self, flows: FlowTable) -> None:
        """`flows` has the number of requests of each flow so far, and how many are open."""
        self._flows = flows
        self.pending = missing_requests(NO_NUMBERS)
        self._orphans = missing_responses(0)

    def drop(self) -> None:
        """Drop all open requests; their flows become unclean."""
        self._flows.mark_unclean(self.pending.frame.side >> 1, "waiting")
        self.pending = self.pending.select(NO_NUMBERS)

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

    def pair(
        self, requests: RequestColumns, responses: ResponseColumns, closing: dict[int, FlowEnd]
    ) -> ExchangeColumns:
        """The exchanges that are complete now, in the order of completion.

        Args: requests, responses: those of a span, by side and offset. closing: the flows that are closed now, in their
        order.
        """
        flows = self._flows
        requests = requests.select(np.nonzero(flows.is_clean(requests.frame.side >> 1))[0])
        old_count = len(self.pending.number)
        asked = concatenate_rows(self.pending, requests)
        answered = concatenate_rows(self._orphans, responses)
        answered = answered.select(np.nonzero(flows.is_clean(answered.frame.side >> 1))[0])
        matches = _match(flows, asked, answered)
        _mark_many_early(flows, asked, answered, matches)
        asked = _number_requests(flows, asked, old_count, answered, matches.pairs)
        waiting, overflow = _limit_orphans(answered, matches.waiting)
        one_way = np.nonzero(asked.expects_response == 0)[0]
        flow_of_open, flow_of_waiting = asked.frame.side[matches.open] >> 1, answered.frame.side[waiting] >> 1
        closed = np.array(list(closing), dtype=np.int64)
        ends, is_left = np.isin(flow_of_open, closed), np.isin(flow_of_waiting, closed)
        unanswered, orphans = matches.open[ends], waiting[is_left]
        parts = [
            matches.pairs,
            _Pairs(one_way, _none(one_way), asked.frame.completed_by[one_way]),
            overflow,
            _Pairs(unanswered, _none(unanswered), _closing_moments(flow_of_open[ends], closing)),
            _Pairs(_none(orphans), orphans, _closing_moments(flow_of_waiting[is_left], closing)),
        ]
        exchanges = _build_exchanges(flows, asked, answered, concatenate_rows(*parts), closing)
        self._set_pending(asked.select(matches.open[~ends]))
        self._orphans = answered.select(waiting[~is_left])
        return exchanges

    def _set_pending(self, pending: RequestColumns) -> None:
        """Set the open requests, by flow and number."""
        self.pending = pending.select(np.lexsort((pending.number, pending.frame.side)))


def _rows_of_flow(sides: Ints, flow: int) -> Ints:
    """The rows of one flow. Args: sides: ascending by flow."""
    first, stop = np.searchsorted(sides >> 1, (flow, flow + 1)).tolist()
    return np.arange(first, stop)


def _none(rows: Ints) -> Ints:
    """-1 in place of each row."""
    return np.full(len(rows), -1)


def _closing_moments(flow: Ints, closing: Mapping[int, FlowEnd]) -> Ints:
    """When the exchanges of each of these flows are closed."""
    moments = [moment_of(closing[number].number, CLOSED_EXCHANGES) for number in flow.tolist()]
    return np.array(moments, dtype=np.int64)


def _match(flows: FlowTable, requests: RequestColumns, responses: ResponseColumns) -> _Matches:
    """Match responses to requests. Args: requests, responses: those of earlier spans first."""
    asked = np.nonzero((requests.expects_response > 0) & flows.is_clean(requests.frame.side >> 1))[0]
    has_id = responses.correlation_id != NO_ID
    answers = np.nonzero(has_id)[0]
    without_id = np.nonzero(~has_id)[0]
    key = np.concatenate([correlation_keys(requests)[asked], correlation_keys(responses)[answers]])
    moment = np.concatenate([requests.frame.completed_by[asked], responses.frame.completed_by[answers]])
    row = np.concatenate([asked, answers])
    order = np.argsort(key, kind="stable")
    is_request = order < len(asked)
    firsts = find_groups(key[order])
    size = np.diff(np.append(firsts, len(order)))
    second = np.minimum(firsts + 1, max(len(order) - 1, 0))
    is_pair = (size == 2) & is_request[firsts] & ~is_request[second]
    first_rows, second_rows = order[firsts], order[second]
    # A response may come before its request, but not long before.
    is_early = is_pair & (moment[second_rows] < moment[first_rows])
    early = np.nonzero(is_early)[0]
    end_ts = responses.frame.end_ts[row[second_rows[early]]]
    is_pair[early] = end_ts >= requests.frame.ts[row[first_rows[early]]] - DISORDER_NS
    alone = (size == 1) & is_request[firsts], (size == 1) & ~is_request[firsts]
    when = np.where(is_early, moment[first_rows], moment[second_rows])
    pairs = _Pairs(row[first_rows[is_pair]], row[second_rows[is_pair]], when[is_pair])
    orphaned = _Pairs(_none(without_id), without_id, responses.frame.completed_by[without_id])
    found = _Matches(concatenate_rows(pairs, orphaned), row[first_rows[alone[0]]], row[first_rows[alone[1]]])
    others = ~(is_pair | alone[0] | alone[1])
    if not bool(others.any()):
        return found
    is_other = np.repeat(others, size)
    rest = _match_one_by_one(
        flows, requests, responses, asked=row[order[is_other & is_request]], answers=row[order[is_other & ~is_request]]
    )
    return concatenate_rows(found, rest)


def _mark_many_early(flows: FlowTable, requests: RequestColumns, responses: ResponseColumns, matches: _Matches) -> None:
    """Mark flows in which a response was dropped before its request came, because too many others came after it."""
    is_early, _ = _divide_pairs(requests, responses, matches.pairs)
    early = matches.pairs.response[is_early]
    if len(early) + len(matches.waiting) <= ORPHANS_MAX or not len(early):
        return
    came = np.append(early, matches.waiting)
    asked_at = requests.frame.completed_by[matches.pairs.request[is_early]]
    # Moments as their ranks, so that a flow and a moment are one number.
    moments = np.concatenate([responses.frame.completed_by[came], asked_at])
    ranks = np.unique(moments, return_inverse=True)[1]
    flow = (responses.frame.side >> 1)[came]
    keys, asked = flow << 32 | ranks[: len(came)], flow[: len(early)] << 32 | ranks[len(came) :]
    order = np.lexsort((responses.frame.offset[came], keys))
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    between = np.searchsorted(keys[order], asked) - 1 - place[: len(early)]
    flows.mark_unclean(flow[: len(early)][between >= ORPHANS_MAX], "pairing")


def _divide_pairs(requests: RequestColumns, responses: ResponseColumns, pairs: _Pairs) -> tuple[Bools, Bools]:
    """Which pairs have a response before the request, and which have it behind the request."""
    both = np.nonzero((pairs.request >= 0) & (pairs.response >= 0))[0]
    asked_at = requests.frame.completed_by[pairs.request[both]]
    is_before = responses.frame.completed_by[pairs.response[both]] < asked_at
    is_early, is_in_order = np.zeros((2, len(pairs.request)), dtype=np.bool_)
    is_early[both], is_in_order[both] = is_before, ~is_before
    return is_early, is_in_order


def _match_one_by_one(
    flows: FlowTable, requests: RequestColumns, responses: ResponseColumns, *, asked: Ints, answers: Ints
) -> _Matches:
    """Match these rows, whose correlation ids are repeated, or come out of order."""
    key = np.concatenate([correlation_keys(requests)[asked], correlation_keys(responses)[answers]])
    moment = np.concatenate([requests.frame.completed_by[asked], responses.frame.completed_by[answers]])
    offset = np.concatenate([requests.frame.offset[asked], responses.frame.offset[answers]])
    ts = np.concatenate([requests.frame.ts[asked], responses.frame.end_ts[answers]])
    row = np.concatenate([asked, answers])
    is_request = np.arange(len(row)) < len(asked)
    order = np.lexsort((offset, moment, key))
    columns = key, row, ts, moment, is_request
    pairs: list[PairRow] = []
    left: tuple[list[int], list[int]] = ([], [])
    pairing, last = FlowPairing(), -1
    for own_key, number, time, when, is_asked in zip(*(column[order].tolist() for column in columns), strict=True):
        if own_key != last:
            _end_pairing(flows, pairing, last, pairs, left)
            pairing, last = FlowPairing(), own_key
        add = pairing.add_request if is_asked else pairing.add_response
        add(number, own_key & 0xFFFFFFFF, time, when)
    _end_pairing(flows, pairing, last, pairs, left)
    rows = np.array(pairs, dtype=np.int64).reshape(-1, 3).T
    return _Matches(_Pairs(*rows), *(np.array(each, dtype=np.int64) for each in left))


def _end_pairing(
    flows: FlowTable, pairing: FlowPairing, key: int, pairs: list[PairRow], left: tuple[list[int], list[int]]
) -> None:
    """Add what was found for one correlation id of one flow."""
    if pairing.has_failed:
        flows.mark_unclean(np.array([key >> 32]), "pairing")
    pairs += pairing.rows
    left[0].extend(pairing.pending.values())
    left[1].extend(number for number, _ in pairing.orphans.values())


def _number_requests(
    flows: FlowTable, requests: RequestColumns, old_count: int, responses: ResponseColumns, pairs: _Pairs
) -> RequestColumns:
    """Set the number of each new request, and how many requests were in flight. Args: old_count: of those before."""
    new = np.arange(old_count, len(requests.number))
    if not len(new) and not len(pairs.request):
        return requests
    is_early, is_in_order = _divide_pairs(requests, responses, pairs)
    closes = pairs.response[is_in_order]
    is_open = requests.expects_response > 0
    is_open[pairs.request[is_early]] = False
    flow = np.concatenate([requests.frame.side[new] >> 1, responses.frame.side[closes] >> 1])
    moment = np.concatenate([requests.frame.completed_by[new], responses.frame.completed_by[closes]])
    if not len(flow):
        return requests
    order = np.lexsort((moment, flow))
    flow, is_request = flow[order], order < len(new)
    step = np.where(is_request, is_open[np.append(new, np.zeros(len(closes), dtype=np.int64))[order]], -1)
    firsts = find_groups(flow)
    counts = np.diff(np.append(firsts, len(flow)))
    rank = _running_sums(is_request.astype(np.int64), firsts, counts)
    open_now = _running_sums(step.astype(np.int64), firsts, counts)
    number, in_flight = requests.number.copy(), requests.in_flight.copy()
    rows = new[order[is_request]]
    number[rows] = (rank - 1 + flows.request_count[flow])[is_request]
    in_flight[rows] = (open_now - step + flows.open_requests[flow])[is_request]
    last = firsts + counts - 1
    flows.request_count[flow[firsts]] += rank[last]
    flows.open_requests[flow[firsts]] += open_now[last]
    flows.mark_unclean((requests.frame.side >> 1)[rows[in_flight[rows] >= PENDING_REQUESTS_MAX]], "waiting")
    return requests._replace(number=number, in_flight=in_flight)


def _running_sums(values: Ints, firsts: Ints, counts: Ints) -> Ints:
    """Running sums within each group."""
    total = np.cumsum(values)
    before = (total - values)[firsts]
    return total - np.repeat(before, counts)


def _limit_orphans(responses: ResponseColumns, waiting: Ints) -> tuple[Ints, _Pairs]:
    """The responses that wait for a request, in order; and the oldest ones of flows in which too many wait."""
    flow, moment = responses.frame.side[waiting] >> 1, responses.frame.completed_by[waiting]
    waiting = waiting[np.lexsort((responses.frame.offset[waiting], moment, flow))]
    flow, moment = responses.frame.side[waiting] >> 1, responses.frame.completed_by[waiting]
    if len(waiting) <= ORPHANS_MAX:
        return waiting, _Pairs(NO_NUMBERS, NO_NUMBERS, NO_NUMBERS)
    # Each is dropped when the one that comes so many places behind it in the same flow arrives.
    is_dropped = np.append(flow[ORPHANS_MAX:] == flow[:-ORPHANS_MAX], np.zeros(ORPHANS_MAX, dtype=np.bool_))
    dropped = np.nonzero(is_dropped)[0]
    pairs = _Pairs(_none(dropped), waiting[dropped], moment[dropped + ORPHANS_MAX])
    return waiting[~is_dropped], pairs


def _build_exchanges(
    flows: FlowTable, requests: RequestColumns, responses: ResponseColumns, pairs: _Pairs, closing: dict[int, FlowEnd]
) -> ExchangeColumns:
    """The exchanges of these pairs in the order of completion."""
    is_response_only = pairs.request < 0
    responses = concatenate_rows(responses, missing_responses(1))
    requests = concatenate_rows(requests, missing_requests(np.zeros(1, dtype=np.int64)))
    answers = responses.select(pairs.response)
    asked = requests.select(pairs.request)
    flow = np.where(is_response_only, answers.frame.side, asked.frame.side) >> 1
    # The frame that was complete last.
    is_late = asked.frame.completed_by > answers.frame.completed_by
    offset = np.where(is_late, asked.frame.offset, answers.frame.offset)
    # What was complete before the client of a flow was known becomes known with it.
    moment = np.maximum(pairs.moment, flows.decided_at[flow])
    order = np.lexsort((offset, is_response_only, pairs.moment, moment))
    if closing:
        rank = {number: place for place, number in enumerate(closing)}
        is_closing = (moment & PHASE_MASK) <= CLOSED_EXCHANGES
        ranks = np.full(len(flow), len(rank))
        ranks[is_closing] = [rank[number] for number in flow[is_closing].tolist()]
        order = np.lexsort((offset, is_response_only, pairs.moment, moment, ranks, moment & ~PHASE_MASK))
    clean = order[flows.is_clean(flow[order])]
    answers, asked, flow, moment = answers.select(clean), asked.select(clean), flow[clean], moment[clean]
    side = np.where(is_response_only[clean], 2 * flow + flows.opener[flow], asked.frame.side)
    # The decoder of columns needs two whole frames.
    body = np.where(answers.order_ok == DAMAGED, mark_damaged(asked.body), asked.body)
    answers = answers._replace(order_ok=_find_order(flows, flow, asked, answers))
    asked = asked._replace(frame=_numbered(asked.frame._replace(side=side)), body=body)
    return ExchangeColumns(asked, answers._replace(frame=_numbered(answers.frame)), moment)


def _numbered(frames: FrameColumns) -> FrameColumns:
    """The frames with packet numbers in place of moments."""
    return frames._replace(completed_by=packet_numbers(frames.completed_by))


def _find_order(flows: FlowTable, flow: Ints, requests: RequestColumns, responses: ResponseColumns) -> Ints:
    """Whether each response came in the order of the requests; -1 where there is only one of both.

    Args: flow, requests, responses: of exchanges in the order of completion.
    """
    order_ok = np.full(len(flow), -1, dtype=np.int64)
    rows = np.nonzero((requests.frame.size >= 0) & (responses.frame.size >= 0))[0]
    if not len(rows):
        return order_ok
    rows = rows[np.argsort(flow[rows], kind="stable")]
    number, own = requests.number[rows], flow[rows]
    is_first = group_starts(own)
    distance = np.cumsum(is_first) * (1 << 40)
    highest = np.maximum.accumulate(number + distance) - distance
    before = np.append(-1, highest[:-1])
    before[is_first] = -1
    before = np.maximum(before, flows.last_answered[own])
    is_last = np.append(is_first[1:], True)
    flows.last_answered[own[is_last]] = np.maximum(flows.last_answered[own[is_last]], highest[is_last])
    order_ok[rows] = number > before
    return order_ok
