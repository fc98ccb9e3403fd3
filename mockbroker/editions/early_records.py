"""Records of Apache Kafka 4.0.0: ShareSnapshot and ShareUpdate without times and counts.

Those of groups are the same as in 4.3.0, with two exceptions: the epoch of a group has no hash of its topics' metadata,
which is a record of its own, and assignments have no time.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kwire.codec import decode, encode
from kwire.messages.early_access import share_group_partition_metadata as partition_metadata
from kwire.messages.early_access.share_group_metadata import ShareGroupMetadataKey, ShareGroupMetadataValue
from kwire.messages.early_access.share_snapshot import ShareSnapshotKey, ShareSnapshotValue
from kwire.messages.early_access.share_snapshot import StateBatch as SnapshotBatch
from kwire.messages.early_access.share_update import ShareUpdateKey, ShareUpdateValue
from kwire.messages.early_access.share_update import StateBatch as UpdateBatch
from mockbroker.cluster_services.edition_records import Bytes, KeyAndValue, PartitionCountLookup
from mockbroker.coordinators.group.group_records import encode_group_record
from mockbroker.coordinators.share.share_state_records import TYPE_SIZE, prefix_type
from mockbroker.state.group.coordinator_records import (
    SHARE_RECORD_KINDS,
    CoordinatorRecord,
    GroupEpochValue,
    RecordKind,
    SubscribedTopicsValue,
    TargetEpochValue,
)
from mockbroker.state.share.state_batches import StateBatch
from mockbroker.state.share_coordinator.share_coordinator import (
    ShareKey,
    StateRecord,
    StateSnapshot,
    StateUpdate,
    StoredState,
)

#: The topics that a group sees.
_TOPICS = partition_metadata.ShareGroupPartitionMetadataKey.API_KEY
_SNAPSHOT, _UPDATE = ShareSnapshotKey.API_KEY, ShareUpdateKey.API_KEY
#: Snapshot epochs are unsigned 16-bit numbers.
_EPOCHS = 1 << 16
#: The number of complete records was not stored.
_NO_COUNT = -1


class EarlyRecords:
    """The records of the edition. States are not initialized, so initialized partitions are not recorded."""

    def new_state_records(self) -> EarlyStateRecords:
        """The record format of one share coordinator, without history."""
        return EarlyStateRecords()

    def encode_group(self, records: Sequence[CoordinatorRecord], _count_of: PartitionCountLookup) -> list[KeyAndValue]:
        """Encode the records that 4.0.0 has."""
        return [row for record in records if record.kind in SHARE_RECORD_KINDS for row in _encode_record(record)]

    def decode_group(self, key: Bytes, value: Bytes | None) -> Sequence[CoordinatorRecord] | None:
        """Decode the two different records; the others are read as those of 4.3.0."""
        number = int.from_bytes(key[:TYPE_SIZE], "big")
        if number == _TOPICS:
            group_id = decode(partition_metadata.ShareGroupPartitionMetadataKey, 0, key[TYPE_SIZE:]).group_id
            return [CoordinatorRecord(RecordKind.SHARE_TOPICS, group_id, "", _decode_topics(value))]
        if number != RecordKind.SHARE_EPOCH:
            return None
        group_id = decode(ShareGroupMetadataKey, 0, key[TYPE_SIZE:]).group_id
        epoch = None
        if value is not None:
            epoch = GroupEpochValue(decode(ShareGroupMetadataValue, 0, value[TYPE_SIZE:]).epoch, 0)
        return [CoordinatorRecord(RecordKind.SHARE_EPOCH, group_id, "", epoch)]


def _encode_record(record: CoordinatorRecord) -> Iterator[KeyAndValue]:
    """Encode a record. States are never listed, so a deletion of that list deletes the record of the topics."""
    key = prefix_type(_TOPICS, encode(partition_metadata.ShareGroupPartitionMetadataKey(record.group_id), 0))
    value = record.value
    if isinstance(value, SubscribedTopicsValue):
        rows = [partition_metadata.TopicMetadata(*row) for row in value.topics]
        yield key, prefix_type(0, encode(partition_metadata.ShareGroupPartitionMetadataValue(rows), 0))
    elif record.kind is RecordKind.SHARE_STATES:
        if value is None:
            yield key, None
    elif isinstance(value, GroupEpochValue):
        named = encode(ShareGroupMetadataKey(record.group_id), 0)
        yield prefix_type(record.kind, named), prefix_type(0, encode(ShareGroupMetadataValue(value.epoch), 0))
    elif isinstance(value, TargetEpochValue):
        yield encode_group_record(record._replace(value=value._replace(assigned_at_ms=0)), _no_name)
    else:
        yield encode_group_record(record, _no_name)


def _no_name(_topic_id: bytes) -> str:
    return ""


def _decode_topics(value: Bytes | None) -> SubscribedTopicsValue | None:
    if value is None:
        return None
    rows = decode(partition_metadata.ShareGroupPartitionMetadataValue, 0, value[TYPE_SIZE:]).topics
    return SubscribedTopicsValue(tuple((row.topic_id, row.topic_name, row.num_partitions) for row in rows))


class EarlyStateRecords:
    """The record format of the share coordinator's topic in 4.0.0."""

    def write(self, record: StateRecord) -> list[KeyAndValue]:
        """Encode a record."""
        if isinstance(record, StateUpdate):
            epoch, batches = record.snapshot_epoch % _EPOCHS, [UpdateBatch(*batch) for batch in record.batches]
            update = ShareUpdateValue(epoch, record.leader_epoch, record.start_offset, batches)
            return [(prefix_type(_UPDATE, encode(ShareUpdateKey(*record.key), 0)), prefix_type(0, encode(update, 0)))]
        key = prefix_type(_SNAPSHOT, encode(ShareSnapshotKey(*record.key), 0))
        stored = record.value
        if stored is None:
            return [(key, None)]
        snapshot = ShareSnapshotValue(
            stored.snapshot_epoch % _EPOCHS,
            stored.state_epoch,
            stored.leader_epoch,
            stored.start_offset,
            [SnapshotBatch(*batch) for batch in stored.batches],
        )
        return [(key, prefix_type(0, encode(snapshot, 0)))]

    def read(self, key: Bytes, value: Bytes | None, timestamp: int) -> StateRecord | None:
        """Decode a record; a snapshot has no times, and gets those of its record."""
        kind = int.from_bytes(key[:TYPE_SIZE], "big")
        if kind == _UPDATE and value is not None:
            name = decode(ShareUpdateKey, 0, key[TYPE_SIZE:])
            update = decode(ShareUpdateValue, 0, value[TYPE_SIZE:])
            share_key = ShareKey(name.group_id, name.topic_id, name.partition)
            batches = _to_state_batches(update.state_batches)
            return StateUpdate(
                share_key, update.snapshot_epoch, update.leader_epoch, update.start_offset, _NO_COUNT, batches
            )
        if kind != _SNAPSHOT:
            return None
        place = decode(ShareSnapshotKey, 0, key[TYPE_SIZE:])
        share_key = ShareKey(place.group_id, place.topic_id, place.partition)
        if value is None:
            return StateSnapshot(share_key, None)
        snapshot = decode(ShareSnapshotValue, 0, value[TYPE_SIZE:])
        stored = StoredState(
            snapshot_epoch=snapshot.snapshot_epoch,
            state_epoch=snapshot.state_epoch,
            leader_epoch=snapshot.leader_epoch,
            start_offset=snapshot.start_offset,
            delivery_complete_count=_NO_COUNT,
            batches=_to_state_batches(snapshot.state_batches),
            created_ms=timestamp,
            written_ms=timestamp,
        )
        return StateSnapshot(share_key, stored)


def _to_state_batches(rows: Iterable[SnapshotBatch | UpdateBatch]) -> tuple[StateBatch, ...]:
    return tuple(StateBatch(row.first_offset, row.last_offset, row.delivery_state, row.delivery_count) for row in rows)
