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

    Raises: COORDINATOR_NOT_AVAILABLE after that time, NOT_COORDINATOR when the partition has another leader.
    """
    log = ctx.node.transaction_log
    end = log.uncommitted_end(transactional_id)
    if end is None:
        return outcome
    deadline_ms = ctx.now_ms + ctx.node.config.integer("request.timeout.ms")
    key = log.wake_key(transactional_id)

    def attempt(now: Context) -> Outcome:
        if log.is_committed(transactional_id, end):
            return outcome
        if now.now_ms >= deadline_ms:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE, "too few replicas have the transaction's record")
        return Park(deadline_ms, (key,), attempt)

    return attempt(ctx)
