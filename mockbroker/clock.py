"""The cluster's clock: wall time, plus what a test has moved it by."""

from __future__ import annotations

import time


class Clock:
    """Milliseconds since 1970, as the cluster counts them; moved forward by hand, or held still.

    Only the shell reads it; everything below is told the time (law 3).
    """

    def __init__(self) -> None:
        # Differences come from the monotonic clock, so that a step of the system's clock is no step of ours.
        self._base_ns = time.time_ns() - time.monotonic_ns()
        self._moved_ms = 0
        self._frozen_at: int | None = None

    def now_ms(self) -> int:
        """The time now."""
        if self._frozen_at is not None:
            return self._frozen_at
        return self._wall_ms() + self._moved_ms

    def advance(self, duration_ms: int) -> None:
        """Move the clock forward; a frozen clock stays frozen, later."""
        if duration_ms < 0:
            raise ValueError(f"the clock does not go back: advance({duration_ms})")
        if self._frozen_at is not None:
            self._frozen_at += duration_ms
        else:
            self._moved_ms += duration_ms

    def freeze(self) -> None:
        """Hold the clock still; only `advance` moves it from here."""
        if self._frozen_at is None:
            self._frozen_at = self.now_ms()

    def thaw(self) -> None:
        """Let the clock run again, from where it stands."""
        if self._frozen_at is not None:
            self._moved_ms = self._frozen_at - self._wall_ms()
            self._frozen_at = None

    @property
    def frozen(self) -> bool:
        """Whether the clock is held still."""
        return self._frozen_at is not None

    def _wall_ms(self) -> int:
        return (self._base_ns + time.monotonic_ns()) // 1_000_000
