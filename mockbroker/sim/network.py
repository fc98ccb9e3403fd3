"""Simulated network between the nodes: the conditions that change during a simulation."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from random import Random

from mockbroker.cluster_services.inter_broker import Loss
from mockbroker.faults import node_network
from mockbroker.faults.node_network import NodeNetwork
from mockbroker.sim.coverage import Coverage


class NetworkConditions(Enum):
    """The maximum latency of a message in milliseconds, and the percentage of lost messages."""

    IDEAL = node_network.NetworkConditions(0, 0)
    SLOW = node_network.NetworkConditions(60, 0)
    LOSSY = node_network.NetworkConditions(900, 10)
    BAD = node_network.NetworkConditions(2_500, 60)
    CUT = node_network.NetworkConditions(20, 100)


class NetworkSimulator(NodeNetwork):
    """A network of nodes that counts what happens. on_loss: called when a message is lost."""

    def __init__(self, rng: Random, coverage: Coverage, on_loss: Callable[[], None]) -> None:
        def record_loss(loss: Loss) -> None:
            on_loss()
            coverage.count("request lost" if loss is Loss.REQUEST else "response lost")

        conditions = NetworkConditions.IDEAL.value
        super().__init__(rng, conditions, on_loss=record_loss, on_delay=lambda: coverage.count("call delayed"))
