"""A broker as scripts use it, and an implementation: a cluster on virtual time, without sockets."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from kwire import headers
from kwire.codec import decode, encode
from kwire.codec_table import Codec
from kwire.messages.header import RequestHeader
from kwire.registry import codec_of_class, header_versions
from mockbroker.build import build_core
from mockbroker.cluster_options import config_dialect
from mockbroker.config.broker_config import BrokerConfig
from mockbroker.config.features import finalize_levels
from mockbroker.config.releases import choose_release
from mockbroker.engine.output import Close, Send

#: How long a response may take in the broker's own time.
RESPONSE_TIMEOUT_MS = 40_000
#: The time at which a cluster on virtual time starts.
START_MS = 1_700_000_000_000


class Connection(Protocol):
    """One connection."""

    def submit(self, request: msgspec.Struct, version: int, wire_version: int, answer: tuple[str, int] | None) -> None:
        """Send a request; `answer` is the response's name and version, None without a response."""

    def receive(self) -> tuple[msgspec.Struct | None, int]:
        """The next response, None when the connection is closed, and its duration in ms."""

    def close(self) -> None:
        """Close the connection."""


class Broker(Protocol):
    """A broker, and its clock."""

    def connect(self, client_id: str, listener: str = "PLAINTEXT") -> Connection:
        """A new connection to the listener of this name."""

    def now_ms(self) -> int:
        """The broker's time."""

    def advance(self, duration_ms: int) -> None:
        """Let time pass."""


class VirtualBroker:
    """A cluster of one node whose clock only advances while a script waits."""

    def __init__(
        self,
        properties: Mapping[str, str],
        features: tuple[str, ...] = (),
        *,
        release: str | None = None,
        share_edition: str | None = None,
        now_ms: int = START_MS,
        response_timeout_ms: int = RESPONSE_TIMEOUT_MS,
        rng: random.Random | None = None,
    ) -> None:
        release = choose_release(release, share_edition)
        self._now_ms = now_ms
        self.response_timeout_ms = response_timeout_ms
        config = BrokerConfig(properties, release=release, dialect=config_dialect(share_edition))
        unstable = config.boolean("unstable.feature.versions.enable")
        self.core = build_core(
            config=config,
            node_count=1,
            features=finalize_levels(features, release, unstable=unstable),
            topics={},
            rng=rng or random.Random(7),
            now_ms=self._now_ms,
            share_edition=share_edition,
        )
        for node in self.core.state.nodes.values():
            node.add_endpoint("PLAINTEXT", "127.0.0.1", 9092)
        self.connections: dict[int, VirtualConnection] = {}

    def connect(self, client_id: str, listener: str = "PLAINTEXT") -> VirtualConnection:
        """A new connection to the listener of this name."""
        number = self.core.connect(0, "127.0.0.1", 40_000 + len(self.connections), listener=listener)
        connection = self.connections[number] = VirtualConnection(self, number, client_id)
        return connection

    def now_ms(self) -> int:
        """The broker's time."""
        return self._now_ms

    def advance(self, duration_ms: int) -> None:
        """Let time pass."""
        self._now_ms += duration_ms
        self.core.advance(self._now_ms)
        self.deliver_output()

    def advance_to_next_event(self, until_ms: int) -> None:
        """Advance to the next event, at most to `until_ms`."""
        due_ms = self.core.next_deadline_ms()
        self.advance(max(0, min(until_ms, until_ms if due_ms is None else due_ms) - self._now_ms))

    def deliver_output(self) -> None:
        """Pass the cluster's output to the connections."""
        for output in self.core.take_output():
            connection = self.connections[output.connection_id]
            if isinstance(output, Close):
                connection.is_closed = True
                self.core.disconnect(output.connection_id, self._now_ms)
            elif isinstance(output, Send):
                connection.bodies.append(output.body)


class VirtualConnection:
    """A connection to a `VirtualBroker`."""

    def __init__(self, venue: VirtualBroker, number: int, client_id: str) -> None:
        self.broker = venue
        self.number = number
        self.client_id = client_id
        self.is_closed = False
        self.bodies: list[bytes] = []
        self._expected: list[tuple[Codec, tuple[str, int], int]] = []
        self._correlation_id = 0

    def submit(self, request: msgspec.Struct, version: int, wire_version: int, answer: tuple[str, int] | None) -> None:
        """Send a request; `answer` is the response's name and version, None without a response."""
        self._correlation_id += 1
        codec = codec_of_class(type(request))
        header = RequestHeader(codec.api_key, wire_version, self._correlation_id, self.client_id)
        frame = encode(header, header_versions(codec.api_key, version)[0]) + encode(request, version)
        if answer is not None:
            self._expected.append((codec, answer, self.broker.now_ms()))
        self.broker.core.submit(self.number, frame, self.broker.now_ms())
        self.broker.advance(0)

    def receive(self) -> tuple[msgspec.Struct | None, int]:
        """The next response, None when the connection is closed, and its duration in ms."""
        codec, (name, version), sent_ms = self._expected.pop(0)
        timeout_ms = self.broker.response_timeout_ms
        while not self.bodies and not self.is_closed:
            if self.broker.now_ms() >= sent_ms + timeout_ms:
                raise TimeoutError(f"no {name} within {timeout_ms} ms")
            self.broker.advance_to_next_event(sent_ms + timeout_ms)
        took_ms = self.broker.now_ms() - sent_ms
        if not self.bodies:
            return None, took_ms
        body = self.bodies.pop(0)
        _, body_at = headers.decode_response_header(body, codec.api_key, version, edition=codec.edition)
        message: Any = decode(name, version, memoryview(body)[body_at:], edition=codec.edition)
        return message, took_ms

    def close(self) -> None:
        """Close the connection."""
        self.broker.core.disconnect(self.number, self.broker.now_ms())
        self.broker.advance(0)
