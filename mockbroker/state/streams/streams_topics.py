"""The topics of a streams topology: partition counts of internal topics, and problems of the others.

Source: Kafka's InternalTopicManager, RepartitionTopics, CopartitionedTopicsEnforcer and ChangelogTopics; pinned by the
conversations other-streams-copartition, other-streams-internal-topics and other-streams-topology-errors.
"""

from __future__ import annotations

from collections.abc import Collection
from enum import IntEnum
from typing import NamedTuple

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.group.group import Topics
from mockbroker.state.streams.streams_topology import StreamsInternalTopic, Subtopology, Topology

_LISTED_MAX = 3


class StatusCode(IntEnum):
    """The status codes of a streams group; the numbers are those of its heartbeat's response."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5
    MISSING_CLIENT_TAGS = 6


class StreamsStatus(NamedTuple):
    """One status, with its description."""

    code: StatusCode
    detail: str


class ConfiguredSubtopology(NamedTuple):
    """A subtopology with the partition counts of its internal topics; one task for each partition."""

    subtopology_id: str
    task_count: int
    source_topics: tuple[str, ...]
    repartition_sinks: tuple[str, ...]
    repartition_sources: tuple[StreamsInternalTopic, ...]
    changelogs: tuple[StreamsInternalTopic, ...]

    def inputs(self) -> list[str]:
        """The names of all input topics, each once."""
        return list(dict.fromkeys([*self.source_topics, *(topic.name for topic in self.repartition_sources)]))


class ConfiguredTopology(NamedTuple):
    """The result of configuring a topology. subtopologies: by id in order, None where the topics do not fit it."""

    subtopologies: dict[str, ConfiguredSubtopology] | None
    missing: tuple[StreamsInternalTopic, ...] = ()
    problem: StreamsStatus | None = None

    @property
    def is_ready(self) -> bool:
        """Return whether tasks can be assigned."""
        return self.problem is None


class _TopicMismatch(Exception):
    """The existing topics do not fit the topology; this is a status, not an error."""

    def __init__(self, code: StatusCode, detail: str) -> None:
        super().__init__(detail)
        self.status = StreamsStatus(code, detail)


def configure(topology: Topology, topics: Topics) -> ConfiguredTopology:
    """Determine the internal topics of a topology.

    Raises: STREAMS_INVALID_TOPOLOGY when no topics can fit it, UNKNOWN_SERVER_ERROR where Kafka fails.
    """
    copartitioned = [names for subtopology in topology.in_map_order() for names in subtopology.copartitioned_topics()]
    try:
        _require_source_topics(topology, topics)
        counts = _PartitionCounts(topology, topics)
        counts.decide_repartition_topics()
        for names in copartitioned:
            counts.align_copartitioned(names)
        counts.decide_changelogs()
        ready = {
            subtopology.subtopology_id: counts.to_configured(subtopology)
            for subtopology in sorted(topology.subtopologies, key=lambda each: each.subtopology_id)
        }
        missing = _missing_topics(ready, topics)
    except _TopicMismatch as mismatch:
        return ConfiguredTopology(None, problem=mismatch.status)
    if not missing:
        return ConfiguredTopology(ready)
    detail = f"Internal topics do not exist yet: {_format_names([topic.name for topic in missing])}"
    return ConfiguredTopology(ready, missing, StreamsStatus(StatusCode.MISSING_INTERNAL_TOPICS, detail))


def _require_source_topics(topology: Topology, topics: Topics) -> None:
    names = sorted({name for subtopology in topology.subtopologies for name in subtopology.source_topics})
    missing = [name for name in names if topics.topic(name) is None]
    if missing:
        raise _TopicMismatch(StatusCode.MISSING_SOURCE_TOPICS, f"Source topics do not exist: {_format_names(missing)}")


def _missing_topics(ready: dict[str, ConfiguredSubtopology], topics: Topics) -> tuple[StreamsInternalTopic, ...]:
    """The internal topics to create; existing ones must have the required count."""
    internal: dict[str, StreamsInternalTopic] = {}
    for subtopology in ready.values():
        for topic in (*subtopology.repartition_sources, *subtopology.changelogs):
            internal[topic.name] = topic
    for name, required in list(internal.items()):
        existing = topics.topic(name)
        if existing is None:
            continue
        if len(existing.partitions) != required.partition_count:
            raise _TopicMismatch(
                StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                f"Topic {name} has {len(existing.partitions)} partition(s), and needs {required.partition_count}.",
            )
        del internal[name]
    return tuple(internal.values())


class _PartitionCounts:
    """The known partition counts: of existing topics, and of those that have been decided."""

    def __init__(self, topology: Topology, topics: Topics) -> None:
        self._subtopologies = list(topology.in_map_order())
        self._topics = topics
        self._decided: dict[str, int] = {}
        sources = [topic for subtopology in self._subtopologies for topic in subtopology.repartition_sources]
        self._sources = {topic.name for topic in sources}
        self._fixed = {topic.name: topic.partition_count for topic in sources if topic.partition_count}

    def _count_of(self, name: str) -> int:
        topic = self._topics.topic(name)
        count = self._decided.get(name) if topic is None else len(topic.partitions)
        if count is None:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        return count

    def decide_repartition_topics(self) -> None:
        """Set each count to the requested one, or the largest of its inputs; chains take several passes."""
        decided = dict(self._fixed)
        has_undecided = True
        while has_undecided:
            has_undecided, progress = False, False
            for subtopology in self._subtopologies:
                for name in subtopology.repartition_sinks:
                    if name in decided:
                        continue
                    count = self._input_count(subtopology, decided)
                    if count is None:
                        has_undecided = True
                    else:
                        decided[name], progress = count, True
            if has_undecided and not progress:
                raise _invalid_topology("The partition counts of repartition topics depend on each other in a loop.")
        if not self._sources <= decided.keys():
            raise _invalid_topology("A repartition topic is read but not written by any subtopology.")
        self._decided = decided

    def _input_count(self, subtopology: Subtopology, decided: dict[str, int]) -> int | None:
        """The largest count of its inputs that is known already."""
        counts = [decided[topic.name] for topic in subtopology.repartition_sources if topic.name in decided]
        return max([*counts, *map(self._count_of, subtopology.source_topics)], default=None)

    def align_copartitioned(self, names: set[str]) -> None:
        """Give copartitioned topics equal counts: those of sources, of fixed ones, or the largest."""
        if not names:
            return
        repartition = {name: self._count_of(name) for name in names if name in self._sources}
        others = {name: self._count_of(name) for name in names if name not in repartition}
        if others:
            count = _common_count(others)
        elif self._fixed:
            # All fixed ones of the topology have to be equal, also those of other groups, and give the count.
            count = _common_count({name: self._count_of(name) for name in self._fixed})
        else:
            count = max(repartition.values())
        for name, before in repartition.items():
            if name in self._fixed and before != count:
                raise _TopicMismatch(
                    StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                    f"Repartition topic {name} requests {before} partition(s), its copartitioned topics have {count}.",
                )
            self._decided[name] = count

    def decide_changelogs(self) -> None:
        """Give each one a partition for each task of its subtopology."""
        for subtopology in self._subtopologies:
            if not subtopology.inputs():
                raise _invalid_topology(f"Subtopology {subtopology.subtopology_id} reads nothing.")
            count = max(map(self._count_of, subtopology.inputs()))
            self._decided.update((topic.name, count) for topic in subtopology.changelogs)

    def to_configured(self, subtopology: Subtopology) -> ConfiguredSubtopology:
        """The subtopology with all counts."""
        return ConfiguredSubtopology(
            subtopology.subtopology_id,
            max(map(self._count_of, subtopology.inputs())),
            tuple(sorted(set(subtopology.source_topics))),
            tuple(sorted(set(subtopology.repartition_sinks))),
            self._with_counts(subtopology.repartition_sources),
            self._with_counts(subtopology.changelogs),
        )

    def _with_counts(self, topics: Collection[StreamsInternalTopic]) -> tuple[StreamsInternalTopic, ...]:
        """The topics by name. Raises: UNKNOWN_SERVER_ERROR when one is listed twice, on which Kafka fails."""
        if len({topic.name for topic in topics}) != len(topics):
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        return tuple(sorted(map(self._with_count, topics)))

    def _with_count(self, topic: StreamsInternalTopic) -> StreamsInternalTopic:
        count = topic.partition_count or self._decided[topic.name]
        if count < 1 or len(dict(topic.configs)) != len(topic.configs):
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        return topic._replace(partition_count=count)


def _common_count(counts: dict[str, int]) -> int:
    if len(set(counts.values())) > 1:
        shown = ", ".join(f"{name} has {count}" for name, count in sorted(counts.items()))
        raise _TopicMismatch(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, f"Partition counts differ: {shown}")
    return next(iter(counts.values()))


def _format_names(names: list[str]) -> str:
    more = len(names) - _LISTED_MAX
    return ", ".join(names[:_LISTED_MAX]) + (f" and {more} more" if more > 0 else "")


def _invalid_topology(message: str) -> KafkaError:
    return KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)
