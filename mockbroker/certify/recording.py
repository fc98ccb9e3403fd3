"""The calls and exchanges of a case as records for its file."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from kwire.capture.options import Options
from kwire.capture.reader import read_rows
from kwire.errors import UnsupportedVersion
from kwire.layout import Tree, describe_request, describe_response, render_hex
from kwire.redact import redacted_json
from mockbroker.certify.driver.clients import RecordedCall
from mockbroker.certify.results import CallRecord, DecodedRecord, ExchangeRecord
from mockbroker.journal import Exchange
from mockbroker.journal.condition import TopicNames
from mockbroker.journal.history_report import describe_exchange
from mockbroker.journal.message_values import failure_codes
from mockbroker.journal.response_conditions import describe_errors

#: The longest text and list of a call that are kept.
TEXT_MAX = 300
LIST_MAX = 50
#: How many deciding exchanges are decoded, and how many lines of each message are kept.
DECODED_MAX = 8
LINES_MAX = 250


def record_calls(calls: Iterable[RecordedCall], started_ns: int) -> list[CallRecord]:
    """The calls of a case, with long texts and lists cut."""
    return [
        CallRecord(
            at_ms=_since(call.at_ns, started_ns),
            answered_ms=_since(call.answered_ns, started_ns),
            driver=call.driver,
            method=call.method,
            params=_cut(_redact(call.params)),
            result=_cut(call.result),
            error=call.error,
        )
        for call in calls
    ]


def record_exchanges(
    exchanges: Sequence[Exchange[Any, Any]],
    *,
    topic_names: TopicNames,
    started_ns: int,
    clock_ms: int,
    capture: Path | None,
) -> list[ExchangeRecord]:
    """The exchanges of a case. clock_ms: the cluster's clock when it began; capture: in which their packets are."""
    packets = {} if capture is None else read_packets(capture)
    return [
        ExchangeRecord(
            number=exchange.number,
            at_ms=_since(exchange.arrived_ns, started_ns),
            answered_ms=_since(exchange.departed_ns, started_ns) if exchange.departed_ns else None,
            clock_ms=exchange.arrived_ms - clock_ms,
            node=exchange.node_id,
            connection=exchange.connection_id,
            client_id=exchange.client_id,
            api=exchange.api_name,
            version=exchange.api_version,
            correlation_id=exchange.correlation_id,
            packet=packets.get((exchange.client, exchange.correlation_id, exchange.api_key)),
            summary=describe_exchange(exchange, topic_names),
            error=_error(exchange),
            faults=exchange.faults,
            closed=exchange.closed,
            request=_message(exchange.request, exchange.api_version),
            response=_message(exchange.response, exchange.response_version),
        )
        for exchange in exchanges
    ]


def decode_exchanges(exchanges: Iterable[Exchange[Any, Any]], numbers: Sequence[int]) -> list[DecodedRecord]:
    """The exchanges with these numbers, the first ones of many, with the bytes of every field."""
    wanted = set(numbers[:DECODED_MAX])
    return [_decode_exchange(exchange) for exchange in exchanges if exchange.number in wanted]


def _decode_exchange(exchange: Exchange[Any, Any]) -> DecodedRecord:
    def describe(frame: bytes) -> Tree:
        return describe_response(frame, exchange.api_key, exchange.response_version)

    return DecodedRecord(
        number=exchange.number,
        title=f"{exchange.api_name} v{exchange.api_version}, correlation id {exchange.correlation_id}",
        request=_bytes_of(exchange.request_frame, describe_request),
        response=_bytes_of(exchange.response_frame, describe),
    )


def _bytes_of(frame: bytes | memoryview | None, describe: Callable[[bytes], Tree]) -> str | None:
    """Every byte of a frame with its field, the first lines of a long one; None without a frame."""
    if frame is None:
        return None
    try:
        lines = render_hex(describe(bytes(frame)), payload=True).splitlines()
    except UnsupportedVersion as error:
        return str(error)
    more = [f"... {len(lines) - LINES_MAX} more lines"] if len(lines) > LINES_MAX else []
    return "\n".join([*lines[:LINES_MAX], *more])


def read_packets(capture: Path) -> Mapping[tuple[object, ...], int]:
    """The packet of each request in a capture, by client address, correlation id and API key: the first of equals."""
    packets: dict[tuple[object, ...], int] = {}
    for row in read_rows(str(capture), "messages", Options()):
        packet = row.get("req_packet")
        if isinstance(packet, int):
            key = (f"{row['client_ip']}:{row['client_port']}", row["correlation_id"], row["api_key"])
            packets.setdefault(key, packet)
    return packets


def _since(time_ns: int, started_ns: int) -> float:
    return round((time_ns - started_ns) / 1_000_000, 3)


def _error(exchange: Exchange[Any, Any]) -> str | None:
    if exchange.response is None or not failure_codes(exchange.response):
        return None
    return describe_errors(exchange.response)


def _message(message: msgspec.Struct | None, version: int) -> dict[str, object] | None:
    if message is None:
        return None
    return redacted_json(message, version, show_secrets=False, payload=False)


def _redact(params: Any) -> Any:
    if not isinstance(params, dict) or "password" not in params.get("settings", ()):
        return params
    return {**params, "settings": {**params["settings"], "password": "***"}}


def _cut(value: Any) -> Any:
    """A JSON value with long texts and lists cut."""
    if isinstance(value, str):
        return value if len(value) <= TEXT_MAX else f"{value[:TEXT_MAX]}... ({len(value)} characters)"
    if isinstance(value, Mapping):
        return {key: _cut(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        more = [f"... {len(value) - LIST_MAX} more"] if len(value) > LIST_MAX else []
        return [*map(_cut, value[:LIST_MAX]), *more]
    return value
