"""DescribeTopicPartitions (75): paged topic descriptions for clusters with many partitions (KIP-966)."""

from __future__ import annotations

from kwire.error_codes import ErrorCode
from kwire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from mockbroker.engine.context import Context
from mockbroker.engine.outcome import Outcome, Reply
from mockbroker.handlers.shared.authorize import AclOperation, ResourceType, authorized_operations, is_authorized
from mockbroker.kafka_error import KafkaError
from mockbroker.state.java.hash_order import signed32
from mockbroker.state.metadata.cluster_image import (
    ClusterImage,
    Partition,
    Topic,
    is_internal_topic,
    is_valid_topic_name,
)


def describe_topic_partitions(request: DescribeTopicPartitionsRequest, ctx: Context) -> Outcome:
    """Return topics in name order, from the cursor on, up to the requested number of partitions.

    Pinned by the conversation other-describe-topic-partitions.
    """
    cursor = request.cursor
    metadata = ctx.cluster.metadata
    names = _requested_names(request, metadata)
    denied = {name for name in names if not is_authorized(AclOperation.DESCRIBE, ResourceType.TOPIC, name, ctx)}
    if cursor is None and "" in names and "" not in denied:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "a topic without name, and no cursor")
    limit = min(request.response_partition_limit, ctx.node.config.integer("max.request.partition.size.limit"))
    left = max(1, limit)
    response = DescribeTopicPartitionsResponse()
    for name in names:
        if name in denied:
            continue
        if left <= 0:
            response.next_cursor = Cursor(name, 0)
            break
        topic = metadata.topic(name)
        if topic is None:
            response.topics.append(_unknown_row(name, ctx))
            continue
        first = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
        end = min(len(topic.partitions), signed32(first + left))  # The sum overflows: other-describe-topics-cursors.
        shown = topic.partitions[first : max(first, end)]
        response.topics.append(_topic_row(topic, shown, ctx))
        left -= len(shown)
        if end < len(topic.partitions):
            response.next_cursor = Cursor(name, end)
            break
    # Denied topics are listed only when they were requested by name.
    response.topics += [_denied_row(name) for name in sorted(denied) if request.topics]
    return Reply(response)


def _requested_names(request: DescribeTopicPartitionsRequest, metadata: ClusterImage) -> list[str]:
    """The names from the cursor on, in order; all topics unless the request lists some.

    Raises: INVALID_REQUEST for a cursor at a negative partition or outside of the list.
    """
    cursor = request.cursor
    names = {topic.name for topic in request.topics}
    if cursor is not None and names and cursor.topic_name not in names:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"the cursor's topic {cursor.topic_name!r} is not requested")
    if cursor is not None and cursor.partition_index < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"cursor at partition {cursor.partition_index}")
    first = "" if cursor is None else cursor.topic_name
    return sorted(name for name in names or {topic.name for topic in metadata.topics()} if name >= first)


def refuse_describe_topic_partitions(
    request: DescribeTopicPartitionsRequest, error: KafkaError
) -> DescribeTopicPartitionsResponse:
    """A response with the error in every row."""
    return DescribeTopicPartitionsResponse(
        topics=[DescribeTopicPartitionsResponseTopic(error.code, topic.name) for topic in request.topics]
    )


def _topic_row(topic: Topic, shown: list[Partition], ctx: Context) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.internal,
        partitions=[_partition_row(partition) for partition in shown],
        topic_authorized_operations=authorized_operations(ResourceType.TOPIC, topic.name, ctx),
    )


def _denied_row(name: str) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name)


def _unknown_row(name: str, ctx: Context) -> DescribeTopicPartitionsResponseTopic:
    valid = is_valid_topic_name(name)
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if valid else ErrorCode.INVALID_TOPIC_EXCEPTION,
        name=name,
        is_internal=is_internal_topic(name),
        topic_authorized_operations=authorized_operations(ResourceType.TOPIC, name, ctx),
    )


def _partition_row(partition: Partition) -> DescribeTopicPartitionsResponsePartition:
    return DescribeTopicPartitionsResponsePartition(
        error_code=ErrorCode.NONE if partition.leader >= 0 else ErrorCode.LEADER_NOT_AVAILABLE,
        partition_index=partition.index,
        leader_id=partition.leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        eligible_leader_replicas=partition.elr,
        last_known_elr=partition.last_known_elr,
        offline_replicas=partition.offline,
    )
