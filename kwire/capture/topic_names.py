"""Names of topics that the wire mentions only by id: learned from every message that gives both."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire import uuids
from kwire.capture.facts import Topic, topics

if TYPE_CHECKING:
    from collections.abc import Mapping

    import msgspec

# Names that are kept; a capture of more topics is made to fill the memory.
NAMES_MAX = 1_000_000
# Ids without a name that are remembered.
_MISSED_MAX = 10_000


class TopicNames:
    """What one capture has told so far, and what the user knows beforehand."""

    def __init__(self, known: Mapping[str, str]) -> None:
        """`known` maps ids (base64url text) to names."""
        self._names = dict(known)
        self.version = 0
        """Counts the names that were learned, so that a reader knows when to look again."""
        self.came_late = False
        """Whether a topic was named only after somebody had asked for its name: a second reading would know more."""
        self._missed: set[str] = set()

    def learn(self, message: msgspec.Struct) -> list[Topic]:
        """The topics of a message; those with both id and name are remembered."""
        found = list(topics(message))
        for topic in found:
            if topic.name and topic.topic_id:
                topic_id = uuids.to_text(topic.topic_id)
                known = self._names.get(topic_id)
                if known != topic.name and (known is not None or len(self._names) < NAMES_MAX):
                    self._names[topic_id] = topic.name
                    self.version += 1
                    self.came_late = self.came_late or topic_id in self._missed
        return found

    def known(self) -> dict[str, str]:
        """All names by id (base64url text), as `Options.topics` takes them."""
        return dict(self._names)

    def name_and_id(self, topic: Topic) -> tuple[str | None, str | None]:
        """Name and id (as text) of a topic, as far as they are known."""
        topic_id = None if topic.topic_id is None else uuids.to_text(topic.topic_id)
        name = topic.name or self._names.get(topic_id or "")
        if name is None and topic_id is not None and len(self._missed) < _MISSED_MAX:
            self._missed.add(topic_id)
        return name, topic_id
