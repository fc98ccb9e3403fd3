"""Facts of share partitions as the records of `__share_group_state`, and back.

Keys and values are those of Kafka's schemas behind two bytes: the type of the record before the key, the version
before the value.
"""

from __future__ import annotations

from typing import Protocol

from kwire.codec import decode, encode
from kwire.records.coordinator.share_snapshot import ShareSnapshotKey, ShareSnapshotValue
from kwire.records.coordinator.share_snapshot import StateBatch as SnapshotBatch
from kwire.records.coordinator.share_update import ShareUpdateKey, ShareUpdateValue
from kwire.records.coordinator.share_update import StateBatch as UpdateBatch
from mockbroker.state.share_coordinator import Fact, ShareKey, Snapshot, Stored, Update
from mockbroker.state.state_batches import StateBatch

Bytes = bytes | memoryview
KeyAndValue = tuple[bytes, bytes | None]

TYPE_SIZE = 2
_SNAPSHOT, _UPDATE = ShareSnapshotKey.API_KEY, ShareUpdateKey.API_KEY


class StateRecords(Protocol):
    """How one share coordinator writes and reads its topic."""

    def write(self, fact: Fact) -> list[KeyAndValue]:
        """The records that keep a fact, at least one; no value: the share partition is deleted."""
        ...

    def read(self, key: Bytes, value: Bytes | None, timestamp: int) -> Fact | None:
        """The fact that a record keeps; None for one that is not known here, which Kafka skips as well."""
        ...


class ReleasedRecords:
    """ShareSnapshot and ShareUpdate. Source: share-semantics 7.2."""

    def write(self, fact: Fact) -> list[KeyAndValue]:
        """One record for each fact."""
        return [_record_of(fact)]

    def read(self, key: Bytes, value: Bytes | None, _timestamp: int) -> Fact | None:
        """A snapshot tells its times itself."""
        return _fact_of(key, value)


def _record_of(fact: Fact) -> tuple[bytes, bytes | None]:
    """Key and value of the record that keeps a fact; no value: the share partition is deleted."""
    if isinstance(fact, Update):
        value = ShareUpdateValue(
            fact.snapshot_epoch,
            fact.leader_epoch,
            fact.start_offset,
            fact.delivery_complete_count,
            [UpdateBatch(*batch) for batch in fact.batches],
        )
        return typed(_UPDATE, encode(ShareUpdateKey(*fact.key), 0)), typed(0, encode(value, 0))
    key = typed(_SNAPSHOT, encode(ShareSnapshotKey(*fact.key), 0))
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
    return key, typed(0, encode(snapshot, 0))


def typed(number: int, body: bytes) -> bytes:
    """A key or a value, behind its number."""
    return number.to_bytes(TYPE_SIZE, "big") + body


def _fact_of(key: Bytes, value: Bytes | None) -> Fact | None:
    kind = int.from_bytes(key[:TYPE_SIZE], "big")
    if kind == _UPDATE and value is not None:
        name = decode(ShareUpdateKey, 0, key[TYPE_SIZE:])
        update = decode(ShareUpdateValue, 0, value[TYPE_SIZE:])
        return Update(
            ShareKey(name.group_id, name.topic_id, name.partition),
            update.snapshot_epoch,
            update.leader_epoch,
            update.start_offset,
            update.delivery_complete_count,
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
        snapshot.delivery_complete_count,
        _batches(snapshot.state_batches),
        snapshot.create_timestamp,
        snapshot.write_timestamp,
    )
    return Snapshot(share_key, stored)


def _batches(rows: list[SnapshotBatch] | list[UpdateBatch]) -> tuple[StateBatch, ...]:
    return tuple(StateBatch(row.first_offset, row.last_offset, row.delivery_state, row.delivery_count) for row in rows)
