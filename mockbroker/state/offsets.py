"""Committed offsets of all groups that a node coordinates; they outlive the members, and even the group's type."""

from __future__ import annotations

from dataclasses import dataclass

from mockbroker.state.group_kinds import Topics

TopicPartition = tuple[bytes, int]


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

    def commit(self, group_id: str, partition: TopicPartition, committed: Committed) -> None:
        """Keep an offset, in place of the one before."""
        self._by_group.setdefault(group_id, {})[partition] = committed

    def committed(self, group_id: str, partition: TopicPartition) -> Committed | None:
        """The offset of a partition, or None."""
        return self._by_group.get(group_id, {}).get(partition)

    def all(self, group_id: str, topics: Topics) -> dict[TopicPartition, Committed]:
        """All offsets of a group whose topics still exist, in order of topic id and partition."""
        kept = self._by_group.get(group_id, {})
        return {key: kept[key] for key in sorted(kept) if topics.topic_by_id(key[0]) is not None}

    def delete(self, group_id: str, partition: TopicPartition) -> None:
        """Forget an offset, if there is one."""
        self._by_group.get(group_id, {}).pop(partition, None)

    def delete_group(self, group_id: str) -> None:
        """Forget everything a group has committed."""
        self._by_group.pop(group_id, None)
