"""One broker of the cluster: its address, and the rooms that hold its state."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from mockbroker.config import DEFAULT_PERSISTER
from mockbroker.state.logs import Logs, LogStore
from mockbroker.state.metadata import Change, Watcher
from mockbroker.state.topics import INTERNAL_TOPICS, CoordinatorKind

if TYPE_CHECKING:
    from mockbroker.context import ClusterState
    from mockbroker.coordinators.group_log import GroupLog
    from mockbroker.coordinators.share_state_log import ShareStateLog
    from mockbroker.coordinators.transaction_log import TransactionLog
    from mockbroker.persisters.control_log import ShareControlLog
    from mockbroker.persisters.default import Persister
    from mockbroker.state.fetch_session import FetchSessions
    from mockbroker.state.groups import Groups
    from mockbroker.state.log_dirs import LogDirs
    from mockbroker.state.loggers import Loggers
    from mockbroker.state.offsets import Offsets
    from mockbroker.state.producer_ids import ProducerIds
    from mockbroker.state.share_coordinator import ShareCoordinator
    from mockbroker.state.share_partition import PendingWrite
    from mockbroker.state.share_partitions import SharePartitions
    from mockbroker.state.share_session import ShareSessions
    from mockbroker.state.telemetry import Telemetry
    from mockbroker.state.transactions import Transactions


class Node:
    """A broker; what another node wants of it travels by `Calls`, and touches its rooms only from there.

    host, port: what clients are told of the first listener. rack: of the placement, or None. A room is furnished when
    it is first entered: a cluster without groups starts without their modules (docs/decisions/lazy-routes.md).
    """

    def __init__(self, node_id: int, cluster: ClusterState, store: LogStore, *, rack: str | None = None) -> None:
        self.node_id = node_id
        self.rack = rack
        self.host = ""
        self.port = 0
        self.logs = Logs(node_id, cluster.metadata, store)
        self._cluster = cluster
        self._endpoints: dict[str, tuple[str, int]] = {}
        self._watchers: list[Watcher] = []

    def listen(self, listener: str, host: str, port: int) -> None:
        """Note the address at which clients reach this node by a listener; the first is the node's own."""
        if not self._endpoints:
            self.host, self.port = host, port
        self._endpoints[listener] = (host, port)

    def endpoint(self, listener: str) -> tuple[str, int]:
        """Host and port for clients that came in by this listener."""
        return self._endpoints.get(listener, (self.host, self.port))

    def listen_as(self, former: Node) -> None:
        """Take the addresses of this broker's former life."""
        for listener, (host, port) in former._endpoints.items():
            self.listen(listener, host, port)

    def close(self) -> None:
        """The broker has ended: its rooms hear of topics no more, and no answer reaches them."""
        for watcher in self._watchers:
            self._cluster.metadata.unwatch(watcher)
        self._watchers.clear()
        if self.entered("persister"):
            self.persister.close()
        if self.entered("transaction_log"):
            self.transaction_log.close()
        if self.entered("group_log"):
            self.group_log.close()
        if self.entered("share_state_log"):
            self.share_state_log.close()

    def _watch(self, watcher: Watcher) -> None:
        self._watchers.append(watcher)
        self._cluster.metadata.watch(watcher)

    @cached_property
    def fetch_sessions(self) -> FetchSessions:
        """What consumers fetch incrementally (KIP-227)."""
        from mockbroker.state.fetch_session import FetchSessions

        return FetchSessions(self._cluster.config.integer("max.incremental.fetch.session.cache.slots"))

    @cached_property
    def log_dirs(self) -> LogDirs:
        """The directories that this node's logs would lie in, by their absolute paths."""
        config = self._cluster.config
        names = config.names("log.dirs") or config.names("log.dir")
        room = self._cluster.kept.log_dirs(self.node_id, [str(Path(name).absolute()) for name in names])
        self._watch(lambda change, topic: room.forget(topic.topic_id) if change is Change.DELETED else None)
        return room

    @cached_property
    def loggers(self) -> Loggers:
        """The names and levels of this node's loggers."""
        from mockbroker.state.loggers import Loggers

        return Loggers()

    @cached_property
    def producer_ids(self) -> ProducerIds:
        """The producer ids that this node gives out."""
        return self._cluster.kept.producer_ids(self.node_id)

    @cached_property
    def transaction_log(self) -> TransactionLog:
        """The partitions of the transaction coordinator's topic that this node leads."""
        from mockbroker.coordinators.transaction_log import TransactionLog

        return TransactionLog(self._cluster, self)

    @property
    def transactions(self) -> Transactions:
        """The transactional ids that this node coordinates."""
        return self.transaction_log.coordinator

    @cached_property
    def groups(self) -> Groups:
        """The groups that this node coordinates, of every type."""
        return self.group_log.groups

    @cached_property
    def offsets(self) -> Offsets:
        """The offsets that they have committed."""
        return self.group_log.offsets

    @cached_property
    def group_log(self) -> GroupLog:
        """The partitions of the group coordinator's topic that this node leads."""
        from mockbroker.coordinators.group_log import GroupLog

        room = GroupLog(self._cluster, self.logs)
        self._watch(room.topic_changed)
        return room

    @cached_property
    def persister(self) -> Persister:
        """The way to the share coordinators."""
        from mockbroker.persisters.default import Persister

        kind: type[Persister] = Persister
        if self._cluster.config["group.share.persister.class.name"] != DEFAULT_PERSISTER:
            from mockbroker.persisters.no_op import NoOpPersister

            kind = NoOpPersister
        elif self._cluster.rules.state_in_log:
            from mockbroker.persisters.control_records import ControlRecordsPersister

            kind = ControlRecordsPersister
        cluster = self._cluster
        return kind(cluster.calls, cluster.metadata, cluster.rng, cluster.rules)

    @cached_property
    def share_sessions(self) -> ShareSessions:
        """The share sessions that members have opened here."""
        from mockbroker.state.share_session import ShareSessions

        return ShareSessions()

    @cached_property
    def share_partitions(self) -> SharePartitions:
        """The share partitions that this node leads and has in memory."""
        from mockbroker.state.share_partitions import SharePartitions

        def send(write: PendingWrite, now_ms: int) -> None:
            """Locks that end at one time are all released before any of them is written, as a write takes its time."""
            self._cluster.calls.later(1, lambda at_ms: self.persister.send(write, at_ms), now_ms=now_ms)

        cluster = self._cluster
        room = SharePartitions(wake=cluster.wake, send=send, history=cluster.kept.share_history, rules=cluster.rules)
        self._watch(lambda change, topic: room.topic_changed(change, topic, node_id=self.node_id))
        return room

    @cached_property
    def share_state_log(self) -> ShareStateLog:
        """The partitions of the share coordinator's topic that this node leads."""
        from mockbroker.coordinators.share_state_log import ShareStateLog

        room = ShareStateLog(self._cluster, self.logs)
        self._watch(room.topic_changed)
        room.follow()
        return room

    @cached_property
    def share_control_log(self) -> ShareControlLog:
        """The state of share partitions in the logs that this node leads, where it is kept there."""
        from mockbroker.persisters.control_log import ShareControlLog

        room = ShareControlLog(self._cluster, self)
        self._watch(room.topic_changed)
        return room

    def end_share_sessions(self) -> None:
        """Share groups have been switched off: sessions end, and what was acquired is read anew when they are back."""
        if self.entered("share_sessions"):
            self.share_sessions.clear()
        if self.entered("share_partitions"):
            self.share_partitions.drop_all()

    @cached_property
    def telemetry(self) -> Telemetry:
        """The clients that push metrics here."""
        from mockbroker.state.telemetry import Telemetry
        from mockbroker.subscriptions import subscriptions_of

        bytes_max = self._cluster.config.integer("telemetry.max.bytes")
        return Telemetry(lambda: subscriptions_of(self._cluster.configs), bytes_max=bytes_max)

    @property
    def share_states(self) -> ShareStateLog | ShareControlLog:
        """Where state of share partitions is kept that this node is asked for."""
        return self.share_control_log if self._cluster.rules.state_in_log else self.share_state_log

    @property
    def share_coordinator(self) -> ShareCoordinator:
        """The stored state of share partitions."""
        return self.share_state_log.coordinator

    def take_over(self, *, now_ms: int) -> None:
        """After an election: begin to load what coordinators have written to the partitions that this node leads."""
        if self.entered("group_log") or self._leads_records(CoordinatorKind.GROUP):
            self.group_log.take_over(now_ms=now_ms)
        if self._leads_records(CoordinatorKind.SHARE):
            self.share_state_log.take_over(now_ms=now_ms)
            self.share_state_log.start_housekeeping(now_ms=now_ms)
        if self._cluster.metadata.topic(INTERNAL_TOPICS[CoordinatorKind.TRANSACTION].name) is not None:
            self.transaction_log.take_over(now_ms=now_ms)

    def _leads_records(self, kind: CoordinatorKind) -> bool:
        """Whether there is anything in the partitions of a coordinator's topic that this node leads."""
        topic = self._cluster.metadata.topic(INTERNAL_TOPICS[kind].name)
        led = [p for p in topic.partitions if p.leader == self.node_id] if topic is not None else []
        return topic is not None and any(self.logs.get(topic.topic_id, p.index).end_offset for p in led)

    def entered(self, room: str) -> bool:
        """Whether a room has been furnished: one that nobody entered has no deadlines, and no sessions to close."""
        return room in self.__dict__

    def next_deadline_ms(self) -> int | None:
        """When one of the rooms has something to do, or None."""
        locks = self.share_partitions.next_deadline_ms() if self.entered("share_partitions") else None
        timers = self.groups.next_deadline_ms() if self.entered("group_log") else None
        transactions = self.transactions.next_deadline_ms() if self.entered("transaction_log") else None
        states = self.share_state_log.next_deadline_ms() if self.entered("share_state_log") else None
        return min((due for due in (locks, timers, transactions, states) if due is not None), default=None)

    def expire(self, *, now_ms: int) -> None:
        """Let the rooms do what is due: locks first, then members and rebalances, then transactions."""
        if self.entered("share_partitions"):
            self.share_partitions.expire(now_ms=now_ms)
        if self.entered("group_log"):
            self.groups.expire(now_ms=now_ms)
        if self.entered("transaction_log"):
            self.transactions.expire(now_ms=now_ms)
        if self.entered("share_state_log"):
            self.share_state_log.expire(now_ms=now_ms)
