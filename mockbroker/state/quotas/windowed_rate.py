"""`WindowedRate`: a rate over the newest windows of time.

Source: Rate, SampledStat and WindowedSum of Kafka 4.4.0; tests/mockbroker/state/quotas/test_windowed_rate.py has its
own numbers.
"""

from __future__ import annotations

from typing import NamedTuple

_MS_PER_S = 1000


class QuotaWindows(NamedTuple):
    """`quota.window.num` and `quota.window.size.seconds`, the latter in milliseconds."""

    window_count: int = 11
    size_ms: int = 1000

    @property
    def span_ms(self) -> int:
        """The length of all windows."""
        return self.window_count * self.size_ms


class _Sample:
    """What was recorded in one window. A window begins with a value, so windows do not follow each other at once."""

    __slots__ = ("last_ms", "started_ms", "value")

    def __init__(self, now_ms: int) -> None:
        self.reset(now_ms)

    def reset(self, now_ms: int) -> None:
        """Begin an empty window."""
        self.started_ms = self.last_ms = now_ms
        self.value = 0.0


class WindowedRate:
    """The sum of the values of the newest windows, by second of the time since the oldest of them began.

    Times are milliseconds of one clock.
    """

    __slots__ = ("_current", "_samples", "_windows")

    def __init__(self, windows: QuotaWindows) -> None:
        self._windows = windows
        # One more than the windows: the oldest one is in use as long as it overlaps the time that counts.
        self._samples: list[_Sample] = []
        self._current = 0

    def record(self, value: float, now_ms: int) -> None:
        """Add a value; a negative one takes back what was recorded."""
        if not self._samples:
            self._samples.append(_Sample(now_ms))
        sample = self._samples[self._current]
        if now_ms - sample.started_ms >= self._windows.size_ms:
            sample = self._advance(now_ms)
        sample.value += value
        sample.last_ms = now_ms

    def _advance(self, now_ms: int) -> _Sample:
        self._current = (self._current + 1) % (self._windows.window_count + 1)
        if self._current == len(self._samples):
            self._samples.append(_Sample(now_ms))
        else:
            self._samples[self._current].reset(now_ms)
        return self._samples[self._current]

    def measure(self, now_ms: int) -> float:
        """The rate by second. Windows before the first one count as empty ones."""
        window_ms = self.window_ms(now_ms)
        total = sum(sample.value for sample in self._samples)
        return total / (window_ms / _MS_PER_S)

    def window_ms(self, now_ms: int) -> int:
        """The time over which the rate is measured, at least a millisecond."""
        for sample in self._samples:
            if now_ms - sample.last_ms >= self._windows.span_ms:
                sample.reset(now_ms)
        oldest_ms = min((sample.started_ms for sample in self._samples), default=now_ms)
        elapsed_ms = now_ms - oldest_ms
        full_count = elapsed_ms // self._windows.size_ms
        missing_count = max(self._windows.window_count - 1 - full_count, 0)
        return max(elapsed_ms + missing_count * self._windows.size_ms, 1)
