"""Before the first transactional batch of a partition is written, the transaction coordinator has its say (KIP-890).

Produce and TxnOffsetCommit ask it by a message: whether the partition is in the transaction, or, for clients of
transaction.version 2, to put it there. Source: Kafka's AddPartitionsToTxnManager.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from enum import Enum, auto

from kwire.error_codes import ErrorCode
from mockbroker.context import Context
from mockbroker.handlers.transactions import Codes, add_or_verify
from mockbroker.kafka_error import KafkaError
from mockbroker.node import Node
from mockbroker.state.metadata import CoordinatorKind
from mockbroker.state.transaction import EPOCH_BUMP_SINCE, Holder, Place


class Support(Enum):
    """What a client can do, by the version of its request."""

    #: It knows nothing of TRANSACTION_ABORTABLE.
    OLD_ERRORS = auto()
    ABORTABLE_ERRORS = auto()
    #: It relies on the broker to add partitions.
    ADDS_PARTITIONS = auto()


def is_verified(support: Support, ctx: Context) -> bool:
    """Whether the coordinator is asked at all."""
    enabled = ctx.cluster.config.flag("transaction.partition.verification.enable")
    return enabled or support is Support.ADDS_PARTITIONS


def ask(
    transactional_id: str,
    holder: Holder,
    places: Sequence[Place],
    *,
    support: Support,
    done: Callable[[Codes, int], None],
    ctx: Context,
) -> None:
    """Have `done(codes, now_ms)` called with what the coordinator says of each partition."""
    metadata = ctx.cluster.metadata

    def handle(node: Node, at_ms: int) -> Codes:
        return add_or_verify(
            node,
            metadata,
            transactional_id,
            holder,
            places,
            verify_only=support is not Support.ADDS_PARTITIONS,
            version=EPOCH_BUMP_SINCE,
            now_ms=at_ms,
        )

    def translate(answer: Codes | KafkaError, at_ms: int) -> None:
        if ctx.cluster.calls.nodes.get(ctx.node.node_id) is not ctx.node:
            return  # The asking broker has died meanwhile, and writes nothing any more.
        codes = dict.fromkeys(places, answer.code) if isinstance(answer, KafkaError) else answer
        done({place: _for_producer(code, support) for place, code in codes.items()}, at_ms)

    coordinator = metadata.coordinator_for(CoordinatorKind.TRANSACTION, transactional_id)
    if coordinator < 0:
        nobody = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        ctx.cluster.calls.later(0, lambda at_ms: translate(nobody, at_ms), now_ms=ctx.now_ms)
    else:
        ctx.cluster.calls.call(to=coordinator, handle=handle, done=translate, now_ms=ctx.now_ms)


def at_time(ctx: Context, now_ms: int) -> Context:
    """The context of a request, once the answer that it waits for is there."""
    later = copy(ctx)
    later.now_ms = now_ms
    return later


def _for_producer(code: ErrorCode, support: Support) -> ErrorCode:
    """Producers expect these in place of what the coordinator says."""
    if code is ErrorCode.PRODUCER_FENCED:
        return ErrorCode.INVALID_PRODUCER_EPOCH
    if code is ErrorCode.TRANSACTION_ABORTABLE and support is Support.OLD_ERRORS:
        return ErrorCode.INVALID_TXN_STATE
    return code
