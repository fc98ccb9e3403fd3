"""What the heads of an exchange tell of its row: enough for many filters, and known before anything is counted."""

from __future__ import annotations

from kwire.capture.exchange import Exchange
from kwire.capture.rows import Row, conn_id

#: The columns of `messages` that are told.
COLUMNS = frozenset(
    {
        "api_key",
        "api_name",
        "api_version",
        "client_id",
        "conn_id",
        "latency_us",
        "req_bytes",
        "resp_bytes",
        "req_packet",
        "resp_packet",
        "req_ts",
        "resp_ts",
    }
)


def head(exchange: Exchange) -> Row:
    """These columns, as the row of the exchange has them."""
    row: Row = dict.fromkeys(COLUMNS)
    row["conn_id"] = conn_id(exchange.flow)
    request, response = exchange.request, exchange.response
    if request is not None:
        frame = request.frame
        row["api_key"], row["api_name"], row["api_version"] = request.api_key, request.api_name, request.api_version
        row["client_id"] = request.client_id
        row["req_bytes"], row["req_packet"], row["req_ts"] = frame.size + 4, frame.packet or None, frame.ts
    if response is not None:
        frame = response.frame
        row["resp_bytes"], row["resp_packet"], row["resp_ts"] = frame.size + 4, frame.packet or None, frame.ts
        if request is not None:
            row["latency_us"] = (frame.ts - request.frame.end_ts) // 1000
    return row
