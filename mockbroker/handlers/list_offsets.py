"""ListOffsets (2): where a log begins, ends, or was at a time."""

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
from mockbroker.context import Context
from mockbroker.kafka_error import KafkaError
from mockbroker.outcome import Outcome, Reply
from mockbroker.security.authorize import Operation, ResourceType, may
from mockbroker.state.log import OffsetAtTime, PartitionLog

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
#: The first version that knows each of them.
_SINCE = {LATEST: 0, EARLIEST: 0, MAX_TIMESTAMP: 7, EARLIEST_LOCAL: 8, LATEST_TIERED: 9, EARLIEST_PENDING_UPLOAD: 11}
_EPOCHS_SINCE = 4
_CONSUMER = -1
_READ_COMMITTED = 1


def list_offsets(request: ListOffsetsRequest, ctx: Context) -> Outcome:
    """Answer each partition; one that is named twice is refused, once. Source: Kafka's ReplicaManager.fetchOffset."""
    named = Counter((topic.name, row.partition_index) for topic in request.topics for row in topic.partitions)
    topics = []
    for topic in request.topics:
        if not may(Operation.DESCRIBE, ResourceType.TOPIC, topic.name, ctx):
            denied = [_failed(row, ErrorCode.TOPIC_AUTHORIZATION_FAILED) for row in topic.partitions]
            topics.append(ListOffsetsTopicResponse(topic.name, denied))
            continue
        wanted = {row.partition_index: row for row in topic.partitions}.values()
        rows = [
            _failed(row, ErrorCode.INVALID_REQUEST)
            if named[topic.name, row.partition_index] > 1
            else _row(topic.name, row, request, ctx)
            for row in wanted
        ]
        topics.append(ListOffsetsTopicResponse(topic.name, rows))
    return Reply(ListOffsetsResponse(topics=topics))


def refuse_list_offsets(request: ListOffsetsRequest, error: KafkaError) -> ListOffsetsResponse:
    """A response that carries an error in every row."""
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(topic.name, [_failed(row, error.code) for row in topic.partitions])
            for topic in request.topics
        ]
    )


def _row(
    name: str, wanted: ListOffsetsPartition, request: ListOffsetsRequest, ctx: Context
) -> ListOffsetsPartitionResponse:
    if wanted.timestamp < 0 and ctx.api_version < _SINCE.get(wanted.timestamp, 1 << 15):
        return _failed(wanted, ErrorCode.UNSUPPORTED_VERSION)
    try:
        topic = ctx.cluster.metadata.topic(name)
        if topic is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        log = ctx.node.logs.get(topic.topic_id, wanted.partition_index, leader_epoch=wanted.current_leader_epoch)
    except KafkaError as error:
        return _failed(wanted, error.code)
    committed = request.replica_id == _CONSUMER and request.isolation_level == _READ_COMMITTED
    end = log.last_stable_offset if committed else log.high_watermark
    found = _find(log, wanted.timestamp, log.readable_end(end))
    if found is None:
        return _failed(wanted, ErrorCode.NONE)
    epoch = found.leader_epoch if ctx.api_version >= _EPOCHS_SINCE else -1
    return ListOffsetsPartitionResponse(
        wanted.partition_index, timestamp=found.timestamp, offset=found.offset, leader_epoch=epoch
    )


def _find(log: PartitionLog, timestamp: int, end: int) -> OffsetAtTime | None:
    if timestamp == LATEST:
        return OffsetAtTime(end, -1, log.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        epoch = log.epoch_at_start()
        return OffsetAtTime(log.start_offset, -1, -1 if epoch is None else epoch)
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return None  # Nothing is tiered here, and nothing waits to be.
    found = log.offset_of_max_timestamp() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
    return found if found is not None and found.offset < end else None


def _failed(wanted: ListOffsetsPartition, code: int) -> ListOffsetsPartitionResponse:
    """A row without an offset: -1 for everything, with or without an error."""
    return ListOffsetsPartitionResponse(wanted.partition_index, error_code=code)
