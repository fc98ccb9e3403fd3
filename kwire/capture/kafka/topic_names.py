"""Topic names by topic id, learned from every message that contains both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire import uuids
from kwire.capture.kafka.message_fields import MessageTopic, message_topics

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import msgspec

# Limit of stored names: a capture with more topics was made to exhaust the memory.
NAMES_MAX = 1_000_000
# Limit of stored ids without a name.
_UNNAMED_IDS_MAX = 10_000


class TopicNames:
    """The topic names of one capture up to the current position, and those that the user gave."""

    def __init__(self, known: Mapping[str, str]) -> None:
        """`known` maps ids (base64url text) to names."""
        self._names = dict(known)
        self.version = 0
        """Changes with every learned name, so that text with names can be cached."""
        self.has_late_names = False
        """Whether a topic was named after its name was requested: a second reading would have more names."""
        self._unnamed_ids: set[str] = set()
        self._labels: dict[bytes, str] = {}

    def learn(self, message: msgspec.Struct) -> list[MessageTopic]:
        """Store the names of topics of which the message contains name and id; returns all its topics."""
        topics = list(message_topics(message))
        for topic_id, name in self._find_new_names(topics):
            self._store_name(topic_id, name)
        return topics

    def would_learn(self, message: msgspec.Struct) -> bool:
        """Whether the message has a name that is not known."""
        return next(self._find_new_names(message_topics(message)), None) is not None

    def _find_new_names(self, topics: Iterable[MessageTopic]) -> Iterator[tuple[str, str]]:
        """The topic ids of these topics whose names are not known, with the names."""
        for topic in topics:
            if topic.name and topic.topic_id:
                topic_id = uuids.to_text(topic.topic_id)
                known = self._names.get(topic_id)
                if known != topic.name and (known is not None or len(self._names) < NAMES_MAX):
                    yield topic_id, topic.name

    def _store_name(self, topic_id: str, name: str) -> None:
        self._names[topic_id] = name
        self._labels.clear()
        self.version += 1
        self.has_late_names = self.has_late_names or topic_id in self._unnamed_ids

    def names_by_id(self) -> dict[str, str]:
        """All names by id (base64url text), in the form of `Options.topics`."""
        return dict(self._names)

    def name_and_id(self, topic: MessageTopic) -> tuple[str | None, str | None]:
        """Name and id (as text) of a topic, each None if it is unknown."""
        topic_id = None if topic.topic_id is None else uuids.to_text(topic.topic_id)
        name = topic.name or self._names.get(topic_id or "")
        if name is None and topic_id is not None and len(self._unnamed_ids) < _UNNAMED_IDS_MAX:
            self._unnamed_ids.add(topic_id)
        return name, topic_id

    def label(self, name: str | None, topic_id: bytes | None) -> str:
        """The name of a topic that has this name or id, the id as text if its name is unknown; `?` without either."""
        if name:
            return name
        if topic_id is None or topic_id == uuids.ZERO:
            return "?"
        label = self._labels.get(topic_id)
        if label is None:
            known, text = self.name_and_id(MessageTopic(None, topic_id, [], 0))
            label = known or text or "?"
            if len(self._labels) < _UNNAMED_IDS_MAX:
                self._labels[topic_id] = label
        return label
