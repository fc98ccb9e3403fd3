"""`NodeEffects`: the slow networks between nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mockbroker.cluster_services.inter_broker import Delivery
    from mockbroker.engine.core import Core
    from mockbroker.faults.node_network import NodeNetwork


class NodeEffects:
    """Effects on the messages between nodes that last."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._networks: list[tuple[int | None, int | None, NodeNetwork]] = []
        channel = core.state.inter_broker
        self._plan_delivery, self._loading_ms = channel.plan_delivery, channel.loading_ms

    def slow_network(self, source: int | None, node_id: int | None, network: NodeNetwork) -> Callable[[], None]:
        """Deliver messages from one node, or from all, to another one, or to all, by this network.

        Returns: what ends it.
        """
        entry = (source, node_id, network)
        self._networks.append(entry)
        self._set_plans()

        def end() -> None:
            self._networks.remove(entry)
            self._set_plans()

        return end

    def _set_plans(self) -> None:
        """Replace the channel's plans while there is a slow network; others keep those that it had before."""
        channel = self._core.state.inter_broker
        if not self._networks:
            channel.plan_delivery, channel.loading_ms = self._plan_delivery, self._loading_ms
            return
        channel.plan_delivery, channel.loading_ms = self._plan, self._plan_loading

    def _plan(self, to: int, now_ms: int) -> Delivery:
        network = self._network_to(to)
        return self._plan_delivery(to, now_ms) if network is None else network.plan_delivery(to, now_ms)

    def _plan_loading(self, node_id: int, now_ms: int) -> int:
        network = self._network_to(node_id)
        return self._loading_ms(node_id, now_ms) if network is None else network.loading_ms(node_id, now_ms)

    def _network_to(self, node_id: int) -> NodeNetwork | None:
        sender = self._core.state.inter_broker.acting_node
        return next(
            (
                network
                for source, to, network in reversed(self._networks)
                if source in (None, sender) and to in (None, node_id)
            ),
            None,
        )
