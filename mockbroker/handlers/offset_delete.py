"""OffsetDelete (47): forget offsets of topics that nobody in the group reads."""

from __future__ import annotations

from kwire.codec import decode_lenient
from kwire.error_codes import ErrorCode
from kwire.errors import WireError
from kwire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kwire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from mockbroker.context import Context
from mockbroker.handlers.committed import answer_when_committed
from mockbroker.handlers.coordinators import must_coordinate
from mockbroker.kafka_error import KafkaError
from mockbroker.outcome import Outcome, Reply
from mockbroker.security.authorize import Operation, ResourceType, may, must
from mockbroker.state.classic_group import ClassicGroup
from mockbroker.state.consumer_group import ConsumerGroup
from mockbroker.state.group_kinds import Group
from mockbroker.state.streams_group import StreamsGroup

_CONSUMER_PROTOCOL = "consumer"
#: A subscription begins with its version, and every version begins with the fields of version 0.
_VERSION_SIZE = 2


@answer_when_committed
def offset_delete(request: OffsetDeleteRequest, ctx: Context) -> Outcome:
    """Forget offsets; unknown partitions are refused in their rows, and a group that is not there as a whole.

    Pinned by the conversations other-offset-delete and share-heartbeat-other-types.
    """
    must(Operation.DELETE, ResourceType.GROUP, request.group_id, ctx)
    must_coordinate(request.group_id, ctx)
    group = ctx.node.groups.find(request.group_id)
    if not isinstance(group, ClassicGroup | ConsumerGroup | StreamsGroup):
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND)
    if isinstance(group, ClassicGroup) and not group.is_deletable() and group.protocol_type != _CONSUMER_PROTOCOL:
        raise KafkaError(ErrorCode.NON_EMPTY_GROUP)
    partitions: list[tuple[bytes, int]] = []
    rows = [_deleted(row, group, partitions, ctx) for row in request.topics]
    ctx.node.offsets.delete_all(request.group_id, partitions, now_ms=ctx.now_ms)
    return Reply(OffsetDeleteResponse(topics=rows))


def _exists(topic_name: str, partition_index: int, ctx: Context) -> bool:
    topic = ctx.cluster.metadata.topic(topic_name)
    return topic is not None and topic.partition(partition_index) is not None


def _deleted(
    row: OffsetDeleteRequestTopic, group: Group, partitions: list[tuple[bytes, int]], ctx: Context
) -> OffsetDeleteResponseTopic:
    """The answer for a topic; what is to be forgotten is put among the partitions."""
    topic = ctx.cluster.metadata.topic(row.name)
    subscribed = _is_subscribed(group, row.name)
    readable = may(Operation.READ, ResourceType.TOPIC, row.name, ctx)
    answered = OffsetDeleteResponseTopic(name=row.name, partitions=[])
    for entry in row.partitions:
        if not readable:
            code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
        elif topic is None or not _exists(row.name, entry.partition_index, ctx):
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif subscribed:
            code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        else:
            code = ErrorCode.NONE
            partitions.append((topic.topic_id, entry.partition_index))
        answered.partitions.append(OffsetDeleteResponsePartition(entry.partition_index, code))
    return answered


def _is_subscribed(group: Group, topic_name: str) -> bool:
    """Say whether a member reads the topic; of a classic group whose subscriptions do not decode all topics are."""
    if isinstance(group, ConsumerGroup):
        return topic_name in group.subscribed_topic_names()
    if isinstance(group, StreamsGroup):
        return group.is_subscribed_to(topic_name)
    assert isinstance(group, ClassicGroup)
    if group.protocol_type != _CONSUMER_PROTOCOL or group.protocol_name is None:
        return False
    try:
        return any(topic_name in _subscription(member.metadata(group.protocol_name)) for member in group.members.all())
    except WireError:
        return True


def _subscription(metadata: bytes) -> tuple[str, ...]:
    return decode_lenient(ConsumerProtocolSubscription, 0, metadata[_VERSION_SIZE:]).message.topics
