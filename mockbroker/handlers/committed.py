"""Answers that wait until what they tell of is on all replicas in sync.

A group coordinator writes to its own replica and goes on; the answer leaves when the high watermark has passed what was
written, by this request or any before it. Source: Kafka's CoordinatorRuntime and CoordinatorOperationExceptionHelper.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Protocol, TypeVar

import msgspec

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
    return once_committed(group_id, ctx, lambda _now: outcome) if isinstance(outcome, Reply) else outcome


def once_committed(
    group_id: str,
    ctx: Context,
    go_on: Callable[[Context], Outcome],
    refuse: Callable[[KafkaError], Outcome] | None = None,
) -> Outcome:
    """Go on once all that was written to the group's partition until now is committed.

    refuse: makes the answer of COORDINATOR_NOT_AVAILABLE when that takes too long, and of NOT_COORDINATOR when the
    partition is lost meanwhile; without it they are raised.
    """
    place = ctx.node.group_log.uncommitted(group_id)
    if place is None:
        return go_on(ctx)
    deadline_ms = ctx.now_ms + number(ctx.cluster.config, "offsets.commit.timeout.ms")
    key = ("log", place.topic_id, place.shard)

    def look(now: Context) -> Outcome:
        try:
            is_over = now.node.group_log.is_committed(place)
            if not is_over and now.now_ms >= deadline_ms:
                raise KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        except KafkaError as error:
            if refuse is None:
                raise
            return refuse(error)
        return go_on(now) if is_over else Park(deadline_ms, (key,), look)

    return look(ctx)


def together(
    outcomes: Sequence[Outcome], ctx: Context, join: Callable[[list[msgspec.Struct]], msgspec.Struct]
) -> Outcome:
    """One answer of several that may have to wait, each for its own; `join` makes it once all are there."""
    parks = [outcome for outcome in outcomes if isinstance(outcome, Park)]
    if not parks:
        return Reply(join([outcome.response for outcome in outcomes if isinstance(outcome, Reply)]))
    keys = dict.fromkeys(key for park in parks for key in park.wakes_on)

    def look(now: Context) -> Outcome:
        gone_on = [outcome.resume(now) if isinstance(outcome, Park) else outcome for outcome in outcomes]
        return together(gone_on, now, join)

    return Park(min(park.deadline_ms for park in parks), tuple(keys), look)
