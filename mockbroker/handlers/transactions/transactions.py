"""AddPartitionsToTxn (24), AddOffsetsToTxn (25) and EndTxn (26)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from kwire.error_codes import ErrorCode
from kwire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from kwire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from kwire.messages.end_txn import EndTxnRequest, EndTxnResponse
from mockbroker.broker.node import Node
from mockbroker.engine.context import Context
from mockbroker.engine.outcome import Outcome, Reply
from mockbroker.handlers.shared.authorize import AclOperation, ResourceType, authorize, authorize_cluster, is_authorized
from mockbroker.handlers.transactions.await_transaction_log import reply_when_recorded
from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata.cluster_image import ClusterImage, CoordinatorKind, is_internal_topic
from mockbroker.state.transaction.transaction import EPOCH_BUMP_SINCE, ProducerIdAndEpoch, TopicPartition

#: From this version AddPartitionsToTxn is an inter-broker request for several transactions.
_BATCHED_SINCE = 4
#: From this version EndTxn raises the epoch (KIP-890 part 2).
_BUMPS_SINCE = 5
#: Older clients support only INVALID_PRODUCER_EPOCH.
_FENCED_SINCE = 2

#: Codes with which the broker refuses partitions before the coordinator adds any.
_REFUSED_CODES = frozenset(
    {
        ErrorCode.OPERATION_NOT_ATTEMPTED,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    }
)

PartitionCodes = Mapping[TopicPartition, ErrorCode]


def add_partitions_to_txn(request: AddPartitionsToTxnRequest, ctx: Context) -> Outcome:
    """Add partitions to transactions, or verify that they were added. Pinned by the conversation other-txn-errors."""
    if ctx.api_version >= _BATCHED_SINCE:
        authorize_cluster(AclOperation.CLUSTER_ACTION, ctx)
        return Reply(AddPartitionsToTxnResponse(results_by_transaction=_add_to_transactions(request.transactions, ctx)))
    transaction = _to_batched_transaction(request)
    authorize(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transaction.transactional_id, ctx)
    codes = _denied_codes(transaction, ctx) or _add_to_transaction(transaction, ctx)
    response = AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_topic_rows(transaction.topics, codes))
    is_added = set(codes.values()) == {ErrorCode.NONE}
    return reply_when_recorded(Reply(response), transaction.transactional_id, ctx) if is_added else Reply(response)


def refuse_add_partitions_to_txn(request: AddPartitionsToTxnRequest, error: KafkaError) -> AddPartitionsToTxnResponse:
    """A response with the error at the top level, and before version 4 in every row."""
    topics = request.v3_and_below_topics
    rows = _topic_rows(topics, dict.fromkeys(_topic_partitions(topics), error.code))
    return AddPartitionsToTxnResponse(error_code=error.code, results_by_topic_v3_and_below=rows)


def add_offsets_to_txn(request: AddOffsetsToTxnRequest, ctx: Context) -> Outcome:
    """Add a group's partition of the offsets topic to a transaction. Source: KafkaApis.handleAddOffsetsToTxnRequest."""
    authorize(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id, ctx)
    authorize(AclOperation.READ, ResourceType.GROUP, request.group_id, ctx)
    metadata = ctx.cluster.metadata
    topic = metadata.internal_topic(CoordinatorKind.GROUP)
    index = metadata.coordinator_partition_index(CoordinatorKind.GROUP, request.group_id)
    partitions = [TopicPartition(topic.name, index)]
    producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    try:
        ctx.node.transactions.add_partitions(
            request.transactional_id, producer, partitions, version=0, now_ms=ctx.now_ms
        )
    except KafkaError as error:
        return Reply(AddOffsetsToTxnResponse(error_code=_code_for_version(error.code, ctx)))
    return reply_when_recorded(Reply(AddOffsetsToTxnResponse()), request.transactional_id, ctx)


def end_txn(request: EndTxnRequest, ctx: Context) -> Outcome:
    """Commit or abort; the response does not wait for the markers. Pinned by the conversations other-txn-*."""
    authorize(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id, ctx)
    producer = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    version = EPOCH_BUMP_SINCE if ctx.api_version >= _BUMPS_SINCE else 0
    try:
        successor = ctx.node.transactions.end_transaction(
            request.transactional_id, producer, commit=request.committed, version=version, now_ms=ctx.now_ms
        )
    except KafkaError as error:
        return Reply(EndTxnResponse(error_code=_code_for_version(error.code, ctx)))
    response = EndTxnResponse()
    if successor is not None:
        response = EndTxnResponse(producer_id=successor.producer_id, producer_epoch=successor.epoch)
    return reply_when_recorded(Reply(response), request.transactional_id, ctx)


def add_or_verify_partitions(
    node: Node,
    metadata: ClusterImage,
    transactional_id: str,
    producer: ProducerIdAndEpoch,
    partitions: Sequence[TopicPartition],
    *,
    verify_only: bool,
    version: int,
    now_ms: int,
) -> PartitionCodes:
    """Add partitions to a transaction, or verify that they were added: all or none.

    Source: KafkaApis.handleAddPartitionsToTxnRequest.
    """
    refused = _refused_codes(partitions, metadata)
    if refused:
        return refused
    coordinator = node.transactions
    try:
        if verify_only:
            return coordinator.verify_partitions(transactional_id, producer, partitions)
        coordinator.add_partitions(transactional_id, producer, partitions, version=version, now_ms=now_ms)
    except KafkaError as error:
        return dict.fromkeys(partitions, error.code)
    return dict.fromkeys(partitions, ErrorCode.NONE)


def _refused_codes(partitions: Sequence[TopicPartition], metadata: ClusterImage) -> PartitionCodes:
    """The codes of the rows if one of the partitions does not exist, else nothing."""
    missing = [partition for partition in partitions if not _partition_exists(partition, metadata)]
    if not missing:
        return {}
    codes = dict.fromkeys(partitions, ErrorCode.OPERATION_NOT_ATTEMPTED)
    return codes | dict.fromkeys(missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _denied_codes(transaction: AddPartitionsToTxnTransaction, ctx: Context) -> PartitionCodes:
    """The codes of the rows if the client may not write to one of the topics, else nothing; internal topics are always
    denied.
    """
    partitions = _topic_partitions(transaction.topics)
    denied = [
        partition
        for partition in partitions
        if is_internal_topic(partition.topic)
        or not is_authorized(AclOperation.WRITE, ResourceType.TOPIC, partition.topic, ctx)
    ]
    if not denied:
        return {}
    codes = dict.fromkeys(partitions, ErrorCode.OPERATION_NOT_ATTEMPTED)
    return {**codes, **_refused_codes(partitions, ctx.cluster.metadata)} | dict.fromkeys(
        denied, ErrorCode.TOPIC_AUTHORIZATION_FAILED
    )


def _add_to_transactions(
    transactions: Sequence[AddPartitionsToTxnTransaction], ctx: Context
) -> list[AddPartitionsToTxnResult]:
    """Add to each transaction, or verify.

    Of transactions with one id, the last one's partitions are added for each, and an addition has the first one's rows.
    Pinned by the conversation other-txn-add-batched.
    """
    last = {transaction.transactional_id: transaction.topics for transaction in transactions}
    first = {transaction.transactional_id: transaction.topics for transaction in reversed(transactions)}
    results = []
    for transaction in transactions:
        transactional_id = transaction.transactional_id
        added = msgspec.structs.replace(transaction, topics=last[transactional_id])
        if transaction.verify_only or _refused_codes(_topic_partitions(added.topics), ctx.cluster.metadata):
            rows = _merged_rows(_add_to_transaction(added, ctx))
        else:
            partitions = _topic_partitions(first[transactional_id])
            rows = _topic_rows(first[transactional_id], dict.fromkeys(partitions, _addition_code(added, ctx)))
        results.append(AddPartitionsToTxnResult(transactional_id, rows))
    return results


def _addition_code(transaction: AddPartitionsToTxnTransaction, ctx: Context) -> ErrorCode:
    """Add partitions that exist; returns NONE or the error of the coordinator."""
    producer = ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch)
    partitions = _topic_partitions(transaction.topics)
    try:
        ctx.node.transactions.add_partitions(
            transaction.transactional_id, producer, partitions, version=EPOCH_BUMP_SINCE, now_ms=ctx.now_ms
        )
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


def _add_to_transaction(transaction: AddPartitionsToTxnTransaction, ctx: Context) -> PartitionCodes:
    codes = add_or_verify_partitions(
        ctx.node,
        ctx.cluster.metadata,
        transaction.transactional_id,
        ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch),
        _topic_partitions(transaction.topics),
        verify_only=transaction.verify_only,
        version=0,
        now_ms=ctx.now_ms,
    )
    return {partition: _code_for_version(code, ctx) for partition, code in codes.items()}


def _to_batched_transaction(request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnTransaction:
    """The one transaction of older versions, in the format of the newer ones."""
    return AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )


def _code_for_version(code: ErrorCode, ctx: Context) -> ErrorCode:
    if code is ErrorCode.PRODUCER_FENCED and ctx.api_version < _FENCED_SINCE:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code


def _partition_exists(partition: TopicPartition, metadata: ClusterImage) -> bool:
    topic = metadata.topic(partition.topic)
    return topic is not None and topic.partition(partition.partition_index) is not None


def _topic_partitions(topics: Iterable[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, index) for topic in topics for index in topic.partitions]


def _topic_rows(
    topics: Iterable[AddPartitionsToTxnTopic], codes: PartitionCodes
) -> list[AddPartitionsToTxnTopicResult]:
    """The rows as in the request; each partition once if the broker refuses some itself."""
    if _REFUSED_CODES.intersection(codes.values()):
        return _merged_rows(codes)
    return [
        AddPartitionsToTxnTopicResult(
            topic.name,
            [
                AddPartitionsToTxnPartitionResult(index, codes[TopicPartition(topic.name, index)])
                for index in topic.partitions
            ],
        )
        for topic in topics
    ]


def _merged_rows(codes: PartitionCodes) -> list[AddPartitionsToTxnTopicResult]:
    """One row for each topic and partition."""
    rows: dict[str, list[AddPartitionsToTxnPartitionResult]] = {}
    for partition, code in codes.items():
        rows.setdefault(partition.topic, []).append(AddPartitionsToTxnPartitionResult(partition.partition_index, code))
    return [AddPartitionsToTxnTopicResult(name, partitions) for name, partitions in rows.items()]
