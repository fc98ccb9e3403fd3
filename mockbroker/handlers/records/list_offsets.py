"""ListOffsets (2): the start, the end, or the offset at a time of logs."""

from __future__ import annotations

from collections import Counter

from kwire.error_codes import ErrorCode
from kwire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from mockbroker.engine.context import Context
from mockbroker.engine.outcome import Outcome, Reply
from mockbroker.handlers.shared.authorize import AclOperation, ResourceType, is_authorized
from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata.cluster_image import Topic
from mockbroker.state.storage.partition_log import PartitionLog, TimestampOffset

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
#: The first version that supports each of them.
_SINCE = {LATEST: 0, EARLIEST: 0, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
_EPOCHS_SINCE = 4
_NOT_AVAILABLE_SINCE = 5
#: There is no tiered storage, so that nothing is found.
_WITHOUT_TIERS = (LATEST_TIERED, EARLIEST_PENDING_UPLOAD)
_CONSUMER = -1
#: A consumer that looks at any replica.
_DEBUGGING = -2
_READ_COMMITTED = 1
_ISOLATION_LEVELS = (0, _READ_COMMITTED)


def list_offsets(request: ListOffsetsRequest, ctx: Context) -> Outcome:
    """List offsets; a partition that is listed twice gets one row with an error.

    Source: Kafka's ReplicaManager.fetchOffset; pinned by the conversation other-list-offsets-odd-values.
    """
    allowed = [is_authorized(AclOperation.DESCRIBE, ResourceType.TOPIC, topic.name, ctx) for topic in request.topics]
    if any(allowed) and request.isolation_level not in _ISOLATION_LEVELS:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"isolation level {request.isolation_level}")
    named = Counter((topic.name, row.partition_index) for topic in request.topics for row in topic.partitions)
    denied: list[ListOffsetsTopicResponse] = []
    rows_by_topic: dict[str, dict[int, ListOffsetsPartitionResponse]] = {}
    for topic, is_allowed in zip(request.topics, allowed, strict=True):
        if not is_allowed:
            rows = [_error_row(row, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for row in topic.partitions]
            denied.append(ListOffsetsTopicResponse(topic.name, rows))
            continue
        for row in topic.partitions:
            rows_by_topic.setdefault(topic.name, {})[row.partition_index] = (
                _error_row(row, ErrorCode.INVALID_REQUEST)
                if named[topic.name, row.partition_index] > 1
                else _partition_row(topic.name, row, request, ctx)
            )
    topics = [ListOffsetsTopicResponse(name, list(rows.values())) for name, rows in rows_by_topic.items()]
    return Reply(ListOffsetsResponse(topics=[*topics, *denied]))


def refuse_list_offsets(request: ListOffsetsRequest, error: KafkaError) -> ListOffsetsResponse:
    """A response with the error in every row."""
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(topic.name, [_error_row(row, error.code) for row in topic.partitions])
            for topic in request.topics
        ]
    )


def _partition_row(
    name: str, row: ListOffsetsPartition, request: ListOffsetsRequest, ctx: Context
) -> ListOffsetsPartitionResponse:
    if row.timestamp < 0 and ctx.api_version < _SINCE.get(row.timestamp, 1 << 15):
        return _error_row(row, ErrorCode.UNSUPPORTED_VERSION)
    try:
        topic = ctx.cluster.metadata.topic(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        log = ctx.node.logs.find_log(
            topic.topic_id,
            row.partition_index,
            leader_epoch=row.current_leader_epoch,
            of_any_replica=request.replica_id == _DEBUGGING,
        )
    except KafkaError as error:
        return _error_row(row, error.code)
    is_consumer = request.replica_id == _CONSUMER
    committed = is_consumer and request.isolation_level == _READ_COMMITTED
    end = log.last_stable_offset if committed else log.high_watermark
    if ctx.node.replication is not None and not is_consumer:
        end = log.end_offset
    result = _find_offset(log, row.timestamp, log.visible_end(end))
    is_beyond = row.timestamp == LATEST or (result is None and row.timestamp not in _WITHOUT_TIERS)
    if is_beyond and is_consumer and _has_old_watermark(topic, row.partition_index, ctx):
        is_new = ctx.api_version >= _NOT_AVAILABLE_SINCE
        return _error_row(row, ErrorCode.OFFSET_NOT_AVAILABLE if is_new else ErrorCode.LEADER_NOT_AVAILABLE)
    if result is None:
        return _error_row(row, ErrorCode.NONE)
    epoch = result.leader_epoch if ctx.api_version >= _EPOCHS_SINCE else -1
    return ListOffsetsPartitionResponse(
        row.partition_index, timestamp=result.timestamp, offset=result.offset, leader_epoch=epoch
    )


def _has_old_watermark(topic: Topic, partition_index: int, ctx: Context) -> bool:
    """Whether a new leader has not learned yet that what it had at its election is committed (KIP-207)."""
    replication = ctx.node.replication
    led = None if replication is None else replication.find_led((topic.topic_id, partition_index))
    return led is not None and led.log.high_watermark < led.replicas.epoch_start_offset


def _find_offset(log: PartitionLog, timestamp: int, end: int) -> TimestampOffset | None:
    if timestamp == LATEST:
        return TimestampOffset(end, -1, log.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        epoch = log.epoch_at(log.start_offset)
        return TimestampOffset(log.start_offset, -1, -1 if epoch is None else epoch)
    if timestamp in _WITHOUT_TIERS:
        return None
    result = log.offset_of_max_timestamp() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
    return result if result is not None and result.offset < end else None


def _error_row(row: ListOffsetsPartition, code: int) -> ListOffsetsPartitionResponse:
    """A row without an offset: all values are -1, with or without an error."""
    return ListOffsetsPartitionResponse(row.partition_index, error_code=code)
