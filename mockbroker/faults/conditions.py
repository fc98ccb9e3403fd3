"""Whether a request fulfils the conditions of a fault, and if not, the first one that it misses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mockbroker.faults.api_fields import SELECTOR_FIELDS
from mockbroker.journal.field_filter import FieldFilter
from mockbroker.journal.named_topics import name_topic

if TYPE_CHECKING:
    from mockbroker.engine.context import ConnectionInfo
    from mockbroker.faults.model import When
    from mockbroker.faults.request_facts import RequestFacts

#: Fields of `When`, with those of `ConnectionInfo`.
_CONNECTION_FIELDS = {
    "node": "node_id",
    "listener": "listener",
    "connection": "id",
    "software_name": "software_name",
    "software_version": "software_version",
    "principal": "principal",
}


class Conditions:
    """The conditions of one fault, parsed. They do not count matches. added_ms: when the fault was added."""

    def __init__(self, when: When, added_ms: int) -> None:
        self.when = when
        self._added_ms = added_ms
        self._on_connection = [
            (name, field, getattr(when, name))
            for name, field in _CONNECTION_FIELDS.items()
            if getattr(when, name) is not None
        ]
        self._selectors = [(name, getattr(when, name)) for name in SELECTOR_FIELDS if getattr(when, name) is not None]
        self._filter = FieldFilter(when.filter, when.api) if when.filter is not None and when.api is not None else None

    def find_mismatch(self, facts: RequestFacts, now_ms: int) -> str | None:
        """The first condition that a request of the fault's API does not fulfil, as a sentence; or None."""
        when = self.when
        mismatch = self.find_connection_mismatch(facts.info, now_ms)
        if mismatch is not None:
            return mismatch
        if when.version is not None and facts.incoming.api_version != when.version:
            return describe_mismatch("version", [facts.incoming.api_version], when.version)
        if when.client_id is not None and facts.incoming.client_id != when.client_id:
            return describe_mismatch("client_id", [facts.incoming.client_id], when.client_id)
        for name, expected in self._selectors:
            values = facts.selector(name)
            if expected not in values:
                return describe_mismatch(name, values, expected)
        if when.topic is not None or when.partition is not None:
            mismatch = self._find_topic_mismatch(facts)
            if mismatch is not None:
                return mismatch
        if self._filter is not None and not self._filter.matches(facts.incoming.request):
            return f"filter {when.filter!r} is false for it"
        return None

    def find_connection_mismatch(self, info: ConnectionInfo, now_ms: int) -> str | None:
        """The first condition on time and connection that is not fulfilled, as a sentence; or None."""
        when = self.when
        since_ms = now_ms - self._added_ms
        if since_ms < when.from_ms:
            return f"it came {since_ms} ms after the fault was added, before from_ms={when.from_ms}"
        if when.until_ms is not None and since_ms >= when.until_ms:
            return f"it came {since_ms} ms after the fault was added, not before until_ms={when.until_ms}"
        for name, field, expected in self._on_connection:
            value = getattr(info, field)
            if value != expected:
                return describe_mismatch(name, [value], expected)
        return None

    def _find_topic_mismatch(self, facts: RequestFacts) -> str | None:
        when = self.when
        if name_topic(facts.topics, when.topic, when.partition):
            return None
        if not name_topic(facts.topics, when.topic, None):
            return describe_mismatch("topic", facts.topic_names, when.topic)
        topics = (topic for topic in facts.topics if when.topic in (None, topic.name))
        return describe_mismatch("partition", [index for topic in topics for index in topic.partitions], when.partition)


def describe_mismatch(name: str, values: Sequence[object], expected: object) -> str:
    """A condition that is not fulfilled, as a sentence with at most three of the values that there are instead."""
    known = ["an unknown topic id" if name == "topic" and value is None else value for value in values]
    distinct = list(dict.fromkeys(repr(value) for value in known))
    more = f" and {len(distinct) - 3} more" if len(distinct) > 3 else ""
    return f"its {name} was {(', '.join(distinct[:3]) + more) or 'none'}, not {expected!r}"
