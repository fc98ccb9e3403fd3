"""The topology of a Kafka Streams application, as its members send it: subtopologies and their topics (KIP-1071).

Source: Kafka's StreamsTopology, and its record.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.java.hash_order import JavaSet
from mockbroker.state.metadata.topics import java_hash


class StreamsInternalTopic(NamedTuple):
    """An internal topic of the application. A count or factor of 0 stands for the default."""

    name: str
    partition_count: int
    replication_factor: int
    configs: tuple[tuple[str, str], ...] = ()


class CopartitionGroup(NamedTuple):
    """Topics with equal partition counts, by their indexes in the subtopology's lists."""

    source_topics: tuple[int, ...]
    source_topic_regex: tuple[int, ...]
    repartition_source_topics: tuple[int, ...]


class Subtopology(NamedTuple):
    """A part of the application that runs as one unit: one task for each of its partitions."""

    subtopology_id: str
    source_topics: tuple[str, ...]
    source_topic_regex: tuple[str, ...]
    changelogs: tuple[StreamsInternalTopic, ...]
    repartition_sinks: tuple[str, ...]
    repartition_sources: tuple[StreamsInternalTopic, ...]
    copartition_groups: tuple[CopartitionGroup, ...]

    def inputs(self) -> list[str]:
        """The names of all input topics."""
        return [*self.source_topics, *(topic.name for topic in self.repartition_sources)]

    def copartitioned_topics(self) -> list[set[str]]:
        """The names of the topics of each copartition group.

        Raises: UNKNOWN_SERVER_ERROR for an invalid index, on which Kafka 4.3.0 fails too.
        """
        repartition = tuple(topic.name for topic in self.repartition_sources)
        return [
            {_name_at(self.source_topics, at) for at in group.source_topics}
            | {_name_at(repartition, at) for at in group.repartition_source_topics}
            for group in self.copartition_groups
        ]


class Topology(NamedTuple):
    """All subtopologies, and the epoch of the topology."""

    epoch: int
    subtopologies: tuple[Subtopology, ...]

    def check_ids(self) -> None:
        """Reject what no Kafka Streams client sends and Kafka 4.3.0 has no better error for.

        Raises: UNKNOWN_SERVER_ERROR.
        """
        names = [subtopology.subtopology_id for subtopology in self.subtopologies]
        if self.epoch < 0 or len(set(names)) != len(names):
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)

    def is_equivalent_to(self, other: Topology) -> bool:
        """Return whether both are equal, in any order of subtopologies."""
        return self.epoch == other.epoch and sorted(self.subtopologies) == sorted(other.subtopologies)

    def in_map_order(self) -> Iterator[Subtopology]:
        """The subtopologies in the iteration order of Kafka's map, on which some partition counts depend."""
        by_id = {subtopology.subtopology_id: subtopology for subtopology in self.subtopologies}
        return (by_id[subtopology_id] for subtopology_id in JavaSet(java_hash, by_id))

    def required_topics(self) -> list[str]:
        """All input and changelog topics, sorted, each once."""
        names: set[str] = set()
        for subtopology in self.subtopologies:
            names.update(subtopology.inputs(), (topic.name for topic in subtopology.changelogs))
        return sorted(names)

    def find_reading_subtopology(self, topic_name: str) -> str | None:
        """The id of the subtopology that reads a topic, or None."""
        readers = [subtopology for subtopology in self.in_map_order() if topic_name in subtopology.inputs()]
        return readers[-1].subtopology_id if readers else None


def _name_at(names: tuple[str, ...], index: int) -> str:
    if not 0 <= index < len(names):
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    return names[index]
