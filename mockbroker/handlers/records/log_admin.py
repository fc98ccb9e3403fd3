"""DeleteRecords (21), OffsetForLeaderEpoch (23) and DescribeProducers (61)."""

from __future__ import annotations

from kwire.error_codes import ErrorCode
from kwire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from kwire.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from kwire.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from mockbroker.engine.context import Context
from mockbroker.engine.outcome import Outcome, Reply
from mockbroker.handlers.shared.authorize import AclOperation, ResourceType, authorize, is_authorized_on_cluster
from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata.cluster_image import validate_topic_name
from mockbroker.state.storage.partition_log import PartitionLog


def delete_records(request: DeleteRecordsRequest, ctx: Context) -> Outcome:
    """Move the start offsets of logs; the last one of a partition that is listed twice counts.

    Source: Kafka's ReplicaManager.deleteRecordsOnLocalLog; pinned by the conversation other-delete-records-double.
    """
    rows_by_topic: dict[str, dict[int, DeleteRecordsPartition]] = {}
    for topic in request.topics:
        for row in topic.partitions:
            rows_by_topic.setdefault(topic.name, {})[row.partition_index] = row
    topics = [
        DeleteRecordsTopicResult(name, [_delete_records(name, row, ctx) for row in rows.values()])
        for name, rows in rows_by_topic.items()
    ]
    return Reply(DeleteRecordsResponse(topics=topics))


def refuse_delete_records(request: DeleteRecordsRequest, error: KafkaError) -> DeleteRecordsResponse:
    """A response with the error in every row."""
    response = DeleteRecordsResponse(topics=[])
    for topic in request.topics:
        rows = [DeleteRecordsPartitionResult(row.partition_index, -1, error.code) for row in topic.partitions]
        response.topics.append(DeleteRecordsTopicResult(topic.name, rows))
    return response


def offset_for_leader_epoch(request: OffsetForLeaderEpochRequest, ctx: Context) -> Outcome:
    """Return the end offsets of leader epochs. Pinned by the conversation other-offset-for-leader-epoch."""
    topics = [
        OffsetForLeaderTopicResult(topic.topic, [_epoch_end_row(topic.topic, row, ctx) for row in topic.partitions])
        for topic in request.topics
    ]
    return Reply(OffsetForLeaderEpochResponse(topics=topics))


def refuse_offset_for_leader_epoch(
    request: OffsetForLeaderEpochRequest, error: KafkaError
) -> OffsetForLeaderEpochResponse:
    """A response with the error in every row."""
    topics = [
        OffsetForLeaderTopicResult(topic.topic, [EpochEndOffset(error.code, row.partition) for row in topic.partitions])
        for topic in request.topics
    ]
    return OffsetForLeaderEpochResponse(topics=topics)


def describe_producers(request: DescribeProducersRequest, ctx: Context) -> Outcome:
    """Return the active producers of partitions, as any broker with a replica knows them.

    Pinned by the conversation other-describe-producers and the scenario producers_at_followers.
    """
    topics = [
        TopicResponse(topic.name, [_describe_producers(topic.name, index, ctx) for index in topic.partition_indexes])
        for topic in request.topics
    ]
    return Reply(DescribeProducersResponse(topics=topics))


def refuse_describe_producers(request: DescribeProducersRequest, error: KafkaError) -> DescribeProducersResponse:
    """A response with the error in every row."""
    response = DescribeProducersResponse(topics=[])
    for topic in request.topics:
        rows = [PartitionResponse(index, error.code, error.message) for index in topic.partition_indexes]
        response.topics.append(TopicResponse(topic.name, rows))
    return response


def _find_log(
    name: str, index: int, ctx: Context, *, leader_epoch: int = -1, of_any_replica: bool = False
) -> PartitionLog:
    """Raises: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, and the codes of wrong epochs."""
    topic = ctx.cluster.metadata.topic(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server has no such topic.")
    return ctx.node.logs.find_log(topic.topic_id, index, leader_epoch=leader_epoch, of_any_replica=of_any_replica)


def _delete_records(name: str, row: DeleteRecordsPartition, ctx: Context) -> DeleteRecordsPartitionResult:
    try:
        authorize(AclOperation.DELETE, ResourceType.TOPIC, name, ctx)
        topic = ctx.cluster.metadata.topic(name)
        log = _find_log(name, row.partition_index, ctx)
        if topic is not None and topic.internal:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        policy = ctx.node.topic_config(name)["cleanup.policy"]
        if isinstance(policy, list) and "delete" not in policy:
            raise KafkaError(ErrorCode.POLICY_VIOLATION)
        if topic is not None and ctx.cluster.rules.state.in_partition_log:
            key = (topic.topic_id, row.partition_index)
            start = ctx.node.share_control_log.delete_before(key, row.offset, now_ms=ctx.now_ms)
        else:
            start = log.delete_records_before(row.offset)
    except KafkaError as error:
        return DeleteRecordsPartitionResult(row.partition_index, -1, error.code)
    return DeleteRecordsPartitionResult(row.partition_index, start)


def _epoch_end_row(name: str, row: OffsetForLeaderPartition, ctx: Context) -> EpochEndOffset:
    try:
        if not is_authorized_on_cluster(AclOperation.CLUSTER_ACTION, ctx):
            authorize(AclOperation.DESCRIBE, ResourceType.TOPIC, name, ctx)
        log = _find_log(name, row.partition, ctx, leader_epoch=row.current_leader_epoch)
    except KafkaError as error:
        return EpochEndOffset(error.code, row.partition)
    epoch_end = log.end_of_epoch(row.leader_epoch)
    if epoch_end is None:
        return EpochEndOffset(partition=row.partition)
    return EpochEndOffset(partition=row.partition, leader_epoch=epoch_end[0], end_offset=epoch_end[1])


def _describe_producers(name: str, index: int, ctx: Context) -> PartitionResponse:
    try:
        validate_topic_name(name)
        authorize(AclOperation.READ, ResourceType.TOPIC, name, ctx, message=f"READ of topic {name} is not allowed.")
        log = _find_log(name, index, ctx, of_any_replica=True)
    except KafkaError as error:
        return PartitionResponse(index, error.code, error.message)
    rows = [
        ProducerState(
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            last_sequence=producer.last_sequence,
            last_timestamp=producer.last_timestamp,
            coordinator_epoch=producer.coordinator_epoch,
            current_txn_start_offset=-1 if producer.transaction_start is None else producer.transaction_start,
        )
        for producer in log.producers.all_states()
    ]
    return PartitionResponse(index, active_producers=rows)
