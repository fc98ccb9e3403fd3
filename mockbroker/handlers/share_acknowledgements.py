"""Acknowledgements on their way, whether they came alone or with a fetch (share-semantics 3.1, 3.3 and 3.4)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kwire.error_codes import ErrorCode
from mockbroker.handlers.share_leader import drop_if_fenced, send_write
from mockbroker.outcome import Key
from mockbroker.security.authorize import Operation, ResourceType, may
from mockbroker.state.acknowledgement import AcknowledgementBatch, acknowledge, check_structure
from mockbroker.state.share_partitions import wake_key
from mockbroker.state.share_session import PartitionKey

if TYPE_CHECKING:
    from mockbroker.context import Context


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


class AckRow(NamedTuple):
    """How a partition's acknowledgements went; a message only where the share partition itself refused."""

    code: ErrorCode
    message: str | None = None


@dataclass(slots=True)
class Acknowledgements:
    """The acknowledgements of one request; `rows` is whole once `pending` is 0, and `key` is woken then."""

    group_id: str
    member_id: str
    key: Key
    rows: dict[PartitionKey, AckRow] = field(default_factory=dict)
    pending: int = 0


def listed(topics: Iterable[_Topic]) -> dict[PartitionKey, list[AcknowledgementBatch]]:
    """What a request says of each partition; of one that is listed twice the last word counts (correction 17)."""
    return {
        PartitionKey(topic.topic_id, partition.partition_index): [
            AcknowledgementBatch(batch.first_offset, batch.last_offset, batch.acknowledge_types)
            for batch in partition.acknowledgement_batches
        ]
        for topic in topics
        for partition in topic.partitions
    }


def begin(
    ctx: Context,
    group_id: str,
    member_id: str,
    batches_by_partition: dict[PartitionKey, list[AcknowledgementBatch]],
    *,
    is_renewal: bool,
) -> Acknowledgements:
    """Check and settle what a request acknowledges; the writes are under way when this returns.

    Raises: BrokenRequestError where 4.3.0 fails the whole request.
    """
    work = Acknowledgements(group_id, member_id, ctx.new_key())
    empty: list[PartitionKey] = []
    to_settle: dict[PartitionKey, list[AcknowledgementBatch]] = {}
    for key, batches in batches_by_partition.items():
        error = _refusal(ctx, key, batches, is_renewal=is_renewal)
        if error is not None:
            work.rows[key] = AckRow(error)
        elif batches:
            to_settle[key] = batches
        else:
            empty.append(key)
    for key, batches in to_settle.items():
        _settle(ctx, work, key, batches)
    if to_settle:  # Partitions without batches get a row only beside others that were settled (share-semantics 3.4).
        work.rows.update(dict.fromkeys(empty, AckRow(ErrorCode.NONE)))
    return work


def _refusal(
    ctx: Context, key: PartitionKey, batches: Sequence[AcknowledgementBatch], *, is_renewal: bool
) -> ErrorCode | None:
    topic = ctx.cluster.metadata.topic_by_id(key.topic_id)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_ID
    error = check_structure(batches, version=ctx.api_version, is_renewal=is_renewal)
    if error is not None:
        return error
    if not may(Operation.READ, ResourceType.TOPIC, topic.name, ctx):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if topic.partition(key.partition_index) is None else None


def _settle(ctx: Context, work: Acknowledgements, key: PartitionKey, batches: Sequence[AcknowledgementBatch]) -> None:
    partition = ctx.node.share_partitions.get(work.group_id, *key)
    if partition is None:
        code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        work.rows[key] = AckRow(code, "the share partition is not loaded on this node")
        return
    settlement = acknowledge(partition, work.member_id, batches, now_ms=ctx.now_ms)
    work.rows[key] = AckRow(ErrorCode.NONE)
    if settlement.error is not None:
        work.rows[key] = AckRow(settlement.error.code, settlement.error.message)
        drop_if_fenced(ctx.node, partition, settlement.error.code)
    elif settlement.write is not None:
        work.pending += 1
        cluster = ctx.cluster

        def written(error: ErrorCode | None) -> None:
            if error is not None:
                work.rows[key] = AckRow(error, f"the share coordinator refused the write: {error.name}")
            work.pending -= 1
            if work.pending == 0:
                cluster.wake(work.key)

        send_write(ctx.node, settlement.write, ctx.now_ms, written)
    ctx.wake(wake_key(work.group_id, *key))
