"""`TokenBucket`: credits that are refilled at the rate of a quota, with a limit.

Source: TokenBucket of Kafka 4.4.0 (KIP-599), which limits mutations of the controller.
"""

from __future__ import annotations

from mockbroker.state.quotas.windowed_rate import QuotaWindows

_MS_PER_S = 1000


class TokenBucket:
    """Credits of one client. The bucket is full at first, and holds what the quota allows in all windows."""

    __slots__ = ("_tokens", "_updated_ms", "_windows")

    def __init__(self, windows: QuotaWindows) -> None:
        self._windows = windows
        self._tokens = 0.0
        # The time since 1970 has filled it.
        self._updated_ms = 0

    def record(self, value: float, quota: float, now_ms: int) -> None:
        """Take so many credits; fewer than none are left if there were not enough."""
        self.measure(quota, now_ms)
        self._tokens = min(self._burst(quota), self._tokens - value)

    def measure(self, quota: float, now_ms: int) -> float:
        """The credits at this time. quota: credits by second."""
        refilled = self._tokens + quota * ((now_ms - self._updated_ms) / _MS_PER_S)
        self._tokens = min(self._burst(quota), refilled)
        self._updated_ms = now_ms
        return self._tokens

    def _burst(self, quota: float) -> float:
        return self._windows.window_count * (self._windows.size_ms / _MS_PER_S) * quota
