"""Transactional batches of a Produce: the first one of a partition waits for the coordinator's word.

Source: Kafka's ReplicaManager.handleProduceAppend.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kwire.error_codes import ErrorCode
from kwire.records import Batch
from mockbroker.context import Context
from mockbroker.handlers.transactions import Codes
from mockbroker.handlers.verification import Support, ask, at_time, is_verified
from mockbroker.kafka_error import KafkaError
from mockbroker.outcome import Outcome, Park
from mockbroker.state.transaction import Holder, Place
from mockbroker.state.verification import NO_GUARD, Guard, UnverifiedError

Guards = Mapping[tuple[bytes, int], Guard | KafkaError]

_ABORTABLE_SINCE = 11
_ADDS_SINCE = 12
#: Every message between nodes is answered in the end; this only looks again.
_LOOK_AGAIN_MS = 3_600_000
#: Old clients would not try again after these; NOT_ENOUGH_REPLICAS makes them, without a look at the metadata.
_HIDDEN = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


def verified(
    transactional_id: str,
    batches: Mapping[tuple[str, bytes, int], Batch],
    append: Callable[[Guards, Context], Outcome],
    ctx: Context,
) -> Outcome:
    """Append at once what is in an open transaction, and the rest when the coordinator has answered.

    Raises: INVALID_PRODUCER_ID_MAPPING for batches of two producers.
    """
    holders = {Holder(batch.producer_id, batch.producer_epoch) for batch in batches.values()}
    if len(holders) > 1:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "transactional records of more than one producer")
    support = _support(ctx.api_version)
    if not holders or not is_verified(support, ctx):
        return append({}, ctx)
    guards = _guards(batches, support, ctx)
    asked = {
        Place(name, index): (topic_id, index)
        for name, topic_id, index in batches
        if isinstance(guards[topic_id, index], Guard) and guards[topic_id, index] is not NO_GUARD
    }
    if not asked:
        return append(guards, ctx)
    outcomes: list[Outcome] = []
    key = ctx.new_key()

    def done(codes: Codes, now_ms: int) -> None:
        for place, code in codes.items():
            if code is not ErrorCode.NONE:
                guards[asked[place]] = _refusal(code, support)
        outcomes.append(append(guards, at_time(ctx, now_ms)))
        ctx.wake(key)

    def look(now: Context) -> Outcome:
        return outcomes[0] if outcomes else Park(now.now_ms + _LOOK_AGAIN_MS, (key,), look)

    ask(transactional_id, holders.pop(), list(asked), support=support, done=done, ctx=ctx)
    return look(ctx)


def _support(api_version: int) -> Support:
    if api_version >= _ADDS_SINCE:
        return Support.ADDS_PARTITIONS
    return Support.ABORTABLE_ERRORS if api_version >= _ABORTABLE_SINCE else Support.OLD_ERRORS


def _guards(
    batches: Mapping[tuple[str, bytes, int], Batch], support: Support, ctx: Context
) -> dict[tuple[bytes, int], Guard | KafkaError]:
    guards: dict[tuple[bytes, int], Guard | KafkaError] = {}
    for (_, topic_id, index), batch in batches.items():
        try:
            guards[topic_id, index] = ctx.node.logs.get(topic_id, index).begin_verification(
                batch.producer_id,
                batch.producer_epoch,
                batch.base_sequence,
                adds=support is Support.ADDS_PARTITIONS,
            )
        except KafkaError as error:
            guards[topic_id, index] = error
    return guards


def _refusal(code: ErrorCode, support: Support) -> KafkaError:
    """What a producer is told; a client that adds partitions by producing knows how to wait for the one before."""
    waits = code is ErrorCode.CONCURRENT_TRANSACTIONS and support is not Support.ADDS_PARTITIONS
    if waits or code in _HIDDEN:
        return UnverifiedError(ErrorCode.NOT_ENOUGH_REPLICAS, f"the transaction coordinator answers {code.name}")
    if code is ErrorCode.INVALID_TXN_STATE:
        return UnverifiedError(code, "the partition has not been added to the transaction")
    return KafkaError(code)
