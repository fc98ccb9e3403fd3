"""Reads along in the share coordinator's topic: which start offsets were stored, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kwire.codec import decode
from kwire.records.coordinator.share_snapshot import ShareSnapshotKey, ShareSnapshotValue
from kwire.records.coordinator.share_update import ShareUpdateKey, ShareUpdateValue
from mockbroker.state.log import PartitionLog, StoredBatch
from mockbroker.state.share_coordinator import ShareKey

#: Types of records, before the key as two bytes (share-semantics 7.5).
_SNAPSHOT, _UPDATE = ShareSnapshotKey.API_KEY, ShareUpdateKey.API_KEY
_TYPE_SIZE = 2


class StoredStart(NamedTuple):
    """A start offset that was stored, None where the state was deleted; is_fresh: with nothing else, as at first."""

    key: ShareKey
    start_offset: int | None
    is_fresh: bool


class StateTopic:
    """The records of all partitions from where they were read to last."""

    def __init__(self) -> None:
        self._read_to: dict[int, int] = {}

    def stored_since(self, logs: list[PartitionLog]) -> Iterator[StoredStart]:
        """Start offsets that were stored since the last call, in order."""
        for shard, log in enumerate(logs):
            after = self._read_to.get(shard, 0)
            if log.end_offset > after:
                self._read_to[shard] = log.end_offset
                for batch in log.below(log.end_offset):
                    if batch.base_offset >= after:
                        yield from _starts(batch)


def _starts(batch: StoredBatch) -> Iterator[StoredStart]:
    for record in batch.records():
        key = record.key
        if key is None:
            continue
        kind, name = int.from_bytes(key[:_TYPE_SIZE], "big"), key[_TYPE_SIZE:]
        body = None if record.value is None else record.value[_TYPE_SIZE:]
        if kind == _SNAPSHOT:
            place = ShareKey(*_parts(decode(ShareSnapshotKey, 0, name)))
            if body is None:
                yield StoredStart(place, None, is_fresh=False)
                continue
            value = decode(ShareSnapshotValue, 0, body)
            is_fresh = not value.state_batches and value.delivery_complete_count <= 0
            yield StoredStart(place, value.start_offset, is_fresh)
        elif kind == _UPDATE and body is not None:
            where = decode(ShareUpdateKey, 0, name)
            start_offset = decode(ShareUpdateValue, 0, body).start_offset
            if start_offset >= 0:
                yield StoredStart(ShareKey(*_parts(where)), start_offset, is_fresh=False)


def _parts(key: ShareSnapshotKey | ShareUpdateKey) -> tuple[str, bytes, int]:
    return key.group_id, key.topic_id, key.partition
