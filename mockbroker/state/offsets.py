"""Committed offsets of all groups that a node coordinates; they outlive the members, and even the group's type."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mockbroker.state.group_kinds import Topics

TopicPartition = tuple[bytes, int]
#: A group and a partition that it reads.
_Place = tuple[str, TopicPartition]
#: A partition of the offsets topic, and a producer with a transaction that is open there.
_Open = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Committed:
    """One committed offset. leader_epoch: -1 when none was said. expires_ms: when its committer wants it forgotten."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    committed_at_ms: int = 0
    expires_ms: int | None = None


class OffsetFact(NamedTuple):
    """What a coordinator's log says of an offset; committed None: it is deleted."""

    group_id: str
    partition: TopicPartition
    committed: Committed | None


#: Takes the facts of one operation on one group, to be written at once, and the time.
Record = Callable[[str, Sequence[OffsetFact], int], None]


def keep_no_record(_group_id: str, _facts: Sequence[OffsetFact], _now_ms: int) -> None:
    """A `Record` for offsets that nobody takes over."""


class Offsets:
    """Offsets by group, topic id and partition.

    They are kept by the id of the topic: those of a deleted topic are never found again, whatever takes its name.
    record: takes what is to be written to the coordinator's log.
    """

    def __init__(self, record: Record = keep_no_record) -> None:
        self._record = record
        self._by_group: dict[str, dict[TopicPartition, Committed]] = {}
        self._pending: dict[_Open, dict[_Place, tuple[int, Committed]]] = {}
        self._numbers: dict[_Place, int] = {}
        self._commits = 0

    def commit(self, group_id: str, partition: TopicPartition, committed: Committed) -> None:
        """Keep an offset, in place of the one before, without writing it."""
        self._put(group_id, partition, committed, self._number())

    def commit_all(self, group_id: str, offsets: Mapping[TopicPartition, Committed], *, now_ms: int) -> None:
        """Write and keep the offsets of one request."""
        if offsets:
            self._record(group_id, [OffsetFact(group_id, *entry) for entry in offsets.items()], now_ms)
        for partition, committed in offsets.items():
            self.commit(group_id, partition, committed)

    def commit_in_transaction(
        self, offsets_partition: int, producer_id: int, group_id: str, partition: TopicPartition, committed: Committed
    ) -> None:
        """Keep an offset aside until the producer's transaction ends in the group's partition of the offsets topic."""
        pending = self._pending.setdefault((offsets_partition, producer_id), {})
        pending[group_id, partition] = self._number(), committed

    def end_transaction(self, offsets_partition: int, producer_id: int, *, commit: bool) -> None:
        """Let what a transaction has kept aside count, or drop it.

        An offset that was committed without a transaction in the meantime is newer, and stays. Source: Kafka's
        OffsetMetadataManager.replayEndTransactionMarker.
        """
        pending = self._pending.pop((offsets_partition, producer_id), {})
        for (group_id, partition), (number, committed) in pending.items():
            if commit and number > self._numbers.get((group_id, partition), 0):
                self._put(group_id, partition, committed, number)

    def is_pending(self, group_id: str, partition: TopicPartition) -> bool:
        """Whether an open transaction holds an offset for this partition."""
        return any((group_id, partition) in pending for pending in self._pending.values())

    def committed(self, group_id: str, partition: TopicPartition) -> Committed | None:
        """The offset of a partition, or None."""
        return self._by_group.get(group_id, {}).get(partition)

    def all(self, group_id: str, topics: Topics) -> dict[TopicPartition, Committed]:
        """All offsets of a group whose topics still exist, in order of topic id and partition."""
        kept = self._by_group.get(group_id, {})
        return {key: kept[key] for key in sorted(kept) if topics.topic_by_id(key[0]) is not None}

    def delete_all(self, group_id: str, partitions: Iterable[TopicPartition], *, now_ms: int) -> None:
        """Forget the offsets that one request names, as far as there are any, and have that written."""
        known = [partition for partition in partitions if self._holds(group_id, partition)]
        if known:
            self._record(group_id, [OffsetFact(group_id, partition, None) for partition in known], now_ms)
        for partition in known:
            self.delete(group_id, partition)

    def _holds(self, group_id: str, partition: TopicPartition) -> bool:
        return self.committed(group_id, partition) is not None or self.is_pending(group_id, partition)

    def delete(self, group_id: str, partition: TopicPartition) -> None:
        """Forget an offset, if there is one, and what transactions hold for it, without writing it."""
        self._by_group.get(group_id, {}).pop(partition, None)
        self._numbers.pop((group_id, partition), None)
        for pending in self._pending.values():
            pending.pop((group_id, partition), None)

    def delete_group(self, group_id: str, *, now_ms: int) -> None:
        """Forget everything a group has committed, and what transactions hold for it, and have that written."""
        held = (partition for pending in self._pending.values() for of, partition in pending if of == group_id)
        self.delete_all(group_id, {**self._by_group.get(group_id, {}), **dict.fromkeys(held)}, now_ms=now_ms)

    def held(self, group_id: str) -> dict[TopicPartition, Committed]:
        """All offsets of a group, those of topics that are no more among them."""
        return dict(self._by_group.get(group_id, {}))

    def has_pending(self, group_id: str) -> bool:
        """Whether open transactions hold offsets for the group."""
        return any(of == group_id for pending in self._pending.values() for of, _ in pending)

    def of_topic(self, topic_id: bytes) -> dict[str, list[TopicPartition]]:
        """By group the partitions of a topic that offsets are held for, in transactions too."""
        places = [(group_id, place) for group_id, held in self._by_group.items() for place in held]
        places += [place for pending in self._pending.values() for place in pending]
        found: dict[str, list[TopicPartition]] = {}
        for group_id, place in dict.fromkeys(places):
            if place[0] == topic_id:
                found.setdefault(group_id, []).append(place)
        return found

    def group_ids(self) -> list[str]:
        """The groups that have committed something."""
        return list(self._by_group)

    def unload(self, group_ids: Iterable[str], offsets_partition: int) -> None:
        """Forget what another node coordinates now: these groups, and the transactions of a partition."""
        for group_id in group_ids:
            for partition in self._by_group.pop(group_id, {}):
                self._numbers.pop((group_id, partition), None)
        for place in [place for place in self._pending if place[0] == offsets_partition]:
            del self._pending[place]

    def _put(self, group_id: str, partition: TopicPartition, committed: Committed, number: int) -> None:
        self._by_group.setdefault(group_id, {})[partition] = committed
        self._numbers[group_id, partition] = number

    def _number(self) -> int:
        """The place of a commit among all: which of two is newer is not a matter of when its transaction ends."""
        self._commits += 1
        return self._commits
