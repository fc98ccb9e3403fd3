"""`ClusterClock`: the clock of a running cluster."""

from __future__ import annotations

from mockbroker.cluster_methods.cluster_thread import ClusterThread


class ClusterClock:
    """The clock of a running cluster: moving it runs every deadline up to the new time, before the call returns."""

    def __init__(self, cluster: ClusterThread) -> None:
        self._cluster = cluster

    def now_ms(self) -> int:
        """Milliseconds since 1970, by the cluster's clock."""
        return self._cluster._read(lambda server: server.clock.now_ms())

    def advance(self, duration_ms: int) -> None:
        """Move the clock forward by a duration in milliseconds."""
        self._cluster.run(lambda server: server.clock.advance(duration_ms))

    def freeze(self) -> None:
        """Freeze the clock: only `advance` moves it, and a test gets the same times in each run."""
        self._cluster.run(lambda server: server.clock.freeze())

    def thaw(self) -> None:
        """Let the clock run again."""
        self._cluster.run(lambda server: server.clock.thaw())
