"""ShareCheckpoint and ShareDelta: the records of `__share_group_state` in the third and fourth revision.

The topic is compacted. So a delta has an index in its key, lest it take the place of the one before; the index takes
one byte, and begins again when it is used up. By then a checkpoint has made the first deltas redundant.
"""

from __future__ import annotations

from kwire.codec import decode, encode
from kwire.messages.drafts.r3 import share_checkpoint, share_delta
from kwire.messages.drafts.r3.share_checkpoint import ShareCheckpointKey, ShareCheckpointValue
from kwire.messages.drafts.r3.share_delta import ShareDeltaKey, ShareDeltaValue
from mockbroker.coordinators.share_state_records import TYPE_SIZE, Bytes, KeyAndValue, typed
from mockbroker.state.share_coordinator import NO_EPOCH, Fact, ShareKey, Snapshot, Stored, Update
from mockbroker.state.state_batches import StateBatch

#: How many indexes there are.
DELTA_INDEXES = 256
#: Epochs have 32 bits, with a sign in requests and without one in records.
_EPOCHS, _FIRST_NEGATIVE = 1 << 32, 1 << 31
#: No count of what is done was ever kept.
_NO_COUNT = -1
_CHECKPOINT, _DELTA = ShareCheckpointKey.API_KEY, ShareDeltaKey.API_KEY


class Checkpoints:
    """The records of one share coordinator; it knows of each share partition what its next delta needs."""

    def __init__(self) -> None:
        self._state_epochs: dict[ShareKey, int] = {}
        self._next_indexes: dict[ShareKey, int] = {}
        self._indexes: dict[ShareKey, set[int]] = {}

    def write(self, fact: Fact) -> list[KeyAndValue]:
        """One record; the end of a share partition is one for its checkpoint, and one for each index in use."""
        key = fact.key
        if isinstance(fact, Update):
            return [self._delta(fact)]
        checkpoint = typed(_CHECKPOINT, encode(ShareCheckpointKey(*key), 0))
        if fact.value is None:
            deltas = [typed(_DELTA, encode(ShareDeltaKey(*key, at), 0)) for at in sorted(self._indexes.get(key, ()))]
            self._forget(key)
            return [(each, None) for each in (*deltas, checkpoint)]
        stored = fact.value
        self._state_epochs[key] = stored.state_epoch
        states = [share_checkpoint.State(*batch) for batch in stored.batches]
        value = ShareCheckpointValue(
            stored.state_epoch % _EPOCHS, stored.snapshot_epoch % _EPOCHS, stored.start_offset, states
        )
        return [(checkpoint, typed(0, encode(value, 0)))]

    def _delta(self, update: Update) -> KeyAndValue:
        key = update.key
        index = self._next_indexes.get(key, 0)
        self._use(key, index)
        value = ShareDeltaValue(
            self._state_epochs.get(key, 0) % _EPOCHS,
            update.snapshot_epoch % _EPOCHS,
            update.start_offset,
            [share_delta.State(*batch) for batch in update.batches],
        )
        return typed(_DELTA, encode(ShareDeltaKey(*key, index), 0)), typed(0, encode(value, 0))

    def read(self, key: Bytes, value: Bytes | None, timestamp: int) -> Fact | None:
        """A checkpoint does not tell its time, which is that of its record."""
        kind = int.from_bytes(key[:TYPE_SIZE], "big")
        if kind == _DELTA:
            return self._read_delta(decode(ShareDeltaKey, 0, key[TYPE_SIZE:]), value)
        if kind != _CHECKPOINT:
            return None
        name = decode(ShareCheckpointKey, 0, key[TYPE_SIZE:])
        place = ShareKey(name.group_id, name.topic_id, name.partition)
        if value is None:
            self._forget(place)
            return Snapshot(place, None)
        read = decode(ShareCheckpointValue, 0, value[TYPE_SIZE:])
        self._state_epochs[place] = epoch = _signed(read.state_epoch)
        batches = _batches(read.states)
        stored = Stored(
            read.checkpoint_epoch, epoch, NO_EPOCH, read.start_offset, _NO_COUNT, batches, timestamp, timestamp
        )
        return Snapshot(place, stored)

    def _read_delta(self, name: ShareDeltaKey, value: Bytes | None) -> Fact | None:
        place = ShareKey(name.group_id, name.topic_id, name.partition)
        if value is None:
            self._indexes.get(place, set()).discard(name.delta_index)
            return None
        self._use(place, name.delta_index)
        read = decode(ShareDeltaValue, 0, value[TYPE_SIZE:])
        return Update(place, read.checkpoint_epoch, NO_EPOCH, read.start_offset, _NO_COUNT, _batches(read.states))

    def _use(self, key: ShareKey, index: int) -> None:
        self._indexes.setdefault(key, set()).add(index)
        self._next_indexes[key] = (index + 1) % DELTA_INDEXES

    def _forget(self, key: ShareKey) -> None:
        for table in (self._state_epochs, self._next_indexes, self._indexes):
            table.pop(key, None)


def _signed(epoch: int) -> int:
    return epoch - _EPOCHS if epoch >= _FIRST_NEGATIVE else epoch


def _batches(rows: list[share_checkpoint.State] | list[share_delta.State]) -> tuple[StateBatch, ...]:
    return tuple(StateBatch(row.base_offset, row.last_offset, row.state, row.delivery_count) for row in rows)
