"""`MemoryBudget`: the memory that all logs of a cluster may take together."""

from __future__ import annotations

from collections.abc import Callable

from kwire.error_codes import ErrorCode
from mockbroker.kafka_error import KafkaError

#: Bytes that a batch takes beside its own: its entries in the index (measured: 276 for a batch of one record).
BATCH_COST = 280
#: After a refusal, the next one is reported again when the logs were below this part of the limit in between.
_REPORT_AGAIN = 0.9


class MemoryFullError(KafkaError):
    """A produced batch does not fit; unlike Kafka's storage errors its message is sent."""


class MemoryBudget:
    """Bytes in use, and the limit above which produced batches are refused; None for no limit.

    Records of the broker itself (coordinators, markers) count, and are never refused. report: called with both when
    batches begin to be refused.
    """

    __slots__ = ("_is_reported", "_report", "limit", "used")

    def __init__(
        self, limit: int | None = None, report: Callable[[int, int], None] = lambda _used, _limit: None
    ) -> None:
        self.limit = limit
        self.used = 0
        self._report = report
        self._is_reported = False

    def check_space(self, size: int) -> None:
        """Refuse a batch of this size when it does not fit. Raises: MemoryFullError, KAFKA_STORAGE_ERROR."""
        if self.limit is None:
            return
        if self.used + size + BATCH_COST > self.limit:
            message = f"the logs take {self.used:,} bytes, and may take {self.limit:,} (--memory-limit)"
            if not self._is_reported:
                self._is_reported = True
                self._report(self.used, self.limit)
            raise MemoryFullError(ErrorCode.KAFKA_STORAGE_ERROR, message)
        if self._is_reported and self.used < _REPORT_AGAIN * self.limit:
            self._is_reported = False
