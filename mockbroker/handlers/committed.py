"""Answers that wait until what they tell of is on all replicas in sync.

A group coordinator writes to its own replica and goes on; the answer leaves when the high watermark has passed what was
written, by this request or any before it. Source: Kafka's CoordinatorRuntime and CoordinatorOperationExceptionHelper.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Protocol, TypeVar

from kwire.error_codes import ErrorCode
from mockbroker.context import Context
from mockbroker.kafka_error import KafkaError
from mockbroker.outcome import Outcome, Park, Reply
from mockbroker.state.group_kinds import number


class _OfGroup(Protocol):
    group_id: str


R = TypeVar("R", bound=_OfGroup)
Handler = Callable[[R, Context], Outcome]


def answer_when_committed(handler: Handler[R]) -> Handler[R]:
    """Have a handler's answer wait for the records of the group's partition, `offsets.commit.timeout.ms` at most.

    After that it is COORDINATOR_NOT_AVAILABLE; what was written stays, and counts when the replicas are back.
    """

    @wraps(handler)
    def handle(request: R, ctx: Context) -> Outcome:
        return _once_committed(handler(request, ctx), request.group_id, ctx)

    return handle


def _once_committed(outcome: Outcome, group_id: str, ctx: Context) -> Outcome:
    if isinstance(outcome, Park):
        resume = outcome.resume
        return Park(outcome.deadline_ms, outcome.wakes_on, lambda now: _once_committed(resume(now), group_id, now))
    place = ctx.node.group_log.uncommitted(group_id)
    if place is None or not isinstance(outcome, Reply):
        return outcome
    deadline_ms = ctx.now_ms + number(ctx.cluster.config, "offsets.commit.timeout.ms")
    key = ("log", place.topic_id, place.shard)

    def look(now: Context) -> Outcome:
        if now.node.group_log.is_committed(place):
            return outcome
        if now.now_ms >= deadline_ms:
            raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return Park(deadline_ms, (key,), look)

    return look(ctx)
