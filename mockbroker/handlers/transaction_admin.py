"""WriteTxnMarkers (27), DescribeTransactions (65) and ListTransactions (66): what brokers and admins ask."""

from __future__ import annotations

from collections.abc import Iterator

from kwire.error_codes import ErrorCode
from kwire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
)
from kwire.messages.describe_transactions import TransactionState as Described
from kwire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from kwire.messages.list_transactions import TransactionState as Listed
from kwire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kwire.regex import Pattern, PatternError
from mockbroker.context import Context
from mockbroker.coordinators.markers import write_marker
from mockbroker.kafka_error import KafkaError
from mockbroker.outcome import Outcome, Reply
from mockbroker.security.authorize import CLUSTER_NAME, Operation, ResourceType, may, must
from mockbroker.state.transaction import Holder, Place, State, Transaction
from mockbroker.state.transactions import Ending

_STATES = {state.value: state for state in State}


def write_txn_markers(request: WriteTxnMarkersRequest, ctx: Context) -> Outcome:
    """End transactions in partitions of this node. Source: Kafka's KafkaApis.handleWriteTxnMarkersRequest."""
    if not may(Operation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME, ctx):
        must(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME, ctx)
    answered: dict[int, dict[str, dict[int, ErrorCode]]] = {}
    for marker in request.markers:
        codes = answered.setdefault(marker.producer_id, {})
        for place in _places(marker):
            codes.setdefault(place.topic, {})[place.partition_index] = _write(marker, place, ctx)
    return Reply(
        WriteTxnMarkersResponse(
            markers=[
                WritableTxnMarkerResult(
                    producer_id,
                    [
                        WritableTxnMarkerTopicResult(
                            name, [WritableTxnMarkerPartitionResult(index, code) for index, code in rows.items()]
                        )
                        for name, rows in topics.items()
                    ],
                )
                for producer_id, topics in answered.items()
            ]
        )
    )


def refuse_write_txn_markers(request: WriteTxnMarkersRequest, error: KafkaError) -> WriteTxnMarkersResponse:
    """A response that carries an error in every row."""
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                marker.producer_id,
                [
                    WritableTxnMarkerTopicResult(
                        topic.name,
                        [WritableTxnMarkerPartitionResult(index, error.code) for index in topic.partition_indexes],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


def describe_transactions(request: DescribeTransactionsRequest, ctx: Context) -> Outcome:
    """Tell all about transactional ids. Pinned by the conversation other-txn-describe-list."""
    rows = [_described(transactional_id, ctx) for transactional_id in dict.fromkeys(request.transactional_ids)]
    return Reply(DescribeTransactionsResponse(transaction_states=rows))


def refuse_describe_transactions(
    request: DescribeTransactionsRequest, error: KafkaError
) -> DescribeTransactionsResponse:
    """A response that carries an error in every row."""
    rows = [Described(error.code, transactional_id) for transactional_id in request.transactional_ids]
    return DescribeTransactionsResponse(transaction_states=rows)


def list_transactions(request: ListTransactionsRequest, ctx: Context) -> Outcome:
    """List the transactional ids of this coordinator that pass every filter. Pinned by other-txn-describe-list."""
    if ctx.node.transaction_log.loading:
        return Reply(ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    pattern = _pattern(request.transactional_id_pattern)
    states = {_STATES[name] for name in request.state_filters if name in _STATES}

    def passes(held: Transaction) -> bool:
        return (
            (not request.producer_id_filters or held.producer_id in request.producer_id_filters)
            and (not request.state_filters or held.state in states)
            and (request.duration_filter < 0 or ctx.now_ms - held.started_ms > request.duration_filter)
            and (pattern is None or pattern.matches(held.transactional_id))
        )

    return Reply(
        ListTransactionsResponse(
            unknown_state_filters=tuple(name for name in request.state_filters if name not in _STATES),
            transaction_states=[
                Listed(held.transactional_id, held.producer_id, held.state.value)
                for held in ctx.node.transactions.all()
                if passes(held) and may(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, held.transactional_id, ctx)
            ],
        )
    )


def _places(marker: WritableTxnMarker) -> Iterator[Place]:
    for topic in marker.topics:
        for index in topic.partition_indexes:
            yield Place(topic.name, index)


def _write(marker: WritableTxnMarker, place: Place, ctx: Context) -> ErrorCode:
    holder = Holder(marker.producer_id, marker.producer_epoch)
    ending = Ending("", holder, marker.coordinator_epoch, marker.transaction_result, marker.transaction_version)
    topic = ctx.cluster.metadata.topic(place.topic)
    partition = topic.partition(place.partition_index) if topic else None
    if partition is None or ctx.node.node_id not in partition.replicas:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        write_marker(ctx.node, ctx.cluster.metadata, ending, place, now_ms=ctx.now_ms)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


def _described(transactional_id: str, ctx: Context) -> Described:
    row = Described(transactional_id=transactional_id)
    try:
        must(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id, ctx)
        if not transactional_id:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        held = ctx.node.transactions.find(transactional_id)
        if held is None:
            raise KafkaError(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
    except KafkaError as error:
        row.error_code = error.code
        return row
    row.transaction_state = held.state.value
    row.transaction_timeout_ms = held.timeout_ms
    row.transaction_start_time_ms = held.started_ms
    row.producer_id, row.producer_epoch = held.holder
    indexes: dict[str, list[int]] = {}
    for place in sorted(held.partitions):
        if may(Operation.DESCRIBE, ResourceType.TOPIC, place.topic, ctx):
            indexes.setdefault(place.topic, []).append(place.partition_index)
    row.topics = [TopicData(name, tuple(partitions)) for name, partitions in indexes.items()]
    return row


def _pattern(text: str | None) -> Pattern | None:
    """The filter by name; Kafka reads it as Java does, we in the time-bound way of consumer groups.

    Raises: INVALID_REGULAR_EXPRESSION.
    """
    if not text:
        return None
    try:
        return Pattern(text)
    except PatternError as wrong:
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, f"{text!r} is no expression: {wrong}") from None
