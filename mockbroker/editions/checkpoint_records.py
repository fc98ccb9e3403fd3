"""ShareCheckpoint and ShareDelta: the records of `__share_group_state` in the third and fourth revision.

The topic is compacted. So a delta has an index in its key; else it would replace the previous one. The index is one
byte, and starts again at 0. By then a checkpoint has made the first deltas redundant.
"""

from __future__ import annotations

from kwire.codec import decode, encode
from kwire.messages.drafts.r3 import share_checkpoint, share_delta
from kwire.messages.drafts.r3.share_checkpoint import ShareCheckpointKey, ShareCheckpointValue
from kwire.messages.drafts.r3.share_delta import ShareDeltaKey, ShareDeltaValue
from mockbroker.cluster_services.edition_records import Bytes, KeyAndValue
from mockbroker.coordinators.share.share_state_records import TYPE_SIZE, prefix_type
from mockbroker.state.share.state_batches import StateBatch
from mockbroker.state.share_coordinator.share_coordinator import (
    NO_EPOCH,
    ShareKey,
    StateRecord,
    StateSnapshot,
    StateUpdate,
    StoredState,
)

#: The number of indexes.
DELTA_INDEXES = 256
#: Epochs have 32 bits, with a sign in requests and without one in records.
_EPOCHS, _FIRST_NEGATIVE = 1 << 32, 1 << 31
#: The number of complete records was not stored.
_NO_COUNT = -1
_CHECKPOINT, _DELTA = ShareCheckpointKey.API_KEY, ShareDeltaKey.API_KEY


class CheckpointRecords:
    """The record format of one share coordinator, with what the next delta of each share partition needs."""

    def __init__(self) -> None:
        self._state_epochs: dict[ShareKey, int] = {}
        self._next_indexes: dict[ShareKey, int] = {}
        self._indexes: dict[ShareKey, set[int]] = {}

    def write(self, record: StateRecord) -> list[KeyAndValue]:
        """Encode a record; a deletion is a tombstone for the checkpoint, and one for each index in use."""
        key = record.key
        if isinstance(record, StateUpdate):
            return [self._encode_delta(record)]
        checkpoint = prefix_type(_CHECKPOINT, encode(ShareCheckpointKey(*key), 0))
        stored = record.value
        if stored is None:
            indexes = sorted(self._indexes.get(key, ()))
            deltas = [prefix_type(_DELTA, encode(ShareDeltaKey(*key, index), 0)) for index in indexes]
            self._remove_partition(key)
            return [(deleted, None) for deleted in (*deltas, checkpoint)]
        self._state_epochs[key] = stored.state_epoch
        states = [share_checkpoint.State(*batch) for batch in stored.batches]
        state_epoch = stored.state_epoch % _EPOCHS
        value = ShareCheckpointValue(state_epoch, stored.snapshot_epoch % _EPOCHS, stored.start_offset, states)
        return [(checkpoint, prefix_type(0, encode(value, 0)))]

    def _encode_delta(self, update: StateUpdate) -> KeyAndValue:
        key = update.key
        index = self._next_indexes.get(key, 0)
        self._reserve_index(key, index)
        state_epoch = self._state_epochs.get(key, 0) % _EPOCHS
        states = [share_delta.State(*batch) for batch in update.batches]
        value = ShareDeltaValue(state_epoch, update.snapshot_epoch % _EPOCHS, update.start_offset, states)
        return prefix_type(_DELTA, encode(ShareDeltaKey(*key, index), 0)), prefix_type(0, encode(value, 0))

    def read(self, key: Bytes, value: Bytes | None, timestamp: int) -> StateRecord | None:
        """Decode a record; a checkpoint has no time, and gets that of its record."""
        kind = int.from_bytes(key[:TYPE_SIZE], "big")
        if kind == _DELTA:
            return self._read_delta(decode(ShareDeltaKey, 0, key[TYPE_SIZE:]), value)
        if kind != _CHECKPOINT:
            return None
        name = decode(ShareCheckpointKey, 0, key[TYPE_SIZE:])
        share_key = ShareKey(name.group_id, name.topic_id, name.partition)
        if value is None:
            self._remove_partition(share_key)
            return StateSnapshot(share_key, None)
        read = decode(ShareCheckpointValue, 0, value[TYPE_SIZE:])
        self._state_epochs[share_key] = epoch = _to_signed(read.state_epoch)
        batches = _to_state_batches(read.states)
        stored = StoredState(
            read.checkpoint_epoch, epoch, NO_EPOCH, read.start_offset, _NO_COUNT, batches, timestamp, timestamp
        )
        return StateSnapshot(share_key, stored)

    def _read_delta(self, name: ShareDeltaKey, value: Bytes | None) -> StateRecord | None:
        share_key = ShareKey(name.group_id, name.topic_id, name.partition)
        if value is None:
            self._indexes.get(share_key, set()).discard(name.delta_index)
            return None
        self._reserve_index(share_key, name.delta_index)
        read = decode(ShareDeltaValue, 0, value[TYPE_SIZE:])
        batches = _to_state_batches(read.states)
        return StateUpdate(share_key, read.checkpoint_epoch, NO_EPOCH, read.start_offset, _NO_COUNT, batches)

    def _reserve_index(self, key: ShareKey, index: int) -> None:
        self._indexes.setdefault(key, set()).add(index)
        self._next_indexes[key] = (index + 1) % DELTA_INDEXES

    def _remove_partition(self, key: ShareKey) -> None:
        for table in (self._state_epochs, self._next_indexes, self._indexes):
            table.pop(key, None)


def _to_signed(epoch: int) -> int:
    return epoch - _EPOCHS if epoch >= _FIRST_NEGATIVE else epoch


def _to_state_batches(rows: list[share_checkpoint.State] | list[share_delta.State]) -> tuple[StateBatch, ...]:
    return tuple(StateBatch(row.base_offset, row.last_offset, row.state, row.delivery_count) for row in rows)
