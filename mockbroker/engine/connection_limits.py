"""`ConnectionLimits`: how many connections a broker accepts, in all and of an address, and how long they may be idle.

Source: Kafka's ConnectionQuotas (`max.connections`, which lets new connections wait, KIP-402, and
`max.connections.per.ip`, which closes them) and Selector.IdleExpiryManager (`connections.max.idle.ms`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from mockbroker.engine.output import Close
from mockbroker.log.closed_connections import log_close

if TYPE_CHECKING:
    from mockbroker.broker.cluster_state import ClusterState
    from mockbroker.engine.active_request import Connection
    from mockbroker.engine.output import Output

_ALL = "max.connections"
_PER_ADDRESS = "max.connections.per.ip"
_IDLE = "connections.max.idle.ms"
#: How often a node with waiting connections looks for a free slot, milliseconds of the cluster's clock.
_CHECK_MS = 100


class ConnectionLimits:
    """The limits of connections of a cluster.

    connections: the open ones, by number. emit: adds to the output. accept: continues with a connection that has
    waited. Idle connections are closed only if
    `connections.max.idle.ms` is set: tests move the clock by days, while clients go by their own clocks.
    """

    def __init__(
        self,
        state: ClusterState,
        connections: Mapping[int, Connection],
        *,
        emit: Callable[[Output], None],
        accept: Callable[[Connection, int], None],
    ) -> None:
        self._state = state
        self._connections = connections
        self._emit = emit
        self._accept = accept
        self._waiting: dict[int, deque[Connection]] = {}
        self._refused: set[int] = set()
        self._idle_ms = state.config.integer(_IDLE) if _IDLE in state.config.given else -1

    def waits(self, connection: Connection, *, now_ms: int) -> bool:
        """Let a new connection wait while there are enough at its node. Returns: whether it waits."""
        node_id = connection.info.node_id
        if node_id not in self._waiting:
            limit = self._find_limit(_ALL, node_id)
            if len(self._connections) <= limit or self._count(node_id) <= limit:
                return False
            self._waiting[node_id] = deque()
            self._schedule_check(node_id, now_ms)
        connection.is_busy = True
        self._waiting[node_id].append(connection)
        return True

    def _schedule_check(self, node_id: int, now_ms: int) -> None:
        self._state.inter_broker.schedule(
            _CHECK_MS, lambda at_ms: self._accept_waiting(node_id, at_ms), now_ms=now_ms, owner=node_id
        )

    def _accept_waiting(self, node_id: int, now_ms: int) -> None:
        """Accept waiting connections in their order, while there are free slots. Those that have ended are left out."""
        queue = self._waiting[node_id]
        while queue and (not self._is_open(queue[0]) or self._count(node_id) < self._find_limit(_ALL, node_id)):
            connection = queue.popleft()
            if self._is_open(connection):
                connection.is_busy = False
                self._accept(connection, now_ms)
        if queue:
            self._schedule_check(node_id, now_ms)
        else:
            del self._waiting[node_id]

    def refuses(self, connection: Connection) -> bool:
        """Close a new connection if there are enough of its address at its node. Returns: whether it is closed."""
        info = connection.info
        limit = self._find_limit(_PER_ADDRESS, info.node_id)
        if len(self._connections) <= limit or self._count(info.node_id, info.host) <= limit:
            return False
        self._refused.add(info.id)
        connection.is_busy = True  # Its requests are not handled.
        self._close(connection, f"more connections of {info.host} than {_PER_ADDRESS}={limit}")
        return True

    def _find_limit(self, name: str, node_id: int) -> int:
        limit = self._state.configs.broker(node_id)[name]
        assert isinstance(limit, int)
        return limit

    def _is_open(self, connection: Connection) -> bool:
        return self._connections.get(connection.info.id) is connection

    def _count(self, node_id: int, host: str | None = None) -> int:
        """The connections of a node, or those of one address, that are neither refused nor waiting."""
        self._refused &= self._connections.keys()
        left_out = self._refused | {waiting.info.id for waiting in self._waiting.get(node_id, ())}
        return sum(
            number not in left_out and entry.info.node_id == node_id and host in (None, entry.info.host)
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
        if connection.active_ms is None or not self._is_open(connection):
            return
        idle_ms = now_ms - connection.active_ms
        if idle_ms < self._idle_ms:
            self._schedule(connection, self._idle_ms - idle_ms, now_ms)
            return
        connection.waiting.clear()
        connection.is_ending = True
        self._close(connection, f"idle for {idle_ms} ms, {_IDLE} is {self._idle_ms}")

    def _close(self, connection: Connection, reason: str) -> None:
        info = connection.info
        log_close(info.node_id, info.host, info.port, reason)
        self._emit(Close(info.id, reason))
