"""`NodeNetwork`: latency and loss of the messages between nodes, for faults and for the simulator."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import NamedTuple

from mockbroker.cluster_services.inter_broker import Delivery, Loss


class NetworkConditions(NamedTuple):
    """The maximum latency of a message in milliseconds, the percentage of lost ones, and whether they change places."""

    latency_ms: int
    loss_percentage: int
    reorders: bool = False


class NodeNetwork:
    """Plans the delivery of calls. Messages to one node, and its responses, stay in order, as on one connection.

    Unless the network reorders them, as on several connections: then each takes its own time. In order, no two messages
    reach a node in the same millisecond, so that each can be checked alone. on_loss, on_delay: called when a message is
    lost or takes time.
    """

    def __init__(
        self,
        rng: Random,
        conditions: NetworkConditions,
        *,
        on_loss: Callable[[Loss], None] = lambda loss: None,
        on_delay: Callable[[], None] = lambda: None,
    ) -> None:
        self.conditions = conditions
        self._rng = rng
        self._on_loss = on_loss
        self._on_delay = on_delay
        self._arrived_ms: dict[int, int] = {}
        self._answered_ms: dict[int, int] = {}

    def plan_delivery(self, to: int, now_ms: int) -> Delivery:
        """The delivery of a call to a node that is sent now."""
        latency_ms, loss_percentage, reorders = self.conditions
        arrives_ms = now_ms + self._rng.randint(0, latency_ms)
        if not reorders:
            arrives_ms = max(arrives_ms, self._arrived_ms.get(to, -1) + 1)
        answered_ms = arrives_ms + self._rng.randint(0, latency_ms)
        if not reorders:
            answered_ms = max(answered_ms, self._answered_ms.get(to, 0))
        self._arrived_ms[to], self._answered_ms[to] = arrives_ms, answered_ms
        loss = None
        if self._rng.randrange(100) < loss_percentage:
            loss = self._rng.choice((Loss.REQUEST, Loss.ANSWER))
            self._on_loss(loss)
        if answered_ms > now_ms:
            self._on_delay()
        return Delivery(arrives_ms - now_ms, answered_ms - arrives_ms, loss)

    def loading_ms(self, _node_id: int, _now_ms: int) -> int:
        """How long a node takes to load a partition of a coordinator's topic: disks are as slow as the network."""
        return self._rng.randint(0, self.conditions.latency_ms)
