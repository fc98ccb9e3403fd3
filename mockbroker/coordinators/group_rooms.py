"""Groups and committed offsets as the records of the group coordinators' topic have them.

Source: Kafka's GroupCoordinatorShard.replay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kwire.records import ControlType, read_control
from mockbroker.coordinators.group_records import OffsetRecord, fact_of, offset_of
from mockbroker.state.classic_group import ClassicGroup
from mockbroker.state.groups import Groups
from mockbroker.state.offsets import Offsets
from mockbroker.state.streams_group import StreamsGroup

if TYPE_CHECKING:
    from mockbroker.context import ClusterState
    from mockbroker.state.group_kinds import Group
    from mockbroker.state.log import PartitionLog, StoredBatch
    from mockbroker.state.metadata import Metadata


class GroupRooms(NamedTuple):
    """Groups and offsets that belong together."""

    groups: Groups
    offsets: Offsets

    def replay(self, cluster: ClusterState, shard: int, batch: StoredBatch, *, now_ms: int) -> None:
        """Take over what a batch of a partition says."""
        header = batch.header()
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
            own = cluster.records.group_facts(key, value) if cluster.records is not None else None
            offset = offset_of(key, value)
            fact = fact_of(key, value) if offset is None and own is None else None
            if offset is not None:
                self._replay_offset(cluster.metadata, shard, offset, producer_id)
            for each in own or (fact,):
                if each is not None:
                    self.groups.replay(each, now_ms=now_ms)

    def _replay_offset(self, metadata: Metadata, shard: int, row: OffsetRecord, producer_id: int | None) -> None:
        """Keep or delete an offset; where there is no group, an offset makes one, as one can commit without joining."""
        if row.committed is not None and self.groups.find(row.group_id) is None:
            self.groups.make_classic(row.group_id)
        topic = metadata.topic(row.topic)
        topic_id = row.topic_id or (topic.topic_id if topic is not None else None)
        if topic_id is None:
            return
        partition = (topic_id, row.partition)
        if row.committed is None:
            self.offsets.delete(row.group_id, partition)
        elif producer_id is None:
            self.offsets.commit(row.group_id, partition, row.committed)
        else:
            self.offsets.commit_in_transaction(shard, producer_id, row.group_id, partition, row.committed)


class CommittedRooms:
    """The rooms as of the high watermark of a partition, read from its log; kept until the high watermark moves.

    Kafka's coordinators keep snapshots in their timeline structures. Only what is uncommitted needs one, which is rare,
    and the log below the high watermark says the same.
    """

    def __init__(self, cluster: ClusterState) -> None:
        self._cluster = cluster
        self._kept: dict[int, tuple[PartitionLog, int, GroupRooms]] = {}

    def of(self, shard: int, log: PartitionLog, live: GroupRooms, *, now_ms: int) -> GroupRooms:
        """What may be told of a partition's groups; live: what has been written of them."""
        if log.high_watermark >= log.end_offset:
            self._kept.pop(shard, None)
            return live
        kept = self._kept.get(shard)
        if kept is None or kept[0] is not log or kept[1] != log.high_watermark:
            kept = self._kept[shard] = (log, log.high_watermark, self._read(shard, log, live, now_ms))
        return kept[2]

    def _read(self, shard: int, log: PartitionLog, live: GroupRooms, now_ms: int) -> GroupRooms:
        groups = Groups(self._cluster.metadata, lambda key: None)
        groups.share_rules = self._cluster.rules
        rooms = GroupRooms(groups, Offsets())
        for batch in log.below(log.high_watermark):
            rooms.replay(self._cluster, shard, batch, now_ms=now_ms)
        for group in groups.all():
            newer = live.groups.find(group.group_id)
            if isinstance(group, StreamsGroup) and isinstance(newer, StreamsGroup):
                group.configured = newer.configured  # It follows from the cluster's topics, and is in no record.
        return rooms


def told(committed: Group | None, live: Group | None) -> Group | None:
    """The group to tell of: of a classic group only whether it is there is kept by offset, not who is in it."""
    is_classic = isinstance(committed, ClassicGroup) and isinstance(live, ClassicGroup)
    return live if is_classic else committed
