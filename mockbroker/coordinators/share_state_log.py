"""The share coordinator's topic, `__share_group_state`: writing facts, loading them back, and its housekeeping.

Source: share-semantics 7.2 and 7.5; the records are in `share_state_records`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kwire.error_codes import ErrorCode
from kwire.records import Record, write_batch
from mockbroker.calls import Unsettled
from mockbroker.coordinators.loading import Loading
from mockbroker.coordinators.share_state_records import ReleasedRecords, StateRecords
from mockbroker.kafka_error import KafkaError
from mockbroker.state.log import Origin, PartitionLog
from mockbroker.state.share_coordinator import Fact, ShareCoordinator, ShareKey, Snapshot
from mockbroker.state.topics import INTERNAL_TOPICS, CoordinatorKind, Topic

if TYPE_CHECKING:
    from mockbroker.context import ClusterState
    from mockbroker.state.logs import Logs
    from mockbroker.state.metadata import Change

_TOPIC_NAME = INTERNAL_TOPICS[CoordinatorKind.SHARE].name

T = TypeVar("T")


class Written(NamedTuple):
    """How far a partition of the topic has been written; in which leader epoch, where leaders write into their own."""

    topic_id: bytes
    shard: int
    end_offset: int
    leader_epoch: int = -1


class ShareStateLog:
    """One node's way to the partitions of the topic that it leads; each of them is a shard of its coordinator."""

    def __init__(self, cluster: ClusterState, logs: Logs) -> None:
        self._cluster = cluster
        self._logs = logs
        self._records: StateRecords = ReleasedRecords() if cluster.records is None else cluster.records.of_states()
        self.loading = Loading(cluster.calls, logs.node_id)
        self._snapshots: dict[int, dict[ShareKey, int]] = {}
        self._pruned: dict[int, int] = {}
        self._written: Written | None = None
        self._latest: dict[int, Written] = {}
        self._snapshots_due_ms: int | None = None
        self._pruning_due_ms: int | None = None
        self.coordinator = ShareCoordinator(
            cluster.metadata,
            cluster.config,
            is_mine=self._is_mine,
            shard_of=self._shard_of,
            record=self._record,
            rules=cluster.rules,
        )

    # Leading and loading.

    def _shard_of(self, key: ShareKey) -> int:
        return self._cluster.metadata.coordinator_partition(CoordinatorKind.SHARE, str(key))

    def _is_mine(self, key: ShareKey) -> bool:
        """Whether a key is coordinated here. Raises: COORDINATOR_LOAD_IN_PROGRESS."""
        shard = self._shard_of(key)
        self.loading.must_be_over(shard)
        return shard in self._snapshots

    def topic_changed(self, change: Change, topic: Topic) -> None:
        """Take shards over and give them up as leaders change, and forget the state of deleted topics."""
        if topic.name == _TOPIC_NAME:
            self.follow()
        else:
            self.coordinator.topic_changed(change, topic)

    def follow(self) -> None:
        """Forget the shards that this node leads no more, and take those for loaded that nothing was written to yet."""
        topic = self._cluster.metadata.topic(_TOPIC_NAME)
        led = set() if topic is None else self._led(topic)
        for shard in [shard for shard in self._snapshots if shard not in led]:
            self.coordinator.unload(shard)
            del self._snapshots[shard]
            self._pruned.pop(shard, None)
            self._latest.pop(shard, None)
        for shard in range(len(topic.partitions) if topic is not None else 0):
            if shard not in led:
                self.loading.give_up(shard)
        for shard in led - self._snapshots.keys():
            assert topic is not None
            if not self._logs.get(topic.topic_id, shard).end_offset:
                self._snapshots[shard] = {}

    def take_over(self, *, now_ms: int) -> None:
        """After an election: begin to load the shards that this node leads now."""
        self.follow()
        topic = self._cluster.metadata.topic(_TOPIC_NAME)
        for shard in sorted(self._led(topic) - self._snapshots.keys()) if topic is not None else ():
            if shard not in self.loading:
                assert topic is not None
                self.loading.begin(shard, partial(self._load, topic, shard), now_ms=now_ms)

    def close(self) -> None:
        """The broker has ended: nothing is loaded any more."""
        self.loading.close()

    def _led(self, topic: Topic) -> set[int]:
        return {partition.index for partition in topic.partitions if partition.leader == self._logs.node_id}

    def _load(self, topic: Topic, shard: int, _now_ms: int) -> None:
        self._snapshots[shard] = {}
        for offset, fact in _facts(self._logs.get(topic.topic_id, shard), self._records):
            self._note(shard, offset, fact)
            self.coordinator.replay(fact)

    # Writing.

    def _record(self, fact: Fact, now_ms: int) -> None:
        """Append a fact as a batch of its own; `settled` says when enough replicas have it."""
        topic = self._cluster.metadata.internal_topic(CoordinatorKind.SHARE)
        shard = self._shard_of(fact.key)
        rows = enumerate(self._records.write(fact))
        batch = write_batch([Record(offset=at, timestamp=now_ms, key=key, value=value) for at, (key, value) in rows])
        log = self._logs.get(topic.topic_id, shard)
        appended = log.append(batch, now_ms=now_ms, origin=Origin.COORDINATOR)
        self._note(shard, appended.last_offset, fact)
        self._written = self._latest[shard] = Written(topic.topic_id, shard, log.end_offset)
        self.start_housekeeping(now_ms=now_ms)

    def do(self, operation: Callable[[], T], key: ShareKey | None = None) -> tuple[T | KafkaError, Written | None]:
        """Do one thing for one share partition. Returns: the answer, and what has to be committed before it leaves.

        key: whatever writes nothing waits for what was written before, as it has seen that already; None for what
        does not wait in any case.
        """
        self._written = None
        try:
            answer = operation()
            if self._written is None and key is not None:
                self._written = self._latest.get(self._shard_of(key))
            return answer, self._written
        except KafkaError as refusal:
            return refusal, None

    def error_of(self, written: Written, *, since_ms: int, now_ms: int) -> KafkaError | None:
        """What is wrong with something that was written: nothing (None), as soon as all replicas in sync have it.

        Raises: Unsettled as long as they have not. Source: Kafka's CoordinatorRuntime, which lets the operation fail
        when it takes too long, and its records be.
        """
        if written.shard not in self._snapshots:
            return KafkaError(ErrorCode.NOT_COORDINATOR, "another node coordinates now")
        if self._logs.get(written.topic_id, written.shard).high_watermark >= written.end_offset:
            return None
        if now_ms < since_ms + self._cluster.config.integer("share.coordinator.write.timeout.ms"):
            raise Unsettled
        return KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "too few replicas are in sync")

    def _note(self, shard: int, offset: int, fact: Fact) -> None:
        """Remember where the last snapshot of each share partition is: what lies before all of them is redundant."""
        if isinstance(fact, Snapshot):
            if fact.value is None:
                self._snapshots[shard].pop(fact.key, None)
            else:
                self._snapshots[shard][fact.key] = offset

    # Housekeeping.

    def start_housekeeping(self, *, now_ms: int) -> None:
        """Begin to snapshot and to prune from time to time, if that has not begun yet."""
        if self._snapshots_due_ms is None:
            self._snapshots_due_ms = now_ms + self._interval_ms("cold.partition.snapshot")
            self._pruning_due_ms = now_ms + self._interval_ms("state.topic.prune")

    def next_deadline_ms(self) -> int | None:
        """When to snapshot or to prune next, or None."""
        return min((due for due in (self._snapshots_due_ms, self._pruning_due_ms) if due is not None), default=None)

    def expire(self, *, now_ms: int) -> None:
        """Snapshot what is cold, and delete what is redundant, if it is time; both rest while share groups are off."""
        is_on = self._cluster.features.get("share.version", 0) > 0
        if self._snapshots_due_ms is not None and now_ms >= self._snapshots_due_ms:
            self._snapshots_due_ms = now_ms + self._interval_ms("cold.partition.snapshot")
            if is_on and self._cluster.rules.snapshots_cold:
                self.coordinator.snapshot_cold(now_ms=now_ms)
        if self._pruning_due_ms is not None and now_ms >= self._pruning_due_ms:
            self._pruning_due_ms = now_ms + self._interval_ms("state.topic.prune")
            if is_on and not self._cluster.rules.compacts_states:
                self._prune()

    def _prune(self) -> None:
        topic = self._cluster.metadata.topic(_TOPIC_NAME)
        for shard, offsets in self._snapshots.items() if topic is not None else ():
            redundant = min(offsets.values(), default=0)
            if redundant > 0 and redundant != self._pruned.get(shard):
                assert topic is not None
                self._logs.get(topic.topic_id, shard).delete_before(redundant)
                self._pruned[shard] = redundant

    def _interval_ms(self, what: str) -> int:
        return self._cluster.config.integer(f"share.coordinator.{what}.interval.ms")


def _facts(log: PartitionLog, records: StateRecords) -> Iterator[tuple[int, Fact]]:
    for batch in log.below(log.end_offset):
        for record in batch.records():
            fact = None if record.key is None else records.read(record.key, record.value, record.timestamp)
            if fact is not None and record.offset >= log.start_offset:
                yield record.offset, fact
