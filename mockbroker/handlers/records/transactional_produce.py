"""Transactional batches of a Produce request: the first one of a partition waits for the transaction coordinator.

Source: Kafka's ReplicaManager.handleProduceAppend.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kwire.error_codes import ErrorCode
from kwire.records import Batch
from mockbroker.engine.context import Context
from mockbroker.engine.outcome import Outcome
from mockbroker.handlers.records import transaction_verification as verification
from mockbroker.handlers.records.transaction_verification import ClientSupport
from mockbroker.handlers.shared.parking import park_until
from mockbroker.handlers.transactions.transactions import PartitionCodes
from mockbroker.kafka_error import KafkaError
from mockbroker.state.metadata.topics import TopicPartitionKey
from mockbroker.state.storage.verification_guard import NO_GUARD, UnverifiedError, VerificationGuard
from mockbroker.state.transaction.transaction import ProducerIdAndEpoch, TopicPartition

VerificationResults = Mapping[TopicPartitionKey, VerificationGuard | KafkaError]

_ABORTABLE_SINCE = 11
_ADDS_SINCE = 12
#: Old clients do not retry after these; NOT_ENOUGH_REPLICAS makes them retry without a metadata refresh.
_RETRIED_AS_NOT_ENOUGH_REPLICAS = frozenset(
    {
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


def append_when_verified(
    transactional_id: str,
    batches: Mapping[tuple[str, bytes, int], Batch],
    append: Callable[[VerificationResults, Context], Outcome],
    ctx: Context,
) -> Outcome:
    """Append batches of open transactions at once, and all batches once the coordinator has responded.

    Raises: INVALID_PRODUCER_ID_MAPPING for batches of two producers.
    """
    producers = {ProducerIdAndEpoch(batch.producer_id, batch.producer_epoch) for batch in batches.values()}
    if len(producers) > 1:
        raise KafkaError(ErrorCode.INVALID_PRODUCER_ID_MAPPING, "transactional records of more than one producer")
    support = ClientSupport.of_version(ctx.api_version, _ABORTABLE_SINCE, _ADDS_SINCE)
    if not producers or not verification.is_verification_required(support, ctx):
        return append({}, ctx)
    guards = _start_verifications(batches, support, ctx)
    keys_by_partition = {
        TopicPartition(name, index): (topic_id, index)
        for name, topic_id, index in batches
        if isinstance(guards[topic_id, index], VerificationGuard) and guards[topic_id, index] is not NO_GUARD
    }
    if not keys_by_partition:
        return append(guards, ctx)
    outcomes: list[Outcome] = []
    key = ctx.new_wake_key()

    def on_done(codes: PartitionCodes, now_ms: int) -> None:
        for partition, code in codes.items():
            if code is not ErrorCode.NONE:
                guards[keys_by_partition[partition]] = _verification_error(code, support)
        outcomes.append(append(guards, verification.context_at(ctx, now_ms)))
        ctx.wake(key)

    producer = producers.pop()
    partitions = list(keys_by_partition)
    verification.verify_partitions(transactional_id, producer, partitions, support=support, on_done=on_done, ctx=ctx)
    return park_until(key, lambda _now: outcomes[0] if outcomes else None, ctx)


def _start_verifications(
    batches: Mapping[tuple[str, bytes, int], Batch], support: ClientSupport, ctx: Context
) -> dict[TopicPartitionKey, VerificationGuard | KafkaError]:
    adds = support is ClientSupport.ADDS_PARTITIONS
    guards: dict[TopicPartitionKey, VerificationGuard | KafkaError] = {}
    for (_, topic_id, index), batch in batches.items():
        try:
            log = ctx.node.logs.find_log(topic_id, index)
            guard = log.start_verification(
                batch.producer_id, batch.producer_epoch, batch.base_sequence, adds=adds, now_ms=ctx.now_ms
            )
            guards[topic_id, index] = guard
        except KafkaError as error:
            guards[topic_id, index] = error
    return guards


def _verification_error(code: ErrorCode, support: ClientSupport) -> KafkaError:
    """The error for the producer; a client that adds partitions by producing can wait for the previous transaction."""
    waits = code is ErrorCode.CONCURRENT_TRANSACTIONS and support is not ClientSupport.ADDS_PARTITIONS
    if waits or code in _RETRIED_AS_NOT_ENOUGH_REPLICAS:
        return UnverifiedError(ErrorCode.NOT_ENOUGH_REPLICAS, f"the transaction coordinator returned {code.name}")
    if code is ErrorCode.INVALID_TXN_STATE:
        return UnverifiedError(code, "the partition has not been added to the transaction")
    return KafkaError(code)
