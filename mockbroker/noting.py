"""What the journal is told of a frame that has come in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mockbroker.journal import Exchange, Journal

if TYPE_CHECKING:
    from mockbroker.context import ConnectionInfo
    from mockbroker.dispatch import Incoming, Undispatchable


#: When a frame came, by the cluster's clock (ms) and the shell's (ns), and how many bytes its body has. One is made for
#: every request: a bare tuple costs the least.
Arrival = tuple[int, int, int]


def note(journal: Journal, info: ConnectionInfo, incoming: Incoming, arrival: Arrival) -> Exchange:
    """Note a request that could be decoded."""
    exchange = _exchange(journal, info, incoming, arrival)
    exchange.client_id = incoming.client_id
    exchange.request = incoming.request
    exchange.response_version = incoming.answer_version
    exchange.oddities = incoming.oddities
    journal.begin(exchange)
    return exchange


def note_undispatchable(journal: Journal, info: ConnectionInfo, why: Undispatchable, arrival: Arrival) -> None:
    """Note a frame for which the connection is closed."""
    exchange = _exchange(journal, info, why, arrival)
    exchange.closed = str(why)
    journal.begin(exchange)
    journal.answered(exchange)


def _exchange(journal: Journal, info: ConnectionInfo, asked: Incoming | Undispatchable, arrival: Arrival) -> Exchange:
    """What is known of any frame, whether it could be decoded or not."""
    now_ms, arrived_ns, size = arrival
    return Exchange(
        number=journal.next_number(),
        node_id=info.node_id,
        connection_id=info.id,
        client=f"{info.host}:{info.port}",
        principal=info.principal,
        api_key=asked.api_key,
        api_name=asked.api_name,
        api_version=asked.api_version,
        correlation_id=asked.correlation_id,
        client_id=None,
        arrived_ms=now_ms,
        arrived_ns=arrived_ns,
        request_bytes=size,
    )
