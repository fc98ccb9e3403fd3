"""The controller, and the power switches of the brokers: who is alive, who leads, who takes over what.

`cluster.nodes` is the controller's image: the brokers that clients are told of. `cluster.calls.nodes` are those that
run and can be reached. A broker that was killed stays in the image until its session ends, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from msgspec import structs

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state import leadership
from mockbroker.state.configs import Resource, ResourceKind
from mockbroker.state.leadership import NO_LEADER, Election, Rules
from mockbroker.state.logs import min_in_sync

if TYPE_CHECKING:
    from mockbroker.context import ClusterState
    from mockbroker.node import Node
    from mockbroker.state.logs import LogStore
    from mockbroker.state.topics import Partition, Topic

_LEAST = "min.insync.replicas"


class Controller:
    """Decides, at once and alone, what Kafka's controller quorum would agree on.

    make_node: a broker of this id with empty rooms, as after its start. clock: milliseconds of the cluster's clock.
    fenced: the brokers that are registered, and out of the image until they are back.
    """

    def __init__(
        self, cluster: ClusterState, store: LogStore, make_node: Callable[[int], Node], *, clock: Callable[[], int]
    ) -> None:
        self._cluster = cluster
        self._store = store
        self._make_node = make_node
        self._clock = clock
        self._crashed: set[int] = set()
        self._unregistered: set[int] = set()
        self.fenced: dict[int, Node] = {}
        self._visits: set[str] = set()
        self.rules = Rules(
            has_elr=self._has_elr(),
            least_in_sync=self._least_in_sync,
            may_be_unclean=self._may_be_unclean,
        )
        cluster.configs.watch(self._configured)

    # Power switches.

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
        self._store.node_down(node_id)
        node.close()
        if node_id in self._cluster.metadata.fenced:
            self._store.settle()
            return
        self._crashed.add(node_id)
        self._store.settle()

        def session_over(at_ms: int) -> None:
            if self._cluster.nodes.get(node_id) is node:
                self._fence(node_id, now_ms=at_ms)

        session_ms = self._cluster.config.integer("broker.session.timeout.ms")
        self._cluster.calls.later(session_ms, session_over, now_ms=now_ms)

    def power_on(self, node_id: int, *, now_ms: int) -> Node:
        """The broker starts with empty rooms and registers; its replicas are in sync at once where somebody leads.

        Raises: BROKER_ID_NOT_REGISTERED for a node that the cluster never had, DUPLICATE_BROKER_REGISTRATION when it
        runs already.
        """
        cluster = self._cluster
        if node_id in self._unregistered and node_id not in cluster.calls.nodes:
            self._unregistered.discard(node_id)
            cluster.metadata.node_ids = tuple(sorted([*cluster.metadata.node_ids, node_id]))
        if node_id not in cluster.metadata.node_ids and node_id not in self._unregistered:
            raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"the cluster has no node {node_id}")
        if node_id in cluster.calls.nodes:
            raise KafkaError(ErrorCode.DUPLICATE_BROKER_REGISTRATION, f"node {node_id} is running already")
        has_crashed = node_id in self._crashed
        if node_id not in cluster.metadata.fenced or has_crashed:
            # Perhaps it is back before anybody noticed; its registration ends the session of its former life.
            self._fence(node_id, now_ms=now_ms, has_crashed=has_crashed)
        self._crashed.discard(node_id)
        self.fenced.pop(node_id, None)
        node = self._make_node(node_id)
        for nodes in (cluster.nodes, cluster.calls.nodes):
            others = dict(nodes)
            nodes.clear()
            nodes.update(sorted([*others.items(), (node_id, node)]))
        self._store.node_up(node_id)
        leadership.unfence(cluster.metadata, node_id, self.rules)
        self.settle(now_ms=now_ms)
        return node

    def unregister(self, node_id: int, *, now_ms: int) -> None:
        """Strike a broker off the image, also one that runs: it is nobody's replica in sync until it starts again.

        Raises: BROKER_ID_NOT_REGISTERED. Source: Kafka's ReplicationControlManager.unregisterBroker.
        """
        metadata = self._cluster.metadata
        if node_id not in metadata.node_ids:
            raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {node_id} is not currently registered")
        self._unregistered.add(node_id)
        metadata.node_ids = tuple(other for other in metadata.node_ids if other != node_id)
        if node_id in self._cluster.nodes:
            self._fence(node_id, now_ms=now_ms)
        self.fenced.pop(node_id, None)

    def _fence(self, node_id: int, *, now_ms: int, has_crashed: bool = False) -> None:
        node = self._cluster.nodes.pop(node_id, None)
        if node is not None:
            self.fenced[node_id] = node
        leadership.fence(self._cluster.metadata, node_id, self.rules, has_crashed=has_crashed)
        self.settle(now_ms=now_ms)

    # Elections.

    def move_leader(self, topic: str, partition_index: int, *, to: int, now_ms: int) -> None:
        """Have another in-sync replica lead a partition, and coordinate what belongs to it. Raises: see leadership."""
        leadership.move_leader(self._cluster.metadata, topic, partition_index, to=to)
        self.settle(now_ms=now_ms)

    def settle(self, *, now_ms: int) -> None:
        """After elections: replicas follow their leaders, and coordinators begin to load what they coordinate now."""
        leadership.expand(self._cluster.metadata, self.rules, running=self._cluster.calls.nodes)
        self._store.settle()
        for node in list(self._cluster.calls.nodes.values()):
            node.take_over(now_ms=now_ms)
        self._plan_visits(now_ms=now_ms)

    def _plan_visits(self, *, now_ms: int) -> None:
        """Have a look at leaders later, as long as there is one who should not be, or one missing.

        Source: the tasks electPreferred and electUnclean of Kafka's QuorumController. Kafka looks all the time, we only
        while there is something to find; how long after the cause it comes is left to chance there.
        """
        config = self._cluster.config
        if config.flag("auto.leader.rebalance.enable") and any(self._find(self._is_imbalanced)):
            interval_ms = 1000 * config.integer("leader.imbalance.check.interval.seconds")
            self._visit("electPreferred", interval_ms, Election.PREFERRED, self._is_imbalanced, now_ms=now_ms)
        if any(self._find(self._needs_any_leader)):
            interval_ms = config.integer("unclean.leader.election.interval.ms")
            self._visit("electUnclean", interval_ms, Election.UNCLEAN, self._needs_any_leader, now_ms=now_ms)

    def _visit(
        self,
        name: str,
        interval_ms: int,
        election: Election,
        concerns: Callable[[Topic, Partition], bool],
        *,
        now_ms: int,
    ) -> None:
        if name in self._visits:
            return
        self._visits.add(name)

        def visit(at_ms: int) -> None:
            self._visits.discard(name)
            for topic, partition in list(self._find(concerns)):
                wish = leadership.Wish.of(partition)
                leadership.change(self._cluster.metadata, topic, partition, wish, self.rules, election=election)
            self.settle(now_ms=at_ms)

        self._cluster.calls.later(interval_ms, visit, now_ms=now_ms)

    def _find(self, concerns: Callable[[Topic, Partition], bool]) -> Iterator[tuple[Topic, Partition]]:
        for topic in self._cluster.metadata.topics():
            for partition in topic.partitions:
                if concerns(topic, partition):
                    yield topic, partition

    def _is_imbalanced(self, topic: Topic, partition: Partition) -> bool:
        preferred = partition.replicas[0]
        return partition.leader not in (preferred, NO_LEADER) and preferred in partition.isr

    def _needs_any_leader(self, topic: Topic, partition: Partition) -> bool:
        return (
            partition.leader == NO_LEADER
            and not self._cluster.metadata.fenced.issuperset(partition.replicas)
            and self._may_be_unclean(topic)
        )

    # Configuration.

    def levels_changed(self) -> None:
        """Feature levels are others now."""
        self.rules = structs.replace(self.rules, has_elr=self._has_elr())

    def _has_elr(self) -> bool:
        return self._cluster.features.get("eligible.leader.replicas.version", 0) >= 1

    def _least_in_sync(self, topic: Topic) -> int:
        return min_in_sync(self._cluster.configs.topic(topic.name), topic.replication_factor)

    def _may_be_unclean(self, topic: Topic) -> bool:
        return bool(self._cluster.configs.topic(topic.name)["unclean.leader.election.enable"])

    def _configured(self, resource: Resource, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        """Another minimum makes nobody eligible any more (KIP-966); live followers let the high watermark go on."""
        metadata = self._cluster.metadata
        if before.get(_LEAST) != after.get(_LEAST) and resource.kind is not ResourceKind.GROUP:
            for topic in metadata.topics():
                if resource.kind is ResourceKind.BROKER or topic.name == resource.name:
                    for partition in topic.partitions:
                        partition.elr = partition.last_known_elr = ()
            self._store.settle(only_followed=True)
        self._plan_visits(now_ms=self._clock())
