"""`NodeEffects`: the nodes that are paused, with the requests that wait for them, and the slow networks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mockbroker.cluster_services.inter_broker import Delivery
    from mockbroker.engine.active_request import ActiveRequest
    from mockbroker.engine.core import Core
    from mockbroker.faults.node_network import NodeNetwork
    from mockbroker.kafka_error import KafkaError


class HeldRequest:
    """A request to a paused node; it is handled when the pause ends. Implements `MatchedFaults`."""

    partition_errors: Mapping[tuple[bytes, int], KafkaError] | None = None

    def __init__(self, request: ActiveRequest, held: list[ActiveRequest]) -> None:
        self._request = request
        self._held = held

    def start(self) -> bool:
        """Keep the request. Returns: False, since the handler does not run now."""
        self._held.append(self._request)
        return False

    def answer(self, response: object) -> None:
        """Not called: the request is matched again before it is handled."""
        raise AssertionError("a held request was answered")


class NodeEffects:
    """Effects on nodes that last. restart: matches a held request with the faults again, and handles it.

    on_change: called when there is a paused node, or none any more.
    """

    def __init__(self, core: Core, restart: Callable[[ActiveRequest], None], on_change: Callable[[], None]) -> None:
        self._core = core
        self._restart = restart
        self._on_change = on_change
        self._pauses: dict[int, list[str]] = {}
        self._held: dict[int, list[ActiveRequest]] = {}
        self._networks: list[tuple[int | None, NodeNetwork]] = []
        channel = core.state.inter_broker
        self._plan_delivery, self._loading_ms = channel.plan_delivery, channel.loading_ms

    @property
    def has_pause(self) -> bool:
        """Whether a node is paused."""
        return bool(self._pauses)

    def hold_request(self, request: ActiveRequest) -> HeldRequest | None:
        """The state of a request to a paused node, None for one to another node."""
        node_id = request.connection.info.node_id
        names = self._pauses.get(node_id)
        if not names:
            return None
        request.exchange.faults += tuple(names)
        return HeldRequest(request, self._held.setdefault(node_id, []))

    def pause_node(self, node_id: int, name: str) -> Callable[[], None]:
        """Let a node handle no request. Returns: what ends the pause."""
        self._pauses.setdefault(node_id, []).append(name)
        self._on_change()

        def end() -> None:
            self._pauses[node_id].remove(name)
            if self._pauses[node_id]:
                return
            del self._pauses[node_id]
            for request in self._held.pop(node_id, []):
                if self._core.is_connected(request.connection.info.id):
                    self._restart(request)
            self._on_change()

        return end

    def slow_network(self, node_id: int | None, network: NodeNetwork) -> Callable[[], None]:
        """Deliver messages to a node, or to all, by this network. Returns: what ends it."""
        entry = (node_id, network)
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
        return next((network for to, network in reversed(self._networks) if to in (None, node_id)), None)
