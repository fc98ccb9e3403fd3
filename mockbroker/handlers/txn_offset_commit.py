"""TxnOffsetCommit (28): offsets that count when their transaction commits."""

from __future__ import annotations

from collections.abc import Callable

from kwire import uuids
from kwire.error_codes import ErrorCode
from kwire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kwire.records import Record, write_batch
from mockbroker.context import Context
from mockbroker.coordinators.group_records import offset_record
from mockbroker.handlers.committed import answer_when_committed
from mockbroker.handlers.transactions import Codes
from mockbroker.handlers.verification import Support, ask, at_time, is_verified
from mockbroker.kafka_error import KafkaError
from mockbroker.outcome import Outcome, Park, Reply
from mockbroker.security.authorize import Operation, ResourceType, may, must
from mockbroker.state.classic_group import ClassicGroup
from mockbroker.state.consumer_group import ConsumerGroup
from mockbroker.state.group_kinds import number
from mockbroker.state.log import Origin, PartitionLog
from mockbroker.state.metadata import CoordinatorKind
from mockbroker.state.offsets import Committed
from mockbroker.state.streams_group import StreamsGroup
from mockbroker.state.topics import Topic
from mockbroker.state.transaction import Holder, Place
from mockbroker.state.verification import NO_GUARD, Guard

_ABORTABLE_SINCE = 4
_ADDS_SINCE = 5
_LOAD_ERRORS_SINCE = 2
_LOOK_AGAIN_MS = 3_600_000
#: What group coordinators answer in place of the codes of logs. Source: Kafka's CoordinatorOperationExceptionHelper.
_ANSWERED = {
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
}

Row = tuple[Topic, TxnOffsetCommitRequestPartition]


@answer_when_committed
def txn_offset_commit(request: TxnOffsetCommitRequest, ctx: Context) -> Outcome:
    """Keep offsets aside for a transaction; the first ones of it wait for the transaction coordinator's word.

    Source: Kafka's KafkaApis.handleTxnOffsetCommitRequest and OffsetMetadataManager.commitTransactionalOffset.
    """
    must(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id, ctx)
    must(Operation.READ, ResourceType.GROUP, request.group_id, ctx)
    rows = _existing(request, ctx)
    if not rows:
        return Reply(_answer(request, {}, ctx))
    metadata = ctx.cluster.metadata
    if not request.group_id:
        return Reply(_answer(request, ErrorCode.INVALID_GROUP_ID, ctx))
    offsets = metadata.internal_topic(CoordinatorKind.GROUP)
    place = Place(offsets.name, metadata.coordinator_partition(CoordinatorKind.GROUP, request.group_id))
    support = _support(ctx.api_version)

    def commit(guard: Guard | None, now: Context) -> TxnOffsetCommitResponse:
        try:
            log = now.node.logs.get(offsets.topic_id, place.partition_index)
            codes = _commit(request, rows, now, offsets_partition=place.partition_index, log=log, guard=guard)
            return _answer(request, codes, now)
        except KafkaError as error:
            return _answer(request, _ANSWERED.get(error.code, error.code), now)

    try:
        log = ctx.node.logs.get(offsets.topic_id, place.partition_index)
        if not is_verified(support, ctx):
            return Reply(commit(None, ctx))
        guard = log.begin_verification(
            request.producer_id, request.producer_epoch, -1, adds=support is Support.ADDS_PARTITIONS
        )
    except KafkaError as error:
        return Reply(_answer(request, _ANSWERED.get(error.code, error.code), ctx))
    if guard is NO_GUARD:
        return Reply(commit(guard, ctx))
    return _verified(request, place, lambda now: commit(guard, now), ctx)


def refuse_txn_offset_commit(request: TxnOffsetCommitRequest, error: KafkaError) -> TxnOffsetCommitResponse:
    """The error in every row: this API has no other place for it."""
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                topic.name,
                [TxnOffsetCommitResponsePartition(row.partition_index, error.code) for row in topic.partitions],
            )
            for topic in request.topics
        ]
    )


def _verified(
    request: TxnOffsetCommitRequest,
    place: Place,
    commit: Callable[[Context], TxnOffsetCommitResponse],
    ctx: Context,
) -> Outcome:
    answers: list[TxnOffsetCommitResponse] = []
    key = ctx.new_key()

    def done(codes: Codes, now_ms: int) -> None:
        now, code = at_time(ctx, now_ms), codes[place]
        refused = code is not ErrorCode.NONE
        answers.append(_answer(request, _ANSWERED.get(code, code), now) if refused else commit(now))
        ctx.wake(key)

    def look(now: Context) -> Outcome:
        return Reply(answers[0]) if answers else Park(now.now_ms + _LOOK_AGAIN_MS, (key,), look)

    holder = Holder(request.producer_id, request.producer_epoch)
    ask(request.transactional_id, holder, [place], support=_support(ctx.api_version), done=done, ctx=ctx)
    return look(ctx)


def _support(api_version: int) -> Support:
    if api_version >= _ADDS_SINCE:
        return Support.ADDS_PARTITIONS
    return Support.ABORTABLE_ERRORS if api_version >= _ABORTABLE_SINCE else Support.OLD_ERRORS


def _existing(request: TxnOffsetCommitRequest, ctx: Context) -> list[Row]:
    rows: list[Row] = []
    for asked in request.topics:
        topic = ctx.cluster.metadata.topic(asked.name)
        if topic is not None and may(Operation.READ, ResourceType.TOPIC, asked.name, ctx):
            rows += [(topic, row) for row in asked.partitions if topic.partition(row.partition_index) is not None]
    return rows


def _commit(
    request: TxnOffsetCommitRequest,
    rows: list[Row],
    ctx: Context,
    *,
    offsets_partition: int,
    log: PartitionLog,
    guard: Guard | None,
) -> dict[Place, ErrorCode]:
    """Write the offsets as records of the transaction, and keep them aside.

    Raises: COORDINATOR_LOAD_IN_PROGRESS, what the group has against its member, and the log against its producer.
    """
    ctx.node.group_log.must_be_loaded(request.group_id)
    _must_be_allowed(request, rows, ctx)
    size_max = number(ctx.cluster.config, "offset.metadata.max.bytes")
    codes: dict[Place, ErrorCode] = {}
    records: list[Record] = []
    kept: list[tuple[tuple[bytes, int], Committed]] = []
    for topic, row in rows:
        place = Place(topic.name, row.partition_index)
        text = row.committed_metadata or ""
        if len(text) > size_max:
            codes[place] = ErrorCode.OFFSET_METADATA_TOO_LARGE
            continue
        codes[place] = ErrorCode.NONE
        committed = Committed(row.committed_offset, row.committed_leader_epoch, text, ctx.now_ms)
        records.append(_record(request.group_id, place, committed, len(records), ctx.now_ms))
        kept.append(((topic.topic_id, row.partition_index), committed))
    if records:
        batch = write_batch(
            records, producer_id=request.producer_id, producer_epoch=request.producer_epoch, transactional=True
        )
        log.append(batch, now_ms=ctx.now_ms, origin=Origin.COORDINATOR, guard=guard)
    for partition, committed in kept:
        ctx.node.offsets.commit_in_transaction(
            offsets_partition, request.producer_id, request.group_id, partition, committed
        )
    return codes


def _record(group_id: str, place: Place, committed: Committed, offset: int, now_ms: int) -> Record:
    # The requests of this API know no topic ids, so the records have none.
    key, value = offset_record(group_id, place.topic, (uuids.ZERO, place.partition_index), committed)
    return Record(offset, now_ms, key, value)


def _must_be_allowed(request: TxnOffsetCommitRequest, rows: list[Row], ctx: Context) -> None:
    """Have the group say whether this member may commit; who names no member may always.

    Pinned by the conversation other-txn-offsets-members.
    Raises: ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, GROUP_ID_NOT_FOUND.
    """
    groups = ctx.node.groups
    group = groups.find(request.group_id)
    if group is None:
        if request.generation_id >= 0:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION, f"Group {request.group_id} not found.")
        groups.make_classic(request.group_id)
        return
    nameless = not request.member_id and request.group_instance_id is None
    if isinstance(group, ClassicGroup):
        if request.generation_id >= 0 or not (nameless or group.is_deletable()):
            group.check(request.member_id, request.group_instance_id, request.generation_id)
    elif isinstance(group, ConsumerGroup | StreamsGroup):
        if request.generation_id == -1 and nameless:
            return
        try:
            for topic, row in rows:
                partition = (topic.topic_id, row.partition_index)
                group.check_commit(request.member_id, request.generation_id, partition, api_version=9)
        except KafkaError as error:
            stale = error.code is ErrorCode.STALE_MEMBER_EPOCH
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION, error.message) if stale else error from None
    else:
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} is a share group.")


def _answer(
    request: TxnOffsetCommitRequest, codes: dict[Place, ErrorCode] | ErrorCode, ctx: Context
) -> TxnOffsetCommitResponse:
    """Rows for everything that was asked; what does not exist is unknown, whatever became of the rest."""
    response = TxnOffsetCommitResponse(topics=[])
    for asked in request.topics:
        topic = ctx.cluster.metadata.topic(asked.name)
        readable = may(Operation.READ, ResourceType.TOPIC, asked.name, ctx)
        rows = []
        for row in asked.partitions:
            if not readable:
                code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            elif topic is None or topic.partition(row.partition_index) is None:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif isinstance(codes, ErrorCode):
                code = codes
            else:
                code = codes[Place(asked.name, row.partition_index)]
            if code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and ctx.api_version < _LOAD_ERRORS_SINCE:
                code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            rows.append(TxnOffsetCommitResponsePartition(row.partition_index, code))
        response.topics.append(TxnOffsetCommitResponseTopic(asked.name, rows))
    return response
