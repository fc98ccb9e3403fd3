"""`Deadlines`: what is due in a cluster at a time: calls between nodes, the logs, the nodes' components, requests."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TYPE_CHECKING

from mockbroker.engine.failed_components import FailedComponents
from mockbroker.state.timers import NEVER_MS, UNKNOWN_MS

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
        self._earliest = state.earliest_deadline
        self._failed = FailedComponents(requests.errors)

    def next_ms(self, *, now_ms: int, until_ms: int | None = None) -> int | None:
        """The time of the next deadline, or None. until_ms: the last time of interest, see `next_until`."""
        call_ms = self._channel.next_deadline_ms()
        if until_ms is not None:
            return self.next_until(until_ms, call_ms, now_ms=now_ms)
        due_ms = self._next_of_components(now_ms)
        # A component that has got a deadline must have lowered the earliest one.
        assert due_ms is None or self._earliest.ms <= due_ms
        return _earlier(call_ms, due_ms)

    def next_until(self, until_ms: int, call_ms: int | None, *, now_ms: int) -> int | None:
        """The next deadline, if it comes until that time; else a later time until which there is none, or None.

        call_ms: that of the calls between nodes.
        """
        if call_ms is not None and call_ms <= self._earliest.ms:
            return call_ms  # No component has to be asked.
        if self._earliest.ms <= until_ms:
            due_ms = self._next_of_components(now_ms)
            self._remember(due_ms)
        else:
            due_ms = None if self._earliest.ms == NEVER_MS else self._earliest.ms
        return _earlier(call_ms, due_ms)

    def _remember(self, due_ms: int | None) -> None:
        """Set the earliest deadline, unless it is known only to components that are asked each time."""
        log_store = self._state.log_store
        if self._paused or (log_store is not None and not log_store.announces_deadlines):
            self._earliest.ms = UNKNOWN_MS
        else:
            self._earliest.ms = NEVER_MS if due_ms is None else due_ms

    def _next_of_components(self, now_ms: int) -> int | None:
        deadlines = [self._purgatory.next_deadline_ms()]
        log_store = self._state.log_store
        running = [node for node_id, node in self._running.items() if node_id not in self._paused]
        if log_store is not None:
            deadlines.append(self._failed.postpone(log_store, log_store.next_deadline_ms(now_ms=now_ms)))
        if not self._failed:
            deadlines += [node.next_deadline_ms() for node in running]
        else:
            components = [component for node in running for component in node.with_deadlines]
            deadlines += [self._failed.postpone(each, each.next_deadline_ms()) for each in components]
        return min((due_ms for due_ms in deadlines if due_ms is not None), default=None)

    def run_due(self, *, now_ms: int) -> None:
        """Run every deadline that has come, once; what it schedules for the same time waits for the next call."""
        self._channel.expire(now_ms=now_ms, after_each=self._process_ready)
        if self._earliest.ms <= now_ms:
            self._run_components(now_ms)

    def _run_components(self, now_ms: int) -> None:
        log_store = self._state.log_store
        if log_store is not None:
            self._failed.expire(log_store, "of the logs", now_ms=now_ms)
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
            for component in node.with_deadlines:
                self._failed.expire(component, f"of node {node.node_id}", now_ms=now_ms)
        finally:
            self._channel.acting_node = before


def _earlier(first_ms: int | None, second_ms: int | None) -> int | None:
    """The earlier one of two times, of which None is never."""
    if first_ms is None or second_ms is None:
        return second_ms if first_ms is None else first_ms
    return min(first_ms, second_ms)
