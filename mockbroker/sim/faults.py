"""Faults around the clients: network conditions, moved leaders, and stopped nodes."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from mockbroker.faults.cluster_control import ClusterControl
from mockbroker.kafka_error import KafkaError
from mockbroker.sim.network import NetworkConditions, NetworkSimulator
from mockbroker.sim.random_choice import perform_action
from mockbroker.sim.simulated_cluster import SimulatedCluster
from mockbroker.state.metadata.topics import CoordinatorKind


class Faults:
    """Changes network conditions, moves leaders and coordinators, stops and starts nodes; at most one is down."""

    def __init__(self, cluster: SimulatedCluster, rng: Random) -> None:
        self._cluster = cluster
        self._count = cluster.coverage.count
        self._rng = rng
        self._record_disturbance = cluster.invariants.dead_letters.record_disturbance
        self._network = NetworkSimulator(rng, cluster.coverage, self._record_disturbance)
        self._connect_core()
        cluster.on_restart.append(self._connect_core)

    def _connect_core(self) -> None:
        """Act on the present core, in which all nodes run."""
        core = self._cluster.core
        self._control = ClusterControl(core)
        self._stopped_node: int | None = None
        core.state.inter_broker.plan_delivery = self._network.plan_delivery
        core.state.inter_broker.loading_ms = self._network.loading_ms

    def act(self) -> str:
        """Cause one fault, or end one."""
        actions: list[tuple[int, Callable[[], str]]] = [
            (10, self._change_conditions),
            (4, self._move_leader),
            (3, self._move_coordinator),
            (3, self._stop_node if self._stopped_node is None else self._start_node),
        ]
        with self._cluster.in_broker():
            return perform_action(self._rng, actions)

    def restore(self) -> None:
        """End all faults."""
        self._network.conditions = NetworkConditions.IDEAL.value
        if self._stopped_node is not None:
            self._start_node()

    def _change_conditions(self) -> str:
        conditions = self._rng.choice(list(NetworkConditions))
        self._network.conditions = conditions.value
        return f"network conditions: {conditions.name.lower()}"

    def _move_leader(self) -> str:
        queues = self._cluster.queue_topics()
        topic = self._rng.choice(
            self._cluster.topics() + queues if self._rng.random() < 0.3 else self._cluster.topics()
        )
        return self._move_partition(topic.name, self._rng.randrange(len(topic.partitions)), "leader moved")

    def _move_coordinator(self) -> str:
        kind = self._rng.choice((CoordinatorKind.SHARE, CoordinatorKind.SHARE, CoordinatorKind.GROUP))
        topic = self._cluster.core.state.metadata.internal_topic(kind)
        return self._move_partition(topic.name, self._rng.randrange(len(topic.partitions)), "coordinator moved")

    def _move_partition(self, topic: str, partition_index: int, coverage_name: str) -> str:
        to = self._rng.choice(list(self._cluster.core.state.metadata.node_ids))
        try:
            self._control.move_leader(topic, partition_index, to=to)
        except KafkaError:
            return f"{topic}-{partition_index} cannot move to {to}"
        self._count(coverage_name)
        self._record_disturbance()
        return f"{topic}-{partition_index} moves to {to}"

    def _stop_node(self) -> str:
        self._record_disturbance()
        self._stopped_node = self._rng.choice(list(self._cluster.core.state.metadata.node_ids))
        if self._rng.random() < 0.5:
            self._control.kill_node(self._stopped_node)
            self._count("node killed")
            return f"node {self._stopped_node} is killed"
        self._control.stop_node(self._stopped_node)
        self._count("node stopped")
        return f"node {self._stopped_node} is stopped"

    def _start_node(self) -> str:
        assert self._stopped_node is not None
        self._record_disturbance()
        node_id, self._stopped_node = self._stopped_node, None
        self._control.start_node(node_id)
        self._count("node started")
        return f"node {node_id} starts"
