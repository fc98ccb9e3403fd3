"""`ConnectionLimits`: how many connections of an address a broker accepts, and how long they may be idle.

Source: Kafka's ConnectionQuotas (`max.connections.per.ip`) and Selector.IdleExpiryManager (`connections.max.idle.ms`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from mockbroker.engine.output import Close
from mockbroker.log.closed_connections import log_close

if TYPE_CHECKING:
    from mockbroker.broker.cluster_state import ClusterState
    from mockbroker.engine.active_request import Connection
    from mockbroker.engine.output import Output

_PER_ADDRESS = "max.connections.per.ip"
_IDLE = "connections.max.idle.ms"


class ConnectionLimits:
    """The limits of connections of a cluster.

    connections: the open ones, by number. emit: adds to the output. Idle connections are closed only if
    `connections.max.idle.ms` is set: tests move the clock by days, while clients go by their own clocks.
    """

    def __init__(
        self, state: ClusterState, connections: Mapping[int, Connection], *, emit: Callable[[Output], None]
    ) -> None:
        self._state = state
        self._connections = connections
        self._emit = emit
        self._refused: set[int] = set()
        self._idle_ms = state.config.integer(_IDLE) if _IDLE in state.config.given else -1

    def refuses(self, connection: Connection) -> bool:
        """Close a new connection if there are enough of its address at its node. Returns: whether it is closed."""
        info = connection.info
        limit = self._state.configs.broker(info.node_id)[_PER_ADDRESS]
        assert isinstance(limit, int)
        if len(self._connections) <= limit or self._count_accepted(info.node_id, info.host) <= limit:
            return False
        self._refused.add(info.id)
        connection.is_busy = True  # Its requests are not handled.
        self._close(connection, f"more connections of {info.host} than {_PER_ADDRESS}={limit}")
        return True

    def _count_accepted(self, node_id: int, host: str) -> int:
        self._refused &= self._connections.keys()
        return sum(
            number not in self._refused and entry.info.node_id == node_id and entry.info.host == host
            for number, entry in self._connections.items()
        )

    def watch(self, connection: Connection, *, now_ms: int) -> None:
        """Close an accepted connection when nothing was received or sent for the time, if there is one."""
        if self._idle_ms >= 0:
            connection.active_ms = now_ms
            self._schedule(connection, self._idle_ms, now_ms)

    def _schedule(self, connection: Connection, delay_ms: int, now_ms: int) -> None:
        self._state.inter_broker.schedule(
            delay_ms, lambda at_ms: self._expire(connection, at_ms), now_ms=now_ms, owner=connection.info.node_id
        )

    def _expire(self, connection: Connection, now_ms: int) -> None:
        if self._connections.get(connection.info.id) is not connection:
            return
        idle_ms = now_ms - connection.active_ms
        if idle_ms < self._idle_ms:
            self._schedule(connection, self._idle_ms - idle_ms, now_ms)
            return
        connection.waiting.clear()
        self._close(connection, f"idle for {idle_ms} ms, {_IDLE} is {self._idle_ms}")

    def _close(self, connection: Connection, reason: str) -> None:
        info = connection.info
        log_close(info.node_id, info.host, info.port, reason)
        self._emit(Close(info.id, reason))
