"""`ActiveClusterFault`: a fault of the nodes of a running cluster, at its times."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from kwire.error_codes import ErrorCode
from mockbroker.faults.describe import describe_cluster_fault
from mockbroker.faults.node_network import NetworkConditions, NodeNetwork
from mockbroker.faults.state_changes import StateTarget
from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata.topics import CoordinatorKind

if TYPE_CHECKING:
    from mockbroker.engine.core import Core
    from mockbroker.faults.cluster_control import ClusterControl
    from mockbroker.faults.cluster_model import ClusterFault
    from mockbroker.faults.node_effects import NodeEffects

_MISSES_MAX = 5
_COORDINATORS = {
    "group": CoordinatorKind.GROUP,
    "transaction": CoordinatorKind.TRANSACTION,
    "share": CoordinatorKind.SHARE,
}


class ActiveClusterFault:
    """A fault of the nodes, and how often it has acted (`hits`). number: in its cluster. seed: of the nodes that it
    chooses."""

    def __init__(
        self,
        number: int,
        fault: ClusterFault,
        core: Core,
        control: ClusterControl,
        effects: NodeEffects,
        *,
        seed: str,
    ) -> None:
        self.number = number
        self.fault = fault
        self.name = fault.name or describe_cluster_fault(fault)
        self.hits = 0
        self.held_count = 0  # It acts on no requests.
        self.near_misses: deque[str] = deque(maxlen=_MISSES_MAX)
        self._core = core
        self._control = control
        self._effects = effects
        self._rng = random.Random(seed)
        self._is_removed = False
        self._end: Callable[[], None] | None = None
        self._schedule(fault.at_ms, self._begin)

    def remove(self) -> None:
        """End it now, and let it never act again."""
        self._is_removed = True
        self._end_now()

    def describe_misses(self) -> str:
        """Why it has never acted, as lines of text."""
        reasons = [f"  - {reason}" for reason in self.near_misses] or ["  its time did not come"]
        return "\n".join([f"the fault {self.name!r} never acted:", *reasons])

    def _schedule(self, delay_ms: int, action: Callable[[], None]) -> None:
        def run(_now_ms: int) -> None:
            if not self._is_removed:
                action()

        self._core.state.inter_broker.schedule(delay_ms, run, now_ms=self._core.now_ms)

    def _begin(self) -> None:
        fault = self.fault
        try:
            self._end = self._act()
            self.hits += 1
        except KafkaError as error:
            self.near_misses.append(str(error))
        if self._end is not None and fault.for_ms is not None:
            self._schedule(fault.for_ms, self._end_now)
        if fault.every_ms is not None and (fault.times is None or self.hits < fault.times):
            self._schedule(fault.every_ms, self._begin)

    def _end_now(self) -> None:
        end, self._end = self._end, None
        if end is not None:
            try:
                end()
            except (KafkaError, OSError) as error:  # As when the user has started the node meanwhile.
                self.near_misses.append(str(error))

    def _act(self) -> Callable[[], None] | None:
        """Let it happen. Returns: what ends it. Raises: KafkaError where it cannot happen now."""
        fault, control = self.fault, self._control
        match fault.action:
            case "move-leader":
                assert fault.topic is not None
                control.move_leaders(fault.topic, fault.partition, to=fault.to)
                return None
            case "move-coordinator":
                assert fault.coordinator is not None
                control.move_coordinators(_COORDINATORS[fault.coordinator], to=fault.to)
                return None
            case "slow-network":
                conditions = NetworkConditions(fault.latency_ms, round(fault.loss * 100), fault.reorder)
                return self._effects.slow_network(fault.source, fault.node, NodeNetwork(self._rng, conditions))
            case "expire-sessions":
                control.expire_sessions(fault.principal)
                return None
            case "fence-member" | "fence-producer" | "expire-transaction" | "expire-locks":
                topics = None if fault.topic is None else (fault.topic,)
                target = StateTarget(fault.group, fault.member, fault.transactional_id, topics, fault.partition)
                control.change_state(fault.action, target, self._rng)
                return None
            case _:
                return self._act_on_node(self._choose_node())

    def _act_on_node(self, node_id: int) -> Callable[[], None]:
        control = self._control
        match self.fault.action:
            case "stop-node":
                control.stop_node(node_id)
                return lambda: control.start_node(node_id)
            case "kill-node":
                control.kill_node(node_id)
                return lambda: control.start_node(node_id)
            case "refuse-connections":
                control.close_listeners(node_id)
                return lambda: control.open_listeners(node_id)
            case _:
                control.pause_node(node_id)
                return lambda: control.resume_node(node_id)

    def _choose_node(self) -> int:
        if self.fault.node is not None:
            return self.fault.node
        running = sorted(self._core.state.inter_broker.nodes)
        if not running:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "no node is running")
        return self._rng.choice(running)
