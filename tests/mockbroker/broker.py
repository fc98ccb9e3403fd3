"""A cluster without sockets, for tests: requests in, responses out, and a clock that the test moves."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from kwire import headers
from kwire.codec import decode
from kwire.registry import response_class
from mockbroker.build import build_core
from mockbroker.config import BrokerConfig
from mockbroker.core import Close, Send
from mockbroker.features import finalize

R = TypeVar("R", bound=msgspec.Struct)


class Broker:
    """Drives a `Core` on virtual time. Connection "a" and so on are made when first used, on node 0 unless told."""

    def __init__(
        self,
        *,
        nodes: int = 1,
        topics: Mapping[str, int] | None = None,
        config: Mapping[str, str] | None = None,
        features: tuple[str, ...] = (),
        now_ms: int = 1_000_000,
    ) -> None:
        self.core = build_core(
            config=BrokerConfig(config),
            node_count=nodes,
            features=finalize(features),
            topics=topics or {},
            rng=random.Random(1),
            now_ms=now_ms,
        )
        self.now_ms = now_ms
        for node in self.core.state.nodes.values():
            node.listen("PLAINTEXT", "127.0.0.1", 9092 + node.node_id)
        self._connections: dict[str, int] = {}
        self._asked: dict[str, list[tuple[type[msgspec.Struct], int]]] = {}
        self._answers: dict[str, list[msgspec.Struct]] = {}
        self.closed: dict[str, str] = {}
        self._correlation_id = 0

    def connect(self, name: str, *, node: int = 0, listener: str = "PLAINTEXT") -> int:
        """The number of a connection, made now if there is none of this name."""
        if name not in self._connections:
            port = 50_000 + len(self._connections)
            self._connections[name] = self.core.connect(node, "127.0.0.1", port, listener=listener)
            self._asked[name], self._answers[name] = [], []
        return self._connections[name]

    def send(self, request: msgspec.Struct, version: int, *, connection: str = "a", node: int = 0) -> None:
        """Submit a request without waiting; its answer is taken by `answer`."""
        number = self.connect(connection, node=node)
        self._correlation_id += 1
        frame = headers.encode_request(request, version, self._correlation_id, f"client-{connection}")
        self._asked[connection].append((response_class(request.API_KEY), version))  # type: ignore[attr-defined]
        self.core.submit(number, frame, self.now_ms)
        self._collect()

    def ask(
        self, request: msgspec.Struct, version: int, *, connection: str = "a", node: int = 0, settle: bool = True
    ) -> Any:
        """Submit a request and take its answer; None while it is parked, or when there is none.

        settle: let messages between nodes arrive afterwards, as the shell does at once.
        """
        self.send(request, version, connection=connection, node=node)
        if settle:
            self.advance(0)
        return self.answer(connection)

    def answer(self, connection: str = "a") -> Any:
        """The oldest answer not taken yet, or None."""
        waiting = self._answers[connection]
        return waiting.pop(0) if waiting else None

    def advance(self, duration_ms: int) -> None:
        """Move the clock; everything due on the way happens at its own time."""
        self.now_ms += duration_ms
        self.core.advance(self.now_ms)
        self._collect()

    def disconnect(self, connection: str) -> None:
        """The client hangs up."""
        self.core.disconnect(self._connections.pop(connection), self.now_ms)
        self._collect()

    def stop_node(self, node_id: int) -> None:
        """End a broker cleanly; others load what it coordinated."""
        self.core.stop_node(node_id, self.now_ms)
        self.advance(0)

    def kill_node(self, node_id: int) -> None:
        """End a broker at once."""
        self.core.kill_node(node_id, self.now_ms)
        self._collect()

    def start_node(self, node_id: int) -> None:
        """Start it again, and let it load what it coordinates."""
        self.core.start_node(node_id, self.now_ms)
        self.advance(0)

    def forget(self, connection: str) -> None:
        """Let the next use of this name be a new connection: the broker has ended the old one."""
        del self._connections[connection]

    def _collect(self) -> None:
        names = {number: name for name, number in self._connections.items()}
        for output in self.core.take_output():
            name = names.get(output.connection_id)
            if name is None:
                continue
            if isinstance(output, Close):
                self.closed[name] = output.reason
            if isinstance(output, Send):
                cls, version = self._asked[name].pop(0)
                _, body_at = headers.decode_response_header(output.body, cls.API_KEY, version)  # type: ignore[attr-defined]
                self._answers[name].append(decode(cls, version, memoryview(output.body)[body_at:]))
