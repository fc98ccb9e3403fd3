"""StreamsGroupDescribe (89): members, epochs, tasks and topologies of streams groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kwire.messages.streams_group_describe import (
    Assignment,
    DescribedGroup,
    Endpoint,
    KeyValue,
    Member,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from mockbroker.context import Context
from mockbroker.handlers.group_describe import described_rows, refused_rows
from mockbroker.handlers.streams_requests import must_have_streams_groups
from mockbroker.kafka_error import KafkaError
from mockbroker.outcome import Outcome, Reply
from mockbroker.state.streams_group import StreamsGroup
from mockbroker.state.streams_members import StreamsMember, Task, Tasks
from mockbroker.state.streams_topology import InternalTopic


def streams_group_describe(request: StreamsGroupDescribeRequest, ctx: Context) -> Outcome:
    """Tell what there is of each group, one row for each. Pinned by the conversations other-streams-*."""
    must_have_streams_groups(ctx)
    rows = described_rows(
        DescribedGroup,
        request.group_ids,
        _described,
        _topics_of,
        ctx,
        tells_operations=request.include_authorized_operations,
    )
    return Reply(StreamsGroupDescribeResponse(groups=rows))


def refuse_streams_group_describe(
    request: StreamsGroupDescribeRequest, error: KafkaError
) -> StreamsGroupDescribeResponse:
    """One row with the error for each group that was asked for."""
    return StreamsGroupDescribeResponse(groups=refused_rows(DescribedGroup, request.group_ids, error))


def _topics_of(row: DescribedGroup) -> Iterator[str]:
    for each in (row.topology.subtopologies or ()) if row.topology is not None else ():
        yield from (*each.source_topics, *each.repartition_sink_topics)
        yield from (topic.name for topic in (*each.repartition_source_topics, *each.state_changelog_topics))


def _described(group_id: str, ctx: Context) -> DescribedGroup:
    group = ctx.node.group_log.told(group_id, now_ms=ctx.now_ms).groups.streams(group_id)
    return DescribedGroup(
        group_id=group_id,
        group_state=group.state_name,
        group_epoch=group.group_epoch,
        assignment_epoch=group.assignment_epoch,
        topology=_topology(group),
        members=[_member(member, group.target.get(member.member_id, Tasks())) for member in group.members.values()],
    )


def _topology(group: StreamsGroup) -> Topology:
    """The topology with the partition counts that were decided, or as it was said while there are none."""
    assert group.topology is not None
    configured = group.configured
    if configured is not None and configured.is_ready and configured.subtopologies is not None:
        return Topology(
            group.topology.epoch,
            [
                Subtopology(
                    each.subtopology_id,
                    each.source_topics,
                    each.repartition_sinks,
                    _topic_rows(each.changelogs),
                    _topic_rows(each.repartition_sources),
                )
                for each in configured.subtopologies.values()
            ],
        )
    said = sorted(group.topology.subtopologies)
    return Topology(
        group.topology.epoch,
        [
            Subtopology(
                each.subtopology_id,
                tuple(sorted(each.source_topics)),
                tuple(sorted(each.repartition_sinks)),
                _topic_rows(sorted(each.changelogs)),
                _topic_rows(sorted(each.repartition_sources)),
            )
            for each in said
        ],
    )


def _topic_rows(topics: Iterable[InternalTopic]) -> list[TopicInfo]:
    return [
        TopicInfo(
            topic.name,
            topic.partition_count,
            topic.replication_factor,
            [KeyValue(name, value) for name, value in topic.configs],
        )
        for topic in topics
    ]


def _member(member: StreamsMember, target: Tasks) -> Member:
    endpoint, held = member.user_endpoint, member.assigned
    return Member(
        member_id=member.member_id,
        member_epoch=member.member_epoch,
        rack_id=member.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
        user_endpoint=None if endpoint is None else Endpoint(*endpoint),
        client_tags=[KeyValue(key, value) for key, value in member.client_tags],
        assignment=Assignment(_task_ids(held.active), _task_ids(held.standby), _task_ids(held.warmup)),
        target_assignment=Assignment(_task_ids(target.active), _task_ids(target.standby), _task_ids(target.warmup)),
    )


def _task_ids(tasks: Iterable[Task]) -> list[TaskIds]:
    rows: dict[str, TaskIds] = {}
    for subtopology_id, index in sorted(tasks):
        row = rows.setdefault(subtopology_id, TaskIds(subtopology_id))
        row.partitions = (*row.partitions, index)
    return list(rows.values())
