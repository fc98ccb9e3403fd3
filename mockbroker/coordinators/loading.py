"""Asynchronous loading of the partitions of a coordinator's topic, which takes time and can be cancelled.

Source: Kafka's CoordinatorRuntime and TransactionStateManager, which load in threads of their own. Until a partition is
loaded, requests to its coordinator are refused with COORDINATOR_LOAD_IN_PROGRESS. While its log cannot be read, loading
is tried again each second; Kafka gives up until the next election.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError
from mockbroker.log.subjects import STORAGE

if TYPE_CHECKING:
    from mockbroker.cluster_services.inter_broker import InterBrokerChannel


#: The pause after a log could not be read.
_RETRY_MS = 1_000


class PartitionLoads:
    """The partitions that one node is loading; each load runs as an action of the cluster's own queue."""

    def __init__(self, channel: InterBrokerChannel[object], node_id: int) -> None:
        self._channel = channel
        self._node_id = node_id
        self._pending: dict[int, int] = {}
        self._count = 0

    def __contains__(self, shard: object) -> bool:
        return shard in self._pending

    def __bool__(self) -> bool:
        return bool(self._pending)

    def start(self, shard: int, load: Callable[[int], None], *, now_ms: int) -> None:
        """Schedule `load(now_ms)` for a later `advance`; it does not run if the load is cancelled before.

        A load that raises KAFKA_STORAGE_ERROR has changed nothing, and is repeated.
        """
        self._count += 1
        number = self._pending[shard] = self._count

        def run(at_ms: int) -> None:
            if self._pending.get(shard) != number:
                return
            del self._pending[shard]
            try:
                load(at_ms)
            except KafkaError as error:
                if error.code is not ErrorCode.KAFKA_STORAGE_ERROR:
                    raise
                template = "a coordinator cannot load partition %(partition)s, and tries again: %(error)s"
                STORAGE.warning(template, partition=shard, error=error.message)
                self._pending[shard] = number
                self._channel.schedule(_RETRY_MS, run, now_ms=at_ms, owner=self._node_id)

        delay_ms = self._channel.loading_ms(self._node_id, now_ms)
        self._channel.schedule(delay_ms, run, now_ms=now_ms, owner=self._node_id)

    def cancel(self, shard: int) -> None:
        """Stop loading a partition that another node coordinates now."""
        self._pending.pop(shard, None)

    def close(self) -> None:
        """The node has ended, or the topic was deleted: cancel all loads."""
        self._pending.clear()

    def require_finished(self, shard: int) -> None:
        """Raise COORDINATOR_LOAD_IN_PROGRESS if the partition is being loaded."""
        if shard in self._pending:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"partition {shard} is being loaded")
