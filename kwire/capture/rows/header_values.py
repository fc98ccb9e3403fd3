"""The columns of messages that depend on the headers of request and response only, for one exchange."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.capture.rows.column import Phase
from kwire.capture.rows.columns import message_columns

if TYPE_CHECKING:
    from kwire.capture.kafka.exchange import Exchange
    from kwire.capture.kafka.message_decoder import Request, Response
    from kwire.capture.model import Row

_NO_VALUES: Row = dict.fromkeys(message_columns(Phase.REQUEST, Phase.RESPONSE))


def header_values(exchange: Exchange) -> Row:
    """The columns of the phases `REQUEST` and `RESPONSE`."""
    request, response = exchange.request, exchange.response
    row = _NO_VALUES.copy()
    if request is not None:
        row |= _request_values(request)
    if response is not None:
        row |= _response_values(response)
        if request is None:
            row["correlation_id"] = response.correlation_id
        else:
            row["latency_us"] = (response.frame.ts - request.frame.end_ts) // 1000
    return row


def _request_values(request: Request) -> Row:
    frame = request.frame
    return {
        "api_key": request.api_key,
        "api_name": request.api_name,
        "api_version": request.api_version,
        "header_version": request.header_version,
        "correlation_id": request.correlation_id,
        "client_id": request.client_id,
        "req_packet": frame.packet or None,
        "req_ts": frame.ts,
        "req_end_ts": frame.end_ts,
        "req_bytes": frame.size + 4,
        "in_flight": request.in_flight,
    }


def _response_values(response: Response) -> Row:
    frame = response.frame
    return {
        "resp_packet": frame.packet or None,
        "resp_ts": frame.ts,
        "resp_end_ts": frame.end_ts,
        "resp_bytes": frame.size + 4,
        "transfer_us": (frame.end_ts - frame.ts) // 1000,
        "order_ok": response.order_ok,
    }
