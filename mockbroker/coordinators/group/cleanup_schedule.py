"""`CleanupSchedule`: when a group coordinator looks for expired offsets and groups.

Kafka does so each `offsets.retention.check.interval.ms`. Here the times are the same, from the first write on, but
those at which nothing can have expired are left out: a clock that is moved by years would pass very many of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mockbroker.state.timers import next_periodic_ms

if TYPE_CHECKING:
    from mockbroker.config.broker_config import BrokerConfig
    from mockbroker.state.timers import Timers

#: The only timer that belongs to no group.
_TIMER = ("housekeeping", None)


class CleanupSchedule:
    """The checks of one coordinator. clean_up: checks, and returns when the next check may find something, or None."""

    def __init__(self, config: BrokerConfig, timers: Timers, clean_up: Callable[[int], int | None]) -> None:
        self._config = config
        self._timers = timers
        self._clean_up = clean_up
        self._interval_ms = 0
        #: One of the times of checks, from which the others are whole intervals away; None before the first write.
        self._known_ms: int | None = None
        self._due_ms: int | None = None

    def record_write(self, now_ms: int) -> None:
        """Something was written or loaded: the next time is not left out."""
        if self._known_ms is None:
            self._interval_ms = max(1, self._config.integer("offsets.retention.check.interval.ms"))
            self._known_ms = now_ms + self._interval_ms
        if self._due_ms is None or self._due_ms > now_ms + self._interval_ms:
            self._set_due(now_ms + 1)

    def _set_due(self, from_ms: int) -> None:
        """Check at the first time of checks that is not before this time."""
        assert self._known_ms is not None
        self._due_ms = next_periodic_ms(self._known_ms, self._interval_ms, from_ms)
        self._timers.set_timer(_TIMER, self._due_ms, self._run)

    def _run(self, now_ms: int) -> None:
        self._known_ms, self._due_ms = now_ms, None
        next_ms = self._clean_up(now_ms)
        if next_ms is not None and self._due_ms is None:
            self._set_due(max(next_ms, now_ms + 1))
