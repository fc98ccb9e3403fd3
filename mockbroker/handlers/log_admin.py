"""What admins ask of logs: DeleteRecords (21), OffsetForLeaderEpoch (23), DescribeProducers (61)."""

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
from mockbroker.context import Context
from mockbroker.kafka_error import KafkaError
from mockbroker.outcome import Outcome, Reply
from mockbroker.security.authorize import CLUSTER_NAME, Operation, ResourceType, may, must
from mockbroker.state.log import PartitionLog


def delete_records(request: DeleteRecordsRequest, ctx: Context) -> Outcome:
    """Move the starts of logs. Source: Kafka's ReplicaManager.deleteRecordsOnLocalLog."""
    return Reply(
        DeleteRecordsResponse(
            topics=[
                DeleteRecordsTopicResult(topic.name, [_deleted(topic.name, row, ctx) for row in topic.partitions])
                for topic in request.topics
            ]
        )
    )


def refuse_delete_records(request: DeleteRecordsRequest, error: KafkaError) -> DeleteRecordsResponse:
    """A response that carries an error in every row."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                topic.name,
                [DeleteRecordsPartitionResult(row.partition_index, -1, error.code) for row in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def offset_for_leader_epoch(request: OffsetForLeaderEpochRequest, ctx: Context) -> Outcome:
    """Tell where leader epochs end. Pinned by the conversation other-offset-for-leader-epoch."""
    return Reply(
        OffsetForLeaderEpochResponse(
            topics=[
                OffsetForLeaderTopicResult(topic.topic, [_epoch_end(topic.topic, row, ctx) for row in topic.partitions])
                for topic in request.topics
            ]
        )
    )


def refuse_offset_for_leader_epoch(
    request: OffsetForLeaderEpochRequest, error: KafkaError
) -> OffsetForLeaderEpochResponse:
    """A response that carries an error in every row."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic.topic, [EpochEndOffset(error.code, row.partition) for row in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def describe_producers(request: DescribeProducersRequest, ctx: Context) -> Outcome:
    """Tell who writes to partitions. Pinned by the conversation other-describe-producers."""
    return Reply(
        DescribeProducersResponse(
            topics=[
                TopicResponse(topic.name, [_producers(topic.name, index, ctx) for index in topic.partition_indexes])
                for topic in request.topics
            ]
        )
    )


def refuse_describe_producers(request: DescribeProducersRequest, error: KafkaError) -> DescribeProducersResponse:
    """A response that carries an error in every row."""
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                topic.name, [PartitionResponse(index, error.code, error.message) for index in topic.partition_indexes]
            )
            for topic in request.topics
        ]
    )


def _log(name: str, index: int, ctx: Context, *, leader_epoch: int = -1) -> PartitionLog:
    """Raises: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, and the codes of wrong epochs."""
    topic = ctx.cluster.metadata.topic(name)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server has no such topic.")
    return ctx.node.logs.get(topic.topic_id, index, leader_epoch=leader_epoch)


def _deleted(name: str, row: DeleteRecordsPartition, ctx: Context) -> DeleteRecordsPartitionResult:
    try:
        must(Operation.DELETE, ResourceType.TOPIC, name, ctx)
        topic = ctx.cluster.metadata.topic(name)
        log = _log(name, row.partition_index, ctx)
        if topic is not None and topic.internal:
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION)
        policy = ctx.cluster.configs.topic(name)["cleanup.policy"]
        if isinstance(policy, list) and "delete" not in policy:
            raise KafkaError(ErrorCode.POLICY_VIOLATION)
        if topic is not None and ctx.cluster.rules.state_in_log:
            place = (topic.topic_id, row.partition_index)
            start = ctx.node.share_control_log.delete_before(place, row.offset, now_ms=ctx.now_ms)
        else:
            start = log.delete_before(row.offset)
    except KafkaError as error:
        return DeleteRecordsPartitionResult(row.partition_index, -1, error.code)
    return DeleteRecordsPartitionResult(row.partition_index, start)


def _epoch_end(name: str, row: OffsetForLeaderPartition, ctx: Context) -> EpochEndOffset:
    try:
        if not may(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME, ctx):
            must(Operation.DESCRIBE, ResourceType.TOPIC, name, ctx)
        log = _log(name, row.partition, ctx, leader_epoch=row.current_leader_epoch)
    except KafkaError as error:
        return EpochEndOffset(error.code, row.partition)
    found = log.epoch_end(row.leader_epoch)
    if found is None:
        return EpochEndOffset(partition=row.partition)
    return EpochEndOffset(partition=row.partition, leader_epoch=found[0], end_offset=found[1])


def _producers(name: str, index: int, ctx: Context) -> PartitionResponse:
    try:
        must(Operation.READ, ResourceType.TOPIC, name, ctx, message=f"READ of topic {name} is not allowed.")
        log = _log(name, index, ctx)
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
        for producer in log.producers.active()
    ]
    return PartitionResponse(index, active_producers=rows)
