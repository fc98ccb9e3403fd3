"""`ClusterClock`: the clock of a running cluster."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from mockbroker.cluster_methods.cluster_thread import ClusterThread
from mockbroker.cluster_methods.waiting import WaitTimeout

if TYPE_CHECKING:
    from mockbroker.clock import ClockMode
    from mockbroker.server import Server

#: A hundred years, the longest move.
MOVE_MS_MAX = 100 * 365 * 24 * 3_600_000
#: The default limit of a move, seconds of the wall clock.
MOVE_TIMEOUT_S = 30.0


class ClusterClock:
    """The clock of a running cluster: moving it runs every deadline up to the new time, before the call returns."""

    def __init__(self, cluster: ClusterThread) -> None:
        self._cluster = cluster

    def now_ms(self) -> int:
        """Milliseconds since 1970, by the cluster's clock."""
        return self._cluster._read(lambda server: server.clock.now_ms())

    @property
    def mode(self) -> ClockMode:
        """How it moves: "running" as the wall clock, "frozen" by `advance` only, or "auto"."""
        return self._cluster._read(lambda server: server.clock.mode)

    def advance(self, duration_ms: int, *, timeout_s: float = MOVE_TIMEOUT_S) -> None:
        """Move the clock forward by a duration in milliseconds, at most a hundred years at once.

        timeout_s: of the wall clock, for all the deadlines on the way; clients are served meanwhile.
        Raises: WaitTimeout, which says how far the clock came, and where it stays; RuntimeError if the cluster is
        stopped or reset meanwhile; ValueError for another duration.
        """
        self._cluster._await(_move(self._cluster._running(), duration_ms, timeout_s), timeout_s + MOVE_TIMEOUT_S)

    def freeze(self) -> None:
        """Freeze the clock: only `advance` moves it, and a test gets the same times in each run."""
        self._cluster.run(lambda server: server.clock.freeze())

    def auto(self, *, settle_ms: int = 10) -> None:
        """Let the clock run, and jump to the next deadline that clients wait for whenever all of them wait.

        All clients wait if no request has arrived and no answer was sent for `settle_ms` of the wall clock. They wait
        for a deadline if a request of theirs is parked (a long poll, an answer that is delayed), or a first rebalance
        waits for more members. On the way every other deadline runs at its own time; only the session and rebalance
        timeouts of group members stay as far away as they were, since clients send heartbeats by their own clocks.
        """
        self._cluster.run(lambda server: server.clock.start_auto(settle_ms))

    def thaw(self) -> None:
        """Let the clock run as the wall clock again, after `freeze` or `auto`."""
        self._cluster.run(lambda server: server.clock.thaw())


class AsyncClock:
    """Moves of the clock as coroutines for asyncio."""

    def __init__(self, cluster: ClusterThread) -> None:
        self._clock_thread = cluster

    async def advance_clock(self, duration_ms: int, *, timeout_s: float = MOVE_TIMEOUT_S) -> None:
        """As `Cluster.clock.advance`. A cancelled call leaves the clock where it is."""
        cluster = self._clock_thread
        move = _move(cluster._running(), duration_ms, timeout_s)
        assert cluster._loop is not None
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(move, cluster._loop))


async def _move(server: Server, duration_ms: int, timeout_s: float) -> None:
    if not 0 <= duration_ms <= MOVE_MS_MAX:
        why = "the clock cannot go back" if duration_ms < 0 else f"the clock moves by at most {MOVE_MS_MAX} ms at once"
        raise ValueError(f"{why}: advance({duration_ms})")
    if timeout_s < 0:
        raise ValueError(f"timeout_s: {timeout_s}; a move lasts 0 or more seconds")
    move = await server.require_started().clock_moves.move(duration_ms, timeout_s=timeout_s)
    if move.moved_ms < duration_ms:
        seen = f"it was moved by {move.moved_ms} ms, with deadlines at {move.rounds} times, and stays there"
        raise WaitTimeout(f"the clock was not moved by {duration_ms} ms within {timeout_s:g} s: {seen}", seen)
