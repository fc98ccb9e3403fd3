"""The topics that a streams topology needs: how many partitions internal ones get, and what is wrong with the others.

Source: Kafka's InternalTopicManager, RepartitionTopics, CopartitionedTopicsEnforcer and ChangelogTopics; pinned by the
conversations other-streams-copartition, other-streams-internal-topics and other-streams-topology-errors.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.group_kinds import Topics
from mockbroker.state.streams_topology import InternalTopic, Subtopology, Topology

_SHOWN_MAX = 3


class StatusCode(IntEnum):
    """What may stand in the way of a streams group, by the numbers of its heartbeat's answer."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


class Status(NamedTuple):
    """One thing that stands in the way, in words too."""

    code: StatusCode
    detail: str


class ConfiguredSubtopology(NamedTuple):
    """A subtopology whose internal topics have their partition counts; one task for each of its partitions."""

    subtopology_id: str
    task_count: int
    source_topics: tuple[str, ...]
    repartition_sinks: tuple[str, ...]
    repartition_sources: tuple[InternalTopic, ...]
    changelogs: tuple[InternalTopic, ...]

    def inputs(self) -> list[str]:
        """The names of all topics that it reads, each once."""
        return list(dict.fromkeys([*self.source_topics, *(topic.name for topic in self.repartition_sources)]))


class Configured(NamedTuple):
    """What became of a topology. subtopologies: by id in order, None where the topics do not fit it."""

    subtopologies: dict[str, ConfiguredSubtopology] | None
    missing: tuple[InternalTopic, ...] = ()
    problem: Status | None = None

    @property
    def is_ready(self) -> bool:
        """Say whether tasks can be assigned."""
        return self.problem is None


class _Misfit(Exception):
    """The topics that are there do not fit the topology; that is a status, and no error."""

    def __init__(self, code: StatusCode, detail: str) -> None:
        super().__init__(detail)
        self.status = Status(code, detail)


def configure(topology: Topology, topics: Topics) -> Configured:
    """Decide the internal topics of a topology.

    Raises: STREAMS_INVALID_TOPOLOGY when no topics could ever fit it, UNKNOWN_SERVER_ERROR where Kafka stumbles.
    """
    copartitioned = [names for subtopology in topology.walk() for names in subtopology.copartitioned()]
    try:
        _must_have_sources(topology, topics)
        counts = _Counts(topology, topics)
        counts.decide_repartition_topics()
        for names in copartitioned:
            counts.coordinate(names)
        counts.decide_changelogs()
        ready = {
            subtopology.subtopology_id: counts.configured(subtopology)
            for subtopology in sorted(topology.subtopologies, key=lambda each: each.subtopology_id)
        }
        missing = _missing(ready, topics)
    except _Misfit as misfit:
        return Configured(None, problem=misfit.status)
    if not missing:
        return Configured(ready)
    detail = f"Internal topics do not exist yet: {_shown([topic.name for topic in missing])}"
    return Configured(ready, missing, Status(StatusCode.MISSING_INTERNAL_TOPICS, detail))


def _must_have_sources(topology: Topology, topics: Topics) -> None:
    names = sorted({name for subtopology in topology.subtopologies for name in subtopology.source_topics})
    missing = [name for name in names if topics.topic(name) is None]
    if missing:
        raise _Misfit(StatusCode.MISSING_SOURCE_TOPICS, f"Source topics do not exist: {_shown(missing)}")


def _missing(ready: dict[str, ConfiguredSubtopology], topics: Topics) -> tuple[InternalTopic, ...]:
    """The internal topics that are to be made; those that exist must have the count that was decided."""
    internal: dict[str, InternalTopic] = {}
    for subtopology in ready.values():
        for topic in (*subtopology.repartition_sources, *subtopology.changelogs):
            internal[topic.name] = topic
    for name, wanted in list(internal.items()):
        found = topics.topic(name)
        if found is None:
            continue
        if len(found.partitions) != wanted.partition_count:
            raise _Misfit(
                StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                f"Topic {name} has {len(found.partitions)} partition(s), and needs {wanted.partition_count}.",
            )
        del internal[name]
    return tuple(internal.values())


class _Counts:
    """The partition counts that are known: of topics that exist, and of those that have been decided."""

    def __init__(self, topology: Topology, topics: Topics) -> None:
        self._walk = list(topology.walk())
        self._topics = topics
        self._decided: dict[str, int] = {}
        sources = [topic for subtopology in self._walk for topic in subtopology.repartition_sources]
        self._fixed = {topic.name for topic in sources if topic.partition_count}
        self._flexible = {topic.name for topic in sources if not topic.partition_count}

    def _of(self, name: str) -> int:
        topic = self._topics.topic(name)
        count = self._decided.get(name) if topic is None else len(topic.partitions)
        if count is None:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        return count

    def decide_repartition_topics(self) -> None:
        """Give each one the count it names, or the largest of what flows into it; chains take several rounds."""
        decided: dict[str, int] = {}
        for subtopology in self._walk:
            for topic in subtopology.repartition_sources:
                if topic.partition_count:
                    decided[topic.name] = topic.partition_count
        open_ends = True
        while open_ends:
            open_ends, progress = False, False
            for subtopology in self._walk:
                for name in subtopology.repartition_sinks:
                    if name in decided:
                        continue
                    count = self._inflow(subtopology, decided)
                    if count is None:
                        open_ends = True
                    else:
                        decided[name], progress = count, True
            if open_ends and not progress:
                raise _invalid("The partition counts of repartition topics depend on each other in a loop.")
        if not self._fixed | self._flexible <= decided.keys():
            raise _invalid("A repartition topic is read, and no subtopology writes it.")
        self._decided = decided

    def _inflow(self, subtopology: Subtopology, decided: dict[str, int]) -> int | None:
        """The largest count of its inputs that is known already."""
        known = [decided[topic.name] for topic in subtopology.repartition_sources if topic.name in decided]
        return max([*known, *map(self._of, subtopology.source_topics)], default=None)

    def coordinate(self, names: set[str]) -> None:
        """Have topics that are read together partitioned alike: as sources are, as fixed ones, or as the largest."""
        if not names:
            return
        repartition = {name: self._of(name) for name in names if name in self._fixed | self._flexible}
        others = {name: self._of(name) for name in names if name not in repartition}
        if others:
            count = _same(others)
        elif self._fixed:
            # All fixed ones of the topology have to agree, also those of other groups, and then all are like them.
            count = _same({name: self._of(name) for name in self._fixed})
        else:
            count = max(repartition.values())
        for name, before in repartition.items():
            if name in self._fixed and before != count:
                raise _Misfit(
                    StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
                    f"Repartition topic {name} asks for {before} partition(s) where its neighbours have {count}.",
                )
            self._decided[name] = count

    def decide_changelogs(self) -> None:
        """Give each one a partition for each task of its subtopology."""
        for subtopology in self._walk:
            if not subtopology.inputs():
                raise _invalid(f"Subtopology {subtopology.subtopology_id} reads nothing.")
            count = max(map(self._of, subtopology.inputs()))
            self._decided.update((topic.name, count) for topic in subtopology.changelogs)

    def configured(self, subtopology: Subtopology) -> ConfiguredSubtopology:
        """The subtopology with all counts."""
        return ConfiguredSubtopology(
            subtopology.subtopology_id,
            max(map(self._of, subtopology.inputs())),
            tuple(sorted(set(subtopology.source_topics))),
            tuple(sorted(set(subtopology.repartition_sinks))),
            tuple(sorted(map(self._counted, subtopology.repartition_sources))),
            tuple(sorted(map(self._counted, subtopology.changelogs))),
        )

    def _counted(self, topic: InternalTopic) -> InternalTopic:
        count = topic.partition_count or self._decided[topic.name]
        if count < 1:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
        return topic._replace(partition_count=count)


def _same(counts: dict[str, int]) -> int:
    if len(set(counts.values())) > 1:
        shown = ", ".join(f"{name} has {count}" for name, count in sorted(counts.items()))
        raise _Misfit(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, f"Partition counts differ: {shown}")
    return next(iter(counts.values()))


def _shown(names: list[str]) -> str:
    more = len(names) - _SHOWN_MAX
    return ", ".join(names[:_SHOWN_MAX]) + (f" and {more} more" if more > 0 else "")


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)
