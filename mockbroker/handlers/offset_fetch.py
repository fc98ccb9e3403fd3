"""OffsetFetch (9): tell how far groups have read."""

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
from mockbroker.context import Context
from mockbroker.handlers.committed import once_committed, together
from mockbroker.handlers.coordinators import must_coordinate
from mockbroker.kafka_error import KafkaError
from mockbroker.outcome import Outcome, Reply
from mockbroker.security.authorize import Operation, ResourceType, may, must
from mockbroker.state.consumer_group import ConsumerGroup
from mockbroker.state.offsets import Committed, Offsets
from mockbroker.state.streams_group import StreamsGroup

_Groups = list[OffsetFetchResponseGroup]

#: From this version several groups can be asked for at once.
_BATCHED_SINCE = 8
#: From this version topics are named by id.
_TOPIC_IDS_SINCE = 10
#: From this version an error of the group has a place of its own, and no topics at all means all of them.
_TOP_LEVEL_ERROR_SINCE = 2


def offset_fetch(request: OffsetFetchRequest, ctx: Context) -> Outcome:
    """Tell committed offsets; what was never committed is -1, without an error.

    Pinned by the conversations other-offset-commit-fetch and other-offset-topic-ids.
    """
    if ctx.api_version >= _BATCHED_SINCE:
        found = [_once_stable(asked, ctx, stable=request.require_stable) for asked in request.groups]
        return together(found, ctx, lambda groups: OffsetFetchResponse(groups=cast(_Groups, groups)))
    asked = OffsetFetchRequestGroup(group_id=request.group_id, topics=_as_batched(request.topics))
    one = _once_stable(asked, ctx, stable=request.require_stable)
    return together([one], ctx, lambda groups: _as_before(cast(_Groups, groups)[0], asked, ctx))


def _once_stable(asked: OffsetFetchRequestGroup, ctx: Context, *, stable: bool) -> Outcome:
    """The offsets of a group; stable ones wait until they are committed.

    Source: Kafka's GroupCoordinatorService.fetchOffsets, where the latter is a write without records.
    """
    group = _group(asked, ctx, stable=stable)
    found = Reply(group)
    if not stable or group.error_code != ErrorCode.NONE:
        return found
    late = OffsetFetchResponseGroup(group_id=asked.group_id, error_code=ErrorCode.NOT_COORDINATOR)
    return once_committed(asked.group_id, ctx, lambda _now: found, lambda _error: Reply(late))


def _as_batched(topics: Sequence[OffsetFetchRequestTopic] | None) -> list[OffsetFetchRequestTopics] | None:
    """The topics of one group in the shape of the newer versions; None still means all."""
    if topics is None:
        return None
    return [OffsetFetchRequestTopics(name=row.name, partition_indexes=row.partition_indexes) for row in topics]


def _as_before(group: OffsetFetchResponseGroup, asked: OffsetFetchRequestGroup, ctx: Context) -> OffsetFetchResponse:
    """The answer for one group in the shape of the versions before 8."""
    if group.error_code != ErrorCode.NONE and ctx.api_version < _TOP_LEVEL_ERROR_SINCE:
        error = ErrorCode(group.error_code)
        group = OffsetFetchResponseGroup(topics=[_refused_topic(row, error) for row in asked.topics or ()])
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=row.partition_index,
                        committed_offset=row.committed_offset,
                        committed_leader_epoch=row.committed_leader_epoch,
                        metadata=row.metadata,
                        error_code=row.error_code,
                    )
                    for row in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )


def _group(asked: OffsetFetchRequestGroup, ctx: Context, *, stable: bool) -> OffsetFetchResponseGroup:
    """The offsets of a group. stable: those that an open transaction may replace are not told (KIP-447)."""
    try:
        must(Operation.DESCRIBE, ResourceType.GROUP, asked.group_id, ctx)
        must_coordinate(asked.group_id, ctx)
        rooms = ctx.node.group_log.told(asked.group_id, now_ms=ctx.now_ms) if not stable else ctx.node
        group = rooms.groups.find(asked.group_id)
        named = asked.member_id is not None or asked.member_epoch >= 0
        if isinstance(group, ConsumerGroup | StreamsGroup) and named:
            if asked.member_id is None:
                # An epoch without a member makes Kafka 4.3.0 stumble over the missing id.
                raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)
            group.check_member(asked.member_id, asked.member_epoch)
    except KafkaError as error:
        return OffsetFetchResponseGroup(group_id=asked.group_id, error_code=error.code)
    # A share group has no offsets of this kind, and a group that is not there has none either; neither is an error.
    if asked.topics is None:
        topics = _all(asked.group_id, rooms.offsets, ctx, stable=stable)
    else:
        topics = [_topic(asked.group_id, row, rooms.offsets, ctx, stable=stable) for row in asked.topics]
    return OffsetFetchResponseGroup(group_id=asked.group_id, topics=topics)


def _all(group_id: str, offsets: Offsets, ctx: Context, *, stable: bool) -> list[OffsetFetchResponseTopics]:
    metadata = ctx.cluster.metadata
    answered: dict[bytes, OffsetFetchResponseTopics] = {}
    for topic_id, partition_index in offsets.all(group_id, metadata):
        topic = metadata.topic_by_id(topic_id)
        assert topic is not None
        if not may(Operation.DESCRIBE, ResourceType.TOPIC, topic.name, ctx):
            continue
        row = OffsetFetchResponseTopics(name=topic.name, topic_id=topic_id, partitions=[])
        found = _found(group_id, (topic_id, partition_index), offsets, stable=stable)
        answered.setdefault(topic_id, row).partitions.append(found)
    return list(answered.values())


def _topic(
    group_id: str, asked: OffsetFetchRequestTopics, offsets: Offsets, ctx: Context, *, stable: bool
) -> OffsetFetchResponseTopics:
    metadata = ctx.cluster.metadata
    by_id = ctx.api_version >= _TOPIC_IDS_SINCE
    topic = metadata.topic_by_id(asked.topic_id) if by_id else metadata.topic(asked.name)
    name = asked.name if topic is None else topic.name
    if not (by_id and topic is None) and not may(Operation.DESCRIBE, ResourceType.TOPIC, name, ctx):
        return _refused_topic(asked, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if topic is None:
        # A name that is not known has no offsets; an id that is not known is an error.
        return _refused_topic(asked, ErrorCode.UNKNOWN_TOPIC_ID if by_id else ErrorCode.NONE)
    rows = [_found(group_id, (topic.topic_id, index), offsets, stable=stable) for index in asked.partition_indexes]
    return OffsetFetchResponseTopics(name=asked.name, topic_id=asked.topic_id, partitions=rows)


def _found(
    group_id: str, partition: tuple[bytes, int], offsets: Offsets, *, stable: bool
) -> OffsetFetchResponsePartitions:
    if stable and offsets.is_pending(group_id, partition):
        return _row(partition[1], None, ErrorCode.UNSTABLE_OFFSET_COMMIT)
    return _row(partition[1], offsets.committed(group_id, partition), ErrorCode.NONE)


def _refused_topic(asked: OffsetFetchRequestTopics, error: ErrorCode) -> OffsetFetchResponseTopics:
    rows = [_row(index, None, error) for index in asked.partition_indexes]
    return OffsetFetchResponseTopics(name=asked.name, topic_id=asked.topic_id, partitions=rows)


def _row(partition_index: int, committed: Committed | None, error: ErrorCode) -> OffsetFetchResponsePartitions:
    found = committed or Committed(-1)
    return OffsetFetchResponsePartitions(
        partition_index=partition_index,
        committed_offset=found.offset,
        committed_leader_epoch=found.leader_epoch,
        metadata=found.metadata,
        error_code=error,
    )
