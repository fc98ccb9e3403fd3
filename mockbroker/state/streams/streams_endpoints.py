"""Endpoints of a streams application, and the partitions whose state each of them has.

Source: Kafka's EndpointToPartitionsManager; pinned by the conversation other-streams-endpoints.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.group.group import Topics
from mockbroker.state.streams.streams_members import StreamsMember, Task, partitions_by_subtopology
from mockbroker.state.streams.streams_topics import ConfiguredSubtopology, ConfiguredTopology

TopicPartitions = list[tuple[str, tuple[int, ...]]]


class EndpointPartitions(NamedTuple):
    """An endpoint, and the partitions whose state it has as active tasks and as standby copies."""

    host: str
    port: int
    active: TopicPartitions
    standby: TopicPartitions


def endpoint_partitions(
    member: StreamsMember, configured: ConfiguredTopology, topics: Topics, *, lists_existing: bool
) -> EndpointPartitions | None:
    """The endpoint of a member with its partitions; None if it has no endpoint.

    lists_existing: StreamsRules.lists_existing_partitions.
    Raises: UNKNOWN_SERVER_ERROR while the source topics do not fit the topology, as Kafka does.
    """
    if member.user_endpoint is None:
        return None
    subtopologies = configured.subtopologies
    if subtopologies is None:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    return EndpointPartitions(
        *member.user_endpoint,
        _partitions(member.assigned.active, subtopologies, topics, lists_existing),
        _partitions(member.assigned.standby | member.assigned.warmup, subtopologies, topics, lists_existing),
    )


def _partitions(
    tasks: Iterable[Task], by_id: dict[str, ConfiguredSubtopology], topics: Topics, lists_existing: bool
) -> TopicPartitions:
    rows: TopicPartitions = []
    for subtopology_id, indexes in partitions_by_subtopology(tasks).items():
        for name in by_id[subtopology_id].inputs():
            topic = topics.topic(name)
            if topic is None:
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
            count = len(topic.partitions)
            # Kafka 4.3.0 truncates the list to the topic's size, without a check which partitions exist.
            listed = tuple(index for index in indexes if index < count) if lists_existing else indexes[:count]
            if listed or not lists_existing:
                rows.append((name, listed))
    return rows
