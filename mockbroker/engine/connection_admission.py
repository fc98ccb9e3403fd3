"""`ConnectionAdmission`: accepts new connections later, or closes them, where rate or number is limited (KIP-612).

Source: Kafka's Acceptor and ConnectionQuotas. The system completes a connection before the broker accepts it: a client
notices a late acceptance only by its first answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from mockbroker.broker.quota_settings import has_connection_rate
from mockbroker.engine.connection_limits import ConnectionLimits
from mockbroker.engine.output import Close
from mockbroker.log.closed_connections import log_close

if TYPE_CHECKING:
    from mockbroker.broker.cluster_state import ClusterState
    from mockbroker.broker.node import Node
    from mockbroker.engine.active_request import Connection
    from mockbroker.engine.output import Output

#: How many connections of a node, with time and listener, are kept for the case that a limit is set: Kafka counts those
#: before it as well.
_RECENT_MAX = 2_000
#: A node until it ends, and the name of a listener.
_ListenerKey = tuple["Node", str]


class ConnectionAdmission:
    """The connections that their listeners have not accepted yet, in order.

    connections: the open ones of the cluster, by number. emit: adds to the output. finish: continues with the first
    request of a connection.
    """

    def __init__(
        self,
        state: ClusterState,
        connections: Mapping[int, Connection],
        *,
        emit: Callable[[Output], None],
        finish: Callable[[Connection], None],
    ) -> None:
        self._state = state
        self._connections = connections
        self._emit = emit
        self._finish = finish
        self._limits = ConnectionLimits(state, connections, emit=emit, accept=self._accept_waiting)
        self._queues: dict[_ListenerKey, deque[Connection]] = {}
        self._recent: dict[int, tuple[Node, deque[tuple[int, str]]]] = {}

    def admit(self, connection: Connection, *, now_ms: int) -> None:
        """Handle the requests of a connection at once, or when its listener accepts it; or close it, also later."""
        if not self._limits.waits(connection, now_ms=now_ms):
            self._admit_counted(connection, now_ms)

    def _accept_waiting(self, connection: Connection, now_ms: int) -> None:
        """Go on with a connection that has waited for a free slot."""
        self._admit_counted(connection, now_ms)
        if not connection.is_busy:
            self._finish(connection)

    def _admit_counted(self, connection: Connection, now_ms: int) -> None:
        if self._limits.refuses(connection):
            return
        self._limits.watch(connection, now_ms=now_ms)
        info = connection.info
        node = self._state.inter_broker.nodes[info.node_id]
        if not node.is_loaded("connection_rates"):
            recent = self._find_recent(node)
            if not self._is_limited(info.node_id):
                recent.append((now_ms, info.listener))
                return
            for at_ms, listener in recent:
                node.connection_rates.record_at_listener(listener, now_ms=at_ms)
            recent.clear()
        connection.is_busy = True
        key = node, info.listener
        queue = self._queues.setdefault(key, deque())
        queue.append(connection)
        if len(queue) == 1:
            self._accept_all(key, now_ms)

    def _find_recent(self, node: Node) -> deque[tuple[int, str]]:
        """The latest connections of a node since its start."""
        found = self._recent.get(node.node_id)
        if found is None or found[0] is not node:
            found = self._recent[node.node_id] = node, deque(maxlen=_RECENT_MAX)
        return found[1]

    def _is_limited(self, node_id: int) -> bool:
        storage = self._state.broker_storage
        has_quota = storage.quota_changes > 0 and bool(storage.address_limits)
        return has_quota or has_connection_rate(self._state.configs, node_id)

    def _accept_all(self, key: _ListenerKey, now_ms: int) -> None:
        """Accept the connections of a listener until one has to wait."""
        node, listener = key
        queue = self._queues[key]
        while queue:
            wait_ms = node.connection_rates.record_at_listener(listener, now_ms=now_ms)
            if wait_ms:
                self._state.inter_broker.schedule(
                    wait_ms, lambda at_ms: self._accept_next(key, at_ms), now_ms=now_ms, owner=node.node_id
                )
                return
            self._accept(queue.popleft(), node, now_ms)
        del self._queues[key]

    def _accept_next(self, key: _ListenerKey, now_ms: int) -> None:
        """The connection that has waited is accepted, unless its node has ended, with all of its connections."""
        if self._state.inter_broker.nodes.get(key[0].node_id) is not key[0]:
            del self._queues[key]
            return
        self._accept(self._queues[key].popleft(), key[0], now_ms)
        self._accept_all(key, now_ms)

    def _accept(self, connection: Connection, node: Node, now_ms: int) -> None:
        info = connection.info
        throttle_ms = node.connection_rates.record_address(info.host, info.listener, now_ms=now_ms)
        if not throttle_ms:
            self._finish(connection)
            return
        self._state.inter_broker.schedule(
            throttle_ms, lambda _at_ms: self._close(connection), now_ms=now_ms, owner=info.node_id
        )

    def _close(self, connection: Connection) -> None:
        info = connection.info
        if info.id in self._connections:
            reason = f"more connections of {info.host} than its connection_creation_rate"
            log_close(info.node_id, info.host, info.port, reason)
            connection.waiting.clear()
            connection.is_ending = True
            self._emit(Close(info.id, reason))
