"""State of a fetch session (KIP-227) or share session (KIP-932) after a request: its epoch and partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kwire.capture.kafka.message_fields import MessageTopic

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kwire.capture.kafka.topic_names import TopicNames

INITIAL_EPOCH, FINAL_EPOCH = 0, -1
# A topic by id or name, and partition indexes.
TopicPartitions = tuple[str | bytes, Sequence[int]]
_NO_INDEXES: frozenset[int] = frozenset()


class FetchSession(NamedTuple):
    """The session of an exchange. `id` is that of a fetch session; a share session is named by group and member.

    `partitions` are those of the session after the request. None if they are unknown, if the session was closed, or if
    they are too many to be returned.
    """

    id: int | None
    epoch: int
    partitions: SessionPartitions | None

    @property
    def is_incremental(self) -> bool:
        """Whether the request names only changes of the session."""
        return self.epoch not in {INITIAL_EPOCH, FINAL_EPOCH}


class SessionPartitions:
    """The partitions of a session after one request. Immutable, so that many exchanges can share one object."""

    __slots__ = ("_json", "_json_names", "count", "topics")

    def __init__(self, topics: dict[str | bytes, frozenset[int]]) -> None:
        """`topics`: partition indexes by topic name or id, in the order in which topics were added to the session."""
        self.topics = topics
        self.count = sum(map(len, topics.values()))
        self._json = ""
        # The names with which the JSON text was made, and their version at that time.
        self._json_names: tuple[TopicNames, int] | None = None

    def updated(self, added: Iterable[TopicPartitions], forgotten: Iterable[TopicPartitions]) -> SessionPartitions:
        """The partitions after a request added some and then removed others."""
        changed: dict[str | bytes, frozenset[int]] = {}
        for topic, indexes in added:
            current = changed.get(topic, self.topics.get(topic, _NO_INDEXES))
            if not current.issuperset(indexes):
                changed[topic] = current.union(indexes)
        for topic, indexes in forgotten:
            changed[topic] = changed.get(topic, self.topics.get(topic, _NO_INDEXES)).difference(indexes)
        if not changed:
            return self
        return SessionPartitions({topic: indexes for topic, indexes in {**self.topics, **changed}.items() if indexes})

    def as_json(self, names: TopicNames) -> str:
        """JSON of partition indexes by topic name, or by topic id if the name is unknown."""
        if self._json_names != (names, names.version):
            self._json = msgspec.json.encode(self.by_topic_name(names)).decode()
            self._json_names = names, names.version
        return self._json

    def by_topic_name(self, names: TopicNames) -> dict[str, list[int]]:
        """Sorted partition indexes by topic name, or by topic id if the name is unknown."""
        partitions: dict[str, list[int]] = {}
        for key, indexes in self.topics.items():
            topic = MessageTopic(None, key, [], 0) if isinstance(key, bytes) else MessageTopic(key, None, [], 0)
            name, topic_id = names.name_and_id(topic)
            # A topic that was deleted and created again has another id and the same name.
            partitions[(None if name in partitions else name) or topic_id or ""] = sorted(indexes)
        return partitions
