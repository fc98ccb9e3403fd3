"""The controller, and the power switches of the brokers: who is alive, who leads, who takes over what.

`cluster.nodes` is the controller's image: the brokers that clients are told of. `cluster.calls.nodes` are those that
run and can be reached. A broker that was killed stays in the image until its session ends, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state import leadership

if TYPE_CHECKING:
    from mockbroker.context import ClusterState
    from mockbroker.node import Node
    from mockbroker.state.topics import Topic


class Controller:
    """Decides, at once and alone, what Kafka's controller quorum would agree on.

    make_node: a broker of this id with empty rooms, as after its start.
    """

    def __init__(self, cluster: ClusterState, make_node: Callable[[int], Node]) -> None:
        self._cluster = cluster
        self._make_node = make_node

    def node(self, node_id: int) -> Node:
        """A broker that runs.

        Raises: BROKER_NOT_AVAILABLE.
        """
        node = self._cluster.calls.nodes.get(node_id)
        if node is None:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"node {node_id} is not running")
        return node

    def shut_down(self, node_id: int, *, now_ms: int) -> None:
        """First half of a clean stop: what the broker leads goes to others while it still answers (KIP-631)."""
        self.node(node_id)
        self._fence(node_id, now_ms=now_ms)

    def power_off(self, node_id: int, *, now_ms: int) -> None:
        """The broker is gone with all that it had in memory; the image notices when its session ends."""
        node = self.node(node_id)
        del self._cluster.calls.nodes[node_id]
        node.close()
        if node_id in self._cluster.metadata.fenced:
            return

        def session_over(at_ms: int) -> None:
            if self._cluster.nodes.get(node_id) is node:
                self._fence(node_id, now_ms=at_ms)

        session_ms = self._cluster.config.integer("broker.session.timeout.ms")
        self._cluster.calls.later(session_ms, session_over, now_ms=now_ms)

    def power_on(self, node_id: int, *, now_ms: int) -> Node:
        """The broker starts with empty rooms and registers; its replicas are in sync at once.

        Raises: BROKER_ID_NOT_REGISTERED for a node that the cluster never had, DUPLICATE_BROKER_REGISTRATION when it
        runs already.
        """
        cluster = self._cluster
        if node_id not in cluster.metadata.node_ids:
            raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"the cluster has no node {node_id}")
        if node_id in cluster.calls.nodes:
            raise KafkaError(ErrorCode.DUPLICATE_BROKER_REGISTRATION, f"node {node_id} is running already")
        if node_id not in cluster.metadata.fenced:
            # It is back before anybody noticed; its registration ends the session of its former life.
            self._fence(node_id, now_ms=now_ms)
        node = self._make_node(node_id)
        for nodes in (cluster.nodes, cluster.calls.nodes):
            others = dict(nodes)
            nodes.clear()
            nodes.update(sorted([*others.items(), (node_id, node)]))
        leadership.unfence(cluster.metadata, node_id, least_in_sync=self._least_in_sync())
        self._hand_over(now_ms=now_ms)
        return node

    def move_leader(self, topic: str, partition_index: int, *, to: int, now_ms: int) -> None:
        """Have another in-sync replica lead a partition, and coordinate what belongs to it. Raises: see leadership."""
        leadership.move_leader(self._cluster.metadata, topic, partition_index, to=to)
        self._hand_over(now_ms=now_ms)

    def _fence(self, node_id: int, *, now_ms: int) -> None:
        self._cluster.nodes.pop(node_id, None)
        leadership.fence(self._cluster.metadata, node_id, least_in_sync=self._least_in_sync())
        self._hand_over(now_ms=now_ms)

    def _least_in_sync(self) -> leadership.LeastInSync | None:
        """How many replicas of a topic have to be in sync, if who falls out may be an eligible leader (KIP-966)."""
        if self._cluster.features.get("eligible.leader.replicas.version", 0) < 1:
            return None

        def least(topic: Topic) -> int:
            value = self._cluster.configs.topic(topic.name)["min.insync.replicas"]
            assert isinstance(value, int)
            return value

        return least

    def _hand_over(self, *, now_ms: int) -> None:
        """After an election every coordinator has what it coordinates now."""
        for node in self._cluster.calls.nodes.values():
            node.take_over(now_ms=now_ms)
