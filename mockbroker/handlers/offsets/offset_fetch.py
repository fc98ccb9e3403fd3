"""OffsetFetch (9): return committed offsets of groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from kwire.error_codes import ErrorCode
from kwire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from mockbroker.engine.context import Context
from mockbroker.engine.outcome import Outcome, Reply
from mockbroker.handlers.groups.find_coordinator import require_coordinator
from mockbroker.handlers.shared.authorize import AclOperation, ResourceType, authorize, is_authorized
from mockbroker.handlers.shared.await_replication import after_replication, combine_outcomes
from mockbroker.kafka_error import KafkaError
from mockbroker.state.group.committed_offsets import CommittedOffset, CommittedOffsets
from mockbroker.state.group.consumer_group import ConsumerGroup
from mockbroker.state.metadata.topics import Topic, TopicPartitionKey
from mockbroker.state.streams.streams_group import StreamsGroup

_GroupRows = list[OffsetFetchResponseGroup]

#: From this version a request can contain several groups.
_BATCHED_SINCE = 8
#: From this version topics have ids instead of names.
_TOPIC_IDS_SINCE = 10
#: From this version there is a top-level error, and null topics stand for all topics.
_TOP_LEVEL_ERROR_SINCE = 2


def offset_fetch(request: OffsetFetchRequest, ctx: Context) -> Outcome:
    """Return committed offsets; partitions without one have -1 and no error.

    Pinned by the conversations other-offset-commit-fetch, other-offset-topic-ids and other-offset-row-order.
    """
    if ctx.api_version >= _BATCHED_SINCE:
        outcomes = [_fetch_group(group_request, ctx, stable=request.require_stable) for group_request in request.groups]
        return combine_outcomes(outcomes, ctx, lambda groups: OffsetFetchResponse(groups=cast(_GroupRows, groups)))
    group_request = OffsetFetchRequestGroup(group_id=request.group_id, topics=_to_batched_topics(request.topics))
    outcome = _fetch_group(group_request, ctx, stable=request.require_stable)
    return combine_outcomes(
        [outcome], ctx, lambda groups: _to_single_group_response(cast(_GroupRows, groups)[0], group_request, ctx)
    )


def refuse_offset_fetch(request: OffsetFetchRequest, error: KafkaError) -> OffsetFetchResponse:
    """A response with the error in the row of every group, or at the top for a request with one group."""
    if not request.groups:
        return OffsetFetchResponse(error_code=error.code, topics=[])
    rows = [OffsetFetchResponseGroup(group_id=group.group_id, error_code=error.code) for group in request.groups]
    return OffsetFetchResponse(groups=rows)


def _fetch_group(group_request: OffsetFetchRequestGroup, ctx: Context, *, stable: bool) -> Outcome:
    """The offsets of a group; with require_stable the response waits for replication.

    Source: Kafka's GroupCoordinatorService.fetchOffsets, where a stable fetch is a write without records.
    """
    group = _group_row(group_request, ctx, stable=stable)
    reply = Reply(group)
    if not stable or group.error_code != ErrorCode.NONE:
        return reply
    late = OffsetFetchResponseGroup(group_id=group_request.group_id, error_code=ErrorCode.NOT_COORDINATOR)
    return after_replication(group_request.group_id, ctx, lambda _now: reply, lambda _error: Reply(late))


def _to_batched_topics(topics: Sequence[OffsetFetchRequestTopic] | None) -> list[OffsetFetchRequestTopics] | None:
    """The topics of one group in the format of version 8; None still means all."""
    if topics is None:
        return None
    return [OffsetFetchRequestTopics(name=row.name, partition_indexes=row.partition_indexes) for row in topics]


def _to_single_group_response(
    group: OffsetFetchResponseGroup, group_request: OffsetFetchRequestGroup, ctx: Context
) -> OffsetFetchResponse:
    """The response for one group in the format before version 8."""
    if group.error_code != ErrorCode.NONE and ctx.api_version < _TOP_LEVEL_ERROR_SINCE:
        error = ErrorCode(group.error_code)
        group = OffsetFetchResponseGroup(topics=[_error_topic_row(row, error) for row in group_request.topics or ()])
    response = OffsetFetchResponse(error_code=group.error_code, topics=[])
    for topic in group.topics:
        rows = [
            OffsetFetchResponsePartition(
                row.partition_index, row.committed_offset, row.committed_leader_epoch, row.metadata, row.error_code
            )
            for row in topic.partitions
        ]
        response.topics.append(OffsetFetchResponseTopic(topic.name, rows))
    return response


def _group_row(group_request: OffsetFetchRequestGroup, ctx: Context, *, stable: bool) -> OffsetFetchResponseGroup:
    """The offsets of a group. stable: omit offsets that an open transaction may replace (KIP-447)."""
    try:
        authorize(AclOperation.DESCRIBE, ResourceType.GROUP, group_request.group_id, ctx)
        require_coordinator(group_request.group_id, ctx)
        group_id = group_request.group_id
        coordinator = ctx.node if stable else ctx.node.group_log.committed_state(group_id, now_ms=ctx.now_ms)
        group = coordinator.groups.find_group(group_id)
        named = group_request.member_id is not None or group_request.member_epoch >= 0
        if isinstance(group, ConsumerGroup | StreamsGroup) and named:
            if group_request.member_id is None:
                # Kafka 4.3.0 fails on an epoch without a member id.
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
            group.check_member(group_request.member_id, group_request.member_epoch)
    except KafkaError as error:
        return OffsetFetchResponseGroup(group_id=group_request.group_id, error_code=error.code)
    # Share groups and unknown groups have no committed offsets; neither is an error.
    offsets = coordinator.offsets
    if group_request.topics is None:
        topics = _all_topic_rows(group_id, offsets, ctx, stable=stable)
    else:
        topics = _topic_rows(group_id, group_request.topics, offsets, ctx, stable=stable)
    return OffsetFetchResponseGroup(group_id=group_id, topics=topics)


def _all_topic_rows(
    group_id: str, offsets: CommittedOffsets, ctx: Context, *, stable: bool
) -> list[OffsetFetchResponseTopics]:
    metadata = ctx.cluster.metadata
    answered: dict[bytes, OffsetFetchResponseTopics] = {}
    for topic_id, partition_index in offsets.all_offsets(group_id, metadata):
        topic = metadata.topic_by_id(topic_id)
        assert topic is not None
        if not is_authorized(AclOperation.DESCRIBE, ResourceType.TOPIC, topic.name, ctx):
            continue
        row = OffsetFetchResponseTopics(name=topic.name, topic_id=topic_id, partitions=[])
        partition_row = _offset_row(group_id, (topic_id, partition_index), offsets, stable=stable)
        answered.setdefault(topic_id, row).partitions.append(partition_row)
    return list(answered.values())


def _topic_rows(
    group_id: str,
    topic_requests: Sequence[OffsetFetchRequestTopics],
    offsets: CommittedOffsets,
    ctx: Context,
    *,
    stable: bool,
) -> list[OffsetFetchResponseTopics]:
    """The rows of the requested topics; those with errors are last."""
    rows: list[OffsetFetchResponseTopics] = []
    errors: list[OffsetFetchResponseTopics] = []
    for topic_request in topic_requests:
        topic = _find_topic(topic_request, ctx)
        error = _check_topic(topic_request, topic, ctx)
        if error is not ErrorCode.NONE or topic is None:
            # An unknown name has no offsets; an unknown id is an error.
            (rows if error is ErrorCode.NONE else errors).append(_error_topic_row(topic_request, error))
            continue
        partitions = [
            _offset_row(group_id, (topic.topic_id, index), offsets, stable=stable)
            for index in topic_request.partition_indexes
        ]
        rows.append(OffsetFetchResponseTopics(topic_request.name, topic_request.topic_id, partitions))
    return rows + errors


def _find_topic(topic_request: OffsetFetchRequestTopics, ctx: Context) -> Topic | None:
    metadata = ctx.cluster.metadata
    by_id = ctx.api_version >= _TOPIC_IDS_SINCE
    return metadata.topic_by_id(topic_request.topic_id) if by_id else metadata.topic(topic_request.name)


def _check_topic(topic_request: OffsetFetchRequestTopics, topic: Topic | None, ctx: Context) -> ErrorCode:
    if topic is None and ctx.api_version >= _TOPIC_IDS_SINCE:
        return ErrorCode.UNKNOWN_TOPIC_ID
    name = topic_request.name if topic is None else topic.name
    readable = is_authorized(AclOperation.DESCRIBE, ResourceType.TOPIC, name, ctx)
    return ErrorCode.NONE if readable else ErrorCode.TOPIC_AUTHORIZATION_FAILED


def _offset_row(
    group_id: str, partition: TopicPartitionKey, offsets: CommittedOffsets, *, stable: bool
) -> OffsetFetchResponsePartitions:
    if stable and offsets.is_pending(group_id, partition):
        return _partition_row(partition[1], None, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    return _partition_row(partition[1], offsets.find_offset(group_id, partition), ErrorCode.NONE)


def _error_topic_row(topic_request: OffsetFetchRequestTopics, error: ErrorCode) -> OffsetFetchResponseTopics:
    rows = [_partition_row(index, None, error) for index in topic_request.partition_indexes]
    return OffsetFetchResponseTopics(name=topic_request.name, topic_id=topic_request.topic_id, partitions=rows)


def _partition_row(
    partition_index: int, committed: CommittedOffset | None, error: ErrorCode
) -> OffsetFetchResponsePartitions:
    offset = committed or CommittedOffset(-1)
    return OffsetFetchResponsePartitions(partition_index, offset.offset, offset.leader_epoch, offset.metadata, error)
