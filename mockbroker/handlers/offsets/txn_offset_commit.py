"""TxnOffsetCommit (28): offsets that take effect when their transaction commits."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from kwire import uuids
from kwire.error_codes import ErrorCode
from kwire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kwire.records import Record, write_batch
from mockbroker.coordinators.group.group_records import encode_offset_record
from mockbroker.engine.context import Context
from mockbroker.engine.outcome import Outcome, Reply
from mockbroker.handlers.offsets.offset_rows import merge_rows
from mockbroker.handlers.records import transaction_verification as verification
from mockbroker.handlers.records.transaction_verification import ClientSupport, is_verification_required
from mockbroker.handlers.shared.authorize import AclOperation, ResourceType, authorize, is_authorized
from mockbroker.handlers.shared.await_replication import await_replication
from mockbroker.handlers.shared.parking import park_until
from mockbroker.handlers.transactions.transactions import PartitionCodes
from mockbroker.kafka_error import KafkaError
from mockbroker.state.group.classic_group import ClassicGroup
from mockbroker.state.group.committed_offsets import CommittedOffset
from mockbroker.state.group.consumer_group import ConsumerGroup
from mockbroker.state.metadata.cluster_image import CoordinatorKind
from mockbroker.state.metadata.topics import Topic, TopicPartitionKey
from mockbroker.state.settings import read_int
from mockbroker.state.storage.partition_log import AppendOrigin, PartitionLog
from mockbroker.state.storage.verification_guard import NO_GUARD, VerificationGuard
from mockbroker.state.streams.streams_group import StreamsGroup
from mockbroker.state.transaction.transaction import ProducerIdAndEpoch, TopicPartition

_ABORTABLE_SINCE = 4
_ADDS_SINCE = 5
_LOAD_ERRORS_SINCE = 2
#: KIP-1319: from this version topics have ids instead of names, and groups report their own errors.
_TOPIC_IDS_SINCE = 6
#: Error codes of group coordinators for the codes of logs. Source: Kafka's CoordinatorOperationExceptionHelper.
_COORDINATOR_ERRORS = {
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
}

#: Where a row is in the request: the indexes of its topic and of its partition.
RowPosition = tuple[int, int]


class TopicRow(NamedTuple):
    """A row of the request whose partition exists."""

    position: RowPosition
    topic: Topic
    request: TxnOffsetCommitRequestPartition


@await_replication
def txn_offset_commit(request: TxnOffsetCommitRequest, ctx: Context) -> Outcome:
    """Store pending offsets of a transaction; its first request waits for the transaction coordinator.

    Source: Kafka's KafkaApis.handleTxnOffsetCommitRequest and OffsetMetadataManager.commitTransactionalOffset.
    """
    authorize(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id, ctx)
    authorize(AclOperation.READ, ResourceType.GROUP, request.group_id, ctx)
    rows = _existing_rows(request, ctx)
    if not rows:
        return Reply(_build_response(request, {}, ctx))
    metadata = ctx.cluster.metadata
    if not request.group_id:
        return Reply(_build_response(request, ErrorCode.INVALID_GROUP_ID, ctx))
    support = ClientSupport.of_version(ctx.api_version, _ABORTABLE_SINCE, _ADDS_SINCE)
    if metadata.is_cold and not metadata.has_internal_topic(CoordinatorKind.GROUP):
        # The verification of a partition that does not exist fails before the coordinator is found to be another one.
        is_verified = is_verification_required(support, ctx)
        code = ErrorCode.COORDINATOR_NOT_AVAILABLE if is_verified else ErrorCode.NOT_COORDINATOR
        return Reply(_build_response(request, code, ctx))
    offsets = metadata.internal_topic(CoordinatorKind.GROUP)
    index = metadata.coordinator_partition_index(CoordinatorKind.GROUP, request.group_id)

    def commit(guard: VerificationGuard | None, now: Context) -> TxnOffsetCommitResponse:
        try:
            log = now.node.logs.find_log(offsets.topic_id, index)
            codes = _commit_offsets(request, rows, now, offsets_partition=index, log=log, guard=guard)
            return _build_response(request, codes, now)
        except KafkaError as error:
            return _build_response(request, _COORDINATOR_ERRORS.get(error.code, error.code), now)

    try:
        log = ctx.node.logs.find_log(offsets.topic_id, index)
        if not is_verification_required(support, ctx):
            return Reply(commit(None, ctx))
        adds = support is ClientSupport.ADDS_PARTITIONS
        guard = log.start_verification(request.producer_id, request.producer_epoch, -1, adds=adds, now_ms=ctx.now_ms)
    except KafkaError as error:
        return Reply(_build_response(request, _COORDINATOR_ERRORS.get(error.code, error.code), ctx))
    if guard is NO_GUARD:
        return Reply(commit(guard, ctx))
    return _commit_when_verified(request, TopicPartition(offsets.name, index), lambda now: commit(guard, now), ctx)


def refuse_txn_offset_commit(request: TxnOffsetCommitRequest, error: KafkaError) -> TxnOffsetCommitResponse:
    """A response with the error in every row: this API has no top-level error."""
    response = TxnOffsetCommitResponse(topics=[])
    for topic in request.topics:
        rows = [TxnOffsetCommitResponsePartition(row.partition_index, error.code) for row in topic.partitions]
        response.topics.append(TxnOffsetCommitResponseTopic(topic.name, topic.topic_id, rows))
    return response


def _commit_when_verified(
    request: TxnOffsetCommitRequest,
    offsets_partition: TopicPartition,
    commit: Callable[[Context], TxnOffsetCommitResponse],
    ctx: Context,
) -> Outcome:
    responses: list[TxnOffsetCommitResponse] = []
    key = ctx.new_wake_key()

    def on_done(codes: PartitionCodes, now_ms: int) -> None:
        now = verification.context_at(ctx, now_ms)
        code = codes[offsets_partition]
        is_error = code is not ErrorCode.NONE
        error_code = _COORDINATOR_ERRORS.get(code, code)
        responses.append(_build_response(request, error_code, now) if is_error else commit(now))
        ctx.wake(key)

    producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    support = ClientSupport.of_version(ctx.api_version, _ABORTABLE_SINCE, _ADDS_SINCE)
    verification.verify_partitions(
        request.transactional_id, producer, [offsets_partition], support=support, on_done=on_done, ctx=ctx
    )
    return park_until(key, lambda _now: Reply(responses[0]) if responses else None, ctx)


def _find_topic(row: TxnOffsetCommitRequestTopic, ctx: Context) -> Topic | None:
    metadata = ctx.cluster.metadata
    return metadata.topic_by_id(row.topic_id) if ctx.api_version >= _TOPIC_IDS_SINCE else metadata.topic(row.name)


def _existing_rows(request: TxnOffsetCommitRequest, ctx: Context) -> list[TopicRow]:
    rows: list[TopicRow] = []
    for at, topic_request in enumerate(request.topics):
        topic = _find_topic(topic_request, ctx)
        if topic is not None and is_authorized(AclOperation.READ, ResourceType.TOPIC, topic.name, ctx):
            rows += [
                TopicRow((at, row_at), topic, row)
                for row_at, row in enumerate(topic_request.partitions)
                if topic.partition(row.partition_index) is not None
            ]
    return rows


def _commit_offsets(
    request: TxnOffsetCommitRequest,
    rows: list[TopicRow],
    ctx: Context,
    *,
    offsets_partition: int,
    log: PartitionLog,
    guard: VerificationGuard | None,
) -> dict[RowPosition, ErrorCode]:
    """Append the offsets as records of the transaction, and store them as pending.

    Raises: COORDINATOR_LOAD_IN_PROGRESS, the errors of the group for its member, and of the log for its producer.
    """
    ctx.node.group_log.require_loaded(request.group_id)
    _check_member(request, rows, ctx)
    size_max = read_int(ctx.node.config, "offset.metadata.max.bytes")
    codes: dict[RowPosition, ErrorCode] = {}
    records: list[Record] = []
    pending: list[tuple[TopicPartitionKey, CommittedOffset]] = []
    for position, topic, row in rows:
        text = row.committed_metadata or ""
        if len(text) > size_max:
            codes[position] = ErrorCode.OFFSET_METADATA_TOO_LARGE
            continue
        codes[position] = ErrorCode.NONE
        committed = CommittedOffset(row.committed_offset, row.committed_leader_epoch, text, ctx.now_ms)
        # Requests without topic ids are stored without them.
        topic_id = topic.topic_id if ctx.api_version >= _TOPIC_IDS_SINCE else uuids.ZERO
        key, value = encode_offset_record(request.group_id, topic.name, (topic_id, row.partition_index), committed)
        records.append(Record(len(records), ctx.now_ms, key, value))
        pending.append(((topic.topic_id, row.partition_index), committed))
    producer_id = request.producer_id
    if records:
        epoch = request.producer_epoch
        # The coordinator begins each of its batches with sequence 0.
        batch = write_batch(records, producer_id=producer_id, producer_epoch=epoch, base_sequence=0, transactional=True)
        log.append(batch, now_ms=ctx.now_ms, origin=AppendOrigin.COORDINATOR, guard=guard)
    for partition, committed in pending:
        ctx.node.offsets.commit_in_transaction(offsets_partition, producer_id, request.group_id, partition, committed)
    return codes


def _check_member(request: TxnOffsetCommitRequest, rows: list[TopicRow], ctx: Context) -> None:
    """Check that this member may commit; a request without a member is always allowed.

    Pinned by the conversation other-txn-offsets-members.
    Raises: ILLEGAL_GENERATION, STALE_MEMBER_EPOCH, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, GROUP_ID_NOT_FOUND.
    """
    groups = ctx.node.groups
    group = groups.find_group(request.group_id)
    has_own_errors = ctx.api_version >= _TOPIC_IDS_SINCE
    if group is None:
        if request.generation_id_or_member_epoch >= 0:
            code = ErrorCode.GROUP_ID_NOT_FOUND if has_own_errors else ErrorCode.ILLEGAL_GENERATION
            raise KafkaError(code, f"Group {request.group_id} not found.")
        groups.create_classic_group(request.group_id)
        ctx.node.group_log.hide_until_write(request.group_id)
        return
    nameless = not request.member_id and request.group_instance_id is None
    if isinstance(group, ClassicGroup):
        if request.generation_id_or_member_epoch >= 0 or not (nameless or group.is_deletable()):
            group.check_member(request.member_id, request.group_instance_id, request.generation_id_or_member_epoch)
    elif isinstance(group, ConsumerGroup | StreamsGroup):
        if request.generation_id_or_member_epoch == -1 and nameless:
            return
        try:
            for _, topic, row in rows:
                partition = (topic.topic_id, row.partition_index)
                group.check_commit(request.member_id, request.generation_id_or_member_epoch, partition, version=9)
        except KafkaError as error:
            is_stale = error.code is ErrorCode.STALE_MEMBER_EPOCH and not has_own_errors
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION, error.message) if is_stale else error from None
    else:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} is a share group.")


def _build_response(
    request: TxnOffsetCommitRequest, codes: dict[RowPosition, ErrorCode] | ErrorCode, ctx: Context
) -> TxnOffsetCommitResponse:
    """A row for each requested partition; an unknown one has its own error, whatever `codes` is, and is first."""
    rejected: list[TxnOffsetCommitResponseTopic] = []
    answered: list[TxnOffsetCommitResponseTopic] = []
    for at, topic_request in enumerate(request.topics):
        indexes = [row.partition_index for row in topic_request.partitions]
        topic = _find_topic(topic_request, ctx)
        error = _topic_error(topic_request, topic, ctx)
        if topic is None or error is not ErrorCode.NONE:
            rejected.append(_response_row(topic_request, [(index, error) for index in indexes]))
            continue
        for index in indexes:
            if topic.partition(index) is None:
                rejected.append(_response_row(topic_request, [(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)]))
        rows = [
            (index, _response_code((at, row_at), codes, ctx))
            for row_at, index in enumerate(indexes)
            if topic.partition(index) is not None
        ]
        if rows:
            answered.append(_response_row(topic_request, rows))
    return TxnOffsetCommitResponse(topics=merge_rows(rejected, answered, lambda row: (row.name, row.topic_id)))


def _topic_error(row: TxnOffsetCommitRequestTopic, topic: Topic | None, ctx: Context) -> ErrorCode:
    """The error of a topic as a whole, or NONE."""
    if topic is None and ctx.api_version >= _TOPIC_IDS_SINCE:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if not is_authorized(AclOperation.READ, ResourceType.TOPIC, row.name if topic is None else topic.name, ctx):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic is None else ErrorCode.NONE


def _response_row(
    topic: TxnOffsetCommitRequestTopic, codes: Iterable[tuple[int, ErrorCode]]
) -> TxnOffsetCommitResponseTopic:
    rows = [TxnOffsetCommitResponsePartition(index, code) for index, code in codes]
    return TxnOffsetCommitResponseTopic(topic.name, topic.topic_id, rows)


def _response_code(position: RowPosition, codes: dict[RowPosition, ErrorCode] | ErrorCode, ctx: Context) -> ErrorCode:
    code = codes if isinstance(codes, ErrorCode) else codes[position]
    if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and ctx.api_version < _LOAD_ERRORS_SINCE:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return code
