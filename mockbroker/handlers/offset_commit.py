"""OffsetCommit (8): store how far a group has read."""

from __future__ import annotations

from kwire.error_codes import ErrorCode
from kwire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from mockbroker.context import Context
from mockbroker.handlers.committed import answer_when_committed
from mockbroker.handlers.coordinators import must_coordinate
from mockbroker.kafka_error import KafkaError
from mockbroker.outcome import Outcome, Reply
from mockbroker.security.authorize import Operation, ResourceType, may, must
from mockbroker.state.classic_group import ClassicGroup
from mockbroker.state.consumer_group import ConsumerGroup
from mockbroker.state.group_kinds import number
from mockbroker.state.offsets import Committed
from mockbroker.state.streams_group import StreamsGroup
from mockbroker.state.topics import Topic

#: From this version topics are named by id.
_TOPIC_IDS_SINCE = 10
#: From this version a missing group is called by its name; before, the generation is called wrong.
_GROUP_NOT_FOUND_SINCE = 9
#: As long as the broker keeps offsets.
_DEFAULT_RETENTION = -1


@answer_when_committed
def offset_commit(request: OffsetCommitRequest, ctx: Context) -> Outcome:
    """Store offsets; partitions that do not exist are refused in their rows, members that may not in all others.

    Pinned by the conversations other-offset-commit-fetch, other-offset-topic-ids and share-heartbeat-other-types.
    """
    must(Operation.READ, ResourceType.GROUP, request.group_id, ctx)
    wanted = [
        (topic.topic_id, entry.partition_index)
        for row in request.topics
        for entry in row.partitions
        if (topic := _topic(row, ctx)) is not None and _problem(row, entry.partition_index, ctx) is ErrorCode.NONE
    ]
    refused = _refusal(request, wanted, ctx) if wanted else ErrorCode.NONE
    offsets: dict[tuple[bytes, int], Committed] = {}
    # Versions 2 to 4 can say how long to keep them.
    retention_ms = request.retention_time_ms
    expires_ms = None if retention_ms == _DEFAULT_RETENTION else ctx.now_ms + retention_ms
    rows = [_commit_topic(row, offsets, ctx, refused=refused, expires_ms=expires_ms) for row in request.topics]
    ctx.node.offsets.commit_all(request.group_id, offsets, now_ms=ctx.now_ms)
    return Reply(OffsetCommitResponse(topics=rows))


def refuse_offset_commit(request: OffsetCommitRequest, error: KafkaError) -> OffsetCommitResponse:
    """The error in every row: this API has no other place for it."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=row.name,
                topic_id=row.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(entry.partition_index, error.code) for entry in row.partitions
                ],
            )
            for row in request.topics
        ]
    )


def _topic(row: OffsetCommitRequestTopic, ctx: Context) -> Topic | None:
    metadata = ctx.cluster.metadata
    return metadata.topic_by_id(row.topic_id) if ctx.api_version >= _TOPIC_IDS_SINCE else metadata.topic(row.name)


def _problem(row: OffsetCommitRequestTopic, partition_index: int, ctx: Context) -> ErrorCode:
    """What is wrong with a partition whatever the group says of it, or NONE."""
    topic = _topic(row, ctx)
    by_id = ctx.api_version >= _TOPIC_IDS_SINCE
    if topic is None and by_id:
        return ErrorCode.UNKNOWN_TOPIC_ID
    name = row.name if topic is None else topic.name
    if not may(Operation.READ, ResourceType.TOPIC, name, ctx):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    known = topic is not None and topic.partition(partition_index) is not None
    return ErrorCode.NONE if known else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _refusal(request: OffsetCommitRequest, partitions: list[tuple[bytes, int]], ctx: Context) -> ErrorCode:
    """What the group has against this commit, or NONE."""
    try:
        must_coordinate(request.group_id, ctx)
        _must_be_allowed(request, partitions, ctx)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


def _must_be_allowed(request: OffsetCommitRequest, partitions: list[tuple[bytes, int]], ctx: Context) -> None:
    """Have the group say whether this member may commit. Without member it makes a group that only has offsets.

    Raises: GROUP_ID_NOT_FOUND, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, and what the group's type says.
    """
    groups = ctx.node.groups
    epoch = request.generation_id_or_member_epoch
    group = groups.find(request.group_id)
    if group is None:
        if epoch >= 0:
            recent = ctx.api_version >= _GROUP_NOT_FOUND_SINCE
            code = ErrorCode.GROUP_ID_NOT_FOUND if recent else ErrorCode.ILLEGAL_GENERATION
            raise KafkaError(code, f"Group {request.group_id} not found.")
        group = groups.make_classic(request.group_id)
    if isinstance(group, ClassicGroup):
        group.check_commit(request.member_id, request.group_instance_id, epoch, now_ms=ctx.now_ms)
    elif isinstance(group, ConsumerGroup | StreamsGroup):
        for partition in partitions:
            group.check_commit(request.member_id, epoch, partition, api_version=ctx.api_version)
    else:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} is a share group.")


def _commit_topic(
    row: OffsetCommitRequestTopic,
    offsets: dict[tuple[bytes, int], Committed],
    ctx: Context,
    *,
    refused: ErrorCode,
    expires_ms: int | None,
) -> OffsetCommitResponseTopic:
    """The answer for a topic; what is to be stored is put among the offsets."""
    topic = _topic(row, ctx)
    metadata_size_max = number(ctx.cluster.config, "offset.metadata.max.bytes")
    answered = OffsetCommitResponseTopic(name=row.name, topic_id=row.topic_id, partitions=[])
    for entry in row.partitions:
        text = entry.committed_metadata or ""
        code = _problem(row, entry.partition_index, ctx) or refused
        if code is ErrorCode.NONE and len(text) > metadata_size_max:
            code = ErrorCode.OFFSET_METADATA_TOO_LARGE  # Kafka counts characters, whatever the name says.
        if code is ErrorCode.NONE:
            assert topic is not None
            committed = Committed(entry.committed_offset, entry.committed_leader_epoch, text, ctx.now_ms, expires_ms)
            offsets[topic.topic_id, entry.partition_index] = committed
        answered.partitions.append(OffsetCommitResponsePartition(entry.partition_index, code))
    return answered
