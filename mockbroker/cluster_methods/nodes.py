"""Methods of `Cluster` that stop, start and kill nodes, and move leaders."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from mockbroker.cluster_methods.cluster_thread import ClusterThread
from mockbroker.state.metadata.topics import CoordinatorKind

if TYPE_CHECKING:
    from mockbroker.server import Server

CoordinatorName = Literal["group", "transaction"]
_KINDS = MappingProxyType({"group": CoordinatorKind.GROUP, "transaction": CoordinatorKind.TRANSACTION})


class NodeMethods(ClusterThread):
    """Nodes of a running cluster, by their ids."""

    def stop_node(self, node_id: int) -> None:
        """Stop a node cleanly: others become leaders, then its connections close. Raises: KafkaError if it is down."""
        self.run(lambda server: server.require_started().stop_node(node_id))

    def kill_node(self, node_id: int) -> None:
        """Kill a node, as a power failure would.

        Other nodes become leaders when its session expires, `broker.session.timeout.ms` (9 seconds) later by the
        cluster's clock. Raises: KafkaError if it is down.
        """
        self.run(lambda server: server.require_started().kill_node(node_id))

    def start_node(self, node_id: int) -> None:
        """Start a node again, at its previous addresses, with its logs and without its memory.

        Raises: KafkaError if it is running, OSError if an address is in use by now.
        """
        self._await(self._running().require_started().start_node(node_id))

    def move_leader(self, topic: str, partition: int, *, to: int | None = None) -> None:
        """Make another in-sync replica the leader of a partition; coordinators move with those of internal topics.

        Without `to`, the first in-sync replica that does not lead. Raises: KafkaError if there is none, or if `to` is
        not an in-sync replica or leads already.
        """
        self.run(lambda server: server.core.move_leader(topic, partition, server.clock.now_ms(), to=to))

    def coordinator(self, key: str, *, kind: CoordinatorName = "group") -> int:
        """The node that coordinates a group or a transactional id; its internal topic is created on first use."""
        return self.run(lambda server: server.core.state.metadata.coordinator_id(_KINDS[kind], key))

    def move_coordinator(self, key: str, *, kind: CoordinatorName = "group", to: int | None = None) -> None:
        """Make another node the coordinator of a group or a transactional id; it loads what it coordinates.

        The leader of the partition of the internal topic moves, and with it everything else in this partition.
        Raises: as `move_leader`.
        """

        def move(server: Server) -> None:
            metadata = server.core.state.metadata
            index = metadata.coordinator_partition_index(_KINDS[kind], key)
            topic = metadata.internal_topic(_KINDS[kind]).name
            server.core.move_leader(topic, index, server.clock.now_ms(), to=to)

        self.run(move)
