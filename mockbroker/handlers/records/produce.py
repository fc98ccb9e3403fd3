"""Produce (0): append records to the logs of the partitions that this node leads."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import msgspec

from kwire import uuids
from kwire.error_codes import ErrorCode
from kwire.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from mockbroker.engine.context import Context
from mockbroker.engine.outcome import CloseConnection, NoReply, Outcome, Reply
from mockbroker.handlers.records.delayed_produce import AwaitedRow, reply_when_replicated
from mockbroker.handlers.records.produced_batches import (
    UnreadableRequestError,
    has_transactional_batch,
    parse_batch,
    take_only_batch,
)
from mockbroker.handlers.records.produced_batches import is_transactional as is_transactional_batch
from mockbroker.handlers.shared.authorize import AclOperation, ResourceType, authorize, is_authorized
from mockbroker.handlers.shared.leader_hints import LeaderHints
from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata.cluster_image import Topic
from mockbroker.state.metadata.topics import TopicPartitionKey
from mockbroker.state.storage.log_store import min_in_sync
from mockbroker.state.storage.log_validator import RecordsRefusedError
from mockbroker.state.storage.memory_budget import MemoryFullError
from mockbroker.state.storage.record_scan import BatchLimitError
from mockbroker.state.storage.verification_guard import UnverifiedError, VerificationGuard

#: The guard of each transactional batch, or the error that rejects it, by topic id and partition.
VerificationResults = Mapping[TopicPartitionKey, VerificationGuard | KafkaError]

_IDS_SINCE = 13
_HINTS_SINCE = 10
_ACKS = (-1, 0, 1)
#: How many rows an error message names.
_NAMED_MAX = 5
#: With these errors Kafka does not return the log start offset. Source: ReplicaManager.appendToLocalLog.
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


class _ProduceState(msgspec.Struct, frozen=True):
    """One Produce request. guards: of transactional batches; awaited_rows: those that wait for replicas or the disk."""

    request: ProduceRequest
    guards: VerificationResults
    awaited_rows: list[AwaitedRow]


class _AcceptedRow(msgspec.Struct, frozen=True):
    """A batch that can be appended; null records in one of them refuse them all."""

    topic: Topic
    partition_index: int
    records: bytes | memoryview | None


#: Name and id of a topic in the request, and a partition.
_RowKey = tuple[tuple[str, bytes], int]


class _CheckedRows(msgspec.Struct):
    """The rows of a request after the checks. positions: topics and partitions in the order of the request."""

    request: ProduceRequest
    accepted: dict[_RowKey, _AcceptedRow] = msgspec.field(default_factory=dict)
    errors: dict[_RowKey, KafkaError] = msgspec.field(default_factory=dict)
    positions: dict[tuple[str, bytes], dict[int, None]] = msgspec.field(default_factory=dict)


def produce(request: ProduceRequest, ctx: Context) -> Outcome:
    """Append the batch of each partition; rows fail one by one. With acks 0 an error closes the connection.

    Pinned by the conversations other-produce-* and other-txn-*.
    """
    is_transactional = has_transactional_batch(request)
    name = request.transactional_id
    may_write = name is not None and is_authorized(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, name, ctx)
    if is_transactional and not may_write:
        raise KafkaError(ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    rows = _check_rows(request, ctx)
    if any(row.records is None for row in rows.accepted.values()):
        return _refuse_all(rows, ctx)
    if name is None:
        return _append_all(rows, {}, ctx)
    # Loaded only for transactional producers.
    from mockbroker.handlers.records.transactional_produce import append_when_verified

    batches = {
        (row.topic.name, row.topic.topic_id, row.partition_index): parse_batch(row.records)
        for row in rows.accepted.values()
        if row.records is not None and is_transactional_batch(row.records)
    }
    # A transactional batch without a producer id is stored without a transaction.
    verified = {key: batch for key, batch in batches.items() if batch.producer_id >= 0}
    return append_when_verified(name, verified, partial(_append_all, rows), ctx)


def _check_rows(request: ProduceRequest, ctx: Context) -> _CheckedRows:
    """Find the topics and check the format of all batches before the first one is appended.

    Of several batches for a partition the last valid one is appended; an invalid one determines the response.
    Raises: UnreadableRequestError.
    """
    rows = _CheckedRows(request)
    for data in request.topic_data:
        for partition in data.partition_data:
            key = ((data.name, data.topic_id), partition.index)
            rows.positions.setdefault(key[0], {})[partition.index] = None
            try:
                topic = _find_writable_topic(data, ctx)
                if topic.partition(partition.index) is None:
                    raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                records = partition.records
                if records is not None:
                    records = take_only_batch(records, ctx.api_version)
                rows.accepted[key] = _AcceptedRow(topic, partition.index, records)
            except UnreadableRequestError:
                raise
            except KafkaError as error:
                rows.errors[key] = error
    return rows


def _append_all(rows: _CheckedRows, guards: VerificationResults, ctx: Context) -> Outcome:
    request = rows.request
    job = _ProduceState(request, guards, [])
    response = _make_response(rows, {key: _append_row(row, job, ctx) for key, row in rows.accepted.items()})
    if job.awaited_rows:
        return reply_when_replicated(job.awaited_rows, partial(_reply, request, response), request, ctx)
    return _reply(request, response, ctx)


def _refuse_all(rows: _CheckedRows, ctx: Context) -> Outcome:
    """Append nothing, as a row that could be appended has no records. Kafka then appends nothing, and never answers."""
    missing = [f"{row.topic.name}-{row.partition_index}" for row in rows.accepted.values() if row.records is None]
    message = f"nothing is appended: the records of {', '.join(missing[:_NAMED_MAX])} are null"
    error = RecordsRefusedError(ErrorCode.INVALID_RECORD, message, ())
    response = _make_response(rows, {key: _error_row(key[1], error) for key in rows.accepted})
    return _reply(rows.request, response, ctx)


def _make_response(rows: _CheckedRows, results: dict[_RowKey, PartitionProduceResponse]) -> ProduceResponse:
    """The response, with the results of the accepted rows and the errors of the others."""
    for key, error in rows.errors.items():
        results[key] = _error_row(key[1], error)
    topics = [
        TopicProduceResponse(*topic_key, [results[topic_key, index] for index in indexes])
        for topic_key, indexes in rows.positions.items()
    ]
    return ProduceResponse(responses=topics)


def _reply(request: ProduceRequest, response: ProduceResponse, ctx: Context) -> Outcome:
    if request.acks == 0:
        errors = [
            f"{row.name or uuids.to_text(row.topic_id)}-{partition.index}: {ErrorCode(partition.error_code).name}"
            for row in response.responses
            for partition in row.partition_responses
            if partition.error_code
        ]
        return CloseConnection(f"Produce with acks 0 failed, {', '.join(errors)}") if errors else NoReply()
    if ctx.api_version >= _HINTS_SINCE:
        _add_hints(response, ctx)
    return Reply(response)


def refuse_produce(request: ProduceRequest, error: KafkaError) -> ProduceResponse:
    """A response with the error in every row."""
    rows: dict[tuple[str, bytes], dict[int, PartitionProduceResponse]] = {}
    for topic in request.topic_data:
        for data in topic.partition_data:
            row = _error_row(data.index, error)
            if isinstance(error, UnreadableRequestError):
                row.error_message = error.message
            rows.setdefault((topic.name, topic.topic_id), {})[data.index] = row
    return ProduceResponse(
        responses=[TopicProduceResponse(*key, list(partitions.values())) for key, partitions in rows.items()]
    )


def _find_writable_topic(data: TopicProduceData, ctx: Context) -> Topic:
    """The topic, if the client may write to it; without permission a name does not reveal whether the topic exists.

    Raises: UNKNOWN_TOPIC_ID, TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION.
    """
    metadata = ctx.cluster.metadata
    by_id = ctx.api_version >= _IDS_SINCE
    topic = metadata.topic_by_id(data.topic_id) if by_id else metadata.topic(data.name)
    if topic is None and by_id:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
    authorize(AclOperation.WRITE, ResourceType.TOPIC, data.name if topic is None else topic.name, ctx)
    if topic is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return topic


def _append_row(accepted: _AcceptedRow, job: _ProduceState, ctx: Context) -> PartitionProduceResponse:
    topic, index, records = accepted.topic, accepted.partition_index, accepted.records
    partition, acks = topic.partitions[index], job.request.acks
    log_start = -1
    try:
        guard = job.guards.get((topic.topic_id, index)) if job.guards else None
        if isinstance(guard, KafkaError):
            raise guard
        if acks not in _ACKS:
            raise KafkaError(ErrorCode.INVALID_REQUIRED_ACKS)
        if topic.internal and ctx.client_id != "__admin_client":
            raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"cannot append to internal topic {topic.name}")
        log = ctx.node.logs.find_log(topic.topic_id, index)
        log_start = log.start_offset
        if acks == -1 and len(partition.isr) < len(partition.replicas):
            least = min_in_sync(ctx.node.topic_config(topic.name), len(partition.replicas))
            if len(partition.isr) < least:
                raise KafkaError(ErrorCode.NOT_ENOUGH_REPLICAS, f"{len(partition.isr)} replica(s) in sync, not {least}")
        assert records is not None
        appended = log.append(records, now_ms=ctx.now_ms, guard=guard)
    except KafkaError as error:
        return _error_row(index, error, log_start=log_start, name=f"{topic.name}-{index}")
    row = PartitionProduceResponse(
        index=index,
        base_offset=appended.first_offset,
        log_append_time_ms=appended.append_time_ms,
        log_start_offset=log_start,
    )
    end = appended.last_offset + 1
    if (acks == -1 and log.high_watermark < end) or (acks == 1 and log.synced_offset < end):
        job.awaited_rows.append(AwaitedRow(row, topic.topic_id, end, acks, log.failed_sync_count))
    return row


def _error_row(index: int, error: KafkaError, *, log_start: int = -1, name: str = "") -> PartitionProduceResponse:
    """The row of an error. name: of the partition, which the messages about single records contain, as Kafka's do."""
    row = PartitionProduceResponse(index=index, error_code=error.code, base_offset=-1)
    if error.code not in _WITHOUT_LOG_START:
        row.log_start_offset = log_start
    if isinstance(error, RecordsRefusedError | UnverifiedError | MemoryFullError | BatchLimitError):
        row.error_message = error.message
    if isinstance(error, RecordsRefusedError):
        row.error_message = f"{name}: {error.message}"
        row.record_errors = [BatchIndexAndErrorMessage(at, f"{name}: {why}") for at, why in error.record_errors]
    return row


def _add_hints(response: ProduceResponse, ctx: Context) -> None:
    """Name the current leaders (KIP-951)."""
    hints: LeaderHints[LeaderIdAndEpoch, NodeEndpoint] | None = None
    for row in response.responses:
        for partition in row.partition_responses:
            if partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
                hints = LeaderHints(LeaderIdAndEpoch, NodeEndpoint, ctx) if hints is None else hints
                topic = ctx.cluster.metadata.topic(row.name)
                hints.set_leader(partition, topic.topic_id if topic else row.topic_id, partition.index)
    if hints is not None:
        response.node_endpoints = hints.endpoints()
