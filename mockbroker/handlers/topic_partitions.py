"""DescribeTopicPartitions (75): topics page by page, for admin clients of clusters with many partitions (KIP-966)."""

from __future__ import annotations

from kwire.error_codes import ErrorCode
from kwire.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from mockbroker.context import Context
from mockbroker.kafka_error import KafkaError
from mockbroker.outcome import Outcome, Reply
from mockbroker.security.authorize import Operation, ResourceType, may, operations_on
from mockbroker.state.metadata import Partition, Topic, is_internal, is_valid_topic_name


def describe_topic_partitions(request: DescribeTopicPartitionsRequest, ctx: Context) -> Outcome:
    """Tell topics in order of their names, from the cursor on, until the partitions are as many as asked for."""
    cursor = request.cursor
    if cursor is not None and cursor.partition_index < 0:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"cursor at partition {cursor.partition_index}")
    known = ctx.cluster.metadata
    names = sorted({topic.name for topic in request.topics} or {topic.name for topic in known.topics()})
    denied = {name for name in names if not may(Operation.DESCRIBE, ResourceType.TOPIC, name, ctx)}
    left = min(request.response_partition_limit, ctx.cluster.config.integer("max.request.partition.size.limit"))
    response = DescribeTopicPartitionsResponse()
    for name in names:
        if name in denied or (cursor is not None and name < cursor.topic_name):
            continue
        if left <= 0:
            response.next_cursor = Cursor(name, 0)
            break
        topic = known.topic(name)
        if topic is None:
            response.topics.append(_unknown_row(name, ctx))
            continue
        first = cursor.partition_index if cursor is not None and name == cursor.topic_name else 0
        shown = topic.partitions[first : first + left]
        response.topics.append(_topic_row(topic, shown, ctx))
        left -= len(shown)
        if first + len(shown) < len(topic.partitions):
            response.next_cursor = Cursor(name, first + len(shown))
            break
    # Those who did not ask for a topic by its name do not hear of it.
    response.topics += [_denied_row(name) for name in sorted(denied) if request.topics]
    return Reply(response)


def refuse_describe_topic_partitions(
    request: DescribeTopicPartitionsRequest, error: KafkaError
) -> DescribeTopicPartitionsResponse:
    """A response that carries an error in every row."""
    return DescribeTopicPartitionsResponse(
        topics=[DescribeTopicPartitionsResponseTopic(error.code, topic.name) for topic in request.topics]
    )


def _topic_row(topic: Topic, shown: list[Partition], ctx: Context) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.internal,
        partitions=[_partition_row(partition) for partition in shown],
        topic_authorized_operations=operations_on(ResourceType.TOPIC, topic.name, ctx),
    )


def _denied_row(name: str) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(ErrorCode.TOPIC_AUTHORIZATION_FAILED, name)


def _unknown_row(name: str, ctx: Context) -> DescribeTopicPartitionsResponseTopic:
    valid = is_valid_topic_name(name)
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if valid else ErrorCode.INVALID_TOPIC_EXCEPTION,
        name=name,
        is_internal=is_internal(name),
        topic_authorized_operations=operations_on(ResourceType.TOPIC, name, ctx),
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
