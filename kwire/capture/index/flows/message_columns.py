"""Requests, responses and exchanges as columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from kwire.capture.index.arrays import Ints, concatenate_rows
from kwire.capture.index.flows.frame_columns import FrameColumns
from kwire.capture.index.streams.stream_pieces import AFTER_CAPTURE, CLOSED_EXCHANGES, PHASE_MASK

DAMAGED = -2
DUPLICATE, DROPPED, TOKEN, EXPIRED = 1, 2, 4, 8
"""Marks of requests: another one of the correlation id was open; too many were open, so that this one waits no more for
its response; a SASL token without a header; it has waited too long for its response."""


class RequestColumns(NamedTuple):
    """Requests: their frames and headers. client_id: a number in the index's list, -1 for null.

    body: where the message begins in the frame; -1 if only the message decoder can read the header, or the request has
    marks; -2 less that place if bytes of the request or the response are missing. number: of the request in its flow.
    in_flight: how many requests of the flow were pending when it was sent.
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
    marks: Ints

    def select(self, chosen: Ints) -> RequestColumns:
        """The rows with these indexes."""
        return RequestColumns(self.frame.select(chosen), *(column[chosen] for column in self[1:]))


class ResponseColumns(NamedTuple):
    """Responses. order_ok: whether no later request was answered before; `DAMAGED` or -1 before they are paired."""

    frame: FrameColumns
    correlation_id: Ints
    order_ok: Ints

    def select(self, chosen: Ints) -> ResponseColumns:
        """The rows with these indexes."""
        return ResponseColumns(self.frame.select(chosen), *(column[chosen] for column in self[1:]))


class ExchangeColumns(NamedTuple):
    """Exchanges in the order of completion. `response` has size -1 if none is expected or captured.

    completed_by: the packet that completed each; while an index is built, its moment. Frames have their moments also in
    the index; a frame that is missing has `completed_by` and `offset` of the one for which it was not awaited any more.
    """

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
    requests = RequestColumns(FrameColumns(side, *[nothing] * 8), *[nothing] * 9)
    zeros = np.zeros(len(side), dtype=np.int64)
    return requests._replace(expects_response=zeros, marks=zeros)


def concatenate_exchanges(parts: Sequence[ExchangeColumns]) -> ExchangeColumns:
    """The rows of all parts, in the order given."""
    requests, responses, completed_by = zip(*parts, strict=True)
    return ExchangeColumns(concatenate_rows(*requests), concatenate_rows(*responses), np.concatenate(completed_by))


def completion_order(exchanges: ExchangeColumns, end_packets: Ints) -> Ints:
    """The order of completion of exchanges of several shards. One packet has data of one shard, and may close others.

    Args: end_packets: by flow, the packet that ended it.
    """
    moment, flow = exchanges.completed_by, exchanges.flow
    is_closing = (moment & PHASE_MASK) <= CLOSED_EXCHANGES
    return np.lexsort((np.where(is_closing, end_packets[flow], AFTER_CAPTURE), moment & ~PHASE_MASK))


def correlation_keys(messages: RequestColumns | ResponseColumns) -> Ints:
    """Flow and correlation id of each message, as one number."""
    keys: Ints = (messages.frame.side >> 1) << 32 | (messages.correlation_id & 0xFFFFFFFF)
    return keys


def mark_damaged(body: Ints) -> Ints:
    """The places of bodies, marked as those of incomplete exchanges."""
    return np.where(body >= 0, -2 - body, body)


def body_offsets(body: Ints) -> Ints:
    """Where messages begin in their frames, also those of incomplete exchanges; -1 where it is not known."""
    return np.where(body < -1, -2 - body, body)


def renumber_flows(exchanges: ExchangeColumns, flows: Ints) -> ExchangeColumns:
    """The exchanges with other flow numbers. Args: flows: by number, the new one."""
    request, response, completed_by = exchanges
    request = request._replace(frame=request.frame._replace(side=renumber_sides(request.frame.side, flows)))
    response = response._replace(frame=response.frame._replace(side=renumber_sides(response.frame.side, flows)))
    return ExchangeColumns(request, response, completed_by)


def renumber_sides(side: Ints, flows: Ints) -> Ints:
    """The sides with other flow numbers; -1, for no side, is unchanged."""
    if not len(flows):
        return side
    return np.where(side < 0, side, 2 * flows[side >> 1] + (side & 1))
