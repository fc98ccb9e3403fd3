"""Where a streams application can be asked for the state of its tasks: endpoints, and the partitions behind each.

Source: Kafka's EndpointToPartitionsManager; pinned by the conversation other-streams-endpoints.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.state.group_kinds import Topics
from mockbroker.state.streams_members import StreamsMember, Task
from mockbroker.state.streams_topics import Configured, ConfiguredSubtopology

TopicPartitions = list[tuple[str, tuple[int, ...]]]


class EndpointPartitions(NamedTuple):
    """An endpoint, and the partitions whose state it has as their owner and as a copy."""

    host: str
    port: int
    active: TopicPartitions
    standby: TopicPartitions


def endpoint_partitions(member: StreamsMember, configured: Configured, topics: Topics) -> EndpointPartitions | None:
    """What can be asked of a member; None if it has no endpoint.

    Raises: UNKNOWN_SERVER_ERROR while the topology's source topics do not fit it, as Kafka 4.3.0 does.
    """
    if member.user_endpoint is None:
        return None
    subtopologies = configured.subtopologies
    if subtopologies is None:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    return EndpointPartitions(
        *member.user_endpoint,
        _partitions(member.assigned.active, subtopologies, topics),
        _partitions(member.assigned.standby, subtopologies, topics),
    )


def _partitions(
    tasks: Iterable[Task], subtopologies: dict[str, ConfiguredSubtopology], topics: Topics
) -> TopicPartitions:
    by_subtopology: dict[str, list[int]] = {}
    for subtopology_id, index in sorted(tasks):
        by_subtopology.setdefault(subtopology_id, []).append(index)
    found: TopicPartitions = []
    for subtopology_id, indexes in by_subtopology.items():
        for name in subtopologies[subtopology_id].inputs():
            topic = topics.topic(name)
            if topic is None:
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
            # Kafka cuts the list to the topic's size, and does not ask which of the partitions there are.
            found.append((name, tuple(indexes[: len(topic.partitions)])))
    return found
