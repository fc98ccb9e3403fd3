"""Acknowledgements of ShareAcknowledge and ShareFetch requests (share-semantics 3.1, 3.3 and 3.4)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from kwire.error_codes import ErrorCode
from mockbroker.cluster_services.cluster_services import WakeKey
from mockbroker.handlers.share.share_leader import drop_if_fenced, send_write
from mockbroker.handlers.shared.authorize import AclOperation, ResourceType, is_authorized
from mockbroker.state.share.acknowledgement import AcknowledgementBatch, acknowledge_records, check_structure
from mockbroker.state.share.share_partitions import wake_key
from mockbroker.state.share.share_session import PartitionKey

if TYPE_CHECKING:
    from mockbroker.engine.context import Context


class _Batch(Protocol):
    first_offset: int
    last_offset: int
    acknowledge_types: tuple[int, ...]


class _Partition(Protocol):
    partition_index: int

    @property
    def acknowledgement_batches(self) -> Sequence[_Batch]: ...


class _Topic(Protocol):
    topic_id: bytes

    @property
    def partitions(self) -> Sequence[_Partition]: ...


class AcknowledgementResult(msgspec.Struct, frozen=True, gc=False):
    """The result of a partition's acknowledgements; a message only for errors of the share partition itself."""

    code: ErrorCode
    message: str | None = None


class PendingAcknowledgements(msgspec.Struct):
    """The acknowledgements of one request, if it has any; `rows` is whole once `pending` is 0.

    key: is woken then, if writes were in progress.
    """

    group_id: str
    member_id: str
    key: WakeKey = ()
    rows: dict[PartitionKey, AcknowledgementResult] = msgspec.field(default_factory=dict)
    pending: int = 0


def read_acknowledgement_batches(topics: Iterable[_Topic]) -> dict[PartitionKey, list[AcknowledgementBatch]]:
    """The batches of each partition in a request; a partition that is listed twice is merged to one row."""
    return {
        PartitionKey(topic.topic_id, partition.partition_index): [
            AcknowledgementBatch(batch.first_offset, batch.last_offset, batch.acknowledge_types)
            for batch in partition.acknowledgement_batches
        ]
        for topic in topics
        for partition in topic.partitions
    }


def start_acknowledgements(
    ctx: Context,
    work: PendingAcknowledgements,
    batches_by_partition: dict[PartitionKey, list[AcknowledgementBatch]],
    *,
    is_renewal: bool,
) -> None:
    """Check and apply the acknowledgements of a request; the writes are in progress when this returns.

    Raises: BrokenRequestError where 4.3.0 fails the whole request.
    """
    work.key = ctx.new_wake_key()
    empty: list[PartitionKey] = []
    to_apply: dict[PartitionKey, list[AcknowledgementBatch]] = {}
    for key, batches in batches_by_partition.items():
        error = _check_partition(ctx, key, batches, is_renewal=is_renewal)
        if error is not None:
            work.rows[key] = AcknowledgementResult(error)
        elif batches:
            to_apply[key] = batches
        else:
            empty.append(key)
    for key, batches in to_apply.items():
        _acknowledge_partition(ctx, work, key, batches)
    if to_apply:  # Partitions without batches get a row only together with others (share-semantics 3.4).
        work.rows.update(dict.fromkeys(empty, AcknowledgementResult(ErrorCode.NONE)))


def _check_partition(
    ctx: Context, key: PartitionKey, batches: Sequence[AcknowledgementBatch], *, is_renewal: bool
) -> ErrorCode | None:
    topic = ctx.cluster.metadata.topic_by_id(key.topic_id)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    error = check_structure(batches, version=ctx.api_version, is_renewal=is_renewal)
    if error is not None:
        return error
    if not is_authorized(AclOperation.READ, ResourceType.TOPIC, topic.name, ctx):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic.partition(key.partition_index) is None else None


def _acknowledge_partition(
    ctx: Context, work: PendingAcknowledgements, key: PartitionKey, batches: Sequence[AcknowledgementBatch]
) -> None:
    partition = ctx.node.share_partitions.get(work.group_id, *key)
    if partition is None:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        work.rows[key] = AcknowledgementResult(code, "the share partition is not loaded on this node")
        return
    settlement = acknowledge_records(partition, work.member_id, batches, now_ms=ctx.now_ms)
    work.rows[key] = AcknowledgementResult(ErrorCode.NONE)
    if settlement.error is not None:
        work.rows[key] = AcknowledgementResult(settlement.error.code, settlement.error.message)
        drop_if_fenced(ctx.node, partition, settlement.error.code)
    elif settlement.write is not None:
        work.pending += 1
        cluster = ctx.cluster

        def written(error: ErrorCode | None) -> None:
            if error is not None:
                work.rows[key] = AcknowledgementResult(error, f"the share coordinator rejected the write: {error.name}")
            work.pending -= 1
            if work.pending == 0:
                cluster.wake(work.key)

        send_write(ctx.node, partition, settlement.write, ctx.now_ms, written)
    ctx.wake(wake_key(work.group_id, *key))
