"""`VirtualCluster`: a cluster on virtual time for the scenarios, where nothing waits and every run is the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from mockbroker.handlers import ROUTES
from tests.nodes.scenario_client import TIMEOUT_S
from tests.support.brokers.broker import Broker

_NODES = 3
#: Shortly after the timestamps of all records that are produced.
_NOW_MS = 1_700_000_001_000


class VirtualConnection:
    """A connection to a node of a `Broker`."""

    def __init__(self, broker: Broker, name: str, node: int) -> None:
        self._broker = broker
        self._name = name
        self._node = node
        broker.connect(name, node=node)
        broker.advance(0)
        self._check()

    def send(self, request: msgspec.Struct, version: int | None) -> Any:
        """Send a request, and move the clock until its response is there."""
        answer = self._post(request, version)()
        self._check()
        return answer

    def send_async(self, request: msgspec.Struct, version: int) -> Callable[[], Any]:
        """Send a request, and move the clock only when its response is requested."""
        return self._post(request, version)

    def _post(self, request: msgspec.Struct, version: int | None) -> Callable[[], Any]:
        self._check()
        if version is None:
            version = ROUTES[request.API_KEY].versions[1]  # type: ignore[attr-defined]
        self._broker.send(request, version, connection=self._name, node=self._node)

        def wait() -> Any:
            deadline_ms = self._broker.now_ms + round(TIMEOUT_S * 1000)
            self._broker.advance(0)
            while (answer := self._broker.take_response(self._name)) is None and self._name not in self._broker.closed:
                due_ms = self._broker.core.next_deadline_ms()
                assert due_ms is not None, "no answer comes"
                assert due_ms <= deadline_ms, f"no answer comes before {deadline_ms}"
                self._broker.advance(max(0, due_ms - self._broker.now_ms))
            return answer

        return wait

    def _check(self) -> None:
        if self._name in self._broker.closed:
            raise ConnectionResetError(self._broker.closed[self._name])

    def close(self) -> None:
        """Close the connection."""
        if self._name not in self._broker.closed:
            self._broker.disconnect(self._name)


class VirtualCluster:
    """Three nodes without sockets."""

    def __init__(self, config: Mapping[str, str], release: str) -> None:
        self._broker = Broker(nodes=_NODES, config=config, release=release, now_ms=_NOW_MS)
        self._connected = 0
        self.stop = self._broker.stop_node
        self.kill = self._broker.kill_node
        self.start = self._broker.start_node
        self.pause = self._broker.pause_node
        self.resume = self._broker.resume_node

    def connect(self, node: int) -> VirtualConnection:
        """A new connection to a node."""
        self._connected += 1
        return VirtualConnection(self._broker, f"{self._connected}", node)

    def pass_time(self, duration_s: float) -> None:
        """Move the clock."""
        self._broker.advance(round(duration_s * 1000))

    def now_s(self) -> float:
        """The cluster's clock."""
        return self._broker.now_ms / 1000

    def time_ms(self) -> int:
        """The cluster's clock, in milliseconds."""
        return self._broker.now_ms

    def move_leader(self, topic: str, partition: int, to: int) -> None:
        """Make another replica the leader."""
        self._broker.core.move_leader(topic, partition, self._broker.now_ms, to=to)
        self._broker.advance(0)
