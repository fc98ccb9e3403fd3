"""OffsetCommit (8): store the committed offsets of a group."""

from __future__ import annotations

from typing import NamedTuple

from kwire.error_codes import ErrorCode
from kwire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from mockbroker.engine.context import Context
from mockbroker.engine.outcome import Outcome, Reply
from mockbroker.handlers.groups.find_coordinator import require_coordinator
from mockbroker.handlers.offsets.offset_rows import merge_rows
from mockbroker.handlers.shared.authorize import AclOperation, ResourceType, authorize, is_authorized
from mockbroker.handlers.shared.await_replication import await_replication
from mockbroker.kafka_error import KafkaError
from mockbroker.state.group.classic_group import ClassicGroup
from mockbroker.state.group.committed_offsets import CommittedOffset
from mockbroker.state.group.consumer_group import ConsumerGroup
from mockbroker.state.java.hash_order import signed64
from mockbroker.state.metadata.topics import Topic, TopicPartitionKey
from mockbroker.state.settings import read_int
from mockbroker.state.streams.streams_group import StreamsGroup

#: From this version topics have ids instead of names.
_TOPIC_IDS_SINCE = 10
#: From this version a missing group is GROUP_ID_NOT_FOUND; before, it is ILLEGAL_GENERATION.
_GROUP_NOT_FOUND_SINCE = 9
#: The broker's own retention time.
_DEFAULT_RETENTION = -1


class _Commits(NamedTuple):
    """The existing partitions of a row of the request."""

    row: OffsetCommitRequestTopic
    topic: Topic
    entries: list[OffsetCommitRequestPartition]

    def key(self, entry: OffsetCommitRequestPartition) -> TopicPartitionKey:
        """The topic id and index of a partition."""
        return self.topic.topic_id, entry.partition_index


@await_replication
def offset_commit(request: OffsetCommitRequest, ctx: Context) -> Outcome:
    """Store offsets; unknown partitions fail in their own rows, a rejected member fails in all other rows.

    Pinned by the conversations other-offset-commit-fetch, other-offset-topic-ids, other-offset-row-order,
    other-offset-commit-metadata and share-heartbeat-other-types.
    """
    authorize(AclOperation.READ, ResourceType.GROUP, request.group_id, ctx)
    rejected: list[OffsetCommitResponseTopic] = []
    accepted: list[_Commits] = []
    for row in request.topics:
        _sort_partitions(row, rejected, accepted, ctx)
    if not accepted:
        return Reply(OffsetCommitResponse(topics=merge_rows(rejected, [], lambda row: (row.topic_id, row.name))))
    metadata_max = read_int(ctx.node.config, "offset.metadata.max.bytes")
    group_error = _check_group(request, accepted, ctx, metadata_max=metadata_max)
    offsets: dict[TopicPartitionKey, CommittedOffset] = {}
    # Versions 2 to 4 have a retention time.
    retention_ms = request.retention_time_ms
    expires_ms = None if retention_ms == _DEFAULT_RETENTION else signed64(ctx.now_ms + retention_ms)
    rows = [
        _commit_topic(commits, offsets, ctx, group_error, expires_ms, metadata_max=metadata_max) for commits in accepted
    ]
    ctx.node.offsets.commit_offsets(request.group_id, offsets, now_ms=ctx.now_ms)
    return Reply(OffsetCommitResponse(topics=merge_rows(rejected, rows, lambda row: (row.topic_id, row.name))))


def refuse_offset_commit(request: OffsetCommitRequest, error: KafkaError) -> OffsetCommitResponse:
    """A response with the error in every row: this API has no top-level error."""
    response = OffsetCommitResponse(topics=[])
    for row in request.topics:
        rows = [OffsetCommitResponsePartition(entry.partition_index, error.code) for entry in row.partitions]
        response.topics.append(OffsetCommitResponseTopic(row.name, row.topic_id, rows))
    return response


def _find_topic(row: OffsetCommitRequestTopic, ctx: Context) -> Topic | None:
    metadata = ctx.cluster.metadata
    return metadata.topic_by_id(row.topic_id) if ctx.api_version >= _TOPIC_IDS_SINCE else metadata.topic(row.name)


def _sort_partitions(
    row: OffsetCommitRequestTopic,
    rejected: list[OffsetCommitResponseTopic],
    accepted: list[_Commits],
    ctx: Context,
) -> None:
    """Add the unknown partitions of a topic to `rejected`, the others to `accepted`.

    An unknown topic without partitions has a row, one that exists does not.
    """
    topic = _find_topic(row, ctx)
    error = _check_topic(row, topic, ctx)
    if topic is None or error is not ErrorCode.NONE:
        codes = [OffsetCommitResponsePartition(entry.partition_index, error) for entry in row.partitions]
        rejected.append(OffsetCommitResponseTopic(row.name, row.topic_id, codes))
        return
    entries, partition_count = [], len(topic.partitions)
    for entry in row.partitions:
        if 0 <= entry.partition_index < partition_count:
            entries.append(entry)
        else:
            unknown = OffsetCommitResponsePartition(entry.partition_index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            rejected.append(OffsetCommitResponseTopic(row.name, row.topic_id, [unknown]))
    if entries:
        accepted.append(_Commits(row, topic, entries))


def _check_topic(row: OffsetCommitRequestTopic, topic: Topic | None, ctx: Context) -> ErrorCode:
    """The error of a topic that does not depend on the group, or NONE."""
    if topic is None and ctx.api_version >= _TOPIC_IDS_SINCE:
        return ErrorCode.UNKNOWN_TOPIC_ID
    name = row.name if topic is None else topic.name
    if not is_authorized(AclOperation.READ, ResourceType.TOPIC, name, ctx):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic is None else ErrorCode.NONE


def _has_too_large_metadata(entry: OffsetCommitRequestPartition, metadata_max: int) -> bool:
    """Whether a partition fails for its metadata, of which Kafka counts characters, not bytes."""
    return len(entry.committed_metadata or "") > metadata_max


def _check_group(
    request: OffsetCommitRequest, accepted: list[_Commits], ctx: Context, *, metadata_max: int
) -> ErrorCode:
    """The error of the group for this commit, or NONE."""
    try:
        require_coordinator(request.group_id, ctx)
        _check_member(request, accepted, ctx, metadata_max=metadata_max)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


def _check_member(request: OffsetCommitRequest, accepted: list[_Commits], ctx: Context, *, metadata_max: int) -> None:
    """Check that this member may commit. Without a member, a group that only has offsets is created.

    Raises: GROUP_ID_NOT_FOUND, ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, and the errors of the group's type.
    """
    groups = ctx.node.groups
    epoch = request.generation_id_or_member_epoch
    group = groups.find_group(request.group_id)
    if group is None:
        if epoch >= 0:
            recent = ctx.api_version >= _GROUP_NOT_FOUND_SINCE
            code = ErrorCode.GROUP_ID_NOT_FOUND if recent else ErrorCode.ILLEGAL_GENERATION
            raise KafkaError(code, f"Group {request.group_id} not found.")
        group = groups.create_classic_group(request.group_id)
        ctx.node.group_log.hide_until_write(request.group_id)
    if isinstance(group, ClassicGroup):
        group.check_commit(request.member_id, request.group_instance_id, epoch, now_ms=ctx.now_ms)
    elif isinstance(group, ConsumerGroup | StreamsGroup):
        group.check_commit(request.member_id, epoch, None, version=ctx.api_version)
        for commits in accepted:
            for entry in commits.entries:
                if not _has_too_large_metadata(entry, metadata_max):
                    group.check_commit(request.member_id, epoch, commits.key(entry), version=ctx.api_version)
    else:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} is a share group.")


def _commit_topic(
    commits: _Commits,
    offsets: dict[TopicPartitionKey, CommittedOffset],
    ctx: Context,
    group_error: ErrorCode,
    expires_ms: int | None,
    *,
    metadata_max: int,
) -> OffsetCommitResponseTopic:
    """The response row of a topic; offsets to store are added to `offsets`."""
    answered = OffsetCommitResponseTopic(commits.row.name, commits.row.topic_id, partitions=[])
    for entry in commits.entries:
        text, code = entry.committed_metadata or "", group_error
        if code is ErrorCode.NONE and _has_too_large_metadata(entry, metadata_max):
            code = ErrorCode.OFFSET_METADATA_TOO_LARGE
        if code is ErrorCode.NONE:
            offsets[commits.key(entry)] = CommittedOffset(
                entry.committed_offset, entry.committed_leader_epoch, text, ctx.now_ms, expires_ms
            )
        answered.partitions.append(OffsetCommitResponsePartition(entry.partition_index, code))
    return answered
