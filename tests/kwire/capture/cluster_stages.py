"""Where `cluster_play.py` is played: a cluster of ours, whose clock is moved, or a real one."""

from __future__ import annotations

from contextlib import suppress
from typing import Protocol

from kwire import Client
from kwire.messages.metadata import MetadataRequest
from mockbroker import Cluster
from mockbroker.kafka_error import KafkaError
from mockbroker.server import Server
from tests.kwire.capture.share_kit import Member
from tests.kwire.capture.share_play import MockStage, until
from tests.nodes.record import RealCluster
from tests.nodes.teller import let_pass


class ClusterStage(Protocol):
    """Brokers by their ids, and what may happen to them."""

    addresses: dict[int, str]

    def advance(self, duration_ms: int) -> None:
        """Let time pass."""

    def now_ms(self) -> int:
        """The brokers' clock."""

    def until_gone(self, node: int, member: Member) -> None:
        """Return when a node knows that a member's connection has ended."""

    def move(self, topic: str, partition: int, *, to: int) -> None:
        """Have another replica lead, if it can."""

    def stop(self, node: int) -> None:
        """End a node in good order."""

    def kill(self, node: int) -> None:
        """End a node at once; return when the others know."""

    def start(self, node: int) -> None:
        """Start it again."""

    def create_topic(self, name: str, partitions: int) -> None:
        """Make a topic."""


class MockClusterStage(MockStage):
    """A cluster of ours."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        first = cluster.run(lambda server: min(server.core.state.nodes))
        self.addresses = dict(enumerate(cluster.bootstrap_servers.split(","), first))

    def now_ms(self) -> int:
        """By the cluster's clock."""
        return self.cluster.clock.now_ms()

    def until_gone(self, node: int, member: Member) -> None:  # type: ignore[override]
        """The session goes with the connection."""

        def is_gone(server: Server) -> bool:
            found = server.core.state.nodes.get(node)
            return found is None or found.share_sessions.get(member.group, member.member_id) is None

        until(lambda: self.cluster.run(is_gone))

    def move(self, topic: str, partition: int, *, to: int) -> None:
        """At once."""
        with suppress(KafkaError):
            self.cluster.move_leader(topic, partition, to=to)

    def stop(self, node: int) -> None:
        """Others lead first."""
        self.cluster.stop_node(node)

    def kill(self, node: int) -> None:
        """Its session ends 9 s later."""
        self.cluster.kill_node(node)
        self.advance(10_000)

    def start(self, node: int) -> None:
        """At its old address."""
        self.cluster.start_node(node)

    def create_topic(self, name: str, partitions: int) -> None:
        """As CreateTopics does."""
        self.cluster.create_topic(name, partitions)


class RealClusterStage:
    """The brokers of `start-cluster`, which nobody can look into: what is awaited is given real time."""

    def __init__(self, cluster: RealCluster, addresses: dict[int, str]) -> None:
        self.cluster, self.addresses = cluster, addresses

    def advance(self, duration_ms: int) -> None:
        """Wait."""
        let_pass(duration_ms / 1000)

    def now_ms(self) -> int:
        """By the machine's clock."""
        return self.cluster.time_ms()

    def until_gone(self, node: int, member: Member) -> None:
        """A moment is enough to read the end of a connection, and to write what it releases."""
        let_pass(0.3)

    def move(self, topic: str, partition: int, *, to: int) -> None:
        """By an election, behind which all brokers need a moment; node 0 is asked for it, if it is there."""
        with suppress(OSError):
            self.cluster.move(topic, partition, to)
        let_pass(0.5)

    def stop(self, node: int) -> None:
        """By SIGTERM."""
        self.cluster.stop(node)
        let_pass(0.5)

    def kill(self, node: int) -> None:
        """By SIGKILL."""
        self.cluster.kill(node)
        let_pass(5)

    def start(self, node: int) -> None:
        """Until it answers, and is known to the others."""
        self.cluster.start(node)
        other = next(address for each, address in self.addresses.items() if each != node)

        def is_back() -> bool:
            try:
                with Client(self.addresses[node]), Client(other) as client:
                    return node in {broker.node_id for broker in client.send(MetadataRequest(topics=[])).brokers}
            except OSError:
                let_pass(0.2)
                return False

        until(is_back)
        let_pass(2)  # Its replicas catch up.

    def create_topic(self, name: str, partitions: int) -> None:
        """Made beforehand."""
        raise NotImplementedError
