"""Verification of a partition by the transaction coordinator before its first transactional batch (KIP-890).

Produce and TxnOffsetCommit send it an inter-broker request: to verify that the partition is in the transaction, or, for
clients of transaction.version 2, to add it. Source: Kafka's AddPartitionsToTxnManager.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from enum import Enum, auto

from kwire.error_codes import ErrorCode
from mockbroker.broker.node import Node
from mockbroker.cluster_services.inter_broker import NotReady
from mockbroker.engine.context import Context
from mockbroker.handlers.transactions.transactions import PartitionCodes, add_or_verify_partitions
from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata.cluster_image import CoordinatorKind
from mockbroker.state.transaction.transaction import EPOCH_BUMP_SINCE, ProducerIdAndEpoch, TopicPartition


class ClientSupport(Enum):
    """What a client supports, by the version of its request."""

    #: It does not support TRANSACTION_ABORTABLE.
    OLD_ERRORS = auto()
    ABORTABLE_ERRORS = auto()
    #: It requires the broker to add partitions.
    ADDS_PARTITIONS = auto()

    @classmethod
    def of_version(cls, api_version: int, abortable_since: int, adds_since: int) -> ClientSupport:
        """The support of a request's version; the others are the first versions with each feature."""
        if api_version >= adds_since:
            return cls.ADDS_PARTITIONS
        return cls.ABORTABLE_ERRORS if api_version >= abortable_since else cls.OLD_ERRORS


def is_verification_required(support: ClientSupport, ctx: Context) -> bool:
    """Return whether a request to the coordinator is required at all."""
    enabled = ctx.cluster.configs.broker(ctx.node.node_id)["transaction.partition.verification.enable"]
    return bool(enabled) or support is ClientSupport.ADDS_PARTITIONS


def verify_partitions(
    transactional_id: str,
    producer: ProducerIdAndEpoch,
    partitions: Sequence[TopicPartition],
    *,
    support: ClientSupport,
    on_done: Callable[[PartitionCodes, int], None],
    ctx: Context,
) -> None:
    """Verify or add partitions; `done(codes, now_ms)` is called with the coordinator's code for each partition."""
    metadata = ctx.cluster.metadata
    verify_only = support is not ClientSupport.ADDS_PARTITIONS

    def handle(node: Node, at_ms: int) -> PartitionCodes:
        codes = add_or_verify_partitions(
            node,
            metadata,
            transactional_id,
            producer,
            partitions,
            verify_only=verify_only,
            version=EPOCH_BUMP_SINCE,
            now_ms=at_ms,
        )
        is_added = not verify_only and set(codes.values()) == {ErrorCode.NONE}
        if is_added and node.transaction_log.uncommitted_end(transactional_id) is not None:
            raise NotReady  # Where followers fetch. To add the partitions again has no effect.
        return codes

    def translate(answer: PartitionCodes | KafkaError, at_ms: int) -> None:
        if ctx.cluster.inter_broker.nodes.get(ctx.node.node_id) is not ctx.node:
            return  # This broker has stopped in the meantime.
        codes = dict.fromkeys(partitions, answer.code) if isinstance(answer, KafkaError) else answer
        on_done({partition: _to_producer_error(code, support) for partition, code in codes.items()}, at_ms)

    coordinator = metadata.coordinator_id(CoordinatorKind.TRANSACTION, transactional_id)
    if coordinator < 0:
        no_coordinator = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        ctx.cluster.inter_broker.schedule(0, lambda at_ms: translate(no_coordinator, at_ms), now_ms=ctx.now_ms)
    else:
        ctx.cluster.inter_broker.call(to=coordinator, handle=handle, done=translate, now_ms=ctx.now_ms)


def context_at(ctx: Context, now_ms: int) -> Context:
    """A copy of a request's context at the time of an inter-broker response."""
    later = copy(ctx)
    later.now_ms = now_ms
    return later


def _to_producer_error(code: ErrorCode, support: ClientSupport) -> ErrorCode:
    """The code that producers expect in place of the coordinator's."""
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and support is ClientSupport.OLD_ERRORS:
        return ErrorCode.INVALID_TXN_STATE
    return code
