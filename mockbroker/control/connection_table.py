"""`ConnectionTable`: the open connections of the control, with limits in all and by client, and of time."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple, Protocol

from mockbroker.control.events.event_hub import ReaderLimits


class HttpLimits(NamedTuple):
    """Limits of connections and of streams of events.

    connections: in all. client_connections: of one address. streams: those of events. head_s, body_s: how long the head
    and the body of a request may take to arrive, seconds. keep_alive_s: how long a connection may stay open without a
    request, seconds. stalled_s: how long a client may read nothing of a response, seconds.
    """

    connections: int = 1024
    client_connections: int = 512
    streams: ReaderLimits = ReaderLimits()
    head_s: float = 10.0
    body_s: float = 30.0
    keep_alive_s: int = 30
    stalled_s: float = 60.0


class TabledConnection(Protocol):
    """What the table needs of a connection. client: host and port; None for a socket without addresses."""

    client: tuple[str, int] | None

    @property
    def has_request(self) -> bool:
        """Whether a request is being answered."""

    def give_up(self) -> None:
        """Close the connection now."""


class ConnectionTable:
    """The open connections, the oldest first.

    When there are too many, the oldest of the same client without a request in progress is closed: connections that
    never send a request, or only a part of one, cannot keep others out, not even those of the same machine.
    """

    def __init__(self, limits: HttpLimits) -> None:
        self.limits = limits
        self._connections: dict[TabledConnection, str] = {}
        self._counts: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._connections)

    def add(self, connection: TabledConnection) -> bool:
        """Add a new connection. Returns: False if it is refused, since all others have requests in progress."""
        host = connection.client[0] if connection.client is not None else ""
        self._connections[connection] = host
        self._counts[host] += 1
        if self._counts[host] > self.limits.client_connections:
            return self._close_idle(connection, host)
        if len(self._connections) > self.limits.connections:
            # The clients with the most connections first.
            return any(self._close_idle(connection, crowd) for crowd, _ in self._counts.most_common())
        return True

    def remove(self, connection: TabledConnection) -> None:
        """Remove a connection, which may have been removed before."""
        host = self._connections.pop(connection, None)
        if host is None:
            return
        self._counts[host] -= 1
        if not self._counts[host]:
            del self._counts[host]

    def _close_idle(self, new: TabledConnection, host: str) -> bool:
        for connection, its_host in self._connections.items():
            if its_host == host and connection is not new and not connection.has_request:
                self.remove(connection)
                connection.give_up()
                return True
        return False
