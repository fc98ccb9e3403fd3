"""`Deadlines`: what is due in a cluster at a time: calls between nodes, the logs, the nodes' components, requests."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mockbroker.broker.cluster_state import ClusterState
    from mockbroker.broker.node import Node
    from mockbroker.engine.request_runner import RequestRunner


class Deadlines:
    """The deadlines of a cluster, at one time in this order: calls between nodes, the log cleaner, the components of
    the nodes in order of their ids, parked requests.

    paused: the nodes that run none. process_ready: is called when something is done, for requests that can continue.
    """

    def __init__(
        self,
        state: ClusterState,
        requests: RequestRunner,
        paused: Container[int],
        *,
        process_ready: Callable[[], None],
    ) -> None:
        self._state = state
        self._requests = requests
        self._purgatory = requests.purgatory
        self._channel = state.inter_broker
        self._running = state.inter_broker.nodes
        self._paused = paused
        self._process_ready = process_ready

    def next_ms(self, *, now_ms: int) -> int | None:
        """The time of the next deadline, or None."""
        # Asked after every request: a loop costs less than a generator.
        earliest_ms = self._channel.next_deadline_ms()
        due_ms = self._purgatory.next_deadline_ms()
        if due_ms is not None and (earliest_ms is None or due_ms < earliest_ms):
            earliest_ms = due_ms
        if self._state.log_store is not None:
            due_ms = self._state.log_store.next_deadline_ms(now_ms=now_ms)
            if due_ms is not None and (earliest_ms is None or due_ms < earliest_ms):
                earliest_ms = due_ms
        for node_id, node in self._running.items():
            if node_id not in self._paused:
                due_ms = node.next_deadline_ms()
                if due_ms is not None and (earliest_ms is None or due_ms < earliest_ms):
                    earliest_ms = due_ms
        return earliest_ms

    def run_due(self, *, now_ms: int) -> None:
        """Run every deadline that has come, once; what it schedules for the same time waits for the next call."""
        log_store = self._state.log_store
        self._channel.expire(now_ms=now_ms, after_each=self._process_ready)
        if log_store is not None:
            log_store.expire(now_ms=now_ms)
            self._process_ready()
        for node_id, node in list(self._running.items()):
            if node_id not in self._paused:
                self.run_due_of_node(node, now_ms=now_ms)
                self._process_ready()
        if self._purgatory.count:
            for delayed in self._purgatory.take_due(now_ms=now_ms):
                if delayed.is_waiting:
                    self._requests.resume(delayed)
            self._process_ready()

    def run_due_of_node(self, node: Node, *, now_ms: int) -> None:
        """Run what is due in the components of one node."""
        before, self._channel.acting_node = self._channel.acting_node, node.node_id
        try:
            node.expire(now_ms=now_ms)
        finally:
            self._channel.acting_node = before
