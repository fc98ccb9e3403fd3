"""Methods of `Cluster` that stop, kill, start, pause, resume and add nodes, and move leaders."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from mockbroker.cluster_methods.cluster_thread import ClusterThread
from mockbroker.state.metadata.topics import CoordinatorKind

if TYPE_CHECKING:
    from mockbroker.broker.node_views import NodeView
    from mockbroker.config.kafka_versions import VersionsOption
    from mockbroker.server import Server

#: How long a node is down in a restart by default, milliseconds. Clients connect again 20 to 100 ms after a connection
#: has ended, then more and more rarely, up to once in a second or two: some miss a node that is back sooner.
RESTART_MS = 1_000
CoordinatorName = Literal["group", "transaction"]
_KINDS = MappingProxyType({"group": CoordinatorKind.GROUP, "transaction": CoordinatorKind.TRANSACTION})


class NodeMethods(ClusterThread):
    """Nodes of a running cluster, by their ids."""

    def nodes(self) -> list[NodeView]:
        """All nodes by their ids, with their state and addresses; those that are down are in the list too."""
        from mockbroker.broker.node_views import node_views

        return self._read(lambda server: node_views(server.core.state, server.nodes))

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
        self.run(lambda server: server.require_started().start_node(node_id))

    def restart_node(self, node_id: int, *, after_ms: int = RESTART_MS, kill: bool = False) -> None:
        """Stop a node, or kill it, and start it again so much later by the cluster's clock. Returns at once.

        By default after a second, in which clients notice that it is down: `start_node` just after `stop_node` takes
        20 ms, and some clients see no more than a lost connection. `wait_for_node` waits for its return.
        Raises: KafkaError if it is down, ValueError for a negative time.
        """
        self.run(_restart_node(node_id, after_ms, kill=kill))

    def pause_node(self, node_id: int) -> None:
        """Let a node stand still, as SIGSTOP does: its connections stay open, and nothing is read, sent or timed.

        New connections to it are completed by the operating system and not answered. Other nodes become leaders when
        its session expires, `broker.session.timeout.ms` (9 seconds) later by the cluster's clock. Raises: KafkaError if
        it is down or paused.
        """
        self.run(lambda server: server.require_started().pause_node(node_id))

    def resume_node(self, node_id: int) -> None:
        """Let a paused node go on: first its deadlines that have passed, then all requests that clients have sent.

        Raises: KafkaError if it is not paused.
        """
        self.run(lambda server: server.require_started().resume_node(node_id))

    def add_node(self) -> int:
        """Start one more node, which new topics can have partitions on, and reassignments can move partitions to.

        It listens at the port after that of the last node, or at a free one if the ports are free ones; `reset` removes
        it. Returns: its id. Raises: ConfigError if the cluster has 100 nodes, OSError if an address is in use.
        """
        return self.run(lambda server: server.add_node())

    def set_node_versions(self, node_id: int, versions: VersionsOption | None) -> None:
        """Let a node serve the API versions of an older Kafka from now on, "2.8" or {"Produce": 8}; None: all of them.

        Connections that are open keep theirs: for an upgrade, stop the node before, and start it after. Raises:
        ConfigError for an unknown release, API or version, KafkaError for an unknown node.
        """
        self.run(_set_versions(node_id, versions))

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

        self.run(_move_coordinator(key, kind, to))


class AsyncNodes:
    """The methods of `Cluster` for nodes as coroutines, in `cluster.aio`: arguments and errors are the same."""

    def __init__(self, cluster: ClusterThread) -> None:
        self._node_thread = cluster

    async def stop_node(self, node_id: int) -> None:
        """As `Cluster.stop_node`."""
        await self._node_thread.run_async(lambda server: server.require_started().stop_node(node_id))

    async def kill_node(self, node_id: int) -> None:
        """As `Cluster.kill_node`."""
        await self._node_thread.run_async(lambda server: server.require_started().kill_node(node_id))

    async def start_node(self, node_id: int) -> None:
        """As `Cluster.start_node`."""
        await self._node_thread.run_async(lambda server: server.require_started().start_node(node_id))

    async def restart_node(self, node_id: int, *, after_ms: int = RESTART_MS, kill: bool = False) -> None:
        """As `Cluster.restart_node`."""
        await self._node_thread.run_async(_restart_node(node_id, after_ms, kill=kill))

    async def pause_node(self, node_id: int) -> None:
        """As `Cluster.pause_node`."""
        await self._node_thread.run_async(lambda server: server.require_started().pause_node(node_id))

    async def resume_node(self, node_id: int) -> None:
        """As `Cluster.resume_node`."""
        await self._node_thread.run_async(lambda server: server.require_started().resume_node(node_id))

    async def add_node(self) -> int:
        """As `Cluster.add_node`."""
        return await self._node_thread.run_async(lambda server: server.add_node())

    async def set_node_versions(self, node_id: int, versions: VersionsOption | None) -> None:
        """As `Cluster.set_node_versions`."""
        await self._node_thread.run_async(_set_versions(node_id, versions))

    async def move_leader(self, topic: str, partition: int, *, to: int | None = None) -> None:
        """As `Cluster.move_leader`."""
        await self._node_thread.run_async(
            lambda server: server.core.move_leader(topic, partition, server.clock.now_ms(), to=to)
        )

    async def move_coordinator(self, key: str, *, kind: CoordinatorName = "group", to: int | None = None) -> None:
        """As `Cluster.move_coordinator`."""
        await self._node_thread.run_async(_move_coordinator(key, kind, to))


def _restart_node(node_id: int, after_ms: int, *, kill: bool) -> Callable[[Server], None]:
    from mockbroker.net.node_restarts import restart_node

    return lambda server: restart_node(server.require_started(), node_id, after_ms=after_ms, is_abrupt=kill)


def _set_versions(node_id: int, versions: VersionsOption | None) -> Callable[[Server], None]:
    from mockbroker.config.kafka_versions import parse_versions
    from mockbroker.engine.node_versions import limit_node

    limits = None if versions is None else parse_versions(versions)
    return lambda server: limit_node(server.core, node_id, limits)


def _move_coordinator(key: str, kind: CoordinatorName, to: int | None) -> Callable[[Server], None]:
    def move(server: Server) -> None:
        metadata = server.core.state.metadata
        index = metadata.coordinator_partition_index(_KINDS[kind], key)
        topic = metadata.internal_topic(_KINDS[kind]).name
        server.core.move_leader(topic, index, server.clock.now_ms(), to=to)

    return move
