"""StreamsGroupHeartbeat (88): the group protocol of Kafka Streams (KIP-1071)."""

from __future__ import annotations

from collections.abc import Iterable

from kwire.messages import streams_group_heartbeat as messages
from kwire.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    TaskIds,
    TaskOffset,
)
from mockbroker.coordinators.group.group_records_streams import read_topology
from mockbroker.engine.context import Context
from mockbroker.engine.outcome import Outcome, Reply
from mockbroker.handlers.groups.find_coordinator import require_coordinator
from mockbroker.handlers.groups.group_access import require_describe
from mockbroker.handlers.shared.authorize import AclOperation, ResourceType, authorize
from mockbroker.handlers.shared.await_replication import await_replication
from mockbroker.handlers.streams import streams_requests
from mockbroker.handlers.streams.streams_topics import create_missing_topics
from mockbroker.handlers.streams.topology_descriptions import is_description_required
from mockbroker.state.settings import read_int
from mockbroker.state.streams.streams_endpoints import EndpointPartitions
from mockbroker.state.streams.streams_group import StreamsHeartbeat
from mockbroker.state.streams.streams_join import OffsetRows, OwnedTasks, StreamsJoin, TaskRows
from mockbroker.state.streams.streams_members import Task, partitions_by_subtopology
from mockbroker.state.streams.streams_membership import LEFT_FOR_A_WHILE
from mockbroker.state.streams.streams_topics import StatusCode, StreamsStatus

#: The status of missing client tags needs this version.
_TAGS_SINCE = 1


@await_replication
def streams_group_heartbeat(request: StreamsGroupHeartbeatRequest, ctx: Context) -> Outcome:
    """Join, stay in or leave a streams group. Pinned by the conversations other-streams-*."""
    streams_requests.require_streams_groups(ctx)
    authorize(AclOperation.READ, ResourceType.GROUP, request.group_id, ctx)
    if request.topology is not None:
        names = streams_requests.topology_topics(request.topology)
        streams_requests.check_topic_names(names)
        require_describe(names, ctx)
    streams_requests.validate_request(request, ctx.cluster.release.streams)
    require_coordinator(request.group_id, ctx)
    groups = ctx.node.groups
    if request.member_epoch < 0:
        group = groups.get_streams_group(request.group_id)
        group.leave(
            request.member_id,
            instance_id=request.instance_id,
            for_a_while=request.member_epoch == LEFT_FOR_A_WHILE,
            shutdown=request.shutdown_application,
            now_ms=ctx.now_ms,
        )
        return Reply(StreamsGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch))
    group = groups.get_streams_group(request.group_id, create=request.member_epoch == 0)
    settings = ctx.node.group_config(request.group_id)
    join = _join_request(request, ctx)
    heartbeat = group.heartbeat(join, settings=settings, broker=ctx.node.config, now_ms=ctx.now_ms)
    groups.register(group)
    interval_ms = read_int(settings, "streams.heartbeat.interval.ms")
    statuses = create_missing_topics(heartbeat.missing, heartbeat.statuses, ctx, retry_after_ms=2 * interval_ms)
    if ctx.api_version < _TAGS_SINCE:
        statuses = [row for row in statuses if row.code is not StatusCode.MISSING_CLIENT_TAGS]
    response = _build_response(heartbeat, statuses, interval_ms)
    if ctx.cluster.release.streams.sends_recovery_settings:
        response.task_offset_interval_ms = read_int(settings, "streams.task.offset.interval.ms")
        response.acceptable_recovery_lag = read_int(settings, "streams.acceptable.recovery.lag")
    response.topology_description_required = is_description_required(group, heartbeat, ctx)
    return Reply(response)


def _join_request(request: StreamsGroupHeartbeatRequest, ctx: Context) -> StreamsJoin:
    endpoint, tags = request.user_endpoint, request.client_tags
    return StreamsJoin(
        request.member_id,
        request.member_epoch,
        request.rack_id,
        ctx.client_id or "",
        ctx.client_host,
        request.rebalance_timeout_ms,
        None if request.topology is None else read_topology(request.topology),
        _owned_tasks(request),
        request.process_id,
        None if endpoint is None else (endpoint.host, endpoint.port),
        None if tags is None else tuple(sorted((tag.key, tag.value) for tag in tags)),
        request.shutdown_application,
        request.endpoint_information_epoch,
        request.instance_id,
        _task_offsets(request.task_offsets),
        _task_offsets(request.task_end_offsets),
    )


def _task_offsets(rows: Iterable[TaskOffset] | None) -> OffsetRows | None:
    return None if rows is None else tuple(((row.subtopology_id, row.partition), row.offset) for row in rows)


def _owned_tasks(request: StreamsGroupHeartbeatRequest) -> OwnedTasks | None:
    active, standby, warmup = request.active_tasks, request.standby_tasks, request.warmup_tasks
    if active is None or standby is None or warmup is None:
        return None
    return OwnedTasks(_task_rows(active), _task_rows(standby), _task_rows(warmup))


def _task_rows(tasks: Iterable[TaskIds]) -> TaskRows:
    return tuple((row.subtopology_id, tuple(row.partitions)) for row in tasks)


def _build_response(
    heartbeat: StreamsHeartbeat, statuses: Iterable[StreamsStatus], interval_ms: int
) -> StreamsGroupHeartbeatResponse:
    assigned, endpoints = heartbeat.member.assigned, heartbeat.endpoints
    response = StreamsGroupHeartbeatResponse(
        member_id=heartbeat.member.member_id,
        member_epoch=heartbeat.member.member_epoch,
        heartbeat_interval_ms=interval_ms,
        status=[messages.Status(int(status.code), status.detail) for status in statuses],
        endpoint_information_epoch=heartbeat.endpoint_epoch,
        partitions_by_user_endpoint=None if endpoints is None else [_endpoint_row(row) for row in endpoints],
    )
    if heartbeat.includes_tasks:
        response.active_tasks = _task_ids(assigned.active)
        response.standby_tasks = _task_ids(assigned.standby)
        response.warmup_tasks = _task_ids(assigned.warmup)
    return response


def _task_ids(tasks: Iterable[Task]) -> list[TaskIds]:
    return [TaskIds(*row) for row in partitions_by_subtopology(tasks).items()]


def _endpoint_row(row: EndpointPartitions) -> messages.EndpointToPartitions:
    active = [messages.TopicPartition(name, indexes) for name, indexes in row.active]
    standby = [messages.TopicPartition(name, indexes) for name, indexes in row.standby]
    return messages.EndpointToPartitions(messages.Endpoint(row.host, row.port), active, standby)
