"""Moves of a cluster's clock, however far: in slices of time, between which clients and signals are served."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from mockbroker.clock import Clock
    from mockbroker.engine.core import Core

#: How long deadlines run until other events are handled, seconds of the wall clock.
SLICE_S = 0.05


class TimeSlice:
    """Says when a slice of time is over. It begins with the first call after `restart`.

    rounds: how often it was asked, which `Core.advance` does once for each time at which something was due.
    """

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._until_s: float | None = None
        self.rounds = 0

    def restart(self) -> None:
        """Begin the next slice."""
        self._until_s = None

    def is_over(self) -> bool:
        """Whether other events have to be handled now."""
        self.rounds += 1
        if self._until_s is None:
            self._until_s = self._now_s() + SLICE_S
            return False
        return self._now_s() >= self._until_s


class ClockServer(Protocol):
    """What a move requires of the server. Implemented by `NetworkServer`."""

    core: Core
    clock: Clock
    is_stopped: bool

    def run_due(self) -> None:
        """Send the output, and set the timer."""


class ClockMove(NamedTuple):
    """What came of a move: how far the clock was moved, and at how many times something was due on the way."""

    moved_ms: int
    rounds: int


class ClockMoves:
    """The moves of one server's clock, one at a time. Each deadline runs at its own time and in order.

    The clock shows the time that is reached: what clients send meanwhile is handled at that time.
    """

    def __init__(self, server: ClockServer) -> None:
        self._server = server
        self._lock = asyncio.Lock()
        self._slice = TimeSlice()

    async def move(self, duration_ms: int, *, timeout_s: float) -> ClockMove:
        """Move the clock forward, as far as it comes in this time of the wall clock.

        Raises: RuntimeError if the cluster is stopped or reset on the way.
        """
        until_s = time.monotonic() + timeout_s
        async with self._lock:
            core, left_ms, first_round = self._server.core, duration_ms, self._slice.rounds
            while True:
                left_ms -= self._move_slice(left_ms)
                if left_ms <= 0 or time.monotonic() >= until_s:
                    return ClockMove(duration_ms - left_ms, self._slice.rounds - first_round)
                await asyncio.sleep(0)
                if self._server.is_stopped or self._server.core is not core:
                    end = "stopped" if self._server.is_stopped else "reset"
                    moved = f"{duration_ms - left_ms} of {duration_ms} ms"
                    raise RuntimeError(f"the cluster was {end} after its clock was moved by {moved}")

    def _move_slice(self, left_ms: int) -> int:
        """Move the clock for a slice of time. Returns: how far, milliseconds."""
        server = self._server
        core, clock = server.core, server.clock
        before_ms = clock.now_ms()
        self._slice.restart()
        core.advance(before_ms + left_ms, is_late=self._slice.is_over)
        moved_ms = min(left_ms, max(0, core.now_ms - before_ms))
        clock.advance(moved_ms)
        server.run_due()
        return moved_ms
