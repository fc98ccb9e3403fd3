"""Reads along in the share coordinator's topic: which start offsets were stored, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from mockbroker.coordinators.share_state_records import StateRecords
from mockbroker.persisters.control_batches import from_record
from mockbroker.state.log import PartitionLog, StoredBatch
from mockbroker.state.share_chain import Checkpoint
from mockbroker.state.share_coordinator import ShareKey, Snapshot, Update


class StoredStart(NamedTuple):
    """A start offset that was stored, None where the state was deleted; is_fresh: with nothing else, as at first.

    is_told: else the record leaves the start as it was.
    """

    key: ShareKey
    start_offset: int | None
    is_fresh: bool
    is_told: bool = True


class StateTopic:
    """The records of all partitions from where they were read to last."""

    def __init__(self, records: StateRecords) -> None:
        self._records = records
        self._read_to: dict[int, int] = {}

    def stored_since(self, logs: list[PartitionLog]) -> Iterator[StoredStart]:
        """Start offsets that were stored since the last call, in order."""
        for shard, log in enumerate(logs):
            after = self._read_to.get(shard, 0)
            if log.end_offset > after:
                self._read_to[shard] = log.end_offset
                for batch in log.below(log.end_offset):
                    if batch.base_offset >= after:
                        yield from _starts(self._records, batch)


class ControlRecords:
    """The control records of topics' own logs, where leaders keep the state there (`ShareRules.state_in_log`)."""

    def __init__(self) -> None:
        self._read_to: dict[tuple[bytes, int], int] = {}

    def stored_since(self, place: tuple[bytes, int], log: PartitionLog | None) -> Iterator[StoredStart]:
        """Start offsets of checkpoints that were written since the last call; -1 is that of a state made anew."""
        after = self._read_to.get(place, 0)
        if log is None or log.end_offset <= after:
            return
        self._read_to[place] = log.end_offset
        for batch in log.below(log.end_offset):
            header = batch.header()
            if batch.base_offset >= after and header.is_control and not header.is_transactional:
                for record in batch.records():
                    found = from_record(record)
                    if found is None:
                        continue
                    group_id, told = found
                    if isinstance(told, Checkpoint):
                        start = None if told.start < 0 else told.start
                        yield StoredStart(ShareKey(group_id, *place), start, is_fresh=not told.batches)


def _starts(records: StateRecords, batch: StoredBatch) -> Iterator[StoredStart]:
    for record in batch.records():
        fact = None if record.key is None else records.read(record.key, record.value, record.timestamp)
        if isinstance(fact, Snapshot):
            value = fact.value
            if value is None:
                yield StoredStart(fact.key, None, is_fresh=False)
            else:
                is_fresh = not value.batches and value.delivery_complete_count <= 0
                yield StoredStart(fact.key, value.start_offset, is_fresh)
        elif isinstance(fact, Update):
            yield StoredStart(fact.key, fact.start_offset, is_fresh=False, is_told=fact.start_offset >= 0)
