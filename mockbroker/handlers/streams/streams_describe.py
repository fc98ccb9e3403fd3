"""StreamsGroupDescribe (89): members, epochs, tasks and topologies of streams groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from kwire.messages import streams_group_describe as describe
from kwire.messages.streams_group_describe import StreamsGroupDescribeRequest, StreamsGroupDescribeResponse
from mockbroker.config.plugins import STREAMS_ASSIGNOR
from mockbroker.engine.context import Context
from mockbroker.engine.outcome import Outcome, Reply
from mockbroker.handlers.groups.group_describe import describe_groups, error_rows
from mockbroker.handlers.streams.streams_requests import require_streams_groups
from mockbroker.handlers.streams.topology_descriptions import add_description
from mockbroker.kafka_error import KafkaError
from mockbroker.state.streams.streams_group import StreamsGroup
from mockbroker.state.streams.streams_members import (
    AssignedTasks,
    StreamsMember,
    Task,
    Tasks,
    partitions_by_subtopology,
)
from mockbroker.state.streams.streams_topology import StreamsInternalTopic


def streams_group_describe(request: StreamsGroupDescribeRequest, ctx: Context) -> Outcome:
    """Return the state of each group, one row for each. Pinned by the conversations other-streams-*."""
    require_streams_groups(ctx)
    describe_one = partial(_describe_group, includes_description=request.include_topology_description)
    rows = describe_groups(describe.DescribedGroup, request, describe_one, _row_topics, ctx)
    return Reply(StreamsGroupDescribeResponse(groups=rows))


def refuse_streams_group_describe(
    request: StreamsGroupDescribeRequest, error: KafkaError
) -> StreamsGroupDescribeResponse:
    """One row with the error for each requested group."""
    return StreamsGroupDescribeResponse(groups=error_rows(describe.DescribedGroup, request.group_ids, error))


def _row_topics(row: describe.DescribedGroup) -> Iterator[str]:
    for subtopology in (row.topology.subtopologies or ()) if row.topology is not None else ():
        yield from (*subtopology.source_topics, *subtopology.repartition_sink_topics)
        yield from (
            topic.name for topic in (*subtopology.repartition_source_topics, *subtopology.state_changelog_topics)
        )


def _describe_group(group_id: str, ctx: Context, *, includes_description: bool) -> describe.DescribedGroup:
    group = ctx.node.group_log.committed_state(group_id, now_ms=ctx.now_ms).groups.get_streams_group(group_id)
    row = describe.DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        topology=_topology_row(group),
        members=[_member_row(member, group) for member in group.members.in_map_order().values()],
        assignor_name=STREAMS_ASSIGNOR,
    )
    if includes_description:
        add_description(row, group, ctx)
    return row


def _topology_row(group: StreamsGroup) -> describe.Topology:
    """The topology with the partition counts of internal topics, or as the members sent it before they are known."""
    assert group.topology is not None
    configured = group.configured
    if configured is not None and configured.is_ready and configured.subtopologies is not None:
        rows = [
            describe.Subtopology(
                subtopology.subtopology_id,
                subtopology.source_topics,
                subtopology.repartition_sinks,
                list(map(_topic_row, subtopology.changelogs)),
                list(map(_topic_row, subtopology.repartition_sources)),
            )
            for subtopology in configured.subtopologies.values()
        ]
    else:
        rows = [
            describe.Subtopology(
                subtopology.subtopology_id,
                tuple(sorted(subtopology.source_topics)),
                tuple(sorted(subtopology.repartition_sinks)),
                list(map(_topic_row, sorted(subtopology.changelogs))),
                list(map(_topic_row, sorted(subtopology.repartition_sources))),
            )
            for subtopology in sorted(group.topology.subtopologies)
        ]
    return describe.Topology(group.topology.epoch, rows)


def _topic_row(topic: StreamsInternalTopic) -> describe.TopicInfo:
    configs = [describe.KeyValue(*config) for config in topic.configs]
    return describe.TopicInfo(topic.name, topic.partition_count, topic.replication_factor, configs)


def _member_row(member: StreamsMember, group: StreamsGroup) -> describe.Member:
    endpoint, offsets = member.user_endpoint, group.offsets_of(member.member_id)
    return describe.Member(
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else describe.Endpoint(*endpoint),
        client_tags=[describe.KeyValue(key, value) for key, value in member.client_tags],
        assignment=_assignment(member.assigned),
        task_offsets=_offset_rows(offsets.offsets),
        task_end_offsets=_offset_rows(offsets.end_offsets),
        target_assignment=_assignment(group.target.get(member.member_id, Tasks())),
    )


def _offset_rows(offsets: Mapping[Task, int]) -> list[describe.TaskOffset]:
    return [describe.TaskOffset(*task, offset) for task, offset in sorted(offsets.items())]


def _assignment(tasks: AssignedTasks | Tasks) -> describe.Assignment:
    return describe.Assignment(_task_ids(tasks.active), _task_ids(tasks.standby), _task_ids(tasks.warmup))


def _task_ids(tasks: Iterable[Task]) -> list[describe.TaskIds]:
    return [describe.TaskIds(*row) for row in partitions_by_subtopology(tasks).items()]
