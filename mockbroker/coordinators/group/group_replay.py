"""Replaying the records of the group coordinators' topic into groups and committed offsets.

Source: Kafka's GroupCoordinatorShard.replay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kwire.records import ControlType, read_control
from mockbroker.coordinators.group.group_records import OffsetRecord, decode_group_record, decode_offset_record
from mockbroker.state.group.classic_group import ClassicGroup
from mockbroker.state.group.committed_offsets import CommittedOffsets
from mockbroker.state.groups import Groups
from mockbroker.state.streams.streams_group import StreamsGroup

if TYPE_CHECKING:
    from mockbroker.cluster_services.cluster_services import ClusterServices
    from mockbroker.state.group.group import Group
    from mockbroker.state.metadata.cluster_image import ClusterImage
    from mockbroker.state.storage.partition_log import PartitionLog, StoredBatch


class GroupState(NamedTuple):
    """The groups of a coordinator and their committed offsets, as of one position in the log."""

    groups: Groups
    offsets: CommittedOffsets

    def replay_batch(self, cluster: ClusterServices[object], shard: int, batch: StoredBatch, *, now_ms: int) -> None:
        """Apply the records of a batch."""
        header = batch.checked_header()
        if header.is_control:
            for record in batch.records():
                commit = read_control(record).type is ControlType.COMMIT
                self.offsets.end_transaction(shard, header.producer_id, commit=commit)
            return
        producer_id = header.producer_id if header.is_transactional else None
        for record in batch.records():
            key, value = record.key, record.value
            if key is None:
                continue
            edition_records = cluster.edition_records.decode_group(key, value) if cluster.edition_records else None
            offset = decode_offset_record(key, value)
            group_record = decode_group_record(key, value) if offset is None and edition_records is None else None
            if offset is not None:
                self._replay_offset(cluster.metadata, shard, offset, producer_id)
            for applied_record in edition_records or (group_record,):
                if applied_record is not None:
                    self.groups.replay(applied_record, now_ms=now_ms)

    def _replay_offset(self, metadata: ClusterImage, shard: int, row: OffsetRecord, producer_id: int | None) -> None:
        """Store or delete an offset; a commit creates a missing group, as a client can commit without joining."""
        if row.committed is not None and self.groups.find_group(row.group_id) is None:
            self.groups.create_classic_group(row.group_id)
        topic = metadata.topic(row.topic)
        topic_id = row.topic_id or (topic.topic_id if topic is not None else None)
        if topic_id is None:
            return
        partition = (topic_id, row.partition)
        if row.committed is None:
            self.offsets.remove_offset(row.group_id, partition)
        elif producer_id is None:
            self.offsets.store_offset(row.group_id, partition, row.committed)
        else:
            self.offsets.commit_in_transaction(shard, producer_id, row.group_id, partition, row.committed)


class CommittedGroupStates:
    """Group states as of a partition's high watermark, read from its log and cached until the high watermark moves.

    Kafka's coordinators have snapshots in their timeline structures. Only uncommitted partitions, which are rare, need
    a snapshot here, and the log below the high watermark contains it.
    """

    def __init__(self, cluster: ClusterServices[object]) -> None:
        self._cluster = cluster
        self._cache: dict[int, tuple[PartitionLog, int, GroupState]] = {}

    def read_state(self, shard: int, log: PartitionLog, live: GroupState, *, now_ms: int) -> GroupState:
        """The committed state of a partition's groups. live: their state with all written records."""
        cached = self._cache.get(shard)
        if cached is None or cached[0] is not log or cached[1] != log.high_watermark:
            cached = self._cache[shard] = (log, log.high_watermark, self._read(shard, log, live, now_ms))
        return cached[2]

    def drop_state(self, shard: int) -> None:
        """Forget the state of a partition whose groups in memory are those of its log again."""
        self._cache.pop(shard, None)

    def _read(self, shard: int, log: PartitionLog, live: GroupState, now_ms: int) -> GroupState:
        groups = Groups(self._cluster.metadata, lambda key: None)
        groups.share_rules = self._cluster.rules
        groups.streams_rules = self._cluster.release.streams
        groups.coordinator_rules = self._cluster.release.groups
        state = GroupState(groups, CommittedOffsets())
        for batch in log.batches_below(log.high_watermark):
            state.replay_batch(self._cluster, shard, batch, now_ms=now_ms)
        for group in groups.all_groups():
            live_group = live.groups.find_group(group.group_id)
            if isinstance(group, StreamsGroup) and isinstance(live_group, StreamsGroup):
                # Derived from the cluster's topics, and reported by members; no record stores them.
                group.configured, group.task_offsets = live_group.configured, live_group.task_offsets
        return state


def select_readable_group(committed: Group | None, live: Group | None) -> Group | None:
    """The group to describe: of a classic group only its existence depends on the committed offset, not its members."""
    is_classic = isinstance(committed, ClassicGroup) and isinstance(live, ClassicGroup)
    return live if is_classic else committed
