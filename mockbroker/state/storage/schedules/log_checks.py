"""Periodic checks of logs, which run only at the times when one of the logs is due."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from mockbroker.state.metadata.topics import TopicPartitionKey
from mockbroker.state.timers import next_periodic_ms

if TYPE_CHECKING:
    from mockbroker.state.storage.partition_log import PartitionLog

_NO_LOGS: tuple[TopicPartitionKey, ...] = ()


class FoundLog(NamedTuple):
    """A log with its topic, and the broker whose settings apply to it; None without one."""

    topic_name: str
    log: PartitionLog
    node_id: int | None


#: Finds the log of a partition; None when the topic is deleted.
FindLog = Callable[[TopicPartitionKey], FoundLog | None]


class PeriodicCheck(msgspec.Struct):
    """A periodic check: every `interval_ms` from `first_ms` on, of the logs that have a due time."""

    first_ms: int
    interval_ms: int
    due_ms_by_log: dict[TopicPartitionKey, int]
    next_ms: int | None = None
    last_ms: int = -1

    def set_due(self, key: TopicPartitionKey, due_ms: int | None, now_ms: int) -> None:
        """Set the time when a log is due, 0 for the next check, or None.

        A check that is no longer needed still runs, and finds nothing to do, unless no log is due at any time.
        """
        if due_ms is None:
            self.due_ms_by_log.pop(key, None)
            if not self.due_ms_by_log:
                self.next_ms = None
            return
        self.due_ms_by_log[key] = due_ms
        at_ms = self._next_check_at(max(due_ms, now_ms, self.last_ms + 1))
        self.next_ms = at_ms if self.next_ms is None else min(self.next_ms, at_ms)

    def take_due_logs(self, now_ms: int) -> Sequence[TopicPartitionKey]:
        """Return the logs that are due, if it is time for a check."""
        if self.next_ms is None or self.next_ms > now_ms:
            return _NO_LOGS
        self.next_ms, self.last_ms = None, now_ms
        due_logs = [key for key, due_ms in self.due_ms_by_log.items() if due_ms <= now_ms]
        next_due_ms = min((due_ms for due_ms in self.due_ms_by_log.values() if due_ms > now_ms), default=None)
        if next_due_ms is not None:
            self.next_ms = self._next_check_at(next_due_ms)
        return due_logs

    def _next_check_at(self, time_ms: int) -> int:
        return next_periodic_ms(self.first_ms, self.interval_ms, time_ms)
