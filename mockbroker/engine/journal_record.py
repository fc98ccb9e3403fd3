"""Recording received frames in the journal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mockbroker.engine.dispatch import Undispatchable
from mockbroker.engine.outcome import RawSaslToken
from mockbroker.journal import Exchange, Journal

if TYPE_CHECKING:
    import msgspec

    from mockbroker.engine.context import ConnectionInfo
    from mockbroker.engine.dispatch import IncomingRequest


#: When a frame arrived, by the cluster's clock (ms) and the wall clock (ns), and its body size in bytes. A plain tuple,
#: as one is created for every request.
Arrival = tuple[int, int, int]


def record_request(
    journal: Journal, info: ConnectionInfo, incoming: IncomingRequest, frame: bytes | memoryview, arrival: Arrival
) -> Exchange:
    """Add a decoded request to the journal, with its frame unless that is a raw SASL token, which may be a secret."""
    exchange = _create_exchange(info, incoming, frame, arrival)
    journal.add(exchange)
    return exchange


def record_unread(
    journal: Journal,
    info: ConnectionInfo,
    incoming: IncomingRequest | Undispatchable,
    frame: bytes | memoryview | None,
    arrival: Arrival,
) -> Exchange:
    """Add a request to the journal that has arrived behind another one, and that the broker does not read yet.

    frame: None for one that does not decode and may be a secret. `mark_read` or `mark_undispatchable` follow when it is
    read.
    """
    if isinstance(incoming, Undispatchable):
        exchange = _create_undispatchable(info, incoming, frame, arrival)
    else:
        assert frame is not None
        exchange = _create_exchange(info, incoming, frame, arrival)
    exchange.is_unread = True
    journal.add(exchange)
    return exchange


def mark_read(exchange: Exchange, info: ConnectionInfo, incoming: IncomingRequest) -> Exchange:
    """Record that the broker reads a request now. Returns: its exchange."""
    exchange.is_unread = False
    if type(incoming.request) is RawSaslToken:
        exchange.request_frame = None
        return exchange
    exchange.request, exchange.response_version = incoming.request, incoming.response_version
    exchange.api_name, exchange.client_id = incoming.api_name, incoming.client_id
    exchange.decode_warnings, exchange.principal = incoming.decode_warnings, info.principal
    return exchange


def mark_undispatchable(journal: Journal, exchange: Exchange, error: Undispatchable) -> None:
    """Record that the broker reads a request now, and closes its connection for it."""
    exchange.is_unread, exchange.closed = False, str(error)
    journal.complete(exchange)


def _create_exchange(
    info: ConnectionInfo, incoming: IncomingRequest, frame: bytes | memoryview, arrival: Arrival
) -> Exchange:
    now_ms, arrived_ns, size = arrival
    route = incoming.route
    stored: msgspec.Struct | None = incoming.request
    stored_frame: bytes | memoryview | None = frame
    if type(stored) is RawSaslToken:
        stored = stored_frame = None
    return Exchange(
        0,
        info.node_id,
        info.id,
        info.client,
        route.api_key,
        route.name,
        incoming.api_version,
        incoming.correlation_id,
        incoming.client_id,
        now_ms,
        arrived_ns,
        size,
        stored,
        None,
        incoming.response_version,
        0,
        None,
        0,
        incoming.decode_warnings,
        None,
        info.principal,
        (),
        stored_frame,
    )


def record_undispatchable(
    journal: Journal, info: ConnectionInfo, error: Undispatchable, frame: bytes | memoryview | None, arrival: Arrival
) -> None:
    """Add a frame for which the connection is closed to the journal. frame: None for one that may be a secret."""
    exchange = _create_undispatchable(info, error, frame, arrival)
    exchange.closed = str(error)
    journal.add(exchange)
    journal.complete(exchange)


def _create_undispatchable(
    info: ConnectionInfo, error: Undispatchable, frame: bytes | memoryview | None, arrival: Arrival
) -> Exchange:
    now_ms, arrived_ns, size = arrival
    return Exchange(
        0,
        info.node_id,
        info.id,
        info.client,
        error.api_key,
        error.api_name,
        error.api_version,
        error.correlation_id,
        None,
        now_ms,
        arrived_ns,
        size,
        principal=info.principal,
        request_frame=frame,
    )
