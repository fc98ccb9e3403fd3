"""The frames of a connection that wait: each reaches the journal when it arrives, and its handler when it is read.

A frame waits behind an earlier request that has no answer yet, while its client is throttled, and while its node is
paused. Kafka leaves such bytes in the socket; here they are decoded at once for the journal, so that it has what a
client sent and then gave up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mockbroker.engine.active_request import ActiveRequest
from mockbroker.engine.dispatch import IncomingRequest, Undispatchable, decode_request
from mockbroker.engine.journal_record import (
    mark_read,
    mark_undispatchable,
    record_request,
    record_undispatchable,
    record_unread,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mockbroker.engine.active_request import Connection
    from mockbroker.engine.routes import Route
    from mockbroker.journal import Journal


def read_next(journal: Journal, connection: Connection, served: Mapping[int, Route], now_ms: int) -> ActiveRequest:
    """Take the first frame that waits, decode it, and record that it is read. served: the APIs of the cluster.

    Raises: Undispatchable, recorded too, for a frame for which the connection is closed.
    """
    info = connection.info
    frame, arrived_ns, unread = connection.waiting.popleft()
    try:
        incoming = _decode(connection, frame, served)
    except Undispatchable as error:
        if unread is not None:
            mark_undispatchable(journal, unread, error)
        else:
            shown = frame if connection.authenticator is None else None  # Before authentication it may be a token.
            record_undispatchable(journal, info, error, shown, (now_ms, arrived_ns, len(frame)))
        raise
    if unread is None:
        exchange = record_request(journal, info, incoming, frame, (now_ms, arrived_ns, len(frame)))
    else:
        exchange = mark_read(unread, info, incoming)
    return ActiveRequest(connection, incoming, exchange)


def record_last(journal: Journal, connection: Connection, served: Mapping[int, Route], now_ms: int) -> None:
    """Record the last frame that waits as unread; not before authentication, where it may be a token."""
    authenticator = connection.authenticator
    frame, arrived_ns, exchange = connection.waiting[-1]
    if connection.is_ending or exchange is not None or not (authenticator is None or authenticator.is_open):
        return
    shown: bytes | memoryview | None = frame
    incoming: IncomingRequest | Undispatchable
    try:
        incoming = _decode(connection, frame, served)
    except Undispatchable as error:
        incoming = error
        shown = frame if authenticator is None else None
    exchange = record_unread(journal, connection.info, incoming, shown, (now_ms, arrived_ns, len(frame)))
    connection.waiting[-1] = frame, arrived_ns, exchange


def _decode(connection: Connection, frame: bytes | memoryview, served: Mapping[int, Route]) -> IncomingRequest:
    """A request, as its connection is served it. Raises: Undispatchable."""
    routes = served if connection.routes is None else connection.routes
    if connection.authenticator is None:
        return decode_request(frame, routes)
    return connection.authenticator.decode_request(frame, routes)
