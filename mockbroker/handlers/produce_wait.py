"""A Produce with acks=all that waits for the other replicas. Source: Kafka's DelayedProduce."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.outcome import Key, Outcome, Park
from mockbroker.state.logs import min_in_sync

if TYPE_CHECKING:
    from kwire.messages.produce import ProduceRequest, ProduceResponse
    from mockbroker.context import Context
    from mockbroker.handlers.produce import Awaited


def until_replicated(
    response: ProduceResponse,
    awaited: Sequence[Awaited],
    answer: Callable[[Context], Outcome],
    request: ProduceRequest,
    ctx: Context,
) -> Outcome:
    """Answer when every replica in sync has all of it, or when the time is up; the records stay in either case.

    Pinned by the story producers_wait_for_a_dead_follower of tests/nodes.
    """
    deadline_ms = ctx.now_ms + max(request.timeout_ms, 0)
    waiting = list(awaited)

    def attempt(ctx: Context) -> Outcome:
        for one in list(waiting):
            code = _judge(one, ctx)
            if code is not None:
                one.row.error_code = code
                waiting.remove(one)
        if waiting and ctx.now_ms < deadline_ms:
            keys: list[Key] = [("log", one.topic_id, one.row.index) for one in waiting]
            return Park(deadline_ms, tuple(keys), attempt)
        for one in waiting:
            one.row.error_code = ErrorCode.REQUEST_TIMED_OUT
        return answer(ctx)

    return attempt(ctx)


def _judge(one: Awaited, ctx: Context) -> ErrorCode | None:
    """What a row says now, None as long as it has to wait."""
    try:
        log = ctx.node.logs.get(one.topic_id, one.row.index)
    except KafkaError as error:
        return error.code
    if log.high_watermark < one.offset:
        return None
    topic = ctx.cluster.metadata.topic_by_id(one.topic_id)
    assert topic is not None
    partition = topic.partitions[one.row.index]
    least = min_in_sync(ctx.cluster.configs.topic(topic.name), len(partition.replicas))
    return ErrorCode.NONE if len(partition.isr) >= least else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
