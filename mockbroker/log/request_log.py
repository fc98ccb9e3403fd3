"""Logs every request in one line, while the level of its logger is debug."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from kwire.error_codes import name_of
from mockbroker.journal.message_values import failure_codes
from mockbroker.log.subjects import REQUESTS

if TYPE_CHECKING:
    from mockbroker.journal import Exchange, Journal

_TEMPLATE = (
    "node %(node)d %(client)s %(api)s v%(version)d client %(client_id)r correlation %(correlation_id)d: "
    "%(request_bytes)d bytes, {answer}, %(latency_ms).3f ms"
)
_NS_PER_MS = 1_000_000


def attach(journal: Journal) -> None:
    """Log each request of a journal when it is answered, or known to get no answer."""
    if log_request not in journal.on_answer:
        journal.on_answer.append(log_request)
        journal.on_unanswered.append(log_request)


def detach(journal: Journal) -> None:
    """Log no requests any more."""
    if log_request in journal.on_answer:
        journal.on_answer.remove(log_request)
        journal.on_unanswered.remove(log_request)


def log_request(exchange: Exchange) -> None:
    """Log an exchange. Its latency is that of the process's clock, whatever the clock of the cluster is."""
    codes = failure_codes(exchange.response)
    fields: dict[str, object] = {
        "node": exchange.node_id,
        "client": exchange.client,
        "api": exchange.api_name,
        "version": exchange.api_version,
        "client_id": exchange.client_id,
        "correlation_id": exchange.correlation_id,
        "request_bytes": exchange.request_bytes,
        "latency_ms": round(max(time.time_ns() - exchange.arrived_ns, 0) / _NS_PER_MS, 3),
    }
    answer = "no answer"
    if exchange.answered_ms is not None:
        answer = "answered with %(response_bytes)d bytes"
        fields["response_bytes"] = exchange.response_bytes
    if codes:
        answer += ", %(error)s"
        fields["error"] = ", ".join(map(name_of, codes))
    throttle_ms = getattr(exchange.response, "throttle_time_ms", 0)
    if throttle_ms:
        answer += ", throttled for %(throttle_ms)d ms"
        fields["throttle_ms"] = throttle_ms
    if exchange.closed is not None:
        answer += ", closed: %(reason)s"
        fields["reason"] = exchange.closed
    if exchange.faults:
        answer += ", faults: %(faults)s"
        fields["faults"] = ", ".join(exchange.faults)
    REQUESTS.debug(_TEMPLATE.format(answer=answer), **fields)
