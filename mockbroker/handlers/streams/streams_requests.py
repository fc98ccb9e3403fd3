"""Validation of StreamsGroupHeartbeat requests that does not depend on the group, in Kafka's order."""

from __future__ import annotations

from collections.abc import Iterator

from kwire.error_codes import ErrorCode
from kwire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, Subtopology, Topology
from mockbroker.engine.context import Context
from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata.topics import is_internal_topic, is_valid_topic_name
from mockbroker.state.streams.streams_membership import LEFT_FOR_A_WHILE
from mockbroker.state.streams.streams_rules import StreamsRules


def require_streams_groups(ctx: Context) -> None:
    """Check that the feature streams.version and the streams protocol of the coordinator are enabled.

    Raises: UNSUPPORTED_VERSION.
    """
    protocols = ctx.node.config["group.coordinator.rebalance.protocols"]
    assert isinstance(protocols, list)
    if ctx.cluster.features.get("streams.version", 0) < 1 or "streams" not in protocols:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)


def topology_topics(topology: Topology) -> list[str]:
    """All topics of a topology, each once."""
    return list(dict.fromkeys(name for part in topology.subtopologies for name in _subtopology_topics(part)))


def check_topic_names(names: list[str]) -> None:
    """Reject topics that no topology may contain.

    Raises: STREAMS_INVALID_TOPOLOGY.
    """
    for description, invalid in (
        ("internal topics", [name for name in names if is_internal_topic(name)]),
        ("invalid topic names", [name for name in names if not is_valid_topic_name(name)]),
    ):
        if invalid:
            text = f"A topology cannot have {description}: {', '.join(invalid)}"
            raise KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)


def _subtopology_topics(subtopology: Subtopology) -> Iterator[str]:
    yield from subtopology.source_topics
    yield from subtopology.repartition_sink_topics
    yield from (topic.name for topic in subtopology.repartition_source_topics)
    yield from (topic.name for topic in subtopology.state_changelog_topics)


def validate_request(request: StreamsGroupHeartbeatRequest, rules: StreamsRules) -> None:
    """Reject invalid requests, and before that those that the release does not support.

    Raises: INVALID_REQUEST, STREAMS_INVALID_TOPOLOGY.
    """
    checks = (_check_ids, _check_first_heartbeat, _check_epoch, _check_tasks)
    problem = _check_unsupported_fields(request, rules)
    problem = problem or next((message for check in checks if (message := check(request)) is not None), None)
    if problem is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, problem)


def _check_unsupported_fields(request: StreamsGroupHeartbeatRequest, rules: StreamsRules) -> str | None:
    if request.instance_id is not None and not rules.accepts_static_members:
        return "Streams groups have no static members yet."
    has_offsets = request.task_offsets is not None or request.task_end_offsets is not None
    if has_offsets and not rules.accepts_task_offsets:
        return "Offsets of tasks are not supported yet."
    if request.warmup_tasks and not rules.accepts_warmup_tasks:
        return "Warm-up tasks are not supported yet."
    if request.topology is not None and any(part.source_topic_regex for part in request.topology.subtopologies):
        return "Expressions for source topics are not supported yet."
    return None


def _check_ids(request: StreamsGroupHeartbeatRequest) -> str | None:
    texts = (
        ("MemberId", request.member_id),
        ("GroupId", request.group_id),
        ("InstanceId", request.instance_id),
        ("RackId", request.rack_id),
    )
    return next((f"{name} is blank." for name, text in texts if text is not None and not text.strip()), None)


def _check_first_heartbeat(request: StreamsGroupHeartbeatRequest) -> str | None:
    if request.member_epoch != 0:
        return None
    if request.rebalance_timeout_ms == -1:
        return "The first heartbeat has to contain RebalanceTimeoutMs."
    tasks_by_name = {
        "ActiveTasks": request.active_tasks,
        "StandbyTasks": request.standby_tasks,
        "WarmupTasks": request.warmup_tasks,
    }
    for name, tasks in tasks_by_name.items():
        if tasks is None or tasks:
            return f"{name} of a joining member have to be an empty list."
    if request.topology is None:
        return "The first heartbeat has to contain the Topology."
    for subtopology in request.topology.subtopologies:
        for topic in subtopology.state_changelog_topics:
            if topic.partitions != 0:
                text = f"Changelog topic {topic.name} must not have a partition count, {topic.partitions}."
                raise KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, text)
    return None


def _check_epoch(request: StreamsGroupHeartbeatRequest) -> str | None:
    if request.member_epoch == LEFT_FOR_A_WHILE:
        return None if request.instance_id is not None else "Only a member with an InstanceId can leave for a while."
    return f"{request.member_epoch} is not a valid MemberEpoch." if request.member_epoch < LEFT_FOR_A_WHILE else None


def _check_tasks(request: StreamsGroupHeartbeatRequest) -> str | None:
    kinds = (request.active_tasks, request.standby_tasks, request.warmup_tasks)
    if any(tasks is None for tasks in kinds) and not all(tasks is None for tasks in kinds):
        return "The request has to contain task lists of all kinds or of none."
    is_misplaced = request.member_epoch != 0 and request.topology is not None
    return "Only a joining member may send a Topology." if is_misplaced else None
