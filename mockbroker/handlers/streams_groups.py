"""StreamsGroupHeartbeat (88): the group protocol of Kafka Streams (KIP-1071)."""

from __future__ import annotations

from collections.abc import Iterable

from kwire.error_codes import ErrorCode
from kwire.messages.streams_group_heartbeat import (
    Endpoint,
    EndpointToPartitions,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskIds,
    TopicInfo,
    TopicPartition,
)
from kwire.messages.streams_group_heartbeat import Status as TellsStatus
from kwire.messages.streams_group_heartbeat import Topology as SaidTopology
from mockbroker.context import Context
from mockbroker.handlers.committed import answer_when_committed
from mockbroker.handlers.coordinators import must_coordinate
from mockbroker.handlers.group_access import must_see
from mockbroker.handlers.streams_requests import check_names, must_have_streams_groups, topics_of, validate
from mockbroker.handlers.streams_topics import make_topics
from mockbroker.kafka_error import KafkaError
from mockbroker.outcome import Outcome, Reply
from mockbroker.security.authorize import Operation, ResourceType, must
from mockbroker.state.group_kinds import number
from mockbroker.state.streams_endpoints import EndpointPartitions, TopicPartitions
from mockbroker.state.streams_group import StreamsHeartbeat
from mockbroker.state.streams_join import Owned, StreamsJoin, TaskRows
from mockbroker.state.streams_members import Task
from mockbroker.state.streams_topics import Status
from mockbroker.state.streams_topology import CopartitionGroup, InternalTopic, Subtopology, Topology


@answer_when_committed
def streams_group_heartbeat(request: StreamsGroupHeartbeatRequest, ctx: Context) -> Outcome:
    """Join, stay in or leave a streams group. Pinned by the conversations other-streams-*."""
    must_have_streams_groups(ctx)
    must(Operation.READ, ResourceType.GROUP, request.group_id, ctx)
    if request.topology is not None:
        names = topics_of(request.topology)
        check_names(names)
        must_see(names, ctx)
    validate(request)
    must_coordinate(request.group_id, ctx)
    groups = ctx.node.groups
    if request.member_epoch < 0:
        group = groups.streams(request.group_id)
        group.leave(request.member_id, shutdown=request.shutdown_application, now_ms=ctx.now_ms)
        return Reply(StreamsGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch))
    group = groups.streams(request.group_id, create=request.member_epoch == 0)
    settings = ctx.cluster.configs.group(request.group_id)
    heartbeat = group.heartbeat(_join(request, ctx), settings=settings, broker=ctx.cluster.config, now_ms=ctx.now_ms)
    groups.keep(group)
    interval_ms = number(settings, "streams.heartbeat.interval.ms")
    statuses = make_topics(heartbeat.missing, heartbeat.statuses, ctx, patience_ms=2 * interval_ms)
    return Reply(_answer(heartbeat, statuses, interval_ms))


def _join(request: StreamsGroupHeartbeatRequest, ctx: Context) -> StreamsJoin:
    endpoint, tags = request.user_endpoint, request.client_tags
    if tags is not None and len({tag.key for tag in tags}) != len(tags):
        # Kafka 4.3.0 stumbles over a tag that stands twice.
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
    return StreamsJoin(
        request.member_id,
        request.member_epoch,
        request.rack_id,
        ctx.client_id or "",
        ctx.client_host,
        request.rebalance_timeout_ms,
        None if request.topology is None else _topology(request.topology),
        _owned(request),
        request.process_id,
        None if endpoint is None else (endpoint.host, endpoint.port),
        None if tags is None else tuple(sorted((tag.key, tag.value) for tag in tags)),
        request.shutdown_application,
        request.endpoint_information_epoch,
    )


def _owned(request: StreamsGroupHeartbeatRequest) -> Owned | None:
    if request.active_tasks is None or request.standby_tasks is None or request.warmup_tasks is None:
        return None
    return Owned(_rows(request.active_tasks), _rows(request.standby_tasks), _rows(request.warmup_tasks))


def _rows(tasks: Iterable[TaskIds]) -> TaskRows:
    return tuple((row.subtopology_id, tuple(row.partitions)) for row in tasks)


def _topology(said: SaidTopology) -> Topology:
    return Topology(
        said.epoch,
        tuple(
            Subtopology(
                each.subtopology_id,
                tuple(each.source_topics),
                tuple(each.source_topic_regex),
                tuple(map(_internal_topic, each.state_changelog_topics)),
                tuple(each.repartition_sink_topics),
                tuple(map(_internal_topic, each.repartition_source_topics)),
                tuple(
                    CopartitionGroup(
                        tuple(group.source_topics),
                        tuple(group.source_topic_regex),
                        tuple(group.repartition_source_topics),
                    )
                    for group in each.copartition_groups
                ),
            )
            for each in said.subtopologies
        ),
    )


def _internal_topic(said: TopicInfo) -> InternalTopic:
    configs = tuple((config.key, config.value) for config in said.topic_configs)
    return InternalTopic(said.name, said.partitions, said.replication_factor, configs)


def _answer(heartbeat: StreamsHeartbeat, statuses: Iterable[Status], interval_ms: int) -> StreamsGroupHeartbeatResponse:
    held, endpoints = heartbeat.member.assigned, heartbeat.endpoints
    response = StreamsGroupHeartbeatResponse(
        member_id=heartbeat.member.member_id,
        member_epoch=heartbeat.member.member_epoch,
        heartbeat_interval_ms=interval_ms,
        status=[TellsStatus(int(status.code), status.detail) for status in statuses],
        endpoint_information_epoch=heartbeat.endpoint_epoch,
        partitions_by_user_endpoint=None if endpoints is None else [_endpoint(row) for row in endpoints],
    )
    if heartbeat.tells_tasks:
        response.active_tasks = _task_ids(held.active)
        response.standby_tasks = _task_ids(held.standby)
        response.warmup_tasks = _task_ids(held.warmup)
    return response


def _task_ids(tasks: Iterable[Task]) -> list[TaskIds]:
    rows: dict[str, TaskIds] = {}
    for subtopology_id, index in sorted(tasks):
        row = rows.setdefault(subtopology_id, TaskIds(subtopology_id))
        row.partitions = (*row.partitions, index)
    return list(rows.values())


def _endpoint(row: EndpointPartitions) -> EndpointToPartitions:
    return EndpointToPartitions(Endpoint(row.host, row.port), _topic_rows(row.active), _topic_rows(row.standby))


def _topic_rows(partitions: TopicPartitions) -> list[TopicPartition]:
    return [TopicPartition(name, indexes) for name, indexes in partitions]
