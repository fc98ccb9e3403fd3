"""OffsetDelete (47): delete offsets of topics that no group member subscribes to."""

from __future__ import annotations

from kwire.error_codes import ErrorCode
from kwire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from mockbroker.coordinators.group.offset_expiration import CONSUMER, classic_topics
from mockbroker.engine.context import Context
from mockbroker.engine.outcome import Outcome, Reply
from mockbroker.handlers.groups.find_coordinator import require_coordinator
from mockbroker.handlers.offsets.offset_rows import merge_rows
from mockbroker.handlers.shared.authorize import AclOperation, ResourceType, authorize, is_authorized
from mockbroker.handlers.shared.await_replication import await_replication
from mockbroker.kafka_error import KafkaError
from mockbroker.state.group.classic_group import ClassicGroup
from mockbroker.state.group.consumer_group import ConsumerGroup
from mockbroker.state.group.group import Group
from mockbroker.state.metadata.topics import TopicPartitionKey
from mockbroker.state.streams.streams_group import StreamsGroup


@await_replication
def offset_delete(request: OffsetDeleteRequest, ctx: Context) -> Outcome:
    """Delete offsets; unknown partitions fail in their rows, an unknown group fails the request.

    Pinned by the conversations other-offset-delete, other-offset-row-order and share-heartbeat-other-types.
    """
    authorize(AclOperation.DELETE, ResourceType.GROUP, request.group_id, ctx)
    if not request.group_id:
        raise KafkaError(ErrorCode.INVALID_GROUP_ID)
    require_coordinator(request.group_id, ctx)
    group = ctx.node.groups.find_group(request.group_id)
    if not isinstance(group, ClassicGroup | ConsumerGroup | StreamsGroup):
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
    if isinstance(group, ClassicGroup) and not group.is_deletable() and group.protocol_type != CONSUMER:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
    partitions: list[TopicPartitionKey] = []
    rejected: list[OffsetDeleteResponseTopic] = []
    rows: list[OffsetDeleteResponseTopic] = []
    for row in request.topics:
        answered = _delete_topic_offsets(row, group, rejected, partitions, ctx)
        if answered.partitions:
            rows.append(answered)
    ctx.node.offsets.delete_offsets(request.group_id, partitions, now_ms=ctx.now_ms)
    return Reply(OffsetDeleteResponse(topics=merge_rows(rejected, rows, lambda row: row.name)))


def _delete_topic_offsets(
    row: OffsetDeleteRequestTopic,
    group: Group,
    rejected: list[OffsetDeleteResponseTopic],
    partitions: list[TopicPartitionKey],
    ctx: Context,
) -> OffsetDeleteResponseTopic:
    """The coordinator's row of a topic; partitions to delete are added to `partitions`, unknown ones to `rejected`."""
    topic = ctx.cluster.metadata.topic(row.name)
    readable = is_authorized(AclOperation.READ, ResourceType.TOPIC, row.name, ctx)
    answered = OffsetDeleteResponseTopic(name=row.name, partitions=[])
    if topic is None or not readable:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if readable else ErrorCode.TOPIC_AUTHORIZATION_FAILED
        rows = [OffsetDeleteResponsePartition(entry.partition_index, code) for entry in row.partitions]
        rejected.append(OffsetDeleteResponseTopic(row.name, rows))
        return answered
    code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if _is_subscribed(group, row.name) else ErrorCode.NONE
    for entry in row.partitions:
        index = entry.partition_index
        if topic.partition(index) is None:
            unknown = OffsetDeleteResponsePartition(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            rejected.append(OffsetDeleteResponseTopic(row.name, [unknown]))
            continue
        answered.partitions.append(OffsetDeleteResponsePartition(index, code))
        if code is ErrorCode.NONE:
            partitions.append((topic.topic_id, index))
    return answered


def _is_subscribed(group: Group, topic_name: str) -> bool:
    """Return whether a member reads the topic; true if those of a classic group are unknown."""
    if isinstance(group, ConsumerGroup):
        return topic_name in group.subscribed_topic_names()
    if isinstance(group, StreamsGroup):
        return group.is_subscribed_to(topic_name)
    assert isinstance(group, ClassicGroup)
    if group.protocol_type != CONSUMER:
        return False
    topics = classic_topics(group)
    return topics is None or topic_name in topics
