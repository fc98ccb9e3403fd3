"""The clock of a cluster: wall-clock time plus an offset that tests advance, or frozen."""

from __future__ import annotations

import time
from typing import Literal

#: As the wall clock; only by `advance`; or also by jumps to the next deadline that clients wait for.
ClockMode = Literal["running", "frozen", "auto"]


class Clock:
    """Milliseconds since 1970 by the cluster's clock, which can be advanced and frozen.

    Only the network layer reads it; all other code receives the time as an argument.
    """

    def __init__(self) -> None:
        # Differences come from the monotonic clock, so that a step of the system clock does not move this one.
        self._base_ns = time.time_ns() - time.monotonic_ns()
        #: How far it was moved from the wall clock, when it last ran.
        self.moved_ms = 0
        self._frozen_at: int | None = None
        #: How long no request may arrive before the clock jumps, milliseconds of the wall clock; None: it does not.
        self.auto_settle_ms: int | None = None

    def now_ms(self) -> int:
        """The current time."""
        if self._frozen_at is not None:
            return self._frozen_at
        return (self._base_ns + time.monotonic_ns()) // 1_000_000 + self.moved_ms

    def advance(self, duration_ms: int) -> None:
        """Move the clock forward; a frozen clock stays frozen at the later time."""
        if duration_ms < 0:
            raise ValueError(f"the clock cannot go back: advance({duration_ms})")
        if self._frozen_at is not None:
            self._frozen_at += duration_ms
        else:
            self.moved_ms += duration_ms

    def freeze(self) -> None:
        """Freeze the clock; only `advance` moves it from now on."""
        self.auto_settle_ms = None
        if self._frozen_at is None:
            self._frozen_at = self.now_ms()

    def thaw(self) -> None:
        """Let a frozen or jumping clock run as the wall clock, from its current time."""
        self.auto_settle_ms = None
        if self._frozen_at is not None:
            self.moved_ms = self._frozen_at - self._wall_ms()
            self._frozen_at = None

    def start_auto(self, settle_ms: int) -> None:
        """Let the clock run, and jump to the next deadline that clients wait for, whenever all of them wait.

        All wait if no request has arrived and no answer was sent for `settle_ms` of the wall clock. The network server
        jumps. Raises: ValueError for a negative time.
        """
        if settle_ms < 0:
            raise ValueError(f"settle_ms: {settle_ms}; expected 0 or more")
        self.thaw()
        self.auto_settle_ms = settle_ms

    @property
    def mode(self) -> ClockMode:
        """How the clock moves."""
        return "frozen" if self.is_frozen else "running" if self.auto_settle_ms is None else "auto"

    @property
    def is_frozen(self) -> bool:
        """Whether the clock is frozen."""
        return self._frozen_at is not None

    def _wall_ms(self) -> int:
        return (self._base_ns + time.monotonic_ns()) // 1_000_000
