"""The records of Apache Kafka 4.0.0: ShareSnapshot and ShareUpdate without times and counts.

Those of groups are the same as in 4.3.0, but for two: the epoch of a group comes without a hash of what it sees of its
topics, which has a record of its own, and nothing tells when an assignment was made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kwire.codec import decode, encode
from kwire.messages.early_access.share_group_metadata import ShareGroupMetadataKey, ShareGroupMetadataValue
from kwire.messages.early_access.share_group_partition_metadata import (
    ShareGroupPartitionMetadataKey,
    ShareGroupPartitionMetadataValue,
    TopicMetadata,
)
from kwire.messages.early_access.share_snapshot import ShareSnapshotKey, ShareSnapshotValue
from kwire.messages.early_access.share_snapshot import StateBatch as SnapshotBatch
from kwire.messages.early_access.share_update import ShareUpdateKey, ShareUpdateValue
from kwire.messages.early_access.share_update import StateBatch as UpdateBatch
from mockbroker.coordinators.edition_records import CountOf
from mockbroker.coordinators.group_records import record_of
from mockbroker.coordinators.share_state_records import TYPE_SIZE, Bytes, KeyAndValue, typed
from mockbroker.state.group_facts import SHARE_KINDS, EpochFact, FactKind, TargetEpochFact, TopicsFact
from mockbroker.state.group_facts import Fact as GroupFact
from mockbroker.state.share_coordinator import Fact, ShareKey, Snapshot, Stored, Update
from mockbroker.state.state_batches import StateBatch

#: The topics that a group sees.
_TOPICS = ShareGroupPartitionMetadataKey.API_KEY
_SNAPSHOT, _UPDATE = ShareSnapshotKey.API_KEY, ShareUpdateKey.API_KEY
#: Snapshots are numbered in 16 bits, without a sign.
_EPOCHS = 1 << 16
#: No count of what is done was kept yet.
_NO_COUNT = -1


class EarlyRecords:
    """The records of the edition. Nobody initialises a state, so nothing is kept of which ones are initialised."""

    def of_states(self) -> EarlyStates:
        """The records of one share coordinator, from their beginning."""
        return EarlyStates()

    def of_group(self, facts: Sequence[GroupFact], _count_of: CountOf) -> list[KeyAndValue]:
        """Those that 4.0.0 has."""
        return [row for fact in facts if fact.kind in SHARE_KINDS for row in _written(fact)]

    def group_facts(self, key: Bytes, value: Bytes | None) -> Sequence[GroupFact] | None:
        """What the two say; the others are read as those of 4.3.0."""
        number = int.from_bytes(key[:TYPE_SIZE], "big")
        if number == _TOPICS:
            group_id = decode(ShareGroupPartitionMetadataKey, 0, key[TYPE_SIZE:]).group_id
            return [GroupFact(FactKind.SHARE_TOPICS, group_id, "", _topics(value))]
        if number != FactKind.SHARE_EPOCH:
            return None
        group_id = decode(ShareGroupMetadataKey, 0, key[TYPE_SIZE:]).group_id
        epoch = None if value is None else decode(ShareGroupMetadataValue, 0, value[TYPE_SIZE:]).epoch
        return [GroupFact(FactKind.SHARE_EPOCH, group_id, "", None if epoch is None else EpochFact(epoch, 0))]


def _written(fact: GroupFact) -> Iterator[KeyAndValue]:
    """The record of a fact. No state is ever listed, so that the end of such a list is that of the topics."""
    key, value = typed(_TOPICS, encode(ShareGroupPartitionMetadataKey(fact.group_id), 0)), fact.value
    if isinstance(value, TopicsFact):
        rows = [TopicMetadata(*row) for row in value.topics]
        yield key, typed(0, encode(ShareGroupPartitionMetadataValue(rows), 0))
    elif fact.kind is FactKind.SHARE_STATES:
        if value is None:
            yield key, None
    elif isinstance(value, EpochFact):
        named = encode(ShareGroupMetadataKey(fact.group_id), 0)
        yield typed(fact.kind, named), typed(0, encode(ShareGroupMetadataValue(value.epoch), 0))
    elif isinstance(value, TargetEpochFact):
        yield record_of(fact._replace(value=value._replace(assigned_at_ms=0)), _no_name)
    else:
        yield record_of(fact, _no_name)


def _no_name(_topic_id: bytes) -> str:
    return ""


def _topics(value: Bytes | None) -> TopicsFact | None:
    if value is None:
        return None
    rows = decode(ShareGroupPartitionMetadataValue, 0, value[TYPE_SIZE:]).topics
    return TopicsFact(tuple((row.topic_id, row.topic_name, row.num_partitions) for row in rows))


class EarlyStates:
    """How a share coordinator of 4.0.0 writes and reads its topic."""

    def write(self, fact: Fact) -> list[KeyAndValue]:
        """One record for each fact."""
        if isinstance(fact, Update):
            epoch, batches = fact.snapshot_epoch % _EPOCHS, [UpdateBatch(*batch) for batch in fact.batches]
            update = ShareUpdateValue(epoch, fact.leader_epoch, fact.start_offset, batches)
            return [(typed(_UPDATE, encode(ShareUpdateKey(*fact.key), 0)), typed(0, encode(update, 0)))]
        key = typed(_SNAPSHOT, encode(ShareSnapshotKey(*fact.key), 0))
        stored = fact.value
        if stored is None:
            return [(key, None)]
        snapshot = ShareSnapshotValue(
            stored.snapshot_epoch % _EPOCHS,
            stored.state_epoch,
            stored.leader_epoch,
            stored.start_offset,
            [SnapshotBatch(*batch) for batch in stored.batches],
        )
        return [(key, typed(0, encode(snapshot, 0)))]

    def read(self, key: Bytes, value: Bytes | None, timestamp: int) -> Fact | None:
        """A snapshot does not tell its times, which are those of its record."""
        kind = int.from_bytes(key[:TYPE_SIZE], "big")
        if kind == _UPDATE and value is not None:
            name = decode(ShareUpdateKey, 0, key[TYPE_SIZE:])
            update = decode(ShareUpdateValue, 0, value[TYPE_SIZE:])
            return Update(
                ShareKey(name.group_id, name.topic_id, name.partition),
                update.snapshot_epoch,
                update.leader_epoch,
                update.start_offset,
                _NO_COUNT,
                _batches(update.state_batches),
            )
        if kind != _SNAPSHOT:
            return None
        place = decode(ShareSnapshotKey, 0, key[TYPE_SIZE:])
        share_key = ShareKey(place.group_id, place.topic_id, place.partition)
        if value is None:
            return Snapshot(share_key, None)
        snapshot = decode(ShareSnapshotValue, 0, value[TYPE_SIZE:])
        stored = Stored(
            snapshot.snapshot_epoch,
            snapshot.state_epoch,
            snapshot.leader_epoch,
            snapshot.start_offset,
            _NO_COUNT,
            _batches(snapshot.state_batches),
            timestamp,
            timestamp,
        )
        return Snapshot(share_key, stored)


def _batches(rows: Iterable[SnapshotBatch | UpdateBatch]) -> tuple[StateBatch, ...]:
    return tuple(StateBatch(row.first_offset, row.last_offset, row.delivery_state, row.delivery_count) for row in rows)
