"""Partitions of a coordinator's topic on their way into memory: loading takes a while, and may be in vain.

Source: Kafka's CoordinatorRuntime and TransactionStateManager, which load in threads of their own. Until a partition is
there, what is asked of its coordinator is refused with COORDINATOR_LOAD_IN_PROGRESS.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError

if TYPE_CHECKING:
    from mockbroker.calls import Calls


class Loading:
    """What one node loads at the moment; each partition comes by a delivery on the cluster's own queue."""

    def __init__(self, calls: Calls, node_id: int) -> None:
        self._calls = calls
        self._node_id = node_id
        self._begun: dict[int, int] = {}
        self._count = 0

    def __contains__(self, shard: object) -> bool:
        return shard in self._begun

    def __bool__(self) -> bool:
        return bool(self._begun)

    def begin(self, shard: int, load: Callable[[int], None], *, now_ms: int) -> None:
        """Have `load(now_ms)` run by a later `advance`, unless the partition is given up before."""
        self._count += 1
        number = self._begun[shard] = self._count

        def arrive(at_ms: int) -> None:
            if self._begun.get(shard) == number:
                del self._begun[shard]
                load(at_ms)

        self._calls.later(self._calls.loading_ms(self._node_id, now_ms), arrive, now_ms=now_ms)

    def give_up(self, shard: int) -> None:
        """Load a partition no more that another node coordinates now."""
        self._begun.pop(shard, None)

    def close(self) -> None:
        """The node has ended: nothing is loaded any more."""
        self._begun.clear()

    def must_be_over(self, shard: int) -> None:
        """Pass only when the partition is not being loaded.

        Raises: COORDINATOR_LOAD_IN_PROGRESS.
        """
        if shard in self._begun:
            raise KafkaError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, f"partition {shard} is being loaded")
