"""Pair requests with responses, for all flows at once: by flow and correlation id, in the order of the capture."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kwire.capture.index.arrays import Bools, Ints, concatenate_rows, find_groups, group_starts
from kwire.capture.index.flows.flow_table import FlowTable
from kwire.capture.index.flows.frame_scan import FrameColumns


class RequestColumns(NamedTuple):
    """Requests: their frames and headers. client_id: a number in the index's list, -1 for null.

    body: where the message begins in the frame; -1 if only the message decoder can read the header. number: of the
    request in its flow. in_flight: how many requests of the flow were pending when it was sent.
    """

    frame: FrameColumns
    api_key: Ints
    api_version: Ints
    correlation_id: Ints
    client_id: Ints
    body: Ints
    expects_response: Ints
    number: Ints
    in_flight: Ints

    def select(self, chosen: Ints) -> RequestColumns:
        """The rows with these indexes."""
        return RequestColumns(self.frame.select(chosen), *(column[chosen] for column in self[1:]))


class ResponseColumns(NamedTuple):
    """Responses. order_ok: whether no later request was answered before."""

    frame: FrameColumns
    correlation_id: Ints
    order_ok: Ints

    def select(self, chosen: Ints) -> ResponseColumns:
        """The rows with these indexes."""
        return ResponseColumns(self.frame.select(chosen), *(column[chosen] for column in self[1:]))


class ExchangeColumns(NamedTuple):
    """Exchanges in the order of completion. `response` has size -1 if none is expected or captured."""

    request: RequestColumns
    response: ResponseColumns
    completed_by: Ints

    def __len__(self) -> int:
        return len(self.completed_by)

    def select(self, chosen: Ints) -> ExchangeColumns:
        """The rows with these indexes."""
        return ExchangeColumns(self.request.select(chosen), self.response.select(chosen), self.completed_by[chosen])

    @property
    def flow(self) -> Ints:
        """The flow of each exchange."""
        return self.request.frame.side >> 1


def missing_responses(count: int) -> ResponseColumns:
    """Rows for responses that were not captured."""
    missing = np.full(count, -1, dtype=np.int64)
    return ResponseColumns(FrameColumns(*[missing] * 9), missing, missing)


def missing_requests(side: Ints) -> RequestColumns:
    """Rows for requests that were not captured, of these sides."""
    nothing = np.full(len(side), -1, dtype=np.int64)
    requests = RequestColumns(FrameColumns(side, *[nothing] * 8), *[nothing] * 8)
    return requests._replace(expects_response=np.zeros(len(side), dtype=np.int64))


def concatenate_exchanges(parts: Sequence[ExchangeColumns]) -> ExchangeColumns:
    """The rows of all parts, in the order given."""
    requests, responses, completed_by = zip(*parts, strict=True)
    return ExchangeColumns(concatenate_rows(*requests), concatenate_rows(*responses), np.concatenate(completed_by))


def correlation_keys(messages: RequestColumns | ResponseColumns) -> Ints:
    """Flow and correlation id of each message, as one number."""
    keys: Ints = (messages.frame.side >> 1) << 32 | (messages.correlation_id & 0xFFFFFFFF)
    return keys


class EarlyMatches(NamedTuple):
    """Responses that came before their requests, and all other responses.

    request_rows: indexes of the requests that `early_responses` answer, in the same order.
    """

    request_rows: Ints
    early_responses: ResponseColumns
    other_responses: ResponseColumns


def pair_requests(
    flows: FlowTable, pending: RequestColumns, requests: RequestColumns, early: EarlyMatches
) -> tuple[ExchangeColumns, RequestColumns]:
    """The exchanges that are complete now, and the requests that are still pending.

    A flow becomes unclean unless exactly one response follows each request.
    """
    responses = early.other_responses
    one_way = requests.select(np.nonzero(requests.expects_response == 0)[0])
    answered_early = requests.select(early.request_rows)
    requests = concatenate_rows(pending, requests.select(np.nonzero(_expects_response(requests, early))[0]))
    request_count = len(requests.number)
    key = np.concatenate([correlation_keys(requests), correlation_keys(responses)])
    completed_by = np.concatenate([requests.frame.completed_by, responses.frame.completed_by])
    # Sorted by key, a request precedes its response if its id is unique; otherwise sort by completion and offset too.
    order = np.argsort(key, kind="stable")
    is_request = order < request_count
    is_wrong = _breaks_alternation(key[order], is_request) | _precedes_request(completed_by[order], is_request)
    if bool(is_wrong.any()):
        offset = np.concatenate([requests.frame.offset, responses.frame.offset])
        order = np.lexsort((offset, completed_by, key))
        is_request = order < request_count
        is_wrong = _breaks_alternation(key[order], is_request)
    key = key[order]
    flows.mark_unclean(key[is_wrong] >> 32, "pairing")
    clean = flows.is_clean(key >> 32)
    closes = np.nonzero(~is_request & clean)[0]
    # The keys of clean flows alternate, so the row before each response is its request.
    request_rows, response_rows = order[closes - 1], order[closes] - request_count
    is_open = np.zeros(request_count, dtype=np.bool_)
    is_open[order[is_request & clean]] = True
    is_open[request_rows] = False
    clean_early = np.nonzero(flows.is_clean(answered_early.frame.side >> 1))[0]
    answered = concatenate_rows(requests.select(request_rows), answered_early.select(clean_early))
    answers = concatenate_rows(responses.select(response_rows), early.early_responses.select(clean_early))
    answers = _check_order(flows, answered, answers)
    one_way = one_way.select(np.nonzero(flows.is_clean(one_way.frame.side >> 1))[0])
    return _sort_completed(answered, answers, one_way), requests.select(np.nonzero(is_open)[0])


def _breaks_alternation(key: Ints, is_request: Bools) -> Bools:
    """By row, whether requests and responses of its key do not alternate, beginning with a request."""
    before = np.append(False, is_request[:-1])[: len(key)]
    return np.where(group_starts(key), ~is_request, is_request == before)


def _precedes_request(completed_by: Ints, is_request: Bools) -> Bools:
    """Whether a response was complete before the request in the row before it."""
    before = np.append(0, completed_by[:-1])[: len(completed_by)]
    return ~is_request & (completed_by < before)


def unanswered_exchanges(unanswered: RequestColumns) -> ExchangeColumns:
    """Pending requests at the end of the capture as exchanges; they follow all packets."""
    order = np.lexsort((unanswered.number, unanswered.frame.side))
    unanswered = unanswered.select(order)
    return ExchangeColumns(unanswered, missing_responses(len(order)), np.full(len(order), 2**62, dtype=np.int64))


def end_unanswered(
    flows: FlowTable, exchanges: ExchangeColumns, pending: RequestColumns
) -> tuple[ExchangeColumns, RequestColumns]:
    """Add the pending requests of connections that have ended; and return the requests that are still pending."""
    flow = pending.frame.side >> 1
    is_unanswered = (flows.end_reason[flow] > 0) & flows.is_clean(flow)
    if not bool(is_unanswered.any()):
        return exchanges, pending
    unanswered = unanswered_exchanges(pending.select(np.nonzero(is_unanswered)[0]))
    completed_by = np.concatenate([exchanges.completed_by, flows.end_packet[unanswered.flow]])
    # Exchanges that the last packet of a connection completes come first.
    order = np.argsort(completed_by, kind="stable")
    request = concatenate_rows(exchanges.request, unanswered.request)
    response = concatenate_rows(exchanges.response, unanswered.response)
    return ExchangeColumns(request, response, completed_by).select(order), pending.select(np.nonzero(~is_unanswered)[0])


def order_events(requests: RequestColumns, responses: ResponseColumns) -> tuple[Ints, Ints]:
    """Sort both by flow and capture order: row numbers (responses follow requests), and the flow of each."""
    flow = np.concatenate([requests.frame.side >> 1, responses.frame.side >> 1])
    completed_by = np.concatenate([requests.frame.completed_by, responses.frame.completed_by])
    # One packet belongs to one side, and what it completes is in stream order already.
    order = np.argsort((flow << 40) | completed_by, kind="stable")
    return order, flow[order]


def _expects_response(requests: RequestColumns, early: EarlyMatches) -> Ints:
    """Whether each request is pending after it was sent."""
    expecting = requests.expects_response.copy()
    expecting[early.request_rows] = 0
    return expecting


def number_requests(flows: FlowTable, requests: RequestColumns, early: EarlyMatches) -> RequestColumns:
    """Set the number of each request, and how many requests were in flight."""
    order, flow = order_events(requests, early.other_responses)
    if not len(order):
        return requests
    request_count = len(requests.number)
    is_request = order < request_count
    expecting = np.zeros(len(order), dtype=np.int64)
    expecting[is_request] = _expects_response(requests, early)[order[is_request]]
    firsts = find_groups(flow)
    counts = np.diff(np.append(firsts, len(flow)))
    rank = _running_sums(is_request.astype(np.int64), firsts, counts)
    step = np.where(is_request, expecting, -1)
    in_flight_now = _running_sums(step, firsts, counts)
    rows = order[is_request]
    number, in_flight = np.empty(request_count, dtype=np.int64), np.empty(request_count, dtype=np.int64)
    number[rows] = (rank - 1 + flows.request_count[flow])[is_request]
    in_flight[rows] = (in_flight_now - step + flows.open_requests[flow])[is_request]
    last = firsts + counts - 1
    flows.request_count[flow[firsts]] += rank[last]
    flows.open_requests[flow[firsts]] += in_flight_now[last]
    return requests._replace(number=number, in_flight=in_flight)


def _running_sums(values: Ints, firsts: Ints, counts: Ints) -> Ints:
    """Running sums within each group."""
    total = np.cumsum(values)
    before = (total - values)[firsts]
    return total - np.repeat(before, counts)


def _check_order(flows: FlowTable, requests: RequestColumns, responses: ResponseColumns) -> ResponseColumns:
    """Set whether each response came in the order of the requests."""
    flow = requests.frame.side >> 1
    if not len(flow):
        return responses
    completed_by, offset = _completion_order(requests, responses)
    order = np.lexsort((offset, completed_by, flow))
    number, sorted_flow = requests.number[order], flow[order]
    is_first = group_starts(sorted_flow)
    group = np.cumsum(is_first)
    apart = 1 << 40
    highest = np.maximum.accumulate(number + group * apart) - group * apart
    before = np.append(-1, highest[:-1])
    before[is_first] = -1
    before = np.maximum(before, flows.last_answered[sorted_flow])
    is_last = np.append(is_first[1:], True)
    flows.last_answered[sorted_flow[is_last]] = np.maximum(flows.last_answered[sorted_flow[is_last]], highest[is_last])
    order_ok = np.empty(len(flow), dtype=np.int64)
    order_ok[order] = number > before
    return responses._replace(order_ok=order_ok)


def _completion_order(requests: RequestColumns, responses: ResponseColumns) -> tuple[Ints, Ints]:
    """The packet that completed each pair, and the stream offset of the frame that was completed last."""
    is_late = requests.frame.completed_by > responses.frame.completed_by
    completed_by = np.where(is_late, requests.frame.completed_by, responses.frame.completed_by)
    return completed_by, np.where(is_late, requests.frame.offset, responses.frame.offset)


def _sort_completed(requests: RequestColumns, responses: ResponseColumns, one_way: RequestColumns) -> ExchangeColumns:
    """Answered and one-way requests as exchanges, in the order of completion."""
    completed_by, offset = _completion_order(requests, responses)
    completed_by = np.append(completed_by, one_way.frame.completed_by)
    order = np.lexsort((np.append(offset, one_way.frame.offset), completed_by))
    requests = concatenate_rows(requests, one_way)
    responses = concatenate_rows(responses, missing_responses(len(one_way.number)))
    return ExchangeColumns(requests, responses, completed_by).select(order)
