"""The logs of a node: those of the partitions that it leads."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Protocol

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.batch_rules import TopicRules
from mockbroker.state.log import PartitionLog
from mockbroker.state.metadata import Change, Metadata, Topic

if TYPE_CHECKING:
    from mockbroker.state.upkeep import Upkeep

Wake = Callable[[tuple[Hashable, ...]], None]


class TopicConfigs(Protocol):
    """What this room needs of the cluster's configuration."""

    generation: int

    def topic(self, name: str) -> Mapping[str, object]:
        """A topic's configuration in force."""

    def brokers(self) -> Mapping[str, object]:
        """The configuration in force of all brokers."""


class LogStore:
    """All logs of the cluster by topic id and partition: the disks, which the replicas of a partition share.

    A record is on every replica at once, so whoever is elected has all of it; a log lives until its topic is deleted.
    started_ms: when the brokers started, which their regular visits to the logs are reckoned from.
    """

    def __init__(self, metadata: Metadata, configs: TopicConfigs, wake: Wake, *, started_ms: int = 0) -> None:
        self._metadata = metadata
        self._configs = configs
        self._wake = wake
        self._logs: dict[tuple[bytes, int], PartitionLog] = {}
        self._started_ms = started_ms
        self._upkeep: Upkeep | None = None
        metadata.watch(self._topic_changed)

    def log(self, topic: Topic, partition_index: int) -> PartitionLog:
        """The log of a partition, made when it is first asked for."""
        place = (topic.topic_id, partition_index)
        log = self._logs.get(place)
        if log is None:
            log = PartitionLog(_Rules(self._configs, topic.name).now, lambda: self._moved(place))
            log.begin_epoch(topic.partitions[partition_index].leader_epoch)
            self._logs[place] = log
        return log

    def next_deadline_ms(self, *, now_ms: int) -> int | None:
        """When a log may have to be cleaned, or None: with the defaults of Kafka a week after its first record."""
        return None if self._upkeep is None else self._upkeep.next_deadline_ms(now_ms=now_ms)

    def expire(self, *, now_ms: int) -> None:
        """Clean the logs that are due."""
        if self._upkeep is not None:
            self._upkeep.expire(now_ms=now_ms)

    def _moved(self, place: tuple[bytes, int]) -> None:
        self._wake(("log", *place))
        if self._upkeep is None:
            from mockbroker.state.upkeep import Upkeep

            self._upkeep = Upkeep(self._configs, self._known, started_ms=self._started_ms)
        self._upkeep.touched(place)

    def _known(self, place: tuple[bytes, int]) -> tuple[str, PartitionLog] | None:
        log, topic = self._logs.get(place), self._metadata.topic_by_id(place[0])
        return None if log is None or topic is None else (topic.name, log)

    def _topic_changed(self, change: Change, topic: Topic) -> None:
        for partition in topic.partitions:
            place = (topic.topic_id, partition.index)
            if change is Change.DELETED:
                self._logs.pop(place, None)
            elif change is Change.LED_ANEW and place in self._logs and partition.leader >= 0:
                self._logs[place].begin_epoch(partition.leader_epoch)
            if change in (Change.DELETED, Change.LED_ANEW):
                # Whoever waits for records has to be told that they come no more, or from elsewhere.
                self._wake(("log", *place))


class Logs:
    """A node's view of the logs: only what it leads."""

    def __init__(self, node_id: int, metadata: Metadata, store: LogStore) -> None:
        self.node_id = node_id
        self._metadata = metadata
        self._store = store

    def get(
        self, topic_id: bytes, partition_index: int, *, leader_epoch: int = -1, of_any_replica: bool = False
    ) -> PartitionLog:
        """The log of a partition that this node leads, or of_any_replica: that it has a copy of.

        leader_epoch: the epoch that the asker believes in, -1 for none.
        Raises: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH.
        """
        topic = self._metadata.topic_by_id(topic_id)
        partition = topic.partition(partition_index) if topic else None
        if topic is None or partition is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if leader_epoch >= 0 and leader_epoch != partition.leader_epoch:
            code = (
                ErrorCode.FENCED_LEADER_EPOCH
                if leader_epoch < partition.leader_epoch
                else ErrorCode.UNKNOWN_LEADER_EPOCH
            )
            raise KafkaError(code, f"leader epoch {leader_epoch} was given, {partition.leader_epoch} is current")
        if partition.leader != self.node_id and not (of_any_replica and self.node_id in partition.replicas):
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"node {partition.leader} leads, not {self.node_id}")
        return self._store.log(topic, partition_index)


class _Rules:
    """A topic's append rules, read anew only after some configuration changed."""

    def __init__(self, configs: TopicConfigs, topic_name: str) -> None:
        self._configs = configs
        self._topic_name = topic_name
        self._generation = -1
        self._rules: TopicRules | None = None

    def now(self) -> TopicRules:
        if self._rules is None or self._generation != self._configs.generation:
            self._rules = TopicRules.of(self._configs.topic(self._topic_name))
            self._generation = self._configs.generation
        return self._rules
