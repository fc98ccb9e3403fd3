"""Brokers behind sockets, for the raw client: any broker in real time, or the mock on a controlled clock."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

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
        # Read without a call to the cluster's thread: frozen, it moves only by calls of this class, which wait for it.
        self._clock = cluster.run(lambda server: server.clock)

    def connect(self, client_id: str, listener: str = "PLAINTEXT") -> ClockedConnection:
        """A new connection to the listener of this name."""
        self._connection_count += 1
        address = self._cluster.run(lambda server: server.bootstrap(listener))
        return ClockedConnection(self, address, client_id, self._connection_count)

    def now_ms(self) -> int:
        """The broker's time."""
        return self._clock.now_ms()

    def advance(self, duration_ms: int) -> None:
        """Let time pass."""
        self._cluster.clock.advance(duration_ms)

    def advance_until_answered(self, number: int, count: int, end_ms: int) -> None:
        """Advance from event to event until this request of the connection has its response, or it is closed."""

        def move(server: Server) -> bool:
            if _is_answered(server, number, count) or not server.core.is_connected(number):
                return True
            now_ms, due_ms = server.clock.now_ms(), server.core.next_deadline_ms()
            assert now_ms < end_ms, f"no answer within {RESPONSE_TIMEOUT_MS} ms"
            server.clock.advance(max(0, min(end_ms, end_ms if due_ms is None else due_ms) - now_ms))
            return False

        while not self._cluster.run(move):
            pass

    def wait_until(self, condition: Callable[[Server], bool], description: str) -> None:
        """Wait until the broker has reached the condition, which is checked in its thread after each of its events."""
        self._cluster._wait(lambda _: _ConditionWait(condition, description), _PATIENCE_S)


class _ConditionWait:
    """A wait for a condition of the broker."""

    def __init__(self, condition: Callable[[Server], bool], description: str) -> None:
        self._condition = condition
        self._description = description

    def check(self, server: Server) -> bool | None:
        """True once the condition holds."""
        return self._condition(server) or None

    def expected(self) -> str:
        """The condition in words."""
        return self._description

    def seen(self, server: Server) -> str:
        """What there is instead."""
        return f"{len(server.core.journal.exchanges())} requests"


def _is_answered(server: Server, number: int, count: int) -> bool | None:
    """Return whether this request of the connection has its response; None before it is received."""
    exchanges = server.core.journal.exchanges(connection_id=number)
    if len(exchanges) < count:
        return None
    exchange = exchanges[count - 1]
    return exchange.answered_ms is not None or exchange.closed is not None


class ClockedConnection:
    """A connection to a `ClockedBroker`; `number` is the broker's connection id."""

    def __init__(self, venue: ClockedBroker, bootstrap: str, client_id: str, number: int) -> None:
        self._broker = venue
        self._connection = SocketConnection(bootstrap, client_id, venue.now_ms)
        self._number = number
        self._request_count = 0
        self._awaited: list[int] = []
        venue.wait_until(lambda server: server.core.is_connected(number), "a connection that the broker has accepted")

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
        self._broker.advance_until_answered(self._number, count, end_ms)
        return self._connection.receive()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
        self._broker.wait_until(
            lambda server: not server.core.is_connected(self._number), "a connection that the broker has closed"
        )

    def _wait_until_received(self, count: int) -> None:
        def is_received(server: Server) -> bool:
            return _is_answered(server, self._number, count) is not None or not server.core.is_connected(self._number)

        self._broker.wait_until(is_received, f"request {count} of connection {self._number}")
