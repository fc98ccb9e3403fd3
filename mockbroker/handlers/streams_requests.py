"""What a StreamsGroupHeartbeat has to be, whatever the group says of it, in the order in which Kafka looks."""

from __future__ import annotations

from collections.abc import Iterator

from kwire.error_codes import ErrorCode
from kwire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, Subtopology, Topology
from mockbroker.context import Context
from mockbroker.kafka_error import KafkaError
from mockbroker.state.topics import is_internal, is_valid_topic_name

_STATIC_LEAVE_EPOCH = -2


def must_have_streams_groups(ctx: Context) -> None:
    """Pass only when the feature streams.version is on, and the coordinator speaks the protocol.

    Raises: UNSUPPORTED_VERSION.
    """
    protocols = ctx.cluster.config["group.coordinator.rebalance.protocols"]
    assert isinstance(protocols, list)
    if ctx.cluster.features.get("streams.version", 0) < 1 or "streams" not in protocols:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)


def topics_of(topology: Topology) -> list[str]:
    """All topics that a topology names, each once."""
    return list(dict.fromkeys(name for each in topology.subtopologies for name in _names(each)))


def check_names(names: list[str]) -> None:
    """Refuse topics that no topology may have.

    Raises: STREAMS_INVALID_TOPOLOGY.
    """
    for what, found in (
        ("coordinators' own topics", [name for name in names if is_internal(name)]),
        ("names that no topic can have", [name for name in names if not is_valid_topic_name(name)]),
    ):
        if found:
            text = f"A topology cannot have {what}: {', '.join(found)}"
            raise KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)


def _names(subtopology: Subtopology) -> Iterator[str]:
    yield from subtopology.source_topics
    yield from subtopology.repartition_sink_topics
    yield from (topic.name for topic in subtopology.repartition_source_topics)
    yield from (topic.name for topic in subtopology.state_changelog_topics)


def validate(request: StreamsGroupHeartbeatRequest) -> None:
    """Refuse what makes no sense, and before that what Kafka 4.3.0 has no support for.

    Raises: INVALID_REQUEST, STREAMS_INVALID_TOPOLOGY.
    """
    problems = (_unsupported, _problem_of_ids, _problem_of_joining, _problem_of_epoch, _problem_of_tasks)
    problem = next((found for look in problems if (found := look(request)) is not None), None)
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, problem)


def _unsupported(request: StreamsGroupHeartbeatRequest) -> str | None:
    if request.instance_id is not None:
        return "Streams groups have no static members yet."
    if request.task_offsets is not None or request.task_end_offsets is not None:
        return "Offsets of tasks are not supported yet."
    if request.warmup_tasks:
        return "Warm-up tasks are not supported yet."
    if request.topology is not None and any(each.source_topic_regex for each in request.topology.subtopologies):
        return "Expressions for source topics are not supported yet."
    return None


def _problem_of_ids(request: StreamsGroupHeartbeatRequest) -> str | None:
    texts = (("MemberId", request.member_id), ("GroupId", request.group_id), ("RackId", request.rack_id))
    return next((f"{name} is blank." for name, text in texts if text is not None and not text.strip()), None)


def _problem_of_joining(request: StreamsGroupHeartbeatRequest) -> str | None:
    if request.member_epoch != 0:
        return None
    if request.rebalance_timeout_ms == -1:
        return "A first heartbeat has to say its RebalanceTimeoutMs."
    if any(tasks is None or tasks for tasks in (request.active_tasks, request.standby_tasks, request.warmup_tasks)):
        return "Who joins has no tasks yet, and has to say so."
    if request.topology is None:
        return "A first heartbeat has to say its Topology."
    for subtopology in request.topology.subtopologies:
        for topic in subtopology.state_changelog_topics:
            if topic.partitions != 0:
                text = f"Changelog topic {topic.name} cannot have a partition count of its own, {topic.partitions}."
                raise KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)
    return None


def _problem_of_epoch(request: StreamsGroupHeartbeatRequest) -> str | None:
    if request.member_epoch == _STATIC_LEAVE_EPOCH:
        return "Only a member with an InstanceId can leave for a while."
    return f"{request.member_epoch} is no MemberEpoch." if request.member_epoch < _STATIC_LEAVE_EPOCH else None


def _problem_of_tasks(request: StreamsGroupHeartbeatRequest) -> str | None:
    kinds = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if any(tasks is None for tasks in kinds) and not all(tasks is None for tasks in kinds):
        return "Tasks of all kinds have to be there, or of none."
    return "Only who joins may say a Topology." if request.member_epoch != 0 and request.topology is not None else None
