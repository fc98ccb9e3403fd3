"""Base of the simulated clients that send a request again until its outcome is known."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import msgspec

from mockbroker.sim.simulated_cluster import SimulatedCluster

#: How often a client stops waiting for a response, and sends its request again.
_TIMEOUT_SHARE = 0.05


class RetryingClient:
    """Waits for one response at a time. name: its client id."""

    name = ""

    def __init__(self, cluster: SimulatedCluster, rng: Random) -> None:
        self._cluster = cluster
        self._rng = rng
        self._count = cluster.coverage.count
        self._waiting: int | None = None
        self._request_number = 0

    def act(self) -> str:
        """Perform the next step, unless a response is awaited."""
        if self._waiting is not None and self._rng.random() >= _TIMEOUT_SHARE:
            return f"{self.name} waits"
        self._waiting = None
        return f"{self.name} {self.step()}"

    def step(self) -> str:
        """Send the next request, or the last one again. Returns: what it does."""
        raise NotImplementedError

    def _send(self, node_id: int, request: msgspec.Struct, version: int, done: Callable[[Any], None]) -> None:
        """Send a request to a node that runs. done: gets the response, unless the client has stopped waiting."""
        if not self._cluster.is_up(node_id):
            return
        self._request_number += 1
        number = self._waiting = self._request_number

        def on_close() -> None:
            if self._waiting == number:
                self._waiting = None

        def on_response(response: msgspec.Struct) -> None:
            if self._waiting == number:
                self._waiting = None
                done(response)

        wire = self._cluster.wire
        wire.send_request(wire.connect(node_id, self.name, on_close), request, version, on_response)
