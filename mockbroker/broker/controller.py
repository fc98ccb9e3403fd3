"""The controller of the cluster: broker registration, fencing, leader elections, starting and stopping brokers.

`cluster.nodes` is the controller's image: the brokers that Metadata responses list. `cluster.inter_broker.nodes` are
the brokers that run and can be reached. A killed broker stays in the image until its session ends, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from itertools import starmap
from typing import TYPE_CHECKING

from msgspec import structs

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.log.subjects import NODES
from mockbroker.state.metadata import leadership
from mockbroker.state.metadata.configs import EffectiveConfig, Resource, ResourceKind
from mockbroker.state.metadata.leadership import NO_LEADER, ElectionRules, ElectionType, PlannedChange
from mockbroker.state.storage.log_store import min_in_sync

if TYPE_CHECKING:
    from mockbroker.broker.node import Node
    from mockbroker.cluster_services.cluster_services import ClusterServices
    from mockbroker.state.metadata.cluster_image import ClusterImage
    from mockbroker.state.metadata.topics import Partition, Topic, TopicPartitionKey, TopicPartitions
    from mockbroker.state.replication.leader_replicas import IsrChange
    from mockbroker.state.storage.log_store import ClusterLogs

    PartitionCheck = Callable[[Topic, Partition], bool]

_MIN_INSYNC = "min.insync.replicas"


class Controller:
    """Decides at once and alone what Kafka's controller quorum would agree on.

    nodes: the image, changed here. make_node: creates a broker with this id, without any loaded state. clock:
    milliseconds of the cluster's clock. fenced: the registered brokers that are out of the image until they restart.
    """

    def __init__(
        self,
        cluster: ClusterServices[Node],
        nodes: dict[int, Node],
        store: ClusterLogs,
        make_node: Callable[[int], Node],
        *,
        clock: Callable[[], int],
    ) -> None:
        self._cluster = cluster
        self._nodes = nodes
        self._store = store
        self._make_node = make_node
        self._clock = clock
        self._crashed: set[int] = set()
        self._unregistered: set[int] = set()
        self.fenced: dict[int, Node] = {}
        self._scheduled_elections: set[ElectionType] = set()
        self._sessions: dict[int, object] = {}
        self.rules = ElectionRules(
            has_elr=self._has_elr(), least_in_sync=self._least_in_sync, may_be_unclean=self._may_be_unclean
        )
        cluster.configs.add_listener(self._on_config_change)

    # Starting and stopping brokers.

    def running_node(self, node_id: int) -> Node:
        """A broker that runs. Raises: BROKER_NOT_AVAILABLE when it is down or paused."""
        if node_id in self._cluster.inter_broker.paused:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"node {node_id} is paused")
        return self.started_node(node_id)

    def started_node(self, node_id: int) -> Node:
        """A broker that runs or is paused. Raises: BROKER_NOT_AVAILABLE when it is down."""
        node = self._cluster.inter_broker.nodes.get(node_id)
        if node is None:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"node {node_id} is not running")
        return node

    def start_controlled_shutdown(self, node_id: int, *, now_ms: int) -> None:
        """First half of a clean stop: other brokers take over its partitions while it still answers (KIP-631)."""
        self.running_node(node_id)
        self._cluster.metadata.in_controlled_shutdown.add(node_id)
        self._fence(node_id, now_ms=now_ms)

    def stop_broker(self, node_id: int, *, now_ms: int) -> None:
        """End a broker and lose its memory; unless it is fenced, it stays in the image until its session expires."""
        node, channel = self.started_node(node_id), self._cluster.inter_broker
        was_paused = node_id in channel.paused
        _log_node(node_id, "has ended")
        if was_paused:
            channel.resume(node_id, now_ms=now_ms)  # Its callers notice that the connection has ended.
        del channel.nodes[node_id]
        self._store.mark_node_down(node_id)
        node.close()
        self._store.update_replicas()
        if was_paused or node_id not in self._cluster.metadata.fenced:
            self._crashed.add(node_id)
        if not was_paused and node_id not in self._cluster.metadata.fenced:
            self._start_session_timer(node, now_ms=now_ms)

    def _start_session_timer(self, node: Node, *, now_ms: int) -> None:
        """Fence a broker that sends no heartbeats any more when its session expires, unless it registers before."""
        node_id, session = node.node_id, object()
        self._sessions[node_id] = session

        def expire_session(at_ms: int) -> None:
            if self._nodes.get(node_id) is node and self._sessions.get(node_id) is session:
                _log_node(node_id, "is fenced, as its session has expired")
                self._fence(node_id, now_ms=at_ms)

        session_ms = self._cluster.config.integer("broker.session.timeout.ms")
        self._cluster.inter_broker.schedule(session_ms, expire_session, now_ms=now_ms, owner=None)

    def pause_broker(self, node_id: int, *, now_ms: int) -> None:
        """A broker's process stands still: its replicas do not follow, and its session expires.

        Raises: BROKER_NOT_AVAILABLE when it does not run, or is paused already.
        """
        node = self.running_node(node_id)
        _log_node(node_id, "is paused")
        self._cluster.inter_broker.pause(node_id)
        self._store.mark_node_down(node_id)
        self._store.update_replicas()
        if node_id not in self._cluster.metadata.fenced:
            self._start_session_timer(node, now_ms=now_ms)

    def resume_broker(self, node_id: int, *, now_ms: int) -> None:
        """A paused broker runs on, with its memory; if its session has expired, it is registered again.

        Raises: BROKER_NOT_AVAILABLE when it is not paused.
        """
        cluster = self._cluster
        if node_id not in cluster.inter_broker.paused:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, f"node {node_id} is not paused")
        _log_node(node_id, "goes on")
        self._sessions.pop(node_id, None)
        self._store.mark_node_up(node_id)
        cluster.inter_broker.resume(node_id, now_ms=now_ms)
        node = self.fenced.pop(node_id, None)
        if node is not None:
            _insert(self._nodes, node)
            leadership.unfence_broker(cluster.metadata, node_id, self.rules)
        self.apply_leader_changes(now_ms=now_ms)

    @property
    def next_node_id(self) -> int:
        """The id above those of all brokers that the cluster ever had."""
        return max([*self._cluster.metadata.node_ids, *self._unregistered]) + 1

    def add_broker(self, *, now_ms: int) -> Node:
        """Register and start a broker that the cluster never had, with the next free id. It has no partition yet."""
        metadata, node_id = self._cluster.metadata, self.next_node_id
        metadata.node_ids = (*metadata.node_ids, node_id)
        node = self._make_node(node_id)
        _log_node(node_id, "was added")
        self._cluster.inter_broker.nodes[node_id] = node
        _insert(self._nodes, node)
        self.apply_leader_changes(now_ms=now_ms)
        return node

    def start_broker(self, node_id: int, *, now_ms: int) -> Node:
        """Start and register a broker without loaded state; its replicas are in sync at once where there is a leader.

        Raises: BROKER_ID_NOT_REGISTERED for a node that the cluster never had, DUPLICATE_BROKER_REGISTRATION when it
        is already running.
        """
        cluster = self._cluster
        if node_id in self._unregistered and node_id not in cluster.inter_broker.nodes:
            self._unregistered.discard(node_id)
            cluster.metadata.node_ids = tuple(sorted([*cluster.metadata.node_ids, node_id]))
        if node_id not in cluster.metadata.node_ids and node_id not in self._unregistered:
            raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"the cluster has no node {node_id}")
        if node_id in cluster.inter_broker.nodes:
            raise KafkaError(ErrorCode.DUPLICATE_BROKER_REGISTRATION, f"node {node_id} is running already")
        has_crashed = node_id in self._crashed
        if node_id not in cluster.metadata.fenced or has_crashed:
            # It may restart before its session has expired; its registration ends that session.
            self._fence(node_id, now_ms=now_ms, has_crashed=has_crashed)
        self._crashed.discard(node_id)
        self.fenced.pop(node_id, None)
        node = self._make_node(node_id)
        _log_node(node_id, "has started again")
        for nodes in (self._nodes, cluster.inter_broker.nodes):
            _insert(nodes, node)
        self._store.mark_node_up(node_id)
        leadership.unfence_broker(cluster.metadata, node_id, self.rules)
        self.apply_leader_changes(now_ms=now_ms)
        return node

    def unregister(self, node_id: int, *, now_ms: int) -> None:
        """Unregister a broker, even a running one: its replicas are out of sync until it starts again.

        Raises: BROKER_ID_NOT_REGISTERED. Source: Kafka's ReplicationControlManager.unregisterBroker.
        """
        metadata = self._cluster.metadata
        if node_id not in metadata.node_ids:
            raise KafkaError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {node_id} is not currently registered")
        self._unregistered.add(node_id)
        metadata.node_ids = tuple(other for other in metadata.node_ids if other != node_id)
        if node_id in self._nodes:
            self._fence(node_id, now_ms=now_ms)
        self.fenced.pop(node_id, None)

    def _fence(self, node_id: int, *, now_ms: int, has_crashed: bool = False) -> None:
        node = self._nodes.pop(node_id, None)
        if node is not None:
            self.fenced[node_id] = node
        leadership.fence_broker(self._cluster.metadata, node_id, self.rules, has_crashed=has_crashed)
        self.apply_leader_changes(now_ms=now_ms)

    # Elections.

    def move_leader(self, topic: str, partition_index: int, *, to: int | None, now_ms: int) -> None:
        """Move a partition to another in-sync leader, with what it coordinates. Raises: see leadership."""
        metadata = self._cluster.metadata
        leadership.move_leader(metadata, topic, partition_index, to=to)
        self.apply_leader_changes([leadership.find_partition(metadata, topic, partition_index)], now_ms=now_ms)

    def alter_isr(self, node_id: int, key: TopicPartitionKey, change: IsrChange, now_ms: int) -> ErrorCode:
        """Change the ISR of a partition as its leader requests. Returns: the error, which the leader is answered."""
        metadata = self._cluster.metadata
        try:
            changed = leadership.alter_isr(metadata, key, node_id, change, self.rules)
        except KafkaError as error:
            return error.code
        self.apply_leader_changes([changed], now_ms=now_ms)
        return ErrorCode.NONE

    def apply_changes(self, planned: Collection[PlannedChange], *, now_ms: int) -> None:
        """Change partitions as a request has planned it."""
        for each in planned:
            leadership.apply_change(self._cluster.metadata, each)
        changed = {(each.topic.topic_id, each.partition.index): (each.topic, each.partition) for each in planned}
        if changed:
            self.apply_leader_changes(changed.values(), now_ms=now_ms)

    def apply_leader_changes(self, changed: TopicPartitions | None = None, *, now_ms: int) -> None:
        """After elections: replicas follow their leaders, and coordinators load the partitions that they lead now.

        changed: the partitions, None for all of them, as when a broker starts or ends.
        """
        channel, metadata = self._cluster.inter_broker, self._cluster.metadata
        concerned = _all_partitions(metadata) if changed is None else changed
        if not self._cluster.config.replication.is_real:
            running = channel.nodes.keys() - channel.paused.keys()
            leadership.expand_isr(metadata, concerned, self.rules, running=running)
        self._store.update_replicas(changed)
        if changed is None or any(topic.internal for topic, _ in changed):
            for node in list(channel.nodes.values()):
                node.load_led_partitions(now_ms=now_ms)
        self._schedule_elections(concerned, now_ms=now_ms)

    def _schedule_elections(self, changed: TopicPartitions, *, now_ms: int) -> None:
        """Schedule preferred and unclean elections while one of these partitions, which have changed, needs one.

        Source: the tasks electPreferred and electUnclean of Kafka's QuorumController. Kafka runs them periodically at
        all times, this controller only while a partition needs them; the delay after the cause is arbitrary in Kafka.
        """
        config = self._cluster.config
        if config.boolean("auto.leader.rebalance.enable"):
            interval_ms = 1000 * config.integer("leader.imbalance.check.interval.seconds")
            self._schedule_election(ElectionType.PREFERRED, self._is_imbalanced, changed, interval_ms, now_ms=now_ms)
        interval_ms = config.integer("unclean.leader.election.interval.ms")
        self._schedule_election(ElectionType.UNCLEAN, self._needs_any_leader, changed, interval_ms, now_ms=now_ms)

    def _schedule_election(
        self,
        election: ElectionType,
        needs_election: PartitionCheck,
        changed: TopicPartitions,
        interval_ms: int,
        *,
        now_ms: int,
    ) -> None:
        if election in self._scheduled_elections or not any(starmap(needs_election, changed)):
            return
        self._scheduled_elections.add(election)

        def run(at_ms: int) -> None:
            self._scheduled_elections.discard(election)
            metadata = self._cluster.metadata
            found = [pair for pair in _all_partitions(metadata) if needs_election(*pair)]
            for topic, partition in found:
                target = leadership.PartitionTarget.from_partition(partition)
                leadership.change_partition(metadata, topic, partition, target, self.rules, election=election)
            self.apply_leader_changes(found, now_ms=at_ms)

        self._cluster.inter_broker.schedule(interval_ms, run, now_ms=now_ms, owner=None)

    def _is_imbalanced(self, topic: Topic, partition: Partition) -> bool:
        preferred = partition.replicas[0]
        return partition.leader not in (preferred, NO_LEADER) and preferred in partition.isr

    def _needs_any_leader(self, topic: Topic, partition: Partition) -> bool:
        has_running_replica = not self._cluster.metadata.fenced.issuperset(partition.replicas)
        return partition.leader == NO_LEADER and has_running_replica and self._may_be_unclean(topic)

    # Configuration.

    def update_rules(self) -> None:
        """Apply changed feature levels."""
        self.rules = structs.replace(self.rules, has_elr=self._has_elr())

    def _has_elr(self) -> bool:
        return self._cluster.features.get("eligible.leader.replicas.version", 0) >= 1

    def _topic_config(self, name: str) -> EffectiveConfig:
        """The configuration of a topic by the settings of the controller's own node."""
        return self._cluster.configs.topic(name, self._cluster.configs.controller_id)

    def _least_in_sync(self, topic: Topic) -> int:
        return min_in_sync(self._topic_config(topic.name), topic.replication_factor)

    def _may_be_unclean(self, topic: Topic) -> bool:
        return bool(self._topic_config(topic.name)["unclean.leader.election.enable"])

    def _on_config_change(self, resource: Resource, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        """A new min.insync.replicas clears the eligible leader replicas (KIP-966) and can move the high watermark."""
        metadata = self._cluster.metadata
        if resource.kind is ResourceKind.BROKER:
            topics = metadata.topics()
        elif resource.kind is ResourceKind.TOPIC:
            # Only this one: 100,000 topics with a configuration are created in as many changes.
            topic = metadata.topic(resource.name)
            topics = [] if topic is None else [topic]
        else:
            return
        concerned = [(topic, partition) for topic in topics for partition in topic.partitions]
        if before.get(_MIN_INSYNC) != after.get(_MIN_INSYNC) and topics:
            for topic in topics:
                metadata.mark_changed(topic)
            for _, partition in concerned:
                partition.elr = partition.last_known_elr = ()
            self._store.update_replicas(concerned, only_followed=True)
        self._schedule_elections(concerned, now_ms=self._clock())


def _all_partitions(metadata: ClusterImage) -> list[tuple[Topic, Partition]]:
    return [(topic, partition) for topic in metadata.topics() for partition in topic.partitions]


def _log_node(node_id: int, change: str) -> None:
    NODES.info(f"node %(node)d {change}", about=str(node_id), node=node_id)


def _insert(nodes: dict[int, Node], node: Node) -> None:
    """Add a broker, in the order of ids."""
    others = dict(nodes)
    nodes.clear()
    nodes.update(sorted([*others.items(), (node.node_id, node)], key=lambda item: item[0]))
