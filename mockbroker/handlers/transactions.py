"""AddPartitionsToTxn (24), AddOffsetsToTxn (25) and EndTxn (26): what producers ask of the transaction coordinator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

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
from mockbroker.context import Context
from mockbroker.kafka_error import KafkaError
from mockbroker.node import Node
from mockbroker.outcome import Outcome, Reply
from mockbroker.security.authorize import CLUSTER_NAME, Operation, ResourceType, may, must
from mockbroker.state.metadata import CoordinatorKind, Metadata, is_internal
from mockbroker.state.transaction import EPOCH_BUMP_SINCE, Holder, Place

#: From this version AddPartitionsToTxn is what brokers ask of each other, for several transactions at once.
_BATCHED_SINCE = 4
#: From this version EndTxn raises the epoch (KIP-890 part 2).
_BUMPS_SINCE = 5
#: Older clients know only INVALID_PRODUCER_EPOCH.
_FENCED_SINCE = 2

Codes = Mapping[Place, ErrorCode]


def add_partitions_to_txn(request: AddPartitionsToTxnRequest, ctx: Context) -> Outcome:
    """Add partitions to transactions, or only say whether they are in. Pinned by the conversation other-txn-errors."""
    if ctx.api_version >= _BATCHED_SINCE:
        must(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME, ctx)
        results = [
            AddPartitionsToTxnResult(one.transactional_id, _rows(one.topics, _transaction_codes(one, ctx)))
            for one in request.transactions
        ]
        return Reply(AddPartitionsToTxnResponse(results_by_transaction=results))
    one = _as_batched(request)
    must(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, one.transactional_id, ctx)
    rows = _rows(one.topics, _denials(one, ctx) or _transaction_codes(one, ctx))
    return Reply(AddPartitionsToTxnResponse(results_by_topic_v3_and_below=rows))


def refuse_add_partitions_to_txn(request: AddPartitionsToTxnRequest, error: KafkaError) -> AddPartitionsToTxnResponse:
    """A response that carries an error at the top, and before version 4 in every row."""
    topics = request.v3_and_below_topics
    rows = _rows(topics, dict.fromkeys(_places(topics), error.code))
    return AddPartitionsToTxnResponse(error_code=error.code, results_by_topic_v3_and_below=rows)


def add_offsets_to_txn(request: AddOffsetsToTxnRequest, ctx: Context) -> Outcome:
    """Add a group's partition of the offsets topic to a transaction. Source: KafkaApis.handleAddOffsetsToTxnRequest."""
    must(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id, ctx)
    must(Operation.READ, ResourceType.GROUP, request.group_id, ctx)
    metadata = ctx.cluster.metadata
    topic = metadata.internal_topic(CoordinatorKind.GROUP)
    place = Place(topic.name, metadata.coordinator_partition(CoordinatorKind.GROUP, request.group_id))
    holder = Holder(request.producer_id, request.producer_epoch)
    try:
        ctx.node.transactions.add(request.transactional_id, holder, [place], version=0, now_ms=ctx.now_ms)
    except KafkaError as error:
        return Reply(AddOffsetsToTxnResponse(error_code=_code_for(error.code, ctx)))
    return Reply(AddOffsetsToTxnResponse())


def end_txn(request: EndTxnRequest, ctx: Context) -> Outcome:
    """Commit or abort: the answer does not wait for the markers. Pinned by the conversations other-txn-*."""
    must(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id, ctx)
    holder = Holder(request.producer_id, request.producer_epoch)
    version = EPOCH_BUMP_SINCE if ctx.api_version >= _BUMPS_SINCE else 0
    try:
        successor = ctx.node.transactions.end(
            request.transactional_id, holder, commit=request.committed, version=version, now_ms=ctx.now_ms
        )
    except KafkaError as error:
        return Reply(EndTxnResponse(error_code=_code_for(error.code, ctx)))
    if successor is None:
        return Reply(EndTxnResponse())
    return Reply(EndTxnResponse(producer_id=successor.producer_id, producer_epoch=successor.epoch))


def add_or_verify(
    node: Node,
    metadata: Metadata,
    transactional_id: str,
    holder: Holder,
    places: Sequence[Place],
    *,
    verify_only: bool,
    version: int,
    now_ms: int,
) -> Codes:
    """What the coordinator says of partitions that are to be in a transaction: all are added, or none.

    Source: KafkaApis.handleAddPartitionsToTxnRequest.
    """
    missing = [place for place in places if not _exists(place, metadata)]
    if missing:
        codes = dict.fromkeys(places, ErrorCode.OPERATION_NOT_ATTEMPTED)
        return codes | dict.fromkeys(missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    room = node.transactions
    try:
        if verify_only:
            return room.verify(transactional_id, holder, places)
        room.add(transactional_id, holder, places, version=version, now_ms=now_ms)
    except KafkaError as error:
        return dict.fromkeys(places, error.code)
    return dict.fromkeys(places, ErrorCode.NONE)


def _denials(asked: AddPartitionsToTxnTransaction, ctx: Context) -> Codes:
    """What to answer if the client may not write to one of the topics, else nothing; internal ones nobody may."""
    places = _places(asked.topics)
    denied = [
        place
        for place in places
        if is_internal(place.topic) or not may(Operation.WRITE, ResourceType.TOPIC, place.topic, ctx)
    ]
    if not denied:
        return {}
    missing = [place for place in places if not _exists(place, ctx.cluster.metadata)]
    codes = dict.fromkeys(places, ErrorCode.OPERATION_NOT_ATTEMPTED)
    codes |= dict.fromkeys(missing, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return codes | dict.fromkeys(denied, ErrorCode.TOPIC_AUTHORIZATION_FAILED)


def _transaction_codes(asked: AddPartitionsToTxnTransaction, ctx: Context) -> Codes:
    codes = add_or_verify(
        ctx.node,
        ctx.cluster.metadata,
        asked.transactional_id,
        Holder(asked.producer_id, asked.producer_epoch),
        _places(asked.topics),
        verify_only=asked.verify_only,
        version=EPOCH_BUMP_SINCE if ctx.api_version >= _BATCHED_SINCE else 0,
        now_ms=ctx.now_ms,
    )
    return {place: _code_for(code, ctx) for place, code in codes.items()}


def _as_batched(request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnTransaction:
    """The one transaction of the older versions, in the shape of the newer ones."""
    return AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )


def _code_for(code: ErrorCode, ctx: Context) -> ErrorCode:
    if code is ErrorCode.PRODUCER_FENCED and ctx.api_version < _FENCED_SINCE:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    return code


def _exists(place: Place, metadata: Metadata) -> bool:
    topic = metadata.topic(place.topic)
    return topic is not None and topic.partition(place.partition_index) is not None


def _places(topics: Iterable[AddPartitionsToTxnTopic]) -> list[Place]:
    return [Place(topic.name, index) for topic in topics for index in topic.partitions]


def _rows(topics: Iterable[AddPartitionsToTxnTopic], codes: Codes) -> list[AddPartitionsToTxnTopicResult]:
    return [
        AddPartitionsToTxnTopicResult(
            topic.name,
            [AddPartitionsToTxnPartitionResult(index, codes[Place(topic.name, index)]) for index in topic.partitions],
        )
        for topic in topics
    ]
