"""The state RPCs of the share coordinator (83 to 87): each row on its own, in the order of the request.

Where leaders keep the state in their own logs (`ShareRules.state_in_log`) they are who is asked.

A request without group id or topics, or with a topic that names no partitions, is answered without rows
(share-semantics 7.3); only Initialize passes over topics without partitions, and answers for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import msgspec

from kwire.error_codes import ErrorCode
from kwire.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateResult,
)
from kwire.messages.delete_share_group_state import PartitionData as DeletePartition
from kwire.messages.delete_share_group_state import PartitionResult as Deleted
from kwire.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateResult,
)
from kwire.messages.initialize_share_group_state import PartitionData as InitializePartition
from kwire.messages.initialize_share_group_state import PartitionResult as Initialized
from kwire.messages.read_share_group_state import PartitionData as ReadPartition
from kwire.messages.read_share_group_state import PartitionResult as ReadResult
from kwire.messages.read_share_group_state import (
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateResult,
)
from kwire.messages.read_share_group_state import StateBatch as ReadBatch
from kwire.messages.read_share_group_state_summary import PartitionData as SummaryPartition
from kwire.messages.read_share_group_state_summary import PartitionResult as SummaryResult
from kwire.messages.read_share_group_state_summary import (
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)
from kwire.messages.write_share_group_state import PartitionData as WritePartition
from kwire.messages.write_share_group_state import PartitionResult as WriteResult
from kwire.messages.write_share_group_state import (
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult,
)
from mockbroker.calls import Unsettled
from mockbroker.coordinators.share_state_log import Written as Place
from mockbroker.kafka_error import KafkaError
from mockbroker.outcome import Outcome, Park, Reply
from mockbroker.security.authorize import CLUSTER_NAME, Operation, ResourceType, may, must
from mockbroker.state.share_coordinator import ShareKey, Written
from mockbroker.state.state_batches import StateBatch

if TYPE_CHECKING:
    from mockbroker.context import Context


class _Partition(Protocol):
    partition: int


class _Row(Protocol):
    partition: int
    error_code: int
    error_message: str | None

    def __init__(self, partition: int) -> None: ...


P = TypeVar("P", bound=_Partition)
P_co = TypeVar("P_co", bound=_Partition, covariant=True)
R = TypeVar("R", bound=_Row)
T = TypeVar("T")


class _Topic(Protocol[P_co]):
    topic_id: bytes

    @property
    def partitions(self) -> Sequence[P_co]: ...


def initialize_share_group_state(request: InitializeShareGroupStateRequest, ctx: Context) -> Outcome:
    """Begin the state of share partitions anew."""
    _must_manage(ctx)
    room = ctx.node.share_states.coordinator

    def one(key: ShareKey, asked: InitializePartition) -> Initialized:
        room.initialize(key, state_epoch=asked.state_epoch, start_offset=asked.start_offset, now_ms=ctx.now_ms)
        return Initialized(key.partition)

    topics = [topic for topic in request.topics if topic.partitions]
    rows = (
        _each(ctx, request.group_id, topics, one, Initialized) if request.group_id or not _is_broker(ctx) else _Rows()
    )
    return rows.answer(InitializeStateResult, InitializeShareGroupStateResponse, ctx)


def refuse_initialize_share_group_state(
    request: InitializeShareGroupStateRequest, error: KafkaError
) -> InitializeShareGroupStateResponse:
    """A row with the error for each partition that was asked about."""
    return InitializeShareGroupStateResponse(
        results=[
            InitializeStateResult(topic.topic_id, _refused_all(topic, Initialized, error)) for topic in request.topics
        ]
    )


def read_share_group_state(request: ReadShareGroupStateRequest, ctx: Context) -> Outcome:
    """Tell a leader what is stored, and take note of its epoch."""
    room = ctx.node.share_states.coordinator

    def one(key: ShareKey, asked: ReadPartition) -> ReadResult:
        stored = room.read(key, leader_epoch=asked.leader_epoch, now_ms=ctx.now_ms)
        return ReadResult(
            key.partition,
            state_epoch=stored.state_epoch,
            start_offset=stored.start_offset,
            state_batches=[ReadBatch(*batch) for batch in stored.batches],
        )

    rows = _each(ctx, request.group_id, request.topics, one, ReadResult) if _has_rows(request, ctx) else _Rows()
    return rows.answer(ReadStateResult, ReadShareGroupStateResponse, ctx)


def write_share_group_state(request: WriteShareGroupStateRequest, ctx: Context) -> Outcome:
    """Store what a leader has settled."""
    room = ctx.node.share_states.coordinator

    def one(key: ShareKey, asked: WritePartition) -> WriteResult:
        batches = [
            StateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
            for batch in asked.state_batches
        ]
        written = Written(
            asked.state_epoch, asked.leader_epoch, asked.start_offset, asked.delivery_complete_count, batches
        )
        room.write(key, written, now_ms=ctx.now_ms)
        return WriteResult(key.partition)

    rows = _each(ctx, request.group_id, request.topics, one, WriteResult) if _has_rows(request, ctx) else _Rows()
    return rows.answer(WriteStateResult, WriteShareGroupStateResponse, ctx)


def delete_share_group_state(request: DeleteShareGroupStateRequest, ctx: Context) -> Outcome:
    """Forget share partitions."""
    _must_manage(ctx)
    room = ctx.node.share_states.coordinator

    def one(key: ShareKey, asked: DeletePartition) -> Deleted:
        room.delete(key, now_ms=ctx.now_ms)
        return Deleted(key.partition)

    rows = _each(ctx, request.group_id, request.topics, one, Deleted) if _has_rows(request, ctx) else _Rows()
    return rows.answer(DeleteStateResult, DeleteShareGroupStateResponse, ctx)


def refuse_delete_share_group_state(
    request: DeleteShareGroupStateRequest, error: KafkaError
) -> DeleteShareGroupStateResponse:
    """A row with the error for each partition that was asked about."""
    return DeleteShareGroupStateResponse(
        results=[DeleteStateResult(topic.topic_id, _refused_all(topic, Deleted, error)) for topic in request.topics]
    )


def read_share_group_state_summary(request: ReadShareGroupStateSummaryRequest, ctx: Context) -> Outcome:
    """Tell start offsets and delivery-complete counts; the request's leader epoch is not looked at."""
    _must_manage(ctx, "states are not summed up in this edition")
    room = ctx.node.share_states.coordinator

    def one(key: ShareKey, asked: SummaryPartition) -> SummaryResult:
        summary = room.summary(key)
        return SummaryResult(
            key.partition,
            state_epoch=summary.state_epoch,
            leader_epoch=summary.leader_epoch,
            start_offset=summary.start_offset,
            delivery_complete_count=summary.delivery_complete_count,
        )

    rows = _each(ctx, request.group_id, request.topics, one, SummaryResult) if _has_rows(request, ctx) else _Rows()
    return rows.answer(ReadStateSummaryResult, ReadShareGroupStateSummaryResponse, ctx)


def refuse_read_share_group_state_summary(
    request: ReadShareGroupStateSummaryRequest, error: KafkaError
) -> ReadShareGroupStateSummaryResponse:
    """A row with the error for each partition that was asked about."""
    return ReadShareGroupStateSummaryResponse(
        results=[
            ReadStateSummaryResult(topic.topic_id, _refused_all(topic, SummaryResult, error))
            for topic in request.topics
        ]
    )


def _must_manage(ctx: Context, message: str | None = None) -> None:
    """Raises: UNSUPPORTED_VERSION in an edition whose coordinators only read and write."""
    if not ctx.cluster.rules.manages_state:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, message)


def _refused_all(topic: _Topic[_Partition], row: Callable[[int], R], error: KafkaError) -> list[R]:
    return [_refused(row(asked.partition), error) for asked in topic.partitions]


class _Request(Protocol):
    group_id: str

    @property
    def topics(self) -> Sequence[_Topic[_Partition]]: ...


def _has_rows(request: _Request, ctx: Context) -> bool:
    """Who may not ask at all is told so in every row, whatever the request is like."""
    is_whole = bool(request.group_id) and all(topic.partitions for topic in request.topics)
    return is_whole or not _is_broker(ctx)


def _is_broker(ctx: Context) -> bool:
    return may(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME, ctx)


def _each(
    ctx: Context, group_id: str, topics: Iterable[_Topic[P]], one: Callable[[ShareKey, P], R], row: Callable[[int], R]
) -> _Rows[R]:
    """Topic by topic the rows of `one`; a refusal becomes a row of defaults with its code.

    Only brokers may ask this: without CLUSTER_ACTION every row is refused.
    """
    rows: _Rows[R] = _Rows()
    log = ctx.node.share_states
    for topic in topics:
        found = rows.found.setdefault(topic.topic_id, {})
        for asked in topic.partitions:

            def handle(topic_id: bytes = topic.topic_id, asked: P = asked) -> R:
                must(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME, ctx, message="only brokers may ask")
                return one(ShareKey(group_id, topic_id, asked.partition), asked)

            key = None if row is SummaryResult else ShareKey(group_id, topic.topic_id, asked.partition)
            answer, written = log.do(handle, key)
            if isinstance(answer, KafkaError):
                answer = _refused(row(asked.partition), answer)
            elif written is not None:
                rows.written[topic.topic_id, asked.partition] = written
            # Asked twice, a share partition is handled twice, and has one row, the later one.
            found[asked.partition] = answer
    return rows


def _refused(row: R, error: KafkaError) -> R:
    row.error_code, row.error_message = int(error.code), error.message
    return row


class _Rows(Generic[R]):
    """Answers by topic and partition, and what has been written for them and may not be committed yet."""

    def __init__(self) -> None:
        self.found: dict[bytes, dict[int, R]] = {}
        self.written: dict[tuple[bytes, int], Place] = {}

    def answer(
        self, topic: Callable[[bytes, list[R]], T], respond: Callable[[list[T]], msgspec.Struct], ctx: Context
    ) -> Outcome:
        """Answer when everything is committed, or has not been for too long."""
        since_ms = ctx.now_ms
        deadline_ms = since_ms + ctx.cluster.config.integer("share.coordinator.write.timeout.ms")

        def look(now: Context) -> Outcome:
            try:
                for (topic_id, index), written in list(self.written.items()):
                    error = now.node.share_states.error_of(written, since_ms=since_ms, now_ms=now.now_ms)
                    if error is not None:
                        row = type(self.found[topic_id][index])(index)
                        self.found[topic_id][index] = _refused(row, error)
                    del self.written[topic_id, index]
            except Unsettled:
                keys = tuple(("log", place.topic_id, place.shard) for place in self.written.values())
                return Park(deadline_ms, keys, look)
            return Reply(respond([topic(topic_id, list(rows.values())) for topic_id, rows in self.found.items()]))

        return look(ctx)
