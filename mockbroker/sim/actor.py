"""Base of the simulated administrators: requests on connections of their own, and counts of what they achieved."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random

import msgspec

from kwire.messages import incremental_alter_configs as alter
from mockbroker.sim.simulated_cluster import SimulatedCluster
from mockbroker.sim.wire import OnResponse, ignore_response
from mockbroker.state.metadata.configs import ResourceKind


class Actor:
    """Acts on the cluster over the wire. client_id: of its requests."""

    client_id = ""

    def __init__(self, cluster: SimulatedCluster, rng: Random) -> None:
        self._cluster = cluster
        self._rng = rng
        self._count = cluster.coverage.count

    def _send(
        self, request: msgspec.Struct, version: int, done: OnResponse = ignore_response, *, to: int | None = None
    ) -> None:
        """Send a request to a node, by default to any running one; nothing is sent to a node that is down."""
        node_id = self._cluster.choose_node(self._rng) if to is None else to
        if self._cluster.is_up(node_id):
            wire = self._cluster.wire
            wire.send_request(wire.connect(node_id, self.client_id), request, version, done)

    def _alter_configs(
        self, kind: ResourceKind, name: str, values: Mapping[str, str], done: OnResponse = ignore_response
    ) -> None:
        rows = [alter.AlterableConfig(key, 0, value) for key, value in values.items()]
        request = alter.IncrementalAlterConfigsRequest([alter.AlterConfigsResource(kind, name, rows)])
        self._send(request, 1, done)
