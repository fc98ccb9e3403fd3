"""Produce (0): records go into the logs of the partitions that this node leads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from kwire import uuids
from kwire.error_codes import ErrorCode
from kwire.errors import WireError
from kwire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from kwire.records import Batch, Codec, parse_header
from mockbroker.context import Context
from mockbroker.handlers.brokers import address, leader_of
from mockbroker.kafka_error import KafkaError
from mockbroker.outcome import Hangup, Outcome, Reply, Silence
from mockbroker.security.authorize import Operation, ResourceType, may, must
from mockbroker.state.batch_rules import RecordsRefusedError
from mockbroker.state.logs import min_in_sync
from mockbroker.state.metadata import Topic
from mockbroker.state.verification import Guard, UnverifiedError

#: How transactional batches may be appended, or why they may not, by topic id and partition.
Guards = Mapping[tuple[bytes, int], Guard | KafkaError]

_IDS_SINCE = 13
_ZSTD_SINCE = 7
_HINTS_SINCE = 10
_ACKS = (-1, 0, 1)
#: Kafka answers these without the log's start. Source: ReplicaManager.appendToLocalLog.
_WITHOUT_LOG_START = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.CORRUPT_MESSAGE,
    }
)


class Awaited(NamedTuple):
    """A row that waits until all replicas in sync have the log up to this offset."""

    row: PartitionProduceResponse
    topic_id: bytes
    offset: int


class _Job(NamedTuple):
    """One Produce in progress. guards: how transactional batches may be appended; awaited: the rows that wait."""

    request: ProduceRequest
    guards: Guards
    awaited: list[Awaited]


def produce(request: ProduceRequest, ctx: Context) -> Outcome:
    """Append every partition's batch; rows fail one by one. With acks 0 an error ends the connection.

    Pinned by the conversations other-produce-* and other-txn-*.
    """
    if request.transactional_id is None:
        if _has_transactional(request):
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        return _append_all(request, {}, ctx)
    may_write = may(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id, ctx)
    if not may_write and _has_transactional(request):
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    # Most producers have no transactions, and load nothing for them.
    from mockbroker.handlers.transactional_produce import verified

    batches = _transactional_batches(request, ctx)
    return verified(request.transactional_id, batches, lambda guards, later: _append_all(request, guards, later), ctx)


def _append_all(request: ProduceRequest, guards: Guards, ctx: Context) -> Outcome:
    job = _Job(request, guards, [])
    response = ProduceResponse(
        responses=[_topic_row(topic, job, ctx) for topic in request.topic_data if topic.partition_data]
    )
    if job.awaited:
        # A replica that counts as in sync does not answer; most producers never meet one.
        from mockbroker.handlers.produce_wait import until_replicated

        return until_replicated(response, job.awaited, lambda later: _answer(request, response, later), request, ctx)
    return _answer(request, response, ctx)


def _answer(request: ProduceRequest, response: ProduceResponse, ctx: Context) -> Outcome:
    if request.acks == 0:
        wrong = [
            f"{row.name or uuids.to_text(row.topic_id)}-{partition.index}: {ErrorCode(partition.error_code).name}"
            for row in response.responses
            for partition in row.partition_responses
            if partition.error_code
        ]
        return Hangup(f"Produce with acks 0 failed, {', '.join(wrong)}") if wrong else Silence()
    if ctx.api_version >= _HINTS_SINCE:
        _add_hints(response, ctx)
    return Reply(response)


def refuse_produce(request: ProduceRequest, error: KafkaError) -> ProduceResponse:
    """A response that carries an error in every row."""
    return ProduceResponse(
        responses=[
            TopicProduceResponse(
                topic.name, topic.topic_id, [_failed(data.index, error) for data in topic.partition_data]
            )
            for topic in request.topic_data
        ]
    )


def _writable(data: TopicProduceData, ctx: Context) -> Topic:
    """The topic, for those who may write to it; who names a topic does not learn whether it exists.

    Raises: UNKNOWN_TOPIC_ID, TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION.
    """
    known = ctx.cluster.metadata
    by_id = ctx.api_version >= _IDS_SINCE
    topic = known.topic_by_id(data.topic_id) if by_id else known.topic(data.name)
    if topic is None and by_id:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    must(Operation.WRITE, ResourceType.TOPIC, data.name if topic is None else topic.name, ctx)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return topic


def _topic_row(data: TopicProduceData, job: _Job, ctx: Context) -> TopicProduceResponse:
    try:
        topic = _writable(data, ctx)
    except KafkaError as error:
        rows = [_failed(partition.index, error) for partition in data.partition_data]
    else:
        rows = [_partition_row(topic, partition, job, ctx) for partition in data.partition_data]
    return TopicProduceResponse(data.name, data.topic_id, rows)


def _partition_row(topic: Topic, data: PartitionProduceData, job: _Job, ctx: Context) -> PartitionProduceResponse:
    log_start = -1
    try:
        partition = topic.partition(data.index)
        if partition is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        records = _check_form(data.records, ctx.api_version)
        guard = job.guards.get((topic.topic_id, data.index))
        if isinstance(guard, KafkaError):
            raise guard
        if job.request.acks not in _ACKS:
            raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS)
        if topic.internal and ctx.client_id != "__admin_client":
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"cannot append to internal topic {topic.name}")
        log = ctx.node.logs.get(topic.topic_id, data.index)
        log_start = log.start_offset
        if job.request.acks == -1:
            least = min_in_sync(ctx.cluster.configs.topic(topic.name), len(partition.replicas))
            if len(partition.isr) < least:
                raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, f"{len(partition.isr)} replica(s) in sync, not {least}")
        appended = log.append(records, now_ms=ctx.now_ms, guard=guard)
    except KafkaError as error:
        return _failed(data.index, error, log_start=log_start)
    row = PartitionProduceResponse(
        index=data.index,
        base_offset=appended.first_offset,
        log_append_time_ms=appended.append_time_ms,
        log_start_offset=log_start,
    )
    if job.request.acks == -1 and log.high_watermark <= appended.last_offset:
        job.awaited.append(Awaited(row, topic.topic_id, appended.last_offset + 1))
    return row


def _check_form(records: bytes | memoryview | None, api_version: int) -> bytes | memoryview:
    """What Kafka looks at before it looks for the log: exactly one batch, of magic 2, and no zstd for old clients.

    Raises: INVALID_RECORD, UNSUPPORTED_COMPRESSION_TYPE, CORRUPT_MESSAGE.
    """
    if not records:
        raise KafkaError(ErrorCode.INVALID_RECORD, "no record batch")
    batch = _first(records)
    if batch.magic != 2:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"a record batch of magic {batch.magic}, not 2")
    if api_version < _ZSTD_SINCE and batch.attributes & 7 == Codec.ZSTD:
        raise KafkaError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, f"zstd in Produce version {api_version}")
    rest = records[batch.size :]
    if rest and _is_whole(rest):
        raise KafkaError(ErrorCode.INVALID_RECORD, "more than one record batch")
    # Kafka reads whole batches, and never sees a cut one behind them.
    return records[: batch.size] if rest else records


def _first(records: bytes | memoryview) -> Batch:
    try:
        return parse_header(records)
    except WireError as damage:
        code = ErrorCode.INVALID_RECORD if not _is_whole(records) else ErrorCode.CORRUPT_MESSAGE
        raise KafkaError(code, str(damage)) from None


def _is_whole(records: bytes | memoryview) -> bool:
    """Whether a batch begins here that does not end before it should; what is cut off is no batch to Kafka."""
    if len(records) < 17:
        return False
    length = int.from_bytes(records[8:12], "big", signed=True)
    return length + 12 <= len(records)


def _has_transactional(request: ProduceRequest) -> bool:
    return any(_is_transactional(data.records) for topic in request.topic_data for data in topic.partition_data)


def _is_transactional(records: bytes | memoryview | None) -> bool:
    # Bit 4 of the attributes' low byte, of a batch of magic 2.
    return bool(records and len(records) > 22 and records[16] == 2 and records[22] & 0x10)


def _transactional_batches(request: ProduceRequest, ctx: Context) -> dict[tuple[str, bytes, int], Batch]:
    """The transactional batches that could be written, by topic name, topic id and partition."""
    found = {}
    for data in request.topic_data:
        for row in data.partition_data:
            if not _is_transactional(row.records):
                continue
            try:
                topic = _writable(data, ctx)
                if topic.partition(row.index) is None:
                    continue
                found[topic.name, topic.topic_id, row.index] = parse_header(_check_form(row.records, ctx.api_version))
            except KafkaError:
                continue  # Its row will say so.
    return found


def _failed(index: int, error: KafkaError, *, log_start: int = -1) -> PartitionProduceResponse:
    row = PartitionProduceResponse(index=index, error_code=error.code, base_offset=-1)
    if error.code not in _WITHOUT_LOG_START:
        row.log_start_offset = log_start
    if isinstance(error, RecordsRefusedError | UnverifiedError):
        row.error_message = error.message
    if isinstance(error, RecordsRefusedError):
        row.record_errors = [BatchIndexAndErrorMessage(at, why) for at, why in error.record_errors]
    return row


def _add_hints(response: ProduceResponse, ctx: Context) -> None:
    """Say who leads instead (KIP-951)."""
    leaders: dict[int, NodeEndpoint] = {}
    for row in response.responses:
        for partition in row.partition_responses:
            if partition.error_code != ErrorCode.NOT_LEADER_OR_FOLLOWER:
                continue
            topic = ctx.cluster.metadata.topic(row.name)
            leader = leader_of(topic.topic_id if topic else row.topic_id, partition.index, ctx)
            if leader is None:
                continue
            partition.current_leader = LeaderIdAndEpoch(leader.leader, leader.leader_epoch)
            node = ctx.cluster.nodes.get(leader.leader)
            if node is not None:
                leaders[node.node_id] = NodeEndpoint(node.node_id, *address(node, ctx), node.rack)
    response.node_endpoints = list(leaders.values())
