"""Responses that wait until the records that they depend on are on all in-sync replicas.

A group coordinator appends to its own replica and continues; the response is sent when the high watermark has passed
all records written until then. Source: Kafka's CoordinatorRuntime and CoordinatorOperationExceptionHelper.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Protocol, TypeVar

import msgspec

from kwire.error_codes import ErrorCode
from mockbroker.engine.context import Context
from mockbroker.engine.outcome import Outcome, Park, Reply
from mockbroker.kafka_error import KafkaError
from mockbroker.state.settings import read_int


class _OfGroup(Protocol):
    group_id: str


R = TypeVar("R", bound=_OfGroup)
Handler = Callable[[R, Context], Outcome]


def await_replication(handler: Handler[R]) -> Handler[R]:
    """Make a handler's response wait for the group's partition, `offsets.commit.timeout.ms` at most.

    After that it is COORDINATOR_NOT_AVAILABLE; the records stay, and take effect when the replicas are back.
    """

    @wraps(handler)
    def handle(request: R, ctx: Context) -> Outcome:
        return _reply_after_replication(handler(request, ctx), request.group_id, ctx)

    return handle


def _reply_after_replication(outcome: Outcome, group_id: str, ctx: Context) -> Outcome:
    if isinstance(outcome, Reply):
        if ctx.node.group_log.uncommitted_position(group_id) is None:
            return outcome
        return after_replication(group_id, ctx, lambda _now: outcome)
    if isinstance(outcome, Park):
        resume = outcome.resume
        return Park(
            outcome.deadline_ms, outcome.wakes_on, lambda now: _reply_after_replication(resume(now), group_id, now)
        )
    return outcome


def after_replication(
    group_id: str,
    ctx: Context,
    go_on: Callable[[Context], Outcome],
    refuse: Callable[[KafkaError], Outcome] | None = None,
) -> Outcome:
    """Continue once all records of the group's partition until now are replicated.

    refuse: builds the response to COORDINATOR_NOT_AVAILABLE after the timeout, and to NOT_COORDINATOR when the
    partition
    moves meanwhile; without it they are raised.
    """
    position = ctx.node.group_log.uncommitted_position(group_id)
    if position is None:
        return go_on(ctx)
    deadline_ms = ctx.now_ms + read_int(ctx.node.config, "offsets.commit.timeout.ms")
    key = ("log", position.topic_id, position.shard)

    def attempt(now: Context) -> Outcome:
        try:
            is_over = now.node.group_log.is_committed(position)
            if not is_over and now.now_ms >= deadline_ms:
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        except KafkaError as error:
            if refuse is None:
                raise
            return refuse(error)
        return go_on(now) if is_over else Park(deadline_ms, (key,), attempt)

    return attempt(ctx)


def combine_outcomes(
    outcomes: Sequence[Outcome], ctx: Context, join: Callable[[list[msgspec.Struct]], msgspec.Struct]
) -> Outcome:
    """One response from several outcomes, which may have to wait; `join` builds it once all are there."""
    parks = [outcome for outcome in outcomes if isinstance(outcome, Park)]
    if not parks:
        return Reply(join([outcome.response for outcome in outcomes if isinstance(outcome, Reply)]))
    keys = dict.fromkeys(key for park in parks for key in park.wakes_on)

    def attempt(now: Context) -> Outcome:
        resumed = [outcome.resume(now) if isinstance(outcome, Park) else outcome for outcome in outcomes]
        return combine_outcomes(resumed, now, join)

    return Park(min(park.deadline_ms for park in parks), tuple(keys), attempt)
