"""One broker of the cluster: its addresses, the logs that it leads, and its state components, created on first use."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

from mockbroker.config.plugins import DEFAULT_DEAD_LETTER_MANAGER, DEFAULT_PERSISTER
from mockbroker.state.metadata.cluster_image import TopicChange, TopicListener
from mockbroker.state.metadata.feature_levels import has_dead_letter_queues
from mockbroker.state.metadata.topics import INTERNAL_TOPICS, CoordinatorKind
from mockbroker.state.storage.log_store import ClusterLogs, NodeLogs

if TYPE_CHECKING:
    from mockbroker.cluster_services.cluster_services import ClusterServices
    from mockbroker.coordinators.group.group_log import GroupLog
    from mockbroker.coordinators.share.share_state_log import ShareStateLog
    from mockbroker.coordinators.transaction.transaction_log import TransactionLog
    from mockbroker.dead_letter_queue.queue_writer import DeadLetterQueues
    from mockbroker.persisters.control_records.control_log import ShareControlLog
    from mockbroker.persisters.default import Persister
    from mockbroker.replication.node_replication import NodeReplication
    from mockbroker.state.group.committed_offsets import CommittedOffsets
    from mockbroker.state.groups import Groups
    from mockbroker.state.metadata.broker_loggers import BrokerLoggers
    from mockbroker.state.metadata.configs import EffectiveConfig
    from mockbroker.state.metadata.telemetry import ClientTelemetry
    from mockbroker.state.metadata.topics import Partition, Topic
    from mockbroker.state.quotas.broker_quotas import BrokerQuotas
    from mockbroker.state.quotas.connection_rates import ConnectionRates
    from mockbroker.state.share.dead_letter import DeadLetter
    from mockbroker.state.share.pending_write import PendingWrite
    from mockbroker.state.share.share_partition import SharePartition
    from mockbroker.state.share.share_partitions import SharePartitions
    from mockbroker.state.share.share_session import ShareSessions
    from mockbroker.state.share_coordinator.share_coordinator import ShareCoordinator, ShareKey
    from mockbroker.state.storage.fetch_session import FetchSessions
    from mockbroker.state.storage.log_dirs import LogDirs
    from mockbroker.state.transaction.producer_ids import ProducerIds
    from mockbroker.state.transaction.transactions import TransactionCoordinator

#: The state components whose creation can be asked for: cached properties of `Node`.
ComponentName = Literal[
    "share_partitions",
    "group_log",
    "share_state_log",
    "share_control_log",
    "share_sessions",
    "telemetry",
    "connection_rates",
]


#: In the order in which deadlines of one time expire: locks first, then members and rebalances, then transactions.
_WITH_DEADLINES = ("share_partitions", "group_log", "transaction_log", "share_state_log")
#: The components with `close()`, which is called when the broker ends.
_CLOSED = ("dead_letter_queues", "persister", "group_log", "transaction_log", "share_state_log")


class _HasDeadlines(Protocol):
    def next_deadline_ms(self) -> int | None: ...
    def expire(self, *, now_ms: int) -> object: ...


D = TypeVar("D", bound=_HasDeadlines)


def find_rack(cluster: ClusterServices[Node], node_id: int) -> str | None:
    """The rack of a broker: its own `broker.rack`, or that in `mockbroker.racks`, or that of all in `broker.rack`."""
    config, own = cluster.config, cluster.node_config(node_id).string("broker.rack")
    if own != config.string("broker.rack"):
        return own
    return config.replication.find_rack(node_id - config.integer("node.id"), config.string("broker.rack"))


class Node:
    """A broker. Other brokers reach its state only by calls of `InterBrokerChannel`.

    config: its static configuration. host, port: the advertised address of the first listener. rack: `broker.rack`, or
    None. replication: where followers fetch, else None. Other components are created when they are first used: a
    cluster without groups starts without their modules (docs/decisions/lazy-routes.md).
    """

    def __init__(self, node_id: int, cluster: ClusterServices[Node], store: ClusterLogs, *, rack: str | None) -> None:
        self.node_id = node_id
        self.rack = rack
        self.host = ""
        self.port = 0
        self.logs = NodeLogs(node_id, cluster.metadata, store)
        self.replication: NodeReplication | None = None
        self._cluster = cluster
        self.config = cluster.node_config(node_id)
        self._endpoints: dict[str, tuple[str, int]] = {}
        self._watchers: list[TopicListener] = []
        self.with_deadlines: list[_HasDeadlines] = []

    def add_endpoint(self, listener: str, host: str, port: int) -> None:
        """Set the address at which clients reach this node by a listener; the first is the node's own."""
        if not self._endpoints:
            self.host, self.port = host, port
        self._endpoints[listener] = (host, port)

    def endpoint(self, listener: str) -> tuple[str, int]:
        """Host and port for clients that connect by this listener."""
        return self._endpoints.get(listener, (self.host, self.port))

    def listener_names(self) -> list[str]:
        """The names of the listeners by which clients reach this node, in the order of the configuration."""
        return list(self._endpoints)

    def copy_endpoints(self, previous: Node) -> None:
        """Reuse the addresses that this broker had before its restart."""
        for listener, (host, port) in previous._endpoints.items():
            self.add_endpoint(listener, host, port)

    # Components.

    def is_loaded(self, name: ComponentName) -> bool:
        """Whether a component has been created: one that was never used has no deadlines, and no sessions to close."""
        return name in self.__dict__

    def close(self) -> None:
        """The broker has ended: its components receive no topic changes any more, and no answers of other brokers."""
        for watcher in self._watchers:
            self._cluster.metadata.remove_listener(watcher)
        self._watchers.clear()
        for name in _CLOSED:
            if name in self.__dict__:
                self.__dict__[name].close()
        if self.replication is not None:
            self.replication.close()

    def next_deadline_ms(self) -> int | None:
        """The earliest deadline of a component, or None."""
        earliest_ms: int | None = None
        for component in self.with_deadlines:
            due_ms = component.next_deadline_ms()
            if due_ms is not None and (earliest_ms is None or due_ms < earliest_ms):
                earliest_ms = due_ms
        return earliest_ms

    def _add_deadlines(self, name: str, component: D) -> D:
        """Add a component that has deadlines, of which every request asks; the order is that of `_WITH_DEADLINES`."""
        self.__dict__[name] = component
        self.with_deadlines = [self.__dict__[each] for each in _WITH_DEADLINES if each in self.__dict__]
        return component

    def _watch(self, watcher: TopicListener) -> None:
        def run(change: TopicChange, topic: Topic, partitions: Sequence[Partition]) -> None:
            with self._cluster.inter_broker.act_as(self.node_id):
                watcher(change, topic, partitions)

        self._watchers.append(run)
        self._cluster.metadata.add_listener(run)

    def topic_config(self, name: str) -> EffectiveConfig:
        """The effective configuration of a topic on this broker, its own dynamic settings included."""
        return self._cluster.configs.topic(name, self.node_id)

    def group_config(self, group_id: str) -> EffectiveConfig:
        """The effective configuration of a group on this broker, its own dynamic settings included."""
        return self._cluster.configs.group(group_id, self.node_id)

    @cached_property
    def fetch_sessions(self) -> FetchSessions:
        """The incremental fetch sessions of consumers (KIP-227)."""
        from mockbroker.state.storage.fetch_session import FetchSessions

        return FetchSessions(self.config.integer("max.incremental.fetch.session.cache.slots"))

    @cached_property
    def quotas(self) -> BrokerQuotas:
        """What the clients of this node have used of their quotas."""
        from mockbroker.broker.quota_settings import client_windows
        from mockbroker.state.quotas.broker_quotas import BrokerQuotas

        return BrokerQuotas(self._cluster.broker_storage.quotas, client_windows(self.config))

    @cached_property
    def connection_rates(self) -> ConnectionRates:
        """The new connections of this node, which quotas limit."""
        from mockbroker.broker import quota_settings
        from mockbroker.state.quotas.connection_rates import ConnectionRates

        config, configs = self.config, self._cluster.configs
        return ConnectionRates(
            self._cluster.broker_storage.address_limits,
            quota_settings.client_windows(config),
            find_rate=lambda listener: quota_settings.find_connection_rate(configs, self.node_id, listener),
            is_protected=lambda name: quota_settings.is_protected_listener(config, name, self.listener_names()),
        )

    @cached_property
    def log_dirs(self) -> LogDirs:
        """The log directories that this node reports, by their absolute paths."""
        from pathlib import Path

        config = self.config
        names = config.strings("log.dirs") or config.strings("log.dir")
        log_dirs = self._cluster.broker_storage.log_dirs(self.node_id, [str(Path(name).absolute()) for name in names])

        def forget_topic(change: TopicChange, topic: Topic, _: object) -> None:
            if change is TopicChange.DELETED:
                log_dirs.forget_topic(topic.topic_id)

        self._watch(forget_topic)
        return log_dirs

    @cached_property
    def loggers(self) -> BrokerLoggers:
        """The names and levels of this node's loggers."""
        from mockbroker.state.metadata.broker_loggers import BrokerLoggers

        return BrokerLoggers()

    @cached_property
    def producer_ids(self) -> ProducerIds:
        """The producer ids that this node assigns."""
        return self._cluster.broker_storage.producer_ids(self.node_id)

    @cached_property
    def transaction_log(self) -> TransactionLog:
        """The partitions of the transaction coordinator's topic that this node leads."""
        from mockbroker.coordinators.transaction.transaction_log import TransactionLog

        transaction_log = TransactionLog(self._cluster, self.logs, self.producer_ids)
        self._watch(transaction_log.topic_changed)
        return self._add_deadlines("transaction_log", transaction_log)

    @property
    def transactions(self) -> TransactionCoordinator:
        """The transactional ids that this node coordinates."""
        return self.transaction_log.coordinator

    @cached_property
    def groups(self) -> Groups:
        """The groups that this node coordinates, of every type."""
        return self.group_log.groups

    @cached_property
    def offsets(self) -> CommittedOffsets:
        """The offsets that these groups have committed."""
        return self.group_log.offsets

    @cached_property
    def group_log(self) -> GroupLog:
        """The partitions of the group coordinator's topic that this node leads."""
        from mockbroker.coordinators.group.group_log import GroupLog

        group_log = GroupLog(self._cluster, self.logs, persister=lambda: self.persister)
        self._watch(group_log.topic_changed)
        return self._add_deadlines("group_log", group_log)

    @cached_property
    def persister(self) -> Persister:
        """The client of the share coordinators."""
        cluster = self._cluster
        services = (cluster.inter_broker, cluster.metadata, cluster.rng, cluster.rules)
        if self.config["group.share.persister.class.name"] != DEFAULT_PERSISTER:
            from mockbroker.persisters.no_op import NoOpPersister

            return NoOpPersister(*services)
        if cluster.rules.state.in_partition_log:
            from mockbroker.persisters.control_records.persister import ControlRecordsPersister

            return ControlRecordsPersister(*services, control_log=lambda: self.share_control_log)
        from mockbroker.persisters.default import Persister

        return Persister(*services)

    @cached_property
    def share_sessions(self) -> ShareSessions:
        """The share sessions that members have opened with this node."""
        from mockbroker.state.share.share_session import ShareSessions

        return ShareSessions()

    @cached_property
    def share_partitions(self) -> SharePartitions:
        """The share partitions that this node leads and has in memory."""
        from mockbroker.state.share.share_partitions import SharePartitions

        def send_write(partition: SharePartition, write: PendingWrite, now_ms: int) -> None:
            """Locks that expire at one time are all released before any of them is written: a write is asynchronous."""
            schedule = self._cluster.inter_broker.schedule
            schedule(1, lambda at_ms: self.persister.send_write(partition, write, at_ms), now_ms=now_ms)

        def send_dead_letter(partition: SharePartition, dead_letter: DeadLetter, now_ms: int) -> None:
            """Write the dead letter to the queue, and store that its records are archived, whatever came of it."""

            def archive(is_written: bool, at_ms: int) -> None:
                write = partition.archive_dead_letter(dead_letter, is_written=is_written, now_ms=at_ms)
                self.persister.send_write(partition, write, at_ms)

            self.dead_letter_queues.send_dead_letter(partition, dead_letter, done=archive, now_ms=now_ms)

        cluster = self._cluster
        share_partitions = SharePartitions(
            wake=cluster.wake,
            send_write=send_write,
            send_dead_letter=send_dead_letter,
            serves_dead_letters=lambda: has_dead_letter_queues(cluster.features),
            history=cluster.broker_storage.share_history,
            rules=cluster.rules,
            earliest=cluster.earliest_deadline,
        )
        self._watch(partial(share_partitions.on_topic_change, self.node_id))
        return self._add_deadlines("share_partitions", share_partitions)

    @cached_property
    def dead_letter_queues(self) -> DeadLetterQueues:
        """The writer of rejected and exhausted records to the dead-letter queues of their groups."""
        from mockbroker.dead_letter_queue.queue_topic import QueueTopics
        from mockbroker.dead_letter_queue.queue_writer import DeadLetterQueues, NoOpDeadLetterQueues

        cluster = self._cluster
        topics = QueueTopics(cluster.metadata, cluster.configs, self.node_id, cluster.authorizer)
        is_default = self.config["group.share.dlq.manager.class.name"] == DEFAULT_DEAD_LETTER_MANAGER
        create = DeadLetterQueues if is_default else NoOpDeadLetterQueues
        return create(cluster.inter_broker, cluster.metadata, cluster.rng, topics, self.logs)

    @cached_property
    def share_state_log(self) -> ShareStateLog:
        """The partitions of the share coordinator's topic that this node leads."""
        from mockbroker.coordinators.share.share_state_log import ShareStateLog

        share_state_log = ShareStateLog(self._cluster, self.logs)
        self._watch(share_state_log.topic_changed)
        share_state_log.update_led_shards()
        return self._add_deadlines("share_state_log", share_state_log)

    @cached_property
    def share_control_log(self) -> ShareControlLog:
        """The state of share partitions in the logs that this node leads, where it is stored there."""
        from mockbroker.persisters.control_records.control_log import ShareControlLog

        share_control_log = ShareControlLog(self._cluster, self.logs, drop_partition=self._drop_share_partition)
        self._watch(share_control_log.on_topic_change)
        return share_control_log

    @cached_property
    def telemetry(self) -> ClientTelemetry:
        """The clients that push metrics to this node."""
        from mockbroker.state.metadata.telemetry import ClientTelemetry
        from mockbroker.state.metadata.telemetry_subscriptions import subscriptions_of

        bytes_max = self.config.integer("telemetry.max.bytes")
        return ClientTelemetry(lambda: subscriptions_of(self._cluster.configs), bytes_max=bytes_max)

    @property
    def share_states(self) -> ShareStateLog | ShareControlLog:
        """The stored state of share partitions that this node serves to others."""
        return self.share_control_log if self._cluster.rules.state.in_partition_log else self.share_state_log

    @property
    def share_coordinator(self) -> ShareCoordinator:
        """The share coordinator's state of share partitions."""
        return self.share_state_log.coordinator

    def end_share_sessions(self) -> None:
        """Share groups have been disabled: close all share sessions and drop the share partitions from memory.

        When share groups are enabled again, the partitions are read from their stored state.
        """
        if self.is_loaded("share_sessions"):
            self.share_sessions.clear()
        if self.is_loaded("share_partitions"):
            self.share_partitions.drop_all()

    def _drop_share_partition(self, key: ShareKey) -> None:
        partition = self.share_partitions.get(*key) if self.is_loaded("share_partitions") else None
        if partition is not None:
            self.share_partitions.drop_partition(partition)

    def load_led_partitions(self, *, now_ms: int) -> None:
        """After an election: start to load the coordinators' partitions that this node leads now."""
        with self._cluster.inter_broker.act_as(self.node_id):
            self._load_led_partitions(now_ms)

    def _load_led_partitions(self, now_ms: int) -> None:
        if self.is_loaded("group_log") or self._leads_records(CoordinatorKind.GROUP):
            self.group_log.load_led_partitions(now_ms=now_ms)
        if self._leads_records(CoordinatorKind.SHARE):
            self.share_state_log.load_led_partitions(now_ms=now_ms)
            self.share_state_log.schedule_maintenance(now_ms=now_ms)
        if self._cluster.metadata.topic(INTERNAL_TOPICS[CoordinatorKind.TRANSACTION].name) is not None:
            self.transaction_log.load_led_partitions(now_ms=now_ms)

    def _leads_records(self, kind: CoordinatorKind) -> bool:
        """Whether any partition of a coordinator's topic that this node leads has records."""
        topic = self._cluster.metadata.topic(INTERNAL_TOPICS[kind].name)
        led = [p for p in topic.partitions if p.leader == self.node_id] if topic is not None else []
        return topic is not None and any(self.logs.has_records(topic.topic_id, p.index) for p in led)
