"""Committed offsets of all groups that a node coordinates; they outlive the members, and even the group's type."""

from __future__ import annotations

from dataclasses import dataclass

from mockbroker.state.group_kinds import Topics

TopicPartition = tuple[bytes, int]
#: A group and a partition that it reads.
_Place = tuple[str, TopicPartition]
#: A partition of the offsets topic, and a producer with a transaction that is open there.
_Open = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Committed:
    """One committed offset. leader_epoch: -1 when none was said."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    committed_at_ms: int = 0


class Offsets:
    """Offsets by group, topic id and partition.

    They are kept by the id of the topic: those of a deleted topic are never found again, whatever takes its name.
    """

    def __init__(self) -> None:
        self._by_group: dict[str, dict[TopicPartition, Committed]] = {}
        self._pending: dict[_Open, dict[_Place, tuple[int, Committed]]] = {}
        self._numbers: dict[_Place, int] = {}
        self._commits = 0

    def commit(self, group_id: str, partition: TopicPartition, committed: Committed) -> None:
        """Keep an offset, in place of the one before."""
        self._put(group_id, partition, committed, self._number())

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

    def delete(self, group_id: str, partition: TopicPartition) -> None:
        """Forget an offset, if there is one, and what transactions hold for it."""
        self._by_group.get(group_id, {}).pop(partition, None)
        self._numbers.pop((group_id, partition), None)
        for pending in self._pending.values():
            pending.pop((group_id, partition), None)

    def delete_group(self, group_id: str) -> None:
        """Forget everything a group has committed, and what transactions hold for it."""
        for partition in self._by_group.pop(group_id, {}):
            self._numbers.pop((group_id, partition), None)
        for pending in self._pending.values():
            for place in [place for place in pending if place[0] == group_id]:
                del pending[place]

    def _put(self, group_id: str, partition: TopicPartition, committed: Committed, number: int) -> None:
        self._by_group.setdefault(group_id, {})[partition] = committed
        self._numbers[group_id, partition] = number

    def _number(self) -> int:
        """The place of a commit among all: which of two is newer is not a matter of when its transaction ends."""
        self._commits += 1
        return self._commits
