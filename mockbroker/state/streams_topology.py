"""What a Kafka Streams application consists of, as its members tell it: subtopologies and their topics (KIP-1071).

Source: Kafka's StreamsTopology, and the record that keeps it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.java_order import JavaMap
from mockbroker.state.topics import java_hash


class InternalTopic(NamedTuple):
    """A topic that belongs to the application. A count or factor of 0 is left to the broker."""

    name: str
    partition_count: int
    replication_factor: int
    configs: tuple[tuple[str, str], ...] = ()


class CopartitionGroup(NamedTuple):
    """Topics that have to be partitioned alike, by their places in the subtopology's lists."""

    source_topics: tuple[int, ...]
    source_topic_regex: tuple[int, ...]
    repartition_source_topics: tuple[int, ...]


class Subtopology(NamedTuple):
    """A part of the application that runs as one unit: one task for each of its partitions."""

    subtopology_id: str
    source_topics: tuple[str, ...]
    source_topic_regex: tuple[str, ...]
    changelogs: tuple[InternalTopic, ...]
    repartition_sinks: tuple[str, ...]
    repartition_sources: tuple[InternalTopic, ...]
    copartition_groups: tuple[CopartitionGroup, ...]

    def inputs(self) -> list[str]:
        """The names of all topics that it reads."""
        return [*self.source_topics, *(topic.name for topic in self.repartition_sources)]

    def copartitioned(self) -> list[set[str]]:
        """The names of the topics of each group that is to be partitioned alike.

        Raises: UNKNOWN_SERVER_ERROR for a place that is none, over which Kafka 4.3.0 stumbles too.
        """
        return [
            {_at(self.source_topics, at) for at in group.source_topics}
            | {
                _at(tuple(topic.name for topic in self.repartition_sources), at)
                for at in group.repartition_source_topics
            }
            for group in self.copartition_groups
        ]


class Topology(NamedTuple):
    """All subtopologies, and the epoch in which the application has them."""

    epoch: int
    subtopologies: tuple[Subtopology, ...]

    def check(self) -> None:
        """Refuse what no Kafka Streams client sends and Kafka 4.3.0 has no better answer to.

        Raises: UNKNOWN_SERVER_ERROR.
        """
        names = [subtopology.subtopology_id for subtopology in self.subtopologies]
        if self.epoch < 0 or len(set(names)) != len(names):
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)

    def is_like(self, other: Topology) -> bool:
        """Say whether both are the same, in whatever order their subtopologies stand."""
        return self.epoch == other.epoch and sorted(self.subtopologies) == sorted(other.subtopologies)

    def walk(self) -> Iterator[Subtopology]:
        """The subtopologies in the order of Kafka's map, on which some partition counts depend."""
        by_id: JavaMap[str, Subtopology] = JavaMap(java_hash)
        for subtopology in self.subtopologies:
            by_id[subtopology.subtopology_id] = subtopology
        return (by_id[subtopology_id] for subtopology_id in by_id)

    def required_topics(self) -> list[str]:
        """All topics that it reads or logs its state to, sorted, each once."""
        found: set[str] = set()
        for subtopology in self.subtopologies:
            found.update(subtopology.inputs(), (topic.name for topic in subtopology.changelogs))
        return sorted(found)

    def reader_of(self, topic_name: str) -> str | None:
        """The id of the subtopology that reads a topic, or None."""
        readers = [subtopology for subtopology in self.walk() if topic_name in subtopology.inputs()]
        return readers[-1].subtopology_id if readers else None


def _at(names: tuple[str, ...], place: int) -> str:
    if not 0 <= place < len(names):
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    return names[place]
