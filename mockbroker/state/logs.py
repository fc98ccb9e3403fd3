"""The logs of a node: those of the partitions that it leads."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TYPE_CHECKING, Protocol

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.batch_rules import TopicRules
from mockbroker.state.log import PartitionLog
from mockbroker.state.metadata import Change, Metadata, Partition, Topic
from mockbroker.state.replicas import Disk, elect, leave, release

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

    A record is on every replica that follows at once; of one that does not, what it has is remembered, for the day when
    it is elected. A log lives until its topic is deleted.
    started_ms: when the brokers started, which their regular visits to the logs are reckoned from.
    """

    def __init__(self, metadata: Metadata, configs: TopicConfigs, wake: Wake, *, started_ms: int = 0) -> None:
        self._metadata = metadata
        self._configs = configs
        self._wake = wake
        self._logs: dict[tuple[bytes, int], PartitionLog] = {}
        self._started_ms = started_ms
        self._upkeep: Upkeep | None = None
        self._down: set[int] = set()
        self._disks: dict[tuple[bytes, int], dict[int, Disk]] = {}
        metadata.watch(self._topic_changed)

    def log(self, topic: Topic, partition_index: int) -> PartitionLog:
        """The log of a partition, made when it is first asked for."""
        place = (topic.topic_id, partition_index)
        log = self._logs.get(place)
        if log is None:
            rules = _Rules(self._configs, topic.name, lambda: self._settle(place))
            log = PartitionLog(rules.now, lambda: self._moved(place), lambda: self._touched(place))
            log.begin_epoch(topic.partitions[partition_index].leader_epoch)
            self._logs[place] = log
            self._settle(place)
        return log

    def node_down(self, node_id: int) -> None:
        """A broker stops following: its replicas stay where they are."""
        self._down.add(node_id)
        for (topic_id, index), log in self._logs.items():
            partition = self._metadata.leader(topic_id, index)
            if partition is not None and node_id in partition.replicas:
                self._disks.setdefault((topic_id, index), {}).setdefault(node_id, leave(log))

    def node_up(self, node_id: int) -> None:
        """A broker runs again; `settle` has its replicas follow where there is a leader."""
        self._down.discard(node_id)

    def settle(self, *, only_followed: bool = False) -> None:
        """After elections, and changes of who is in sync: those who can follow do, and high watermarks go on.

        only_followed: alone of partitions with a follower that lives, whose next fetch moves the high watermark.
        """
        for topic_id, index in list(self._logs):
            partition = self._metadata.leader(topic_id, index)
            if partition is not None:
                living = set(partition.replicas) - self._down - {partition.leader}
                if living or not only_followed:
                    self._settle((topic_id, index))

    def _settle(self, place: tuple[bytes, int]) -> None:
        topic, log = self._metadata.topic_by_id(place[0]), self._logs.get(place)
        if topic is None or log is None:
            return
        partition = topic.partitions[place[1]]
        disks = self._disks.get(place, {})
        for node_id in self._down.intersection(partition.replicas) - disks.keys():
            # It got its copy while it was down: there is nothing on its disk yet.
            disks = self._disks.setdefault(place, disks)
            disks[node_id] = Disk(0, 0)
        if not disks and len(partition.isr) == len(partition.replicas):
            log.hold(None)
            return
        is_led = partition.leader >= 0 and partition.leader not in self._down
        for node_id in [node_id for node_id in disks if node_id not in self._down]:
            if is_led or node_id not in partition.replicas:
                del disks[node_id]
        if is_led:
            least = min_in_sync(self._configs.topic(topic.name), len(partition.replicas))
            release(log, disks, in_sync=partition.isr, least=least)

    def next_deadline_ms(self, *, now_ms: int) -> int | None:
        """When a log may have to be cleaned, or None: with the defaults of Kafka a week after its first record."""
        return None if self._upkeep is None else self._upkeep.next_deadline_ms(now_ms=now_ms)

    def expire(self, *, now_ms: int) -> None:
        """Clean the logs that are due."""
        if self._upkeep is not None:
            self._upkeep.expire(now_ms=now_ms)

    def _moved(self, place: tuple[bytes, int]) -> None:
        self._wake(("log", *place))
        self._touched(place)

    def _touched(self, place: tuple[bytes, int]) -> None:
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
                self._disks.pop(place, None)
            elif change is Change.LED_ANEW and place in self._logs and partition.leader >= 0:
                self._led_anew(place, partition)
            if change in (Change.DELETED, Change.LED_ANEW):
                # Whoever waits for records has to be told that they come no more, or from elsewhere.
                self._wake(("log", *place))

    def _led_anew(self, place: tuple[bytes, int], partition: Partition) -> None:
        log, disks = self._logs[place], self._disks.get(place, {})
        if partition.leader in disks and partition.leader not in self._down:
            disk = disks.pop(partition.leader)
            elect(log, disk, disks.values())
        log.begin_epoch(partition.leader_epoch)
        self._settle(place)  # Whoever hears of the new leader next may read the log at once.


def min_in_sync(config: Mapping[str, object], replication_factor: int) -> int:
    """How many replicas of a partition have to be in sync: never more than there are."""
    least = config["min.insync.replicas"]
    assert isinstance(least, int)
    return min(least, replication_factor)


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

    def __init__(self, configs: TopicConfigs, topic_name: str, changed: Callable[[], None]) -> None:
        self._configs = configs
        self._changed = changed
        self._topic_name = topic_name
        self._generation = -1
        self._rules: TopicRules | None = None

    def now(self) -> TopicRules:
        if self._rules is None or self._generation != self._configs.generation:
            self._rules = TopicRules.of(self._configs.topic(self._topic_name))
            self._generation = self._configs.generation
            self._changed()
        return self._rules
