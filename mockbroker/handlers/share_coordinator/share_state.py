"""The state APIs of the share coordinator (83 to 87): each row is handled separately, in the order of the request.

Where leaders store the state in their own logs (`ShareRules.state`), the requests go to them.

A request without group id or topics, or with a topic without partitions, gets a response without rows
(share-semantics 7.3); only Initialize skips topics without partitions, and returns rows for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from kwire.error_codes import ErrorCode
from kwire.messages import delete_share_group_state as delete
from kwire.messages import initialize_share_group_state as initialize
from kwire.messages import read_share_group_state as read
from kwire.messages import read_share_group_state_summary as summary
from kwire.messages import write_share_group_state as write
from mockbroker.cluster_services.inter_broker import NotReady
from mockbroker.coordinators.share.share_state_log import LogPosition
from mockbroker.engine.outcome import Outcome, Park, Reply
from mockbroker.handlers.shared.authorize import AclOperation, authorize_cluster, is_authorized_on_cluster
from mockbroker.kafka_error import KafkaError
from mockbroker.state.share.state_batches import StateBatch
from mockbroker.state.share_coordinator.share_coordinator import ShareKey, StateWrite

if TYPE_CHECKING:
    from mockbroker.engine.context import Context


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


class _Classes(NamedTuple, Generic[R, T]):
    """The classes of a response: of the row of a partition, of the row of a topic, and of the whole."""

    row: Callable[[int], R]
    topic_row: Callable[[bytes, list[R]], T]
    response: Callable[[list[T]], msgspec.Struct]


_INITIALIZE = _Classes(
    initialize.PartitionResult, initialize.InitializeStateResult, initialize.InitializeShareGroupStateResponse
)
_READ = _Classes(read.PartitionResult, read.ReadStateResult, read.ReadShareGroupStateResponse)
_WRITE = _Classes(write.PartitionResult, write.WriteStateResult, write.WriteShareGroupStateResponse)
_DELETE = _Classes(delete.PartitionResult, delete.DeleteStateResult, delete.DeleteShareGroupStateResponse)
_SUMMARY = _Classes(summary.PartitionResult, summary.ReadStateSummaryResult, summary.ReadShareGroupStateSummaryResponse)


def initialize_share_group_state(request: initialize.InitializeShareGroupStateRequest, ctx: Context) -> Outcome:
    """Initialize the state of share-partitions."""
    _require_state_management(ctx)
    coordinator = ctx.node.share_states.coordinator

    def handle_row(key: ShareKey, row: initialize.PartitionData) -> initialize.PartitionResult:
        coordinator.initialize_state(key, state_epoch=row.state_epoch, start_offset=row.start_offset, now_ms=ctx.now_ms)
        return initialize.PartitionResult(key.partition)

    topics = [topic for topic in request.topics if topic.partitions]
    return _handle_request(request.group_id, topics, handle_row, _INITIALIZE, ctx)


def refuse_initialize_share_group_state(
    request: initialize.InitializeShareGroupStateRequest, error: KafkaError
) -> msgspec.Struct:
    """A row with the error for each requested partition."""
    return _refuse(request.topics, error, _INITIALIZE)


def read_share_group_state(request: read.ReadShareGroupStateRequest, ctx: Context) -> Outcome:
    """Return the stored state to a leader, and store its epoch."""
    coordinator = ctx.node.share_states.coordinator

    def handle_row(key: ShareKey, row: read.PartitionData) -> read.PartitionResult:
        stored = coordinator.read_state(key, leader_epoch=row.leader_epoch, now_ms=ctx.now_ms)
        return read.PartitionResult(
            key.partition,
            state_epoch=stored.state_epoch,
            start_offset=stored.start_offset,
            state_batches=[read.StateBatch(*batch) for batch in stored.batches],
        )

    return _handle_request(request.group_id, request.topics, handle_row, _READ, ctx)


def refuse_read_share_group_state(request: read.ReadShareGroupStateRequest, error: KafkaError) -> msgspec.Struct:
    """A row with the error for each requested partition."""
    return _refuse(request.topics, error, _READ)


def write_share_group_state(request: write.WriteShareGroupStateRequest, ctx: Context) -> Outcome:
    """Store the state that a leader has sent."""
    coordinator = ctx.node.share_states.coordinator

    def handle_row(key: ShareKey, row: write.PartitionData) -> write.PartitionResult:
        batches = [
            StateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
            for batch in row.state_batches
        ]
        written = StateWrite(row.state_epoch, row.leader_epoch, row.start_offset, row.delivery_complete_count, batches)
        coordinator.write_state(key, written, now_ms=ctx.now_ms)
        return write.PartitionResult(key.partition)

    return _handle_request(request.group_id, request.topics, handle_row, _WRITE, ctx)


def refuse_write_share_group_state(request: write.WriteShareGroupStateRequest, error: KafkaError) -> msgspec.Struct:
    """A row with the error for each requested partition."""
    return _refuse(request.topics, error, _WRITE)


def delete_share_group_state(request: delete.DeleteShareGroupStateRequest, ctx: Context) -> Outcome:
    """Delete the state of share-partitions."""
    _require_state_management(ctx)
    coordinator = ctx.node.share_states.coordinator

    def handle_row(key: ShareKey, row: delete.PartitionData) -> delete.PartitionResult:
        coordinator.delete_state(key, now_ms=ctx.now_ms)
        return delete.PartitionResult(key.partition)

    return _handle_request(request.group_id, request.topics, handle_row, _DELETE, ctx)


def refuse_delete_share_group_state(request: delete.DeleteShareGroupStateRequest, error: KafkaError) -> msgspec.Struct:
    """A row with the error for each requested partition."""
    return _refuse(request.topics, error, _DELETE)


def read_share_group_state_summary(request: summary.ReadShareGroupStateSummaryRequest, ctx: Context) -> Outcome:
    """Return start offsets and delivery-complete counts; the leader epoch is not checked."""
    _require_state_management(ctx, "summaries are not supported in this edition")
    coordinator = ctx.node.share_states.coordinator

    def handle_row(key: ShareKey, row: summary.PartitionData) -> summary.PartitionResult:
        stored = coordinator.read_summary(key)
        return summary.PartitionResult(
            key.partition,
            state_epoch=stored.state_epoch,
            leader_epoch=stored.leader_epoch,
            start_offset=stored.start_offset,
            delivery_complete_count=stored.delivery_complete_count,
        )

    return _handle_request(request.group_id, request.topics, handle_row, _SUMMARY, ctx)


def refuse_read_share_group_state_summary(
    request: summary.ReadShareGroupStateSummaryRequest, error: KafkaError
) -> msgspec.Struct:
    """A row with the error for each requested partition."""
    return _refuse(request.topics, error, _SUMMARY)


def _require_state_management(ctx: Context, message: str | None = None) -> None:
    """Raises: UNSUPPORTED_VERSION in an edition whose coordinators only read and write."""
    if not ctx.cluster.rules.state.managed_by_coordinator:
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, message)


def _refuse(topics: Sequence[_Topic[_Partition]], error: KafkaError, classes: _Classes[R, T]) -> msgspec.Struct:
    def refuse_topic(topic: _Topic[_Partition]) -> T:
        rows = [_set_error(classes.row(requested.partition), error) for requested in topic.partitions]
        return classes.topic_row(topic.topic_id, rows)

    return classes.response(list(map(refuse_topic, topics)))


def _handle_request(
    group_id: str,
    topics: Sequence[_Topic[P]],
    handle_row: Callable[[ShareKey, P], R],
    classes: _Classes[R, T],
    ctx: Context,
) -> Outcome:
    """Handle every partition, and reply when all writes are replicated, or after the write timeout.

    An error becomes a row of defaults with its code. Only brokers may send these requests: without CLUSTER_ACTION every
    row fails.
    """
    is_whole = bool(group_id) and all(topic.partitions for topic in topics)
    if not is_whole and is_authorized_on_cluster(AclOperation.CLUSTER_ACTION, ctx):
        return Reply(classes.response([]))
    rows, positions = _handle_partitions(group_id, topics, handle_row, classes, ctx)
    since_ms = ctx.now_ms
    deadline_ms = since_ms + ctx.node.config.integer("share.coordinator.write.timeout.ms")

    def attempt(now: Context) -> Outcome:
        try:
            for (topic_id, index), written in list(positions.items()):
                error = now.node.share_states.replication_error(written, since_ms=since_ms, now_ms=now.now_ms)
                if error is not None:
                    rows[topic_id][index] = _set_error(classes.row(index), error)
                del positions[topic_id, index]
        except NotReady:
            keys = tuple(("log", position.topic_id, position.shard) for position in positions.values())
            return Park(deadline_ms, keys, attempt)
        topic_rows = [classes.topic_row(topic_id, list(by_index.values())) for topic_id, by_index in rows.items()]
        return Reply(classes.response(topic_rows))

    return attempt(ctx)


def _handle_partitions(
    group_id: str,
    topics: Sequence[_Topic[P]],
    handle_row: Callable[[ShareKey, P], R],
    classes: _Classes[R, T],
    ctx: Context,
) -> tuple[dict[bytes, dict[int, R]], dict[tuple[bytes, int], LogPosition]]:
    """The rows by topic and partition, and the log positions of their writes."""
    rows: dict[bytes, dict[int, R]] = {}
    positions: dict[tuple[bytes, int], LogPosition] = {}
    for topic in topics:
        topic_rows = rows.setdefault(topic.topic_id, {})
        for requested in topic.partitions:
            share_key = ShareKey(group_id, topic.topic_id, requested.partition)

            def handle(key: ShareKey = share_key, requested: P = requested) -> R:
                message = "only brokers may send this request"
                authorize_cluster(AclOperation.CLUSTER_ACTION, ctx, message=message)
                return handle_row(key, requested)

            answer, written = ctx.node.share_states.execute(handle, share_key)
            if isinstance(answer, KafkaError):
                answer = _set_error(classes.row(requested.partition), answer)
            if written is not None:
                positions[topic.topic_id, requested.partition] = written
            # A share partition that is listed twice is handled twice; the later row is returned.
            topic_rows[requested.partition] = answer
    return rows, positions


def _set_error(row: R, error: KafkaError) -> R:
    row.error_code, row.error_message = int(error.code), error.message
    return row
