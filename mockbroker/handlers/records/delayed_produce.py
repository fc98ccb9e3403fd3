"""Delayed Produce: with acks=all the response waits for the other replicas. Source: Kafka's DelayedProduce.

Where acknowledgements wait for the disk (`--fsync`), it waits for that too, also with acks=1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kwire.error_codes import ErrorCode
from mockbroker.cluster_services.cluster_services import WakeKey
from mockbroker.engine.outcome import Outcome, Park
from mockbroker.kafka_error import KafkaError
from mockbroker.state.storage.log_store import min_in_sync

if TYPE_CHECKING:
    from kwire.messages.produce import PartitionProduceResponse, ProduceRequest
    from mockbroker.engine.context import Context


class AwaitedRow(NamedTuple):
    """A row that waits until the log is on the disk up to this offset, and all replicas in sync have it if acks is -1.

    failed_sync_count: of the log when the batch was appended.
    """

    row: PartitionProduceResponse
    topic_id: bytes
    offset: int
    acks: int
    failed_sync_count: int


def reply_when_replicated(
    awaited: Sequence[AwaitedRow], answer: Callable[[Context], Outcome], request: ProduceRequest, ctx: Context
) -> Outcome:
    """Reply when all in-sync replicas have the records, or after the timeout; the records stay in either case.

    Pinned by the scenario producers_wait_for_a_dead_follower of tests/nodes.
    """
    deadline_ms = ctx.now_ms + max(request.timeout_ms, 0)
    waiting = list(awaited)

    def attempt(ctx: Context) -> Outcome:
        for awaited_row in list(waiting):
            code = _replication_result(awaited_row, ctx)
            if code is not None:
                awaited_row.row.error_code = code
                if code is ErrorCode.KAFKA_STORAGE_ERROR:
                    awaited_row.row.base_offset = -1
                waiting.remove(awaited_row)
        if waiting and ctx.now_ms < deadline_ms:
            keys: list[WakeKey] = [("log", awaited_row.topic_id, awaited_row.row.index) for awaited_row in waiting]
            return Park(deadline_ms, tuple(keys), attempt)
        for awaited_row in waiting:
            awaited_row.row.error_code = ErrorCode.REQUEST_TIMED_OUT
        return answer(ctx)

    return attempt(ctx)


def _replication_result(awaited_row: AwaitedRow, ctx: Context) -> ErrorCode | None:
    """The error code of a row, None while it has to wait."""
    try:
        log = ctx.node.logs.find_log(awaited_row.topic_id, awaited_row.row.index)
    except KafkaError as error:
        return error.code
    if log.failed_sync_count != awaited_row.failed_sync_count:
        return ErrorCode.KAFKA_STORAGE_ERROR
    if awaited_row.acks == 1:
        return ErrorCode.NONE if log.synced_offset >= awaited_row.offset else None
    if log.high_watermark < awaited_row.offset:
        return None
    topic = ctx.cluster.metadata.topic_by_id(awaited_row.topic_id)
    assert topic is not None
    partition = topic.partitions[awaited_row.row.index]
    least = min_in_sync(ctx.node.topic_config(topic.name), len(partition.replicas))
    return ErrorCode.NONE if len(partition.isr) >= least else ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
