"""`ClusterClock`: the clock of a running cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mockbroker.cluster_methods.cluster_thread import ClusterThread

if TYPE_CHECKING:
    from mockbroker.clock import ClockMode


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

    def advance(self, duration_ms: int) -> None:
        """Move the clock forward by a duration in milliseconds."""
        self._cluster.run(lambda server: server.clock.advance(duration_ms))

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
