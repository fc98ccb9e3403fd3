"""Conversations through sockets, by the raw client: any broker in real time, or ours on a clock that is moved."""

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
from tests.conversations.venues import ANSWER_MS

#: How long, in real time, a broker of ours may take for what it does at once.
_PATIENCE_S = 20.0
_WALL = threading.Event()  # Never set: to wait for it is to let time pass.


def let_pass(duration_s: float) -> None:
    """Let real time pass, which a real broker needs."""
    _WALL.wait(duration_s)


class WallVenue:
    """Any broker, in real time; `addresses` are those of its listeners, by their names."""

    def __init__(self, addresses: Mapping[str, str]) -> None:
        self._addresses = addresses

    def connect(self, client_id: str, listener: str = "PLAINTEXT") -> SocketLine:
        return SocketLine(self._addresses[listener], client_id, self.now_ms)

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def sleep(self, duration_ms: int) -> None:
        let_pass(duration_ms / 1000)


class SocketLine:
    """A connection of the raw client."""

    def __init__(self, bootstrap: str, client_id: str, now_ms: Callable[[], int]) -> None:
        self._client = Client(bootstrap, client_id=client_id, negotiated=False, timeout_s=ANSWER_MS / 1000)
        self._now_ms = now_ms
        self._sent: list[tuple[Callable[[], msgspec.Struct], int]] = []

    def submit(self, request: msgspec.Struct, version: int, wire_version: int, answer: tuple[str, int] | None) -> None:
        sent_ms = self._now_ms()
        if answer is None or wire_version == version:
            pending = self._client.submit(request, version)
            if answer is not None:
                self._sent.append((pending.result, sent_ms))
            return
        # A version that is none: the body goes out as it is, and its answer says in which version it can be read.
        api_key: int = request.API_KEY  # type: ignore[attr-defined]  # Every generated request has one.
        name, answer_version = answer
        body = self._client.send_raw(api_key, wire_version, encode(request, version))
        self._sent.append((lambda: decode(name, answer_version, body), sent_ms))

    def receive(self) -> tuple[msgspec.Struct | None, int]:
        result, sent_ms = self._sent.pop(0)
        try:
            message = result()
        except ConnectionClosed:
            return None, self._now_ms() - sent_ms
        return message, self._now_ms() - sent_ms

    def close(self) -> None:
        self._client.close()


class MovedVenue:
    """A running `Cluster` whose clock stands still until somebody waits, for an answer or for time to pass.

    It moves only when the broker has taken in all that was sent, so that a run goes as it does on virtual time.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._lines = 0
        cluster.clock.freeze()

    def connect(self, client_id: str, listener: str = "PLAINTEXT") -> MovedLine:
        self._lines += 1
        address = self._cluster.run(lambda server: server.bootstrap(listener))
        return MovedLine(self, address, client_id, self._lines)

    def now_ms(self) -> int:
        return self._cluster.clock.now_ms()

    def sleep(self, duration_ms: int) -> None:
        self._cluster.clock.advance(duration_ms)

    def step(self, until_ms: int) -> None:
        """Move on to the next thing that happens, no further than `until_ms`."""

        def move(server: Server) -> None:
            due_ms = server.core.next_deadline_ms()
            now_ms = server.clock.now_ms()
            server.clock.advance(max(0, min(until_ms, until_ms if due_ms is None else due_ms) - now_ms))

        self._cluster.run(move)

    def is_answered(self, number: int, count: int) -> bool | None:
        """Whether the connection's request of this count has its answer; None while it has not come in."""

        def look(server: Server) -> bool | None:
            exchanges = server.core.journal.exchanges(connection_id=number)
            if len(exchanges) < count:
                return None
            exchange = exchanges[count - 1]
            return exchange.answered_ms is not None or exchange.closed is not None

        return self._cluster.run(look)

    def is_connected(self, number: int) -> bool:
        """Whether the broker has the connection."""
        return self._cluster.run(lambda server: server.core.is_connected(number))


class MovedLine:
    """A connection to a `MovedVenue`; `number` is the broker's own for it."""

    def __init__(self, venue: MovedVenue, bootstrap: str, client_id: str, number: int) -> None:
        self._venue = venue
        self._line = SocketLine(bootstrap, client_id, venue.now_ms)
        self._number = number
        self._asked = 0
        self._open: list[int] = []
        _until(lambda: venue.is_connected(number), "the broker knows the connection")

    def submit(self, request: msgspec.Struct, version: int, wire_version: int, answer: tuple[str, int] | None) -> None:
        self._line.submit(request, version, wire_version, answer)
        self._asked += 1
        if not self._open:  # One that follows another is taken in when that one has its answer.
            self._until_taken_in(self._asked)
        if answer is not None:
            self._open.append(self._asked)

    def receive(self) -> tuple[msgspec.Struct | None, int]:
        count = self._open.pop(0)
        end_ms = self._venue.now_ms() + ANSWER_MS
        self._until_taken_in(count)
        while not self._venue.is_answered(self._number, count) and self._venue.is_connected(self._number):
            assert self._venue.now_ms() < end_ms, f"no answer within {ANSWER_MS} ms"
            self._venue.step(end_ms)
        return self._line.receive()

    def close(self) -> None:
        self._line.close()
        _until(lambda: not self._venue.is_connected(self._number), "the broker knows that the connection has ended")

    def _until_taken_in(self, count: int) -> None:
        _until(
            lambda: (
                self._venue.is_answered(self._number, count) is not None or not self._venue.is_connected(self._number)
            ),
            f"the broker has request {count} of connection {self._number}",
        )


def _until(condition: Callable[[], Any], wanted: str) -> None:
    """Look again until the broker's thread has come so far."""
    deadline = time.monotonic() + _PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"not within {_PATIENCE_S} s: {wanted}"
