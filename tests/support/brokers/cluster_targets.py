"""The cluster of a `ClusterWorkload`: a mock cluster with its own clock, or Apache Kafka."""

from __future__ import annotations

from contextlib import suppress
from typing import Protocol

from kwire import Client
from kwire.messages.metadata import MetadataRequest
from mockbroker import Cluster
from mockbroker.kafka_error import KafkaError
from mockbroker.server import Server
from tests.nodes.real_cluster import RealCluster
from tests.nodes.scenario_client import wait_in_real_time
from tests.support.brokers.captured_share_members import Member
from tests.support.brokers.share_workload import MockTarget, wait_until


class ClusterTarget(Protocol):
    """Brokers by id, and the operations on them."""

    addresses: dict[int, str]

    def advance(self, duration_ms: int) -> None:
        """Advance the clock, or wait."""

    def now_ms(self) -> int:
        """The time of the brokers' clock."""

    def wait_for_disconnect(self, node: int, member: Member) -> None:
        """Return when a node has processed the end of a member's connection."""

    def move_leader(self, topic: str, partition: int, *, to: int) -> None:
        """Make another replica the leader, if possible."""

    def stop(self, node: int) -> None:
        """Shut a node down."""

    def kill(self, node: int) -> None:
        """Kill a node; return when the other nodes have detected it."""

    def start(self, node: int) -> None:
        """Start a node again."""

    def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic."""


class MockClusterTarget(MockTarget):
    """A mock cluster."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        first = cluster.run(lambda server: min(server.core.state.nodes))
        self.addresses = dict(enumerate(cluster.bootstrap_servers.split(","), first))
        self.now_ms = cluster.clock.now_ms
        self.stop, self.start, self.create_topic = cluster.stop_node, cluster.start_node, cluster.create_topic

    def wait_for_disconnect(self, node: int, member: Member) -> None:  # type: ignore[override]
        """Poll the share session, which is closed with the connection."""

        def is_session_closed(server: Server) -> bool:
            node_state = server.core.state.nodes.get(node)
            return node_state is None or node_state.share_sessions.get(member.group, member.member_id) is None

        wait_until(lambda: self.cluster.run(is_session_closed))

    def move_leader(self, topic: str, partition: int, *, to: int) -> None:
        """Move the leader immediately."""
        with suppress(KafkaError):
            self.cluster.move_leader(topic, partition, to=to)

    def kill(self, node: int) -> None:
        """Kill the node, and wait until its broker session has ended after 9 s."""
        self.cluster.kill_node(node)
        self.advance(10_000)


class KafkaClusterTarget:
    """The brokers of `start-cluster`, whose state cannot be polled: the methods wait in real time."""

    def __init__(self, cluster: RealCluster, addresses: dict[int, str]) -> None:
        self.cluster, self.addresses = cluster, addresses

    def advance(self, duration_ms: int) -> None:
        """Wait in real time."""
        wait_in_real_time(duration_ms / 1000)

    def now_ms(self) -> int:
        """The time of the machine."""
        return self.cluster.time_ms()

    def wait_for_disconnect(self, node: int, member: Member) -> None:
        """Wait until the end of the connection is read, and released records are written."""
        wait_in_real_time(0.3)

    def move_leader(self, topic: str, partition: int, *, to: int) -> None:
        """Move the leader by an election on node 0, if it runs, and wait until all brokers have the result."""
        with suppress(OSError):
            self.cluster.move_leader(topic, partition, to)
        wait_in_real_time(0.5)

    def stop(self, node: int) -> None:
        """Send SIGTERM."""
        self.cluster.stop(node)
        wait_in_real_time(0.5)

    def kill(self, node: int) -> None:
        """Send SIGKILL."""
        self.cluster.kill(node)
        wait_in_real_time(5)

    def start(self, node: int) -> None:
        """Start the node, and wait until it responds and the other nodes list it."""
        self.cluster.start(node)
        other = next(address for node_id, address in self.addresses.items() if node_id != node)

        def is_listed() -> bool:
            try:
                with Client(self.addresses[node]), Client(other) as client:
                    return node in {broker.node_id for broker in client.send(MetadataRequest(topics=[])).brokers}
            except OSError:
                wait_in_real_time(0.2)
                return False

        wait_until(is_listed)
        wait_in_real_time(2)  # Until its replicas are in sync.

    def create_topic(self, name: str, partitions: int) -> None:
        """Not supported: the topics exist before the workload."""
        raise NotImplementedError
