"""The simulated cluster: broker core, client connections, invariants, and a virtual clock.

Clients, administrators and faults act on it; `mockbroker/sim/simulation.py` chooses their actions.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

from kwire.error_codes import ErrorCode
from mockbroker.build import build_core
from mockbroker.config.broker_config import BrokerConfig
from mockbroker.config.features import finalize_levels
from mockbroker.config.keys import Scope
from mockbroker.config.releases import choose_release
from mockbroker.editions.configs import config_dialect
from mockbroker.engine.core import Core
from mockbroker.kafka_error import KafkaError
from mockbroker.sim.coverage import Coverage
from mockbroker.sim.disk.simulated_disk import ProcessEnd, SimulatedDisk
from mockbroker.sim.disk.stored_records import StoredRecords
from mockbroker.sim.edition_client import EditionClient
from mockbroker.sim.invariants import Invariants
from mockbroker.sim.logs.observed_logs import ObservedLogs
from mockbroker.sim.replication.replica_checker import SITUATIONS, ReplicaChecker
from mockbroker.sim.simulated_topics import GROUP_IDS, PROMISED_TOPICS, QUEUE_NAMES, TOPICS
from mockbroker.sim.violation import Violation
from mockbroker.sim.wire import Wire
from mockbroker.state.metadata.topics import CoordinatorKind, Topic, TopicPartitionKey
from mockbroker.state.share.share_session import ShareSession
from mockbroker.state.share_coordinator.share_coordinator import ShareKey
from mockbroker.state.storage.partition_log import PartitionLog

#: Smaller than Kafka's defaults, so that a short run reaches every limit, with small internal topics.
_CONFIG = {
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": "5000",
    "share.coordinator.state.topic.num.partitions": "3",
    "share.coordinator.snapshot.update.records.per.snapshot": "7",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
    "default.replication.factor": "3",
    "log.initial.task.delay.ms": "10000",
    "log.retention.check.interval.ms": "20000",
    "transaction.state.log.min.isr": "1",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "5000",
}
#: Followers fetch, and leave the ISR in a short run.
_REPLICATION = {
    "mockbroker.replication": "real",
    "replica.lag.time.max.ms": "8000",
    "replica.fetch.backoff.ms": "200",
    "replica.fetch.wait.max.ms": "2000",
}
_NODE_COUNT = 3
_START_MS = 1_000_000
#: Records are not produced to a partition with more than this.
_MAX_RECORDS = 260
#: A chain of calls without latency has a few dozen at most.
_MAX_ROUNDS_AT_ONE_TIME = 3_000
_KEYS = (b"k1", b"k2", b"k3", b"k4", b"k5", b"k6", b"k7", b"k8")


class GroupMember(Protocol):
    """A member of a share group that can leave it. member_epoch: None while it is not in the group."""

    group_id: str
    member_epoch: int | None

    def leave(self) -> str:
        """Leave the group."""


class SimulatedCluster:
    """The cluster of one seed and its clock. members: the simulated group members, set by the simulation.

    disk: its data directory, None for a cluster in memory. records: what was acknowledged of it. on_restart: called
    when another process has started on the data directory.
    replicates: followers fetch. replicas: checks them, None where they do not.
    """

    def __init__(
        self,
        seed: int,
        *,
        release: str | None = None,
        edition: str | None = None,
        persister: str = "default",
        on_disk: bool = False,
        replicates: bool = False,
    ) -> None:
        self.rng = random.Random(seed)
        self.members: Sequence[GroupMember] = ()
        self._edition, self._persister = edition, persister
        self._config_dialect = config_dialect(edition)
        self._settings = {**_CONFIG, **(_REPLICATION if replicates else {})}
        self._release = choose_release(release, edition)
        self.disk: SimulatedDisk | None = None
        self.on_restart: list[Callable[[], None]] = []
        if on_disk:
            self.disk = SimulatedDisk(self.new_rng(), self._record_disk_fault, fsync=self.rng.random() < 0.5)
        self.core = self._start_core(_START_MS)
        self.client_dialect = EditionClient(edition, self.core.routes)
        self.coverage = Coverage(self.core.state.rules, self.client_dialect, on_disk=on_disk)
        self.wire = Wire(self.core, self.client_dialect, self.in_broker)
        self._logs = ObservedLogs(self.core)
        self.invariants = Invariants(self.core, self._logs, self.coverage, self.disk)
        self.records = StoredRecords(self.find_any_log, self.coverage.count)
        self.replicas: ReplicaChecker | None = None
        if replicates:
            self.coverage.expect(SITUATIONS)
            self.replicas = ReplicaChecker(self.core, self._logs, self.coverage.count)
        self.update_partitions()

    def _record_disk_fault(self, name: str) -> None:
        self.coverage.count(name)
        self.invariants.dead_letters.record_disturbance()

    def _start_core(self, now_ms: int) -> Core:
        """A cluster in memory, or the one that is stored."""
        given = {self.config_name(Scope.BROKER, name): text for name, text in self._settings.items()}
        nodes = range(_NODE_COUNT)
        topics = {**TOPICS, **(PROMISED_TOPICS if self.disk is not None else {})}
        stored = None if self.disk is None else self.disk.open_cluster(nodes)
        core = build_core(
            config=BrokerConfig(given, release=self._release, dialect=self._config_dialect),
            node_count=_NODE_COUNT,
            features=finalize_levels((), self._release),
            topics=topics if stored is None or stored.is_new else {},
            rng=self.new_rng(),
            now_ms=now_ms,
            share_edition=self._edition,
            share_persister=self._persister,
            stored=stored,
        )
        for node in core.state.nodes.values():
            node.add_endpoint("PLAINTEXT", "127.0.0.1", 9092 + node.node_id)
        core.requests.write_metadata()
        return core

    def restart(self, how: ProcessEnd) -> None:
        """End the process, and start another one on the same data directory."""
        assert self.disk is not None
        store = self.core.state.log_store
        assert store is not None
        with self.in_broker():
            self.disk.end_process(how, store.close)
        self.core = self._start_core(self.now_ms)
        self._logs.replace_core(self.core)
        self.invariants.replace_core(self.core, is_crash=how is ProcessEnd.CRASHED)
        self.wire.replace_core(self.core)
        for listener in self.on_restart:
            listener()
        self.update_partitions()
        self.records.check_all()
        self.check()

    def is_refused_by_disk(self, code: int) -> bool:
        """Whether this error is that of a change that could not be written."""
        return self.disk is not None and code == ErrorCode.KAFKA_STORAGE_ERROR

    def new_rng(self) -> random.Random:
        """A random generator seeded by that of the cluster."""
        return random.Random(self.rng.getrandbits(64))

    def member_id(self, name: str) -> str:
        """The member id for a name: a UUID where the edition requires one."""
        if self.client_dialect.is_released:
            return name
        return base64.urlsafe_b64encode(name.encode().ljust(16, b"-")).decode().rstrip("=")

    def config_name(self, scope: Scope, name: str) -> str:
        """The edition's name of a configuration."""
        return name if self._config_dialect is None else self._config_dialect.to_draft(scope, name)

    # Metadata.

    @property
    def now_ms(self) -> int:
        """The time of the virtual clock."""
        return self.core.now_ms

    def topics(self) -> list[Topic]:
        """The topics that groups read."""
        others = {*QUEUE_NAMES.values(), *PROMISED_TOPICS}
        return [topic for topic in self.core.state.metadata.topics() if not topic.internal and topic.name not in others]

    def partition_keys(self) -> list[TopicPartitionKey]:
        """The partitions of these topics."""
        return [(topic.topic_id, partition.index) for topic in self.topics() for partition in topic.partitions]

    def queue_topics(self) -> list[Topic]:
        """The topics of the dead-letter queues."""
        return [topic for topic in self.core.state.metadata.topics() if topic.name in QUEUE_NAMES.values()]

    @property
    def has_queues(self) -> bool:
        """Whether the release has dead-letter queues."""
        return self.core.state.rules.dead_letters.resumes_archiving

    def find_topic(self, partition_key: TopicPartitionKey) -> Topic | None:
        """The topic of a partition, None if it was deleted."""
        return self.core.state.metadata.topic_by_id(partition_key[0])

    def choose_partition(self, rng: random.Random) -> TopicPartitionKey | None:
        """A partition to produce to; None if the chosen one has no leader, or too many records."""
        partition_key = rng.choice(self.partition_keys())
        log = self.find_log(partition_key)
        return None if log is None or log.end_offset > _MAX_RECORDS else partition_key

    def choose_key(self, rng: random.Random) -> bytes:
        """One of a few record keys."""
        return rng.choice(_KEYS)

    def choose_node(self, rng: random.Random) -> int:
        """A running node."""
        return rng.choice(sorted(self.core.state.inter_broker.nodes))

    def is_up(self, node_id: int) -> bool:
        """Whether a node is running."""
        return node_id in self.core.state.inter_broker.nodes

    def leader(self, partition_key: TopicPartitionKey) -> int:
        """The leader of a partition, -1 if it has none."""
        partition = self.core.state.metadata.find_partition(*partition_key)
        return -1 if partition is None else partition.leader

    def coordinator(self, kind: CoordinatorKind, key: str) -> int:
        """The coordinator of a key."""
        return self.core.state.metadata.coordinator_id(kind, key)

    def find_log(self, partition_key: TopicPartitionKey) -> PartitionLog | None:
        """The log of a partition, if its leader is running."""
        node = self.core.state.inter_broker.nodes.get(self.leader(partition_key))
        try:
            return None if node is None else node.logs.find_log(*partition_key)
        except KafkaError:
            return None

    def find_any_log(self, partition_key: TopicPartitionKey) -> PartitionLog | None:
        """The log of a partition, with or without a leader; None if its topic does not exist."""
        topic, store = self.find_topic(partition_key), self.core.state.log_store
        return None if topic is None or store is None else store.open_log(topic, partition_key[1])

    def find_session(self, node_id: int, group_id: str, member_id: str) -> ShareSession | None:
        """A member's share session on a node."""
        node = self.core.state.inter_broker.nodes.get(node_id)
        has_sessions = node is not None and node.is_loaded("share_sessions")
        return node.share_sessions.get(group_id, member_id) if node and has_sessions else None

    # Actions.

    def update_partitions(self) -> None:
        """Have the invariants follow all share partitions that exist now."""
        keys = self.partition_keys()
        self.invariants.set_partitions(ShareKey(group_id, *key) for group_id in GROUP_IDS for key in keys)

    def record_produced(self, partition_key: TopicPartitionKey, end: int) -> None:
        """Records below an offset were acknowledged after acks=all."""
        if self.replicas is not None:
            self.replicas.record_acknowledged(partition_key, end)

    def empty_group(self, group_id: str) -> None:
        """Have all members leave a group."""
        for member in self.members:
            if member.group_id == group_id and member.member_epoch is not None:
                member.leave()
        self.advance(0)

    def check(self) -> None:
        """Check the invariants, then deliver responses: an acknowledgement is checked before its client receives it."""
        self._logs.observe()
        self.invariants.check()
        if self.replicas is not None:
            self.replicas.check()
        self.wire.deliver_responses()

    def in_broker(self) -> AbstractContextManager[None]:
        """The context of calls of the core: in it the disk fails."""
        return nullcontext() if self.disk is None else self.disk.in_broker()

    def advance(self, duration_ms: int) -> None:
        """Advance the clock from one deadline to the next, and check at each.

        Raises: Violation if each deadline sets the next one at the same time.
        """
        self.check()  # The effects of requests, before the clock moves.
        self.core.next_deadline_ms()  # It asserts that the components have announced their deadlines.
        target_ms = self.now_ms + duration_ms
        moved_ms, count = self.now_ms, 0
        while (due_ms := self.core.next_deadline_ms(until_ms=target_ms)) is not None and due_ms <= target_ms:
            count = 0 if self.now_ms > moved_ms else count + 1
            moved_ms = self.now_ms
            if count > _MAX_ROUNDS_AT_ONE_TIME:
                raise Violation(f"{count} deadlines in turn at {moved_ms} ms, and another one at {due_ms} ms")
            with self.in_broker():
                self.core.advance(max(due_ms, self.now_ms))
            self.check()
        with self.in_broker():
            self.core.advance(target_ms)
        self.check()
