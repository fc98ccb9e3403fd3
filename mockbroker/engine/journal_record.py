"""Recording received frames in the journal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mockbroker.engine.outcome import RawSaslToken
from mockbroker.journal import Exchange, Journal

if TYPE_CHECKING:
    import msgspec

    from mockbroker.engine.context import ConnectionInfo
    from mockbroker.engine.dispatch import IncomingRequest, Undispatchable


#: When a frame arrived, by the cluster's clock (ms) and the wall clock (ns), and its body size in bytes. A plain tuple,
#: as one is created for every request.
Arrival = tuple[int, int, int]


def record_request(
    journal: Journal, info: ConnectionInfo, incoming: IncomingRequest, frame: bytes | memoryview, arrival: Arrival
) -> Exchange:
    """Add a decoded request to the journal, with its frame unless that is a raw SASL token, which may be a secret."""
    now_ms, arrived_ns, size = arrival
    route = incoming.route
    stored: msgspec.Struct | None = incoming.request
    stored_frame: bytes | memoryview | None = frame
    if type(stored) is RawSaslToken:
        stored = stored_frame = None
    exchange: Exchange = Exchange(
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
    journal.add(exchange)
    return exchange


def record_undispatchable(
    journal: Journal, info: ConnectionInfo, error: Undispatchable, frame: bytes | memoryview | None, arrival: Arrival
) -> None:
    """Add a frame for which the connection is closed to the journal. frame: None for one that may be a secret."""
    now_ms, arrived_ns, size = arrival
    exchange = Exchange(
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
        closed=str(error),
    )
    journal.add(exchange)
    journal.complete(exchange)
