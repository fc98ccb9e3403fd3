"""WriteTxnMarkers (27), DescribeTransactions (65) and ListTransactions (66)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kwire.error_codes import ErrorCode
from kwire.messages import write_txn_markers as write
from kwire.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse, TopicData
from kwire.messages.describe_transactions import TransactionState as Described
from kwire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from kwire.messages.list_transactions import TransactionState as Listed
from kwire.regex import Pattern, PatternError
from mockbroker.coordinators.transaction.markers import write_marker
from mockbroker.engine.context import Context
from mockbroker.engine.outcome import Outcome, Reply
from mockbroker.handlers.shared.authorize import (
    AclOperation,
    ResourceType,
    authorize,
    authorize_cluster,
    is_authorized,
    is_authorized_on_cluster,
)
from mockbroker.kafka_error import KafkaError
from mockbroker.state.transaction.transaction import ProducerIdAndEpoch, TopicPartition, Transaction, TransactionState
from mockbroker.state.transaction.transactions import TransactionEnd

_STATES = {state.value: state for state in TransactionState}


def write_txn_markers(request: write.WriteTxnMarkersRequest, ctx: Context) -> Outcome:
    """End transactions in partitions of this node. Source: Kafka's KafkaApis.handleWriteTxnMarkersRequest."""
    if not is_authorized_on_cluster(AclOperation.ALTER, ctx):
        authorize_cluster(AclOperation.CLUSTER_ACTION, ctx)
    answered: dict[int, dict[str, dict[int, ErrorCode]]] = {}
    for marker in request.markers:
        _check_marker(marker, ctx)
        for partition in dict.fromkeys(_marker_partitions(marker)):  # One marker for a partition that is listed twice.
            code = _write_partition_marker(marker, partition, ctx)
            codes = answered.setdefault(marker.producer_id, {})
            codes.setdefault(partition.topic, {})[partition.partition_index] = code
    rows = [_marker_row(producer_id, topics.items()) for producer_id, topics in answered.items()]
    return Reply(write.WriteTxnMarkersResponse(markers=rows))


def refuse_write_txn_markers(request: write.WriteTxnMarkersRequest, error: KafkaError) -> write.WriteTxnMarkersResponse:
    """A response with the error for every partition; of markers of one producer id, the last one's partitions."""
    answered: dict[int, dict[str, dict[int, ErrorCode]]] = {}
    for marker in request.markers:
        codes = answered[marker.producer_id] = {}
        for partition in _marker_partitions(marker):
            codes.setdefault(partition.topic, {})[partition.partition_index] = error.code
    rows = [_marker_row(producer_id, topics.items()) for producer_id, topics in answered.items()]
    return write.WriteTxnMarkersResponse(markers=rows)


def _marker_row(producer_id: int, topics: Iterable[tuple[str, dict[int, ErrorCode]]]) -> write.WritableTxnMarkerResult:
    response = write.WritableTxnMarkerResult(producer_id, topics=[])
    for name, codes in topics:
        rows = [write.WritableTxnMarkerPartitionResult(*row) for row in codes.items()]
        response.topics.append(write.WritableTxnMarkerTopicResult(name, rows))
    return response


def describe_transactions(request: DescribeTransactionsRequest, ctx: Context) -> Outcome:
    """Return the state of transactional ids. Pinned by the conversation other-txn-describe-list."""
    rows = [_describe_transaction(name, ctx) for name in request.transactional_ids]
    return Reply(DescribeTransactionsResponse(transaction_states=rows))


def refuse_describe_transactions(
    request: DescribeTransactionsRequest, error: KafkaError
) -> DescribeTransactionsResponse:
    """A response with the error in every row."""
    rows = [Described(error.code, transactional_id) for transactional_id in request.transactional_ids]
    return DescribeTransactionsResponse(transaction_states=rows)


def list_transactions(request: ListTransactionsRequest, ctx: Context) -> Outcome:
    """List the transactional ids of this coordinator that match all filters. Pinned by other-txn-describe-list."""
    if ctx.node.transaction_log.loading:
        return Reply(ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    pattern = _compile_pattern(request.transactional_id_pattern)
    states = {_STATES[name] for name in request.state_filters if name in _STATES}

    def passes(transaction: Transaction) -> bool:
        return (
            (not request.producer_id_filters or transaction.producer_id in request.producer_id_filters)
            and (not request.state_filters or transaction.state in states)
            and (request.duration_filter < 0 or ctx.now_ms - transaction.started_ms > request.duration_filter)
            and (pattern is None or pattern.matches(transaction.transactional_id))
            and is_authorized(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transaction.transactional_id, ctx)
        )

    rows = [
        Listed(transaction.transactional_id, transaction.producer_id, transaction.state.value)
        for transaction in ctx.node.transactions.all_transactions()
        if passes(transaction)
    ]
    unknown = tuple(dict.fromkeys(name for name in request.state_filters if name not in _STATES))
    return Reply(ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=rows))


def _marker_partitions(marker: write.WritableTxnMarker) -> Iterator[TopicPartition]:
    for topic in marker.topics:
        for index in topic.partition_indexes:
            yield TopicPartition(topic.name, index)


def _check_marker(marker: write.WritableTxnMarker, ctx: Context) -> None:
    """Refuse the whole request for a marker that cannot be built: Kafka has no transaction of producer id or epoch -1.

    Pinned by the conversation other-txn-markers-odd. Raises: UNKNOWN_SERVER_ERROR.
    """
    has_partition = any(_has_replica(partition, ctx) for partition in _marker_partitions(marker))
    if has_partition and -1 in (marker.producer_id, marker.producer_epoch):
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR)


def _has_replica(topic_partition: TopicPartition, ctx: Context) -> bool:
    topic = ctx.cluster.metadata.topic(topic_partition.topic)
    partition = topic.partition(topic_partition.partition_index) if topic else None
    return partition is not None and ctx.node.node_id in partition.replicas


def _write_partition_marker(
    marker: write.WritableTxnMarker, topic_partition: TopicPartition, ctx: Context
) -> ErrorCode:
    producer = ProducerIdAndEpoch(marker.producer_id, marker.producer_epoch)
    ending = TransactionEnd(
        "", producer, marker.coordinator_epoch, marker.transaction_result, marker.transaction_version
    )
    if not _has_replica(topic_partition, ctx):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        write_marker(ctx.node, ctx.cluster.metadata, ending, topic_partition, now_ms=ctx.now_ms)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


def _describe_transaction(transactional_id: str, ctx: Context) -> Described:
    row = Described(transactional_id=transactional_id)
    try:
        authorize(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id, ctx)
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        transaction = ctx.node.transactions.find_transaction(transactional_id)
        if transaction is None:
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    except KafkaError as error:
        row.error_code = error.code
        return row
    row.transaction_state = transaction.state.value
    row.transaction_timeout_ms = transaction.timeout_ms
    row.transaction_start_time_ms = transaction.started_ms
    row.producer_id, row.producer_epoch = transaction.producer
    indexes: dict[str, list[int]] = {}
    for partition in sorted(transaction.partitions):
        if is_authorized(AclOperation.DESCRIBE, ResourceType.TOPIC, partition.topic, ctx):
            indexes.setdefault(partition.topic, []).append(partition.partition_index)
    row.topics = [TopicData(name, tuple(partitions)) for name, partitions in indexes.items()]
    return row


def _compile_pattern(text: str | None) -> Pattern | None:
    """The filter by name. Kafka matches it with Java's engine, the mock with the linear-time one of consumer groups.

    Raises: INVALID_REGULAR_EXPRESSION.
    """
    if not text:
        return None
    try:
        return Pattern(text)
    except PatternError as wrong:
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, f"{text!r} is not a valid expression: {wrong}") from None
