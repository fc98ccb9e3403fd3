"""The numbers of requests in their flows, how many were in flight, and whether responses came in their order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kwire.capture.index.arrays import Bools, Ints, find_groups, group_starts
from kwire.capture.index.flows.matching import Pairs
from kwire.capture.index.flows.message_columns import RequestColumns, ResponseColumns
from kwire.capture.index.streams.flow_table import FlowTable


class RequestNumbers(NamedTuple):
    """By new request: its row, number and in_flight. By flow with messages: how many requests came, and were opened."""

    row: Ints
    number: Ints
    in_flight: Ints
    flow: Ints
    came: Ints
    opened: Ints

    def add_to(self, flows: FlowTable, requests: RequestColumns) -> RequestColumns:
        """Add the counts to the flows; return the requests with their numbers."""
        number, in_flight = requests.number.copy(), requests.in_flight.copy()
        number[self.row], in_flight[self.row] = self.number, self.in_flight
        flows.request_count[self.flow] += self.came
        flows.open_requests[self.flow] += self.opened
        return requests._replace(number=number, in_flight=in_flight)


def number_requests(
    flows: FlowTable, requests: RequestColumns, old_count: int, responses: ResponseColumns, pairs: Pairs
) -> RequestNumbers:
    """Number the new requests. Args: old_count: of requests of earlier spans. pairs: of `Matches`."""
    new = np.arange(old_count, len(requests.number))
    is_early = find_early_pairs(requests, responses, pairs)
    closes = np.nonzero((pairs.request >= 0) & ~is_early)[0]
    is_open = requests.expects_response > 0
    is_open[pairs.request[is_early]] = False
    flow = np.concatenate([requests.frame.side[new] >> 1, requests.frame.side[pairs.request[closes]] >> 1])
    moment = np.concatenate([requests.frame.completed_by[new], pairs.moment[closes]])
    is_dropped = pairs.response[closes] < 0
    if bool(is_dropped.any()):
        # Each was dropped by another request.
        offset = np.concatenate([requests.frame.offset[new], pairs.offset[closes]])
        order = np.lexsort((np.arange(len(flow)) >= len(new), offset, moment, flow))
    else:
        order = np.lexsort((moment, flow))
    flow, is_request = flow[order], order < len(new)
    step = np.concatenate([is_open[new].astype(np.int64), np.full(len(closes), -1)])[order]
    firsts = find_groups(flow)
    counts = np.diff(np.append(firsts, len(flow)))
    rank = running_sums(is_request.astype(np.int64), firsts, counts)
    open_now = running_sums(step, firsts, counts)
    number = (rank - 1 + flows.request_count[flow])[is_request]
    in_flight = (open_now - step + flows.open_requests[flow])[is_request]
    last = firsts + counts - 1
    return RequestNumbers(new[order[is_request]], number, in_flight, flow[firsts], rank[last], open_now[last])


def find_early_pairs(requests: RequestColumns, responses: ResponseColumns, pairs: Pairs) -> Bools:
    """Which pairs have a response before the request."""
    is_early = np.zeros(len(pairs.request), dtype=np.bool_)
    both = np.nonzero((pairs.request >= 0) & (pairs.response >= 0))[0]
    asked_at = requests.frame.completed_by[pairs.request[both]]
    is_early[both] = responses.frame.completed_by[pairs.response[both]] < asked_at
    return is_early


def running_sums(values: Ints, firsts: Ints, counts: Ints) -> Ints:
    """Running sums within each group."""
    total = np.cumsum(values)
    before = (total - values)[firsts]
    return total - np.repeat(before, counts)


def find_order(flows: FlowTable, flow: Ints, requests: RequestColumns, responses: ResponseColumns) -> Ints:
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
