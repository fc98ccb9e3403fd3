"""Brokers behind sockets, for the raw client: any broker in real time, or the mock on a controlled clock."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from kwire.client import Client
from kwire.client.errors import ConnectionClosed
from kwire.codec import decode, encode
from mockbroker import Cluster
from mockbroker.server import Server
from tools.oracle.conversations.virtual_broker import RESPONSE_TIMEOUT_MS

#: How long, in real time, the mock may take for an immediate action.
_PATIENCE_S = 20.0
_NEVER_SET = threading.Event()  # Waiting for it lets time pass.


def wait_real_time(duration_s: float) -> None:
    """Wait in real time, for a real broker."""
    _NEVER_SET.wait(duration_s)


class RealTimeBroker:
    """Any broker, in real time; `addresses`: of its listeners, by name."""

    def __init__(self, addresses: Mapping[str, str], *, response_timeout_ms: int = RESPONSE_TIMEOUT_MS) -> None:
        self._addresses = addresses
        self._response_timeout_ms = response_timeout_ms

    def connect(self, client_id: str, listener: str = "PLAINTEXT") -> SocketConnection:
        """A new connection to the listener of this name."""
        return SocketConnection(self._addresses[listener], client_id, self.now_ms, self._response_timeout_ms)

    def now_ms(self) -> int:
        """The broker's time."""
        return time.time_ns() // 1_000_000

    def advance(self, duration_ms: int) -> None:
        """Let time pass."""
        wait_real_time(duration_ms / 1000)


class SocketConnection:
    """A connection of the raw client."""

    def __init__(
        self, bootstrap: str, client_id: str, now_ms: Callable[[], int], timeout_ms: int = RESPONSE_TIMEOUT_MS
    ) -> None:
        self._client = Client(bootstrap, client_id=client_id, negotiated=False, timeout_s=timeout_ms / 1000)
        self._now_ms = now_ms
        self._sent: list[tuple[Callable[[], msgspec.Struct], int]] = []

    def submit(self, request: msgspec.Struct, version: int, wire_version: int, answer: tuple[str, int] | None) -> None:
        """Send a request; `answer` is the response's name and version, None without a response."""
        sent_ms = self._now_ms()
        if answer is None or wire_version == version:
            pending = self._client.submit(request, version)
            if answer is not None:
                self._sent.append((pending.result, sent_ms))
            return
        # An unsupported version: the body is sent as it is, and `answer` has the version of the response.
        api_key: int = request.API_KEY  # type: ignore[attr-defined]  # Every generated request has one.
        name, answer_version = answer
        body = self._client.send_raw(api_key, wire_version, encode(request, version))
        self._sent.append((lambda: decode(name, answer_version, body), sent_ms))

    def receive(self) -> tuple[msgspec.Struct | None, int]:
        """The next response, None when the connection is closed, and its duration in ms."""
        result, sent_ms = self._sent.pop(0)
        try:
            message = result()
        except ConnectionClosed:
            return None, self._now_ms() - sent_ms
        return message, self._now_ms() - sent_ms

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


class ClockedBroker:
    """A running `Cluster` whose clock only advances while a test waits for a response or for time to pass.

    It advances only when the broker has received everything that was sent, so that a run is the same as on virtual
    time.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._connection_count = 0
        cluster.clock.freeze()

    def connect(self, client_id: str, listener: str = "PLAINTEXT") -> ClockedConnection:
        """A new connection to the listener of this name."""
        self._connection_count += 1
        address = self._cluster.run(lambda server: server.bootstrap(listener))
        return ClockedConnection(self, address, client_id, self._connection_count)

    def now_ms(self) -> int:
        """The broker's time."""
        return self._cluster.clock.now_ms()

    def advance(self, duration_ms: int) -> None:
        """Let time pass."""
        self._cluster.clock.advance(duration_ms)

    def advance_to_next_event(self, until_ms: int) -> None:
        """Advance to the next event, at most to `until_ms`."""

        def move(server: Server) -> None:
            due_ms = server.core.next_deadline_ms()
            now_ms = server.clock.now_ms()
            server.clock.advance(max(0, min(until_ms, until_ms if due_ms is None else due_ms) - now_ms))

        self._cluster.run(move)

    def is_answered(self, number: int, count: int) -> bool | None:
        """Return whether this request of the connection has its response; None before it is received."""

        def read_exchange(server: Server) -> bool | None:
            exchanges = server.core.journal.exchanges(connection_id=number)
            if len(exchanges) < count:
                return None
            exchange = exchanges[count - 1]
            return exchange.answered_ms is not None or exchange.closed is not None

        return self._cluster.run(read_exchange)

    def is_connected(self, number: int) -> bool:
        """Return whether the broker has the connection."""
        return self._cluster.run(lambda server: server.core.is_connected(number))


class ClockedConnection:
    """A connection to a `ClockedBroker`; `number` is the broker's connection id."""

    def __init__(self, venue: ClockedBroker, bootstrap: str, client_id: str, number: int) -> None:
        self._broker = venue
        self._connection = SocketConnection(bootstrap, client_id, venue.now_ms)
        self._number = number
        self._request_count = 0
        self._awaited: list[int] = []
        _wait_until(lambda: venue.is_connected(number), "the broker has accepted the connection")

    def submit(self, request: msgspec.Struct, version: int, wire_version: int, answer: tuple[str, int] | None) -> None:
        """Send a request; `answer` is the response's name and version, None without a response."""
        self._connection.submit(request, version, wire_version, answer)
        self._request_count += 1
        if not self._awaited:  # A pipelined request is handled after the response to the one before.
            self._wait_until_received(self._request_count)
        if answer is not None:
            self._awaited.append(self._request_count)

    def receive(self) -> tuple[msgspec.Struct | None, int]:
        """The next response, None when the connection is closed, and its duration in ms."""
        count = self._awaited.pop(0)
        end_ms = self._broker.now_ms() + RESPONSE_TIMEOUT_MS
        self._wait_until_received(count)
        while not self._broker.is_answered(self._number, count) and self._broker.is_connected(self._number):
            assert self._broker.now_ms() < end_ms, f"no answer within {RESPONSE_TIMEOUT_MS} ms"
            self._broker.advance_to_next_event(end_ms)
        return self._connection.receive()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
        _wait_until(lambda: not self._broker.is_connected(self._number), "the broker has closed the connection")

    def _wait_until_received(self, count: int) -> None:
        _wait_until(
            lambda: (
                self._broker.is_answered(self._number, count) is not None or not self._broker.is_connected(self._number)
            ),
            f"the broker has request {count} of connection {self._number}",
        )


def _wait_until(condition: Callable[[], Any], description: str) -> None:
    """Check repeatedly until the broker's thread has reached the condition."""
    deadline = time.monotonic() + _PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {_PATIENCE_S} s: {description}"
