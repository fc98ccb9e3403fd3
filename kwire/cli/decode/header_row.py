"""The row columns known from the headers of an exchange: sufficient for many filters, before bodies are read."""

from __future__ import annotations

from kwire.capture.kafka.exchange import Exchange
from kwire.capture.model import Row, connection_id

#: The columns of `messages` that are set.
COLUMNS = frozenset(
    {
        *("api_key", "api_name", "api_version", "client_id", "conn_id", "latency_us"),
        *("req_bytes", "resp_bytes", "req_packet", "resp_packet", "req_ts", "resp_ts"),
    }
)


def build_header_row(exchange: Exchange) -> Row:
    """These columns, with the values of the exchange's row."""
    row: Row = dict.fromkeys(COLUMNS)
    row["conn_id"] = connection_id(exchange.flow)
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
