"""`Broker`: a cluster without sockets for tests, with requests in, responses out, and a clock that the test moves."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from kwire import headers
from kwire.codec import decode
from kwire.registry import response_class
from mockbroker.build import build_core
from mockbroker.config.broker_config import BrokerConfig
from mockbroker.config.features import finalize_levels
from mockbroker.config.kafka_versions import VersionsOption, parse_versions
from mockbroker.config.releases import DEFAULT_RELEASE
from mockbroker.engine.output import Close, Send
from mockbroker.metadata_log.stored_cluster import StoredCluster
from mockbroker.state.metadata.cluster_image import ClusterImage, Topic
from mockbroker.state.storage.partition_log import PartitionLog

R = TypeVar("R", bound=msgspec.Struct)


class Broker:
    """Drives a `Core` on virtual time. Connections "a" and so on are created on first use, by default to node 0."""

    def __init__(
        self,
        *,
        nodes: int = 1,
        topics: Mapping[str, int] | None = None,
        config: Mapping[str, str] | None = None,
        features: tuple[str, ...] = (),
        release: str = DEFAULT_RELEASE,
        now_ms: int = 1_000_000,
        versions: VersionsOption | None = None,
        stored: StoredCluster | None = None,
    ) -> None:
        limits = None if versions is None else parse_versions(versions)
        self.core = build_core(
            config=BrokerConfig(config, release=release),
            node_count=nodes,
            features=finalize_levels(features, release, limit=limits.limit_features if limits else lambda all_: all_),
            topics=topics or {},
            rng=random.Random(1),
            now_ms=now_ms,
            versions=limits,
            stored=stored,
        )
        self.now_ms = now_ms
        for node in self.core.state.nodes.values():
            node.add_endpoint("PLAINTEXT", "127.0.0.1", 9092 + node.node_id)
        self._connections: dict[str, int] = {}
        self._expected_responses: dict[str, list[tuple[type[msgspec.Struct], int]]] = {}
        self._responses: dict[str, list[msgspec.Struct]] = {}
        self.closed: dict[str, str] = {}
        self._correlation_id = 0

    @property
    def metadata(self) -> ClusterImage:
        """The topics of the cluster."""
        return self.core.state.metadata

    def topic(self, name: str) -> Topic:
        """A topic that exists."""
        topic = self.metadata.topic(name)
        assert topic is not None
        return topic

    def leader(self, name: str, partition: int = 0) -> int:
        """The leader of a partition."""
        return self.topic(name).partitions[partition].leader

    def leader_log(self, name: str, partition: int = 0) -> PartitionLog:
        """The log of a partition at its leader."""
        return self.core.state.nodes[self.leader(name, partition)].logs.find_log(self.topic(name).topic_id, partition)

    def connect(self, name: str, *, node: int = 0, listener: str = "PLAINTEXT") -> int:
        """The number of the connection with this name, which is created if there is none."""
        if name not in self._connections:
            port = 50_000 + len(self._connections)
            self._connections[name] = self.core.connect(node, "127.0.0.1", port, listener=listener)
            self._expected_responses[name], self._responses[name] = [], []
        return self._connections[name]

    def send(self, request: msgspec.Struct, version: int, *, connection: str = "a", node: int = 0) -> None:
        """Submit a request without waiting; `take_response` returns its response."""
        number = self.connect(connection, node=node)
        self._correlation_id += 1
        frame = headers.encode_request(request, version, self._correlation_id, f"client-{connection}")
        self._expected_responses[connection].append((response_class(request.API_KEY), version))  # type: ignore[attr-defined]
        self.core.submit(number, frame, self.now_ms)
        self._collect()

    def call(
        self, request: msgspec.Struct, version: int, *, connection: str = "a", node: int = 0, settle: bool = True
    ) -> Any:
        """Submit a request and take its response; None while it is parked, or if there is none.

        settle: deliver calls between nodes afterwards, as the network server does at once.
        """
        self.send(request, version, connection=connection, node=node)
        if settle:
            self.advance(0)
        return self.take_response(connection)

    def take_response(self, connection: str = "a") -> Any:
        """Take the oldest response of a connection, or None."""
        responses = self._responses[connection]
        return responses.pop(0) if responses else None

    def advance(self, duration_ms: int) -> None:
        """Move the clock; every deadline up to the new time runs at its own time."""
        self.now_ms += duration_ms
        self.core.advance(self.now_ms)
        self._collect()

    def disconnect(self, connection: str) -> None:
        """Close a connection, as the client."""
        self.core.disconnect(self._connections.pop(connection), self.now_ms)
        self._collect()

    def stop_node(self, node_id: int) -> None:
        """Stop a broker cleanly; others load the partitions that it coordinated."""
        self.core.stop_node(node_id, self.now_ms)
        self.advance(0)

    def kill_node(self, node_id: int) -> None:
        """Kill a broker."""
        self.core.kill_node(node_id, self.now_ms)
        self._collect()

    def start_node(self, node_id: int) -> None:
        """Start a broker again, and load the partitions that it coordinates."""
        self.core.start_node(node_id, self.now_ms)
        self.advance(0)

    def pause_node(self, node_id: int) -> None:
        """Let a broker stand still."""
        self.core.pause_node(node_id, self.now_ms)
        self._collect()

    def resume_node(self, node_id: int) -> None:
        """Let a paused broker go on."""
        self.core.resume_node(node_id, self.now_ms)
        self.advance(0)

    def forget_connection(self, connection: str) -> None:
        """Create a new connection on the next use of this name: the broker has closed the old one."""
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
                cls, version = self._expected_responses[name].pop(0)
                _, body_at = headers.decode_response_header(output.body, cls.API_KEY, version)  # type: ignore[attr-defined]
                self._responses[name].append(decode(cls, version, memoryview(output.body)[body_at:]))
