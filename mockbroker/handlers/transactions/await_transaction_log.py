"""Responses of transaction coordinators that wait until the replicas in sync have their records.

Only where followers fetch (`mockbroker.replication=real`). Source: Kafka's TransactionStateManager, which appends with
acks=all, and answers after that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kwire.error_codes import ErrorCode
from mockbroker.engine.outcome import Outcome, Park
from mockbroker.kafka_error import KafkaError

if TYPE_CHECKING:
    from mockbroker.engine.context import Context


def reply_when_recorded(outcome: Outcome, transactional_id: str, ctx: Context) -> Outcome:
    """An outcome that follows a change of a transactional id, `request.timeout.ms` later at most.

    Raises: COORDINATOR_NOT_AVAILABLE after that time, NOT_COORDINATOR when the partition has another leader, or no
    longer exists.
    """
    log = ctx.node.transaction_log
    position = log.uncommitted_position(transactional_id)
    if position is None:
        return outcome
    deadline_ms = ctx.now_ms + ctx.node.config.integer("request.timeout.ms")

    def attempt(now: Context) -> Outcome:
        if log.is_committed(position):
            return outcome
        if now.now_ms >= deadline_ms:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "too few replicas have the transaction's record")
        return Park(deadline_ms, (position.wake_key,), attempt)

    return attempt(ctx)
