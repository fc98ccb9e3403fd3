"""Connections of simulated clients: request frames into the core, responses to their callers, a hash of all bytes."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kwire import headers
from kwire.codec import decode
from mockbroker.engine.core import Core
from mockbroker.engine.output import Close, Send
from mockbroker.sim.edition_client import EditionClient, TranslatedRequest

OnResponse = Callable[[Any], None]


def ignore_response(response: msgspec.Struct) -> None:
    """Do nothing with a response."""


@dataclass(slots=True)
class _PendingRequest:
    api_key: int
    translated: TranslatedRequest
    done: OnResponse


@dataclass(slots=True)
class _ClientConnection:
    node_id: int
    client: str
    pending: deque[_PendingRequest] = field(default_factory=deque)
    on_close: Callable[[], None] = lambda: None


class Wire:
    """Drives a core as the network server does: submits frames, takes the output, disconnects closed connections.

    in_broker: the context of each call of the core.
    """

    def __init__(
        self,
        core: Core,
        dialect: EditionClient,
        in_broker: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self.core = core
        self._in_broker = in_broker
        self._dialect = dialect
        self._connections: dict[int, _ClientConnection] = {}
        self._correlation_id = 0
        self._digest = hashlib.sha256()

    @property
    def digest(self) -> str:
        """A hash of every frame so far, with its connection and time: equal for equal runs."""
        return self._digest.hexdigest()

    def connect(self, node_id: int, client: str, on_close: Callable[[], None] = lambda: None) -> int:
        """Connect to a node; `on_close` is called when the broker ends the connection."""
        number = self.core.connect(node_id, "127.0.0.1", 40_000 + self._correlation_id % 20_000)
        self._connections[number] = _ClientConnection(node_id, client, on_close=on_close)
        self._hash_bytes(number, b"connect")
        return number

    def is_waiting(self, number: int) -> bool:
        """Whether a response is pending on this connection."""
        connection = self._connections.get(number)
        return connection is not None and bool(connection.pending)

    def node_id_of(self, number: int) -> int:
        """The node of an open connection."""
        return self._connections[number].node_id

    def is_open(self, number: int) -> bool:
        """Whether the connection is open."""
        return number in self._connections

    def send_request(self, number: int, request: msgspec.Struct, version: int, done: OnResponse) -> bool:
        """Send a request; `done` gets the response, at once or later, and never when the connection ends before.

        Returns: whether it waits at the broker, which handles no request of this connection now.
        """
        connection = self._connections[number]
        api_key: int = type(request).API_KEY  # type: ignore[attr-defined]
        self._correlation_id += 1
        translated = self._dialect.translate_request(request, version)
        frame = headers.encode_request(translated.request, translated.version, self._correlation_id, connection.client)
        connection.pending.append(_PendingRequest(api_key, translated, done))
        self._hash_bytes(number, frame)
        with self._in_broker():
            return self.core.submit(number, frame, self.core.now_ms) > 0

    def disconnect(self, number: int) -> None:
        """End the connection from the client's side."""
        self._hash_bytes(number, b"hang up")
        self._connections.pop(number, None)
        with self._in_broker():
            self.core.disconnect(number, self.core.now_ms)

    def replace_core(self, core: Core) -> None:
        """Another process runs: all connections are lost, and their clients called back."""
        core.connection_count = self.core.connection_count  # Clients hold the numbers of lost connections.
        self.core = core
        lost, self._connections = self._connections, {}
        for connection in lost.values():
            connection.on_close()

    def deliver_responses(self) -> None:
        """Deliver the responses of the broker, in order."""
        with self._in_broker():
            outputs = self.core.take_output()
        for output in outputs:
            connection = self._connections.get(output.connection_id)
            if connection is None:
                continue
            if isinstance(output, Close):
                self._hash_bytes(output.connection_id, b"closed")
                del self._connections[output.connection_id]
                connection.on_close()
                with self._in_broker():
                    self.core.disconnect(output.connection_id, self.core.now_ms)
                continue
            if not isinstance(output, Send):
                continue  # A fault has left no whole frame, and so the request without an answer.
            self._hash_bytes(output.connection_id, output.body)
            pending = connection.pending.popleft()
            version = pending.translated.version
            _, body_at = headers.decode_response_header(output.body, pending.api_key, version)
            response = decode(pending.translated.response_class, version, memoryview(output.body)[body_at:])
            pending.done(pending.translated.translate_response(response))

    def _hash_bytes(self, number: int, body: bytes) -> None:
        self._digest.update(b"%d %d " % (self.core.now_ms, number))
        self._digest.update(body)
