"""Encoding facts of share partitions as the records of `__share_group_state`, and decoding them.

Keys and values are those of Kafka's schemas behind two bytes: the type of the record before the key, the version
before the value.
"""

from __future__ import annotations

from functools import lru_cache

from kwire.codec import decode, encode
from kwire.records.coordinator.share_snapshot import ShareSnapshotKey, ShareSnapshotValue
from kwire.records.coordinator.share_snapshot import StateBatch as SnapshotBatch
from kwire.records.coordinator.share_update import ShareUpdateKey, ShareUpdateValue
from kwire.records.coordinator.share_update import StateBatch as UpdateBatch
from mockbroker.cluster_services.edition_records import Bytes, KeyAndValue
from mockbroker.state.share.state_batches import StateBatch
from mockbroker.state.share_coordinator.share_coordinator import (
    ShareKey,
    StateRecord,
    StateSnapshot,
    StateUpdate,
    StoredState,
)

TYPE_SIZE = 2
_SNAPSHOT, _UPDATE = ShareSnapshotKey.API_KEY, ShareUpdateKey.API_KEY


class ReleasedRecords:
    """ShareSnapshot and ShareUpdate. Source: share-semantics 7.2."""

    def write(self, fact: StateRecord) -> list[KeyAndValue]:
        """One record for each fact."""
        return [_encode_record(fact)]

    def read(self, key: Bytes, value: Bytes | None, _timestamp: int) -> StateRecord | None:
        """Decode a record; the times are in the snapshot itself."""
        return _decode_record(key, value)


def _encode_record(fact: StateRecord) -> tuple[bytes, bytes | None]:
    """Key and value of the record that stores a fact; no value: the share partition is deleted."""
    if isinstance(fact, StateUpdate):
        value = ShareUpdateValue(
            fact.snapshot_epoch,
            fact.leader_epoch,
            fact.start_offset,
            fact.delivery_complete_count,
            [UpdateBatch(*batch) for batch in fact.batches],
        )
        return _encode_update_key(fact.key), prefix_type(0, encode(value, 0))
    key = prefix_type(_SNAPSHOT, encode(ShareSnapshotKey(*fact.key), 0))
    stored = fact.value
    if stored is None:
        return key, None
    snapshot = ShareSnapshotValue(
        stored.snapshot_epoch,
        stored.state_epoch,
        stored.leader_epoch,
        stored.start_offset,
        stored.delivery_complete_count,
        stored.created_ms,
        stored.written_ms,
        [SnapshotBatch(*batch) for batch in stored.batches],
    )
    return key, prefix_type(0, encode(snapshot, 0))


@lru_cache(maxsize=256)  # A leader writes the same key again and again.
def _encode_update_key(key: ShareKey) -> bytes:
    return prefix_type(_UPDATE, encode(ShareUpdateKey(*key), 0))


def prefix_type(number: int, body: bytes) -> bytes:
    """A key or a value, behind its number."""
    return number.to_bytes(TYPE_SIZE, "big") + body


def _decode_record(key: Bytes, value: Bytes | None) -> StateRecord | None:
    kind = int.from_bytes(key[:TYPE_SIZE], "big")
    if kind == _UPDATE and value is not None:
        update_key = decode(ShareUpdateKey, 0, key[TYPE_SIZE:])
        update = decode(ShareUpdateValue, 0, value[TYPE_SIZE:])
        return StateUpdate(
            ShareKey(update_key.group_id, update_key.topic_id, update_key.partition),
            update.snapshot_epoch,
            update.leader_epoch,
            update.start_offset,
            update.delivery_complete_count,
            _batches(update.state_batches),
        )
    if kind != _SNAPSHOT:
        return None
    snapshot_key = decode(ShareSnapshotKey, 0, key[TYPE_SIZE:])
    share_key = ShareKey(snapshot_key.group_id, snapshot_key.topic_id, snapshot_key.partition)
    if value is None:
        return StateSnapshot(share_key, None)
    snapshot = decode(ShareSnapshotValue, 0, value[TYPE_SIZE:])
    stored = StoredState(
        snapshot.snapshot_epoch,
        snapshot.state_epoch,
        snapshot.leader_epoch,
        snapshot.start_offset,
        snapshot.delivery_complete_count,
        _batches(snapshot.state_batches),
        snapshot.create_timestamp,
        snapshot.write_timestamp,
    )
    return StateSnapshot(share_key, stored)


def _batches(rows: list[SnapshotBatch] | list[UpdateBatch]) -> tuple[StateBatch, ...]:
    return tuple(StateBatch(row.first_offset, row.last_offset, row.delivery_state, row.delivery_count) for row in rows)
