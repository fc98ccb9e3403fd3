"""`LearnedTopics`: the topics that Metadata responses have named, for faults that name a topic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import msgspec

from kwire import uuids

#: The maximum number of topics; of more, the oldest are forgotten.
TOPICS_MAX = 100_000


class LearnedPartition(msgspec.Struct, frozen=True):
    """A partition with its leader; the fields are those of the broker's own partitions."""

    index: int
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]


class LearnedTopic(NamedTuple):
    """A topic; without an id its topic_id is zero."""

    name: str
    topic_id: bytes
    partitions: tuple[LearnedPartition, ...]


class LearnedTopics:
    """Topics by name and id."""

    def __init__(self) -> None:
        self._by_name: dict[str, LearnedTopic] = {}
        self._by_id: dict[bytes, LearnedTopic] = {}

    def learn(self, response: msgspec.Struct) -> list[LearnedTopic]:
        """Learn the topics of a Metadata response. Returns: those."""
        learned = []
        for row in cast("Any", response).topics:
            if not row.name or row.error_code:
                continue
            partitions = tuple(
                LearnedPartition(part.partition_index, part.leader_id, part.leader_epoch, tuple(part.isr_nodes))
                for part in row.partitions
            )
            topic = LearnedTopic(row.name, row.topic_id, partitions)
            self._by_name[topic.name] = topic
            if topic.topic_id != uuids.ZERO:
                self._by_id[topic.topic_id] = topic
            learned.append(topic)
        while len(self._by_name) > TOPICS_MAX:
            oldest = self._by_name.pop(next(iter(self._by_name)))
            self._by_id.pop(oldest.topic_id, None)
        return learned

    def topic(self, name: str) -> LearnedTopic | None:
        """A topic by its name."""
        return self._by_name.get(name)

    def topic_by_id(self, topic_id: bytes) -> LearnedTopic | None:
        """A topic by its id."""
        return self._by_id.get(topic_id)

    @property
    def topics_by_id(self) -> Mapping[bytes, LearnedTopic]:
        """The topics whose ids are known."""
        return self._by_id

    def topics(self) -> list[LearnedTopic]:
        """All topics."""
        return list(self._by_name.values())
