"""The group coordinator's topic, `__consumer_offsets`: writing groups and offsets as records, and loading them.

Source: Kafka's GroupCoordinatorShard and CoordinatorLoaderImpl; the records are in `group_records`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from kwire.error_codes import ErrorCode
from kwire.records import Record, write_batch
from mockbroker.coordinators.group.cleanup_schedule import CleanupSchedule
from mockbroker.coordinators.group.group_records import KeyAndValue, encode_group_record, encode_offset_record
from mockbroker.coordinators.group.group_replay import CommittedGroupStates, GroupState, select_readable_group
from mockbroker.coordinators.group.listing_order import ListingOrder
from mockbroker.coordinators.loading import PartitionLoads
from mockbroker.kafka_error import KafkaError
from mockbroker.state.group.committed_offsets import CommittedOffsets, OffsetRecord
from mockbroker.state.group.coordinator_records import SHARE_RECORD_KINDS, CoordinatorRecord
from mockbroker.state.groups import Groups
from mockbroker.state.metadata.cluster_image import TopicChange
from mockbroker.state.metadata.topics import INTERNAL_TOPICS, CoordinatorKind, Topic, partition_for_key
from mockbroker.state.share.share_group import ShareGroup
from mockbroker.state.storage.partition_log import AppendOrigin

if TYPE_CHECKING:
    from mockbroker.cluster_services.cluster_services import ClusterServices
    from mockbroker.coordinators.share.share_deletions import StateDeleter
    from mockbroker.state.group.group import Group
    from mockbroker.state.group.mixed_group import DowngradeRequest
    from mockbroker.state.storage.log_store import NodeLogs

_TOPIC_NAME = INTERNAL_TOPICS[CoordinatorKind.GROUP].name
#: The name that Kafka writes for a topic that does not exist any more.
_UNKNOWN_NAME = "<UNKNOWN>"


class LogPosition(NamedTuple):
    """The end offset of a partition of the topic after a write."""

    topic_id: bytes
    shard: int
    end_offset: int


class GroupLog:
    """The partitions of the topic that one node leads, and the groups and offsets that they store.

    persister: returns the node's persister, which deletes the state of share groups.
    """

    def __init__(
        self, cluster: ClusterServices[object], logs: NodeLogs, *, persister: Callable[[], StateDeleter]
    ) -> None:
        self._cluster = cluster
        self._persister = persister
        self._logs = logs
        self._config = cluster.node_config(logs.node_id)
        self._loaded: set[int] = set()
        self.loading = PartitionLoads(cluster.inter_broker, logs.node_id)
        self._batch_rows: list[KeyAndValue] | None = None
        self._last_write_ms = 0
        self.groups = Groups(cluster.metadata, cluster.wake, self._record, cluster.earliest_deadline)
        self.groups.downgrade = self._downgrade
        self.groups.share_rules = cluster.rules
        self.groups.streams_rules = cluster.release.streams
        self.groups.coordinator_rules = cluster.release.groups
        self.offsets = CommittedOffsets(self._record_offsets)
        self._cleanup = CleanupSchedule(self._config, self.groups.timers, self._clean_up)
        self._committed = CommittedGroupStates(cluster)
        self._hidden: dict[str, int] = {}
        #: Partitions with a group that was removed in memory only, with their end offset at that time.
        self._with_dropped: dict[int, int] = {}
        self._listing_order = ListingOrder(_TOPIC_NAME, self._shard_of)
        topic = cluster.metadata.topic(_TOPIC_NAME)
        if topic is not None:
            self._mark_empty_as_loaded(topic)

    # Leading and loading.

    def topic_changed(self, change: TopicChange, topic: Topic, _: object) -> None:
        """Mark empty partitions as loaded, and unload those that this node leads no longer.

        `load_led_partitions` loads the others.
        """
        if topic.name != _TOPIC_NAME:
            if change is TopicChange.DELETED and self._loaded:
                # Kafka's coordinators see the deletion a moment later; the time of the last write is the only one here.
                self._cluster.inter_broker.schedule(
                    0, partial(self._delete_topic_offsets, topic), now_ms=self._last_write_ms
                )
            return
        if change in (TopicChange.CREATED, TopicChange.PARTITIONS_ADDED):
            self._mark_empty_as_loaded(topic)
        led = set() if change is TopicChange.DELETED else self._led_partitions(topic)
        for partition in topic.partitions:
            if partition.index not in led:
                self.loading.cancel(partition.index)
        for shard in self._loaded - led:
            self._unload(topic, shard)

    def load_led_partitions(self, *, now_ms: int) -> None:
        """After an election: start to load the partitions that this node leads now."""
        topic = self._cluster.metadata.topic(_TOPIC_NAME)
        if topic is None:
            return
        self._mark_empty_as_loaded(topic)
        for shard in sorted(self._led_partitions(topic) - self._loaded):
            if shard not in self.loading:
                self.loading.start(shard, partial(self._load, topic, shard), now_ms=now_ms)

    def require_loaded(self, group_id: str) -> None:
        """Raise COORDINATOR_LOAD_IN_PROGRESS if the partition of a group is being loaded."""
        self.loading.require_finished(self._shard_of(group_id))

    def close(self) -> None:
        """The broker has ended: cancel all loads."""
        self.loading.close()

    def next_deadline_ms(self) -> int | None:
        """The earliest deadline of a group or of the offsets' cleanup, or None."""
        return self.groups.timers.next_deadline_ms()

    def expire(self, *, now_ms: int) -> None:
        """Run the timers of groups that are due."""
        # A failed write to the log has been reported, and the groups are loaded again.
        with suppress(KafkaError):
            self.groups.timers.expire(now_ms=now_ms)

    def _led_partitions(self, topic: Topic) -> set[int]:
        return {partition.index for partition in topic.partitions if partition.leader == self._logs.node_id}

    def _mark_empty_as_loaded(self, topic: Topic) -> None:
        """Treat the empty partitions that this node leads as loaded."""
        led = self._led_partitions(topic)
        self._loaded |= {shard for shard in led if not self._logs.has_records(topic.topic_id, shard)}

    def _shard_of(self, group_id: str) -> int:
        return self._cluster.metadata.coordinator_partition_index(CoordinatorKind.GROUP, group_id)

    def _unload(self, topic: Topic, shard: int) -> None:
        """Remove the groups and offsets of a partition; the topic may have been deleted."""
        self._loaded.discard(shard)
        self._with_dropped.pop(shard, None)
        group_ids = _ids_in_shard((group.group_id for group in self.groups.all_groups()), topic, shard)
        self.groups.unload_groups(group_ids)
        self.offsets.unload_groups(_ids_in_shard(self.offsets.group_ids(), topic, shard), shard)
        for group_id in group_ids:
            self._hidden.pop(group_id, None)
            # Requests that wait in the group are answered with NOT_COORDINATOR.
            self._cluster.wake(("group", group_id))

    def _load(self, topic: Topic, shard: int, now_ms: int) -> None:
        """Rebuild groups and offsets from the records; the sessions of members start again."""
        self._loaded.add(shard)
        log = self._logs.find_log(topic.topic_id, shard)
        state = GroupState(self.groups, self.offsets)
        try:
            for batch in log.batches_below(log.end_offset):
                state.replay_batch(self._cluster, shard, batch, now_ms=now_ms)
        except KafkaError:
            self._unload(topic, shard)
            raise
        group_ids = _ids_in_shard((group.group_id for group in self.groups.all_groups()), topic, shard)
        configs, broker_config = self._cluster.configs, dict(self._config)
        self.groups.resume_groups(
            group_ids,
            settings=lambda name: {**broker_config, **configs.group(name, self._logs.node_id)},
            now_ms=now_ms,
        )
        if self._cluster.rules.offsets.resumes_deletions:
            self._resume_deletions(group_ids, now_ms)
        self._cleanup.record_write(now_ms)

    # Reading.

    def committed_state(self, group_id: str, *, now_ms: int) -> GroupState:
        """The state in which a group may be described: as of the high watermark of its partition."""
        live = GroupState(self.groups, self.offsets)
        topic = self._cluster.metadata.topic(_TOPIC_NAME)
        shard = self._shard_of(group_id) if topic is not None else -1
        if topic is None or shard not in self._loaded:
            return live
        if not self._differs_from_log(topic, shard):
            self._committed.drop_state(shard)
            return live
        return self._committed.read_state(shard, self._logs.find_log(topic.topic_id, shard), live, now_ms=now_ms)

    def drop_group(self, group_id: str) -> None:
        """Remove a group in memory only; descriptions have it until its partition of the topic is written to.

        Source: the conversation other-classic-join-empty-consumer-group.
        """
        if self.groups.find_group(group_id) is not None:
            self.groups.drop_group(group_id)
            self._with_dropped[self._shard_of(group_id)] = self._end_offset(group_id)

    def hide_until_write(self, group_id: str) -> None:
        """Exclude a new group without records from descriptions until its partition of the topic is written to.

        Source: the conversation other-offset-commit-metadata.
        """
        self._hidden[group_id] = self._end_offset(group_id)

    def _is_hidden(self, group_id: str) -> bool:
        if group_id not in self._hidden:
            return False
        if self._hidden[group_id] == self._end_offset(group_id):
            return True
        del self._hidden[group_id]
        return False

    def _end_offset(self, group_id: str) -> int:
        topic = self._cluster.metadata.internal_topic(CoordinatorKind.GROUP)
        return self._logs.find_log(topic.topic_id, self._shard_of(group_id)).end_offset

    def committed_group(self, group_id: str, *, now_ms: int) -> Group | None:
        """The group of this name as of the high watermark, or None."""
        if self._is_hidden(group_id):
            return None
        state = self.committed_state(group_id, now_ms=now_ms)
        live = self.groups.find_group(group_id)
        return live if state.groups is self.groups else select_readable_group(state.groups.find_group(group_id), live)

    def committed_groups(self, *, now_ms: int) -> list[Group]:
        """All groups as of the high watermarks of their partitions, in the order in which Kafka lists them."""
        groups = [group for group in self._committed_groups(now_ms) if not self._is_hidden(group.group_id)]
        return self._listing_order.sort_groups(groups)

    def _committed_groups(self, now_ms: int) -> list[Group]:
        topic = self._cluster.metadata.topic(_TOPIC_NAME)
        if topic is None:
            return self.groups.all_groups()
        committed = {
            shard: self._committed.read_state(
                shard, self._logs.find_log(topic.topic_id, shard), GroupState(self.groups, self.offsets), now_ms=now_ms
            )
            for shard in self._loaded
            if self._differs_from_log(topic, shard)
        }
        if not committed:
            return self.groups.all_groups()
        live_groups = [group for group in self.groups.all_groups() if self._shard_of(group.group_id) not in committed]
        committed_groups = (group for state in committed.values() for group in state.groups.all_groups())
        readable = (select_readable_group(group, self.groups.find_group(group.group_id)) for group in committed_groups)
        return live_groups + [group for group in readable if group is not None]

    def _differs_from_log(self, topic: Topic, shard: int) -> bool:
        """Whether the groups in memory are not those of the committed log."""
        log = self._logs.find_log(topic.topic_id, shard)
        if self._with_dropped.get(shard, log.end_offset) != log.end_offset:
            del self._with_dropped[shard]
        return log.high_watermark < log.end_offset or shard in self._with_dropped

    def _resume_deletions(self, group_ids: Iterable[str], now_ms: int) -> None:
        from mockbroker.coordinators.share.share_deletions import resume_deletions

        persister = self._persister()
        for group in map(self.groups.find_group, group_ids):
            if isinstance(group, ShareGroup):
                resume_deletions(self.groups, group, persister, self._cluster.metadata, now_ms=now_ms)

    # Writing.

    def uncommitted_position(self, group_id: str) -> LogPosition | None:
        """The end of the partition of a group if it is not committed yet, else None."""
        topic = self._cluster.metadata.topic(_TOPIC_NAME)
        if topic is None:
            return None
        shard = partition_for_key(group_id, len(topic.partitions))
        if shard not in self._loaded:
            return None
        log = self._logs.find_log(topic.topic_id, shard)
        return None if log.high_watermark == log.end_offset else LogPosition(topic.topic_id, shard, log.end_offset)

    def is_committed(self, position: LogPosition) -> bool:
        """Whether all in-sync replicas have the partition up to a position.

        Raises: NOT_COORDINATOR when this node leads the partition no longer, or the topic was deleted.
        """
        if position.shard not in self._loaded or self._cluster.metadata.topic_by_id(position.topic_id) is None:
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        return self._logs.find_log(position.topic_id, position.shard).high_watermark >= position.end_offset

    def remove_group(self, group_id: str, *, now_ms: int) -> None:
        """Remove a group and its offsets, with all tombstones in one batch."""
        rows = self._batch_rows = []
        self.offsets.delete_group(group_id, now_ms=now_ms)
        self.groups.delete_group(group_id, now_ms=now_ms)
        self._batch_rows = None
        self._append(group_id, rows, now_ms)

    def _delete_topic_offsets(self, topic: Topic, now_ms: int) -> None:
        """Remove the committed offsets of a deleted topic, and write their tombstones."""
        for group_id, partitions in self.offsets.partitions_of_topic(topic.topic_id).items():
            rows = [encode_offset_record(group_id, topic.name, partition, None) for partition in partitions]
            with suppress(KafkaError):  # Another node coordinates the group now.
                self._append(group_id, rows, now_ms)
            for partition in partitions:
                self.offsets.remove_offset(group_id, partition)

    def _downgrade(self, request: DowngradeRequest) -> bool:
        from mockbroker.coordinators.group.group_migration import downgrade_group

        return downgrade_group(request, self.groups, self._cluster.metadata, self._config)

    # Expiration of offsets.

    def _clean_up(self, now_ms: int) -> int | None:
        """Remove expired offsets, and groups that have neither offsets nor members left.

        Returns: when more may have expired, None: never without a write.
        """
        from mockbroker.coordinators.group.offset_expiration import find_expired_offsets, next_expiration_ms

        retention_ms = self._config.integer("offsets.retention.minutes") * 60_000
        for group in self.groups.all_groups():
            expired, is_all = find_expired_offsets(
                group, self.offsets, self._find_topic_name, retention_ms=retention_ms, now_ms=now_ms
            )
            rows = self._batch_rows = []
            self.offsets.delete_offsets(group.group_id, expired, now_ms=now_ms)
            if is_all and group.is_deletable():
                self.groups.delete_group(group.group_id, now_ms=now_ms)
            self._batch_rows = None
            with suppress(KafkaError):
                self._append(group.group_id, rows, now_ms)
        groups, offsets = self.groups.all_groups(), self.offsets
        nexts = (next_expiration_ms(group, offsets, retention_ms=retention_ms, now_ms=now_ms) for group in groups)
        return min((next_ms for next_ms in nexts if next_ms is not None), default=None)

    def _find_topic_name(self, topic_id: bytes) -> str | None:
        topic = self._cluster.metadata.topic_by_id(topic_id)
        return None if topic is None else topic.name

    def _record(self, group_id: str, records: Sequence[CoordinatorRecord], now_ms: int) -> None:
        rows, edition_records = [], self._cluster.edition_records
        if edition_records is not None:
            rows = edition_records.encode_group(records, self._count_of)
            records = [record for record in records if record.kind not in SHARE_RECORD_KINDS]
            self._cleanup.record_write(now_ms)  # A change of a share group may have no record in an edition.
        self._append(group_id, rows + [encode_group_record(record, self._name_of) for record in records], now_ms)
        for listener in self._cluster.group_listeners:
            listener(group_id)

    def _count_of(self, topic_id: bytes) -> int:
        topic = self._cluster.metadata.topic_by_id(topic_id)
        return 0 if topic is None else len(topic.partitions)

    def _record_offsets(self, group_id: str, records: Sequence[OffsetRecord], now_ms: int) -> None:
        """Write offsets. Those of a deleted topic are not written: the log keeps their old records without effect."""
        topics = self._cluster.metadata.topics_by_id
        rows = [
            encode_offset_record(group_id, topics[record.partition[0]].name, record.partition, record.committed)
            for record in records
            if record.partition[0] in topics
        ]
        self._append(group_id, rows, now_ms)

    def _name_of(self, topic_id: bytes) -> str:
        topic = self._cluster.metadata.topic_by_id(topic_id)
        return _UNKNOWN_NAME if topic is None else topic.name

    def _append(self, group_id: str, rows: Sequence[KeyAndValue], now_ms: int) -> None:
        """Append the records of one operation as one batch."""
        if self._batch_rows is not None:
            self._batch_rows += rows
            return
        if not rows:
            return
        records = [Record(at, now_ms, key, value) for at, (key, value) in enumerate(rows)]
        topic = self._cluster.metadata.internal_topic(CoordinatorKind.GROUP)
        shard = partition_for_key(group_id, len(topic.partitions))
        log = self._logs.find_log(topic.topic_id, shard)
        self._last_write_ms = max(self._last_write_ms, now_ms)
        self._cleanup.record_write(now_ms)
        try:
            log.append(write_batch(records), now_ms=now_ms, origin=AppendOrigin.COORDINATOR)
        except KafkaError as error:
            if error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
                raise
            # The groups may have changed already: those of the log replace them.
            self.groups.timers.set_timer((f"reload {shard}", None), now_ms, partial(self._reload, topic, shard))
            # Source: Kafka's CoordinatorOperationExceptionHelper.
            raise KafkaError(ErrorCode.NOT_COORDINATOR, error.message) from error

    def _reload(self, topic: Topic, shard: int, now_ms: int) -> None:
        """Load a partition again, with what is in its log."""
        if shard in self._loaded and self._cluster.metadata.topic_by_id(topic.topic_id) is topic:
            self._unload(topic, shard)
            self.loading.start(shard, partial(self._load, topic, shard), now_ms=now_ms)


def _ids_in_shard(group_ids: Iterable[str], topic: Topic, shard: int) -> list[str]:
    """The groups of a partition of this topic, also of a deleted one: no other one is looked up, or created."""
    count = len(topic.partitions)
    return [group_id for group_id in group_ids if partition_for_key(group_id, count) == shard]
