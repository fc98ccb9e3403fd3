"""Reads along in the share coordinator's topic: which start offsets were stored, one after the other."""

from __future__ import annotations

from collections.abc import Iterator

from kwire.codec import decode
from kwire.records.coordinator.share_snapshot import ShareSnapshotKey, ShareSnapshotValue
from kwire.records.coordinator.share_update import ShareUpdateKey, ShareUpdateValue
from mockbroker.state.log import PartitionLog, StoredBatch
from mockbroker.state.share_coordinator import ShareKey

#: Types of records, before the key as two bytes (share-semantics 7.5).
_SNAPSHOT, _UPDATE = ShareSnapshotKey.API_KEY, ShareUpdateKey.API_KEY
_TYPE_SIZE = 2


class StateTopic:
    """The records of all partitions from where they were read to last."""

    def __init__(self) -> None:
        self._read_to: dict[int, int] = {}

    def stored_since(self, logs: list[PartitionLog]) -> Iterator[tuple[ShareKey, int | None]]:
        """Start offsets that were stored since the last call, in order; None where a state was deleted."""
        for shard, log in enumerate(logs):
            after = self._read_to.get(shard, 0)
            if log.end_offset > after:
                self._read_to[shard] = log.end_offset
                for batch in log.below(log.end_offset):
                    if batch.base_offset >= after:
                        yield from _starts(batch)


def _starts(batch: StoredBatch) -> Iterator[tuple[ShareKey, int | None]]:
    for record in batch.records():
        key, value = record.key, record.value
        if key is None:
            continue
        kind, name = int.from_bytes(key[:_TYPE_SIZE], "big"), key[_TYPE_SIZE:]
        body = None if value is None else value[_TYPE_SIZE:]
        if kind == _SNAPSHOT:
            place = ShareKey(*_parts(decode(ShareSnapshotKey, 0, name)))
            yield place, None if body is None else decode(ShareSnapshotValue, 0, body).start_offset
        elif kind == _UPDATE and body is not None:
            where = decode(ShareUpdateKey, 0, name)
            start_offset = decode(ShareUpdateValue, 0, body).start_offset
            if start_offset >= 0:
                yield ShareKey(*_parts(where)), start_offset


def _parts(key: ShareSnapshotKey | ShareUpdateKey) -> tuple[str, bytes, int]:
    return key.group_id, key.topic_id, key.partition
