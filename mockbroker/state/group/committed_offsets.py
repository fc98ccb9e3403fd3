"""Committed offsets of all groups that a node coordinates; they are independent of members and group type."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from mockbroker.state.group.group import Topics
from mockbroker.state.metadata.topics import TopicPartitionKey

#: A group and a partition that it reads.
_GroupPartition = tuple[str, TopicPartitionKey]
#: A partition of the offsets topic, and a producer with an open transaction there.
_OpenTransaction = tuple[int, int]


class CommittedOffset(msgspec.Struct, frozen=True, gc=False):
    """One committed offset. leader_epoch: -1 without one. expires_ms: None for the broker's retention time."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    committed_at_ms: int = 0
    expires_ms: int | None = None


class OffsetRecord(NamedTuple):
    """An offset in the coordinator's log; committed None: it is deleted."""

    group_id: str
    partition: TopicPartitionKey
    committed: CommittedOffset | None


#: Appends the records of one operation on one group, and the time.
AppendOffsetRecords = Callable[[str, Sequence[OffsetRecord], int], None]


def discard_offset_records(_group_id: str, _facts: Sequence[OffsetRecord], _now_ms: int) -> None:
    """An `AppendOffsetRecords` without a log."""


class CommittedOffsets:
    """Offsets by group, topic id and partition.

    They are stored by topic id: those of a deleted topic are not found under a new topic of its name.
    append_records: writes to the coordinator's log.
    """

    def __init__(self, append_records: AppendOffsetRecords = discard_offset_records) -> None:
        self._append_records = append_records
        self._by_group: dict[str, dict[TopicPartitionKey, CommittedOffset]] = {}
        self._pending: dict[_OpenTransaction, dict[_GroupPartition, tuple[int, CommittedOffset]]] = {}
        self._commit_numbers: dict[_GroupPartition, int] = {}
        # The topics' offsets, as the deletion of a topic ends them.
        self._by_topic: dict[bytes, dict[_GroupPartition, None]] = {}
        self._commit_count = 0

    def store_offset(self, group_id: str, partition: TopicPartitionKey, committed: CommittedOffset) -> None:
        """Store an offset, replacing the previous one, without writing it."""
        self._store(group_id, partition, committed, self._next_commit_number())

    def commit_offsets(self, group_id: str, offsets: Mapping[TopicPartitionKey, CommittedOffset], now_ms: int) -> None:
        """Write and store the offsets of one request."""
        if not offsets:
            return
        records = [OffsetRecord(group_id, partition, committed) for partition, committed in offsets.items()]
        self._append_records(group_id, records, now_ms)
        for partition, committed in offsets.items():
            self._store(group_id, partition, committed, self._next_commit_number())

    def commit_in_transaction(
        self,
        offsets_partition: int,
        producer_id: int,
        group_id: str,
        partition: TopicPartitionKey,
        committed: CommittedOffset,
    ) -> None:
        """Store an offset as pending until the producer's transaction ends in this partition of the offsets topic."""
        pending = self._pending.setdefault((offsets_partition, producer_id), {})
        pending[group_id, partition] = self._next_commit_number(), committed

    def end_transaction(self, offsets_partition: int, producer_id: int, *, commit: bool) -> None:
        """Commit or drop the pending offsets of a transaction.

        An offset that was committed without a transaction meanwhile is newer, and stays. Source: Kafka's
        OffsetMetadataManager.replayEndTransactionMarker.
        """
        pending = self._pending.pop((offsets_partition, producer_id), {})
        for (group_id, partition), (number, committed) in pending.items():
            if commit and number > self._commit_numbers.get((group_id, partition), 0):
                self._store(group_id, partition, committed, number)

    def is_pending(self, group_id: str, partition: TopicPartitionKey) -> bool:
        """Return whether an open transaction has an offset for this partition."""
        return any((group_id, partition) in pending for pending in self._pending.values())

    def find_offset(self, group_id: str, partition: TopicPartitionKey) -> CommittedOffset | None:
        """The offset of a partition, or None."""
        return self._by_group.get(group_id, {}).get(partition)

    def all_offsets(self, group_id: str, topics: Topics) -> dict[TopicPartitionKey, CommittedOffset]:
        """All offsets of a group whose topics exist, by topic id and partition."""
        offsets = self._by_group.get(group_id, {})
        return {key: offsets[key] for key in sorted(offsets) if topics.topic_by_id(key[0]) is not None}

    def delete_offsets(self, group_id: str, partitions: Iterable[TopicPartitionKey], *, now_ms: int) -> None:
        """Delete and write the existing offsets among those of a request."""
        existing = [partition for partition in partitions if self._has_offset(group_id, partition)]
        if existing:
            self._append_records(group_id, [OffsetRecord(group_id, partition, None) for partition in existing], now_ms)
        for partition in existing:
            self.remove_offset(group_id, partition)

    def _has_offset(self, group_id: str, partition: TopicPartitionKey) -> bool:
        return self.find_offset(group_id, partition) is not None or self.is_pending(group_id, partition)

    def remove_offset(self, group_id: str, partition: TopicPartitionKey) -> None:
        """Remove an offset, if it exists, and pending ones for it, without writing it."""
        if self._by_group.get(group_id, {}).pop(partition, None) is not None:
            self._forget_partition(group_id, partition)
        self._commit_numbers.pop((group_id, partition), None)
        for pending in self._pending.values():
            pending.pop((group_id, partition), None)

    def delete_group(self, group_id: str, *, now_ms: int) -> None:
        """Delete and write all offsets of a group, pending ones included."""
        pending = [partition for pending_group, partition in self._pending_keys() if pending_group == group_id]
        self.delete_offsets(group_id, dict.fromkeys([*self._by_group.get(group_id, {}), *pending]), now_ms=now_ms)

    def _pending_keys(self) -> list[_GroupPartition]:
        return [key for pending in self._pending.values() for key in pending]

    def stored_offsets(self, group_id: str) -> dict[TopicPartitionKey, CommittedOffset]:
        """All offsets of a group, those of deleted topics included."""
        return dict(self._by_group.get(group_id, {}))

    def has_pending(self, group_id: str) -> bool:
        """Return whether open transactions have offsets of the group."""
        return any(pending_group == group_id for pending_group, _ in self._pending_keys())

    def partitions_of_topic(self, topic_id: bytes) -> dict[str, list[TopicPartitionKey]]:
        """The partitions of a topic with offsets, by group, pending ones included."""
        by_group: dict[str, list[TopicPartitionKey]] = {}
        for group_id, key in dict.fromkeys([*self._by_topic.get(topic_id, ()), *self._pending_keys()]):
            if key[0] == topic_id:
                by_group.setdefault(group_id, []).append(key)
        return by_group

    def group_ids(self) -> list[str]:
        """The groups with committed offsets."""
        return list(self._by_group)

    def unload_groups(self, group_ids: Iterable[str], offsets_partition: int) -> None:
        """Remove what another node coordinates now: these groups, and the transactions of a partition."""
        for group_id in group_ids:
            for partition in self._by_group.pop(group_id, {}):
                self._forget_partition(group_id, partition)
                self._commit_numbers.pop((group_id, partition), None)
        for transaction in [transaction for transaction in self._pending if transaction[0] == offsets_partition]:
            del self._pending[transaction]

    def _store(self, group_id: str, partition: TopicPartitionKey, committed: CommittedOffset, number: int) -> None:
        self._by_group.setdefault(group_id, {})[partition] = committed
        self._by_topic.setdefault(partition[0], {})[group_id, partition] = None
        self._commit_numbers[group_id, partition] = number

    def _forget_partition(self, group_id: str, partition: TopicPartitionKey) -> None:
        rows = self._by_topic[partition[0]]
        del rows[group_id, partition]
        if not rows:
            del self._by_topic[partition[0]]

    def _next_commit_number(self) -> int:
        """The number of a commit, which orders commits independently of the ends of transactions."""
        self._commit_count += 1
        return self._commit_count
