"""`PausedNodes`: what waits until nodes run again whose processes stand still, as after SIGSTOP."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from mockbroker.engine.active_request import ActiveRequest, Connection
    from mockbroker.engine.context import ConnectionInfo
    from mockbroker.engine.output import Output
    from mockbroker.engine.purgatory import DelayedRequest
    from mockbroker.engine.request_runner import RequestRunner


class _PausedNode(msgspec.Struct):
    """One node.

    parked: the requests that waited at the pause, in order of arrival. output: what it has not sent. ended: connections
    that clients have closed since, which it does not notice.
    """

    parked: list[DelayedRequest[ActiveRequest]]
    output: list[Output]
    ended: list[ConnectionInfo]


class PausedNodes(dict[int, _PausedNode]):
    """The nodes that neither handle requests nor send anything, by id, with what goes on when they run again.

    A dictionary, since each request asks several times whether there is any. connections: the open ones of the cluster,
    by their numbers.
    """

    def __init__(self, requests: RequestRunner, connections: Mapping[int, Connection]) -> None:
        super().__init__()
        self._requests = requests
        self._connections = connections

    @property
    def has_connections(self) -> bool:
        """Whether a client is connected to a paused node, and so may wait for it."""
        return any(connection.info.node_id in self for connection in self._connections.values())

    def add(self, node_id: int) -> None:
        """Pause a node: neither deadlines nor changes of the cluster resume its requests."""
        delayed = [connection.parked for connection in self._of_node(node_id) if connection.parked is not None]
        for request in delayed:
            self._requests.purgatory.remove(request)
        self[node_id] = _PausedNode(sorted(delayed, key=lambda request: request.number), [], [])

    def hold_output(self, output: Iterable[Output]) -> list[Output]:
        """The part of an output that is sent; the rest is that of paused nodes, which is sent when they run again."""
        sent: list[Output] = []
        for item in output:
            connection = self._connections.get(item.connection_id)
            paused = None if connection is None else self.get(connection.info.node_id)
            (sent if paused is None else paused.output).append(item)
        return sent

    def add_ended(self, info: ConnectionInfo) -> None:
        """Record that a client has closed a connection to a paused node."""
        self[info.node_id].ended.append(info)

    def resume(self, node_id: int) -> list[ConnectionInfo]:
        """Let a node go on: its output, the requests that waited, then those that have come meanwhile.

        Returns: the connections that have ended, whose sessions end now.
        """
        paused = self.pop(node_id)
        requests = self._requests
        requests.output += [item for item in paused.output if item.connection_id in self._connections]
        for delayed in paused.parked:
            if delayed.request.connection.parked is delayed and delayed.request.connection.info.id in self._connections:
                requests.resume(delayed)
        requests.ready += self._of_node(node_id)
        return paused.ended

    def remove(self, node_id: int) -> None:
        """Forget a node whose process has ended, with what it has not sent."""
        self.pop(node_id, None)

    def _of_node(self, node_id: int) -> list[Connection]:
        return [connection for connection in self._connections.values() if connection.info.node_id == node_id]
