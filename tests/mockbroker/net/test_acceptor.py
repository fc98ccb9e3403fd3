"""Acceptance of connections, with the event loop of asyncio and with the fastest one that is installed."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mockbroker.net import acceptor as acceptor_module
from mockbroker.net.acceptor import Acceptor, Handshakes, TlsOrPlainProtocol
from mockbroker.net.event_loops import new_event_loop
from tests.support.brokers.self_signed import create_certificate
from tests.support.event_loop import next_turn

LOOPS: list[Callable[[], asyncio.AbstractEventLoop]] = [asyncio.SelectorEventLoop, new_event_loop]
TIMEOUT_S = 20
#: Connections at once; below the length of the queue of the system.
_MANY = 300


class RefusingProtocol(TlsOrPlainProtocol):
    """Closes each connection at once, as the server of a node that is down does."""

    def __init__(self, made: list[None] | None = None) -> None:
        if made is not None:
            made.append(None)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Close the connection."""
        transport.close()


def bound_socket() -> socket.socket:
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    return sock


@pytest.mark.parametrize("make_loop", LOOPS, ids=["asyncio", "installed"])
def test_no_connection_stays_open_when_accepting_ends(make_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """Closed in the same turn of the loop in which connections arrive, a server of asyncio forgets their sockets."""

    async def accept_and_close() -> list[socket.socket]:
        listening = bound_socket()
        handshakes, made = Handshakes(), list[None]()
        acceptor = Acceptor(listening, partial(RefusingProtocol, made), tls=None, handshakes=handshakes)
        clients = [socket.create_connection(listening.getsockname(), timeout=TIMEOUT_S) for _ in range(8)]
        while not made:
            await next_turn()
        acceptor.close()
        await handshakes.end()
        await next_turn()
        return clients

    loop = make_loop()
    clients = loop.run_until_complete(accept_and_close())
    try:
        assert [ending(client) for client in clients] == ["ended"] * 8
    finally:
        loop.close()


@pytest.mark.parametrize("make_loop", LOOPS, ids=["asyncio", "installed"])
def test_a_tls_handshake_that_does_not_progress_is_given_up_at_the_end(
    make_loop: Callable[[], asyncio.AbstractEventLoop], tmp_path: Path
) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(create_certificate(tmp_path)[1])

    async def accept_and_give_up() -> socket.socket:
        listening = bound_socket()
        handshakes = Handshakes()
        acceptor = Acceptor(listening, RefusingProtocol, tls=lambda: tls, handshakes=handshakes)
        client = socket.create_connection(listening.getsockname(), timeout=TIMEOUT_S)
        while not handshakes.tasks:
            await next_turn()
        acceptor.close()
        await handshakes.end()
        await next_turn()
        return client

    loop = make_loop()
    client = loop.run_until_complete(accept_and_give_up())
    try:
        assert ending(client) == "ended"
    finally:
        loop.close()


class _FullSocket(socket.socket):
    """A socket of a process that has no free file descriptors for a while."""

    failures = 0

    def accept(self) -> tuple[socket.socket, Any]:
        """Fail as often as it is to, then accept."""
        if self.failures:
            self.failures -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return super().accept()


def test_a_process_without_free_file_descriptors_logs_few_lines_and_accepts_afterwards(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(acceptor_module, "_PAUSE_S", 0.0)

    async def accept_late() -> socket.socket:
        listening = _FullSocket()
        listening.bind(("127.0.0.1", 0))
        listening.failures = 150
        handshakes, made = Handshakes(), list[None]()
        acceptor = Acceptor(listening, partial(RefusingProtocol, made), tls=None, handshakes=handshakes)
        client = socket.create_connection(listening.getsockname(), timeout=TIMEOUT_S)
        while not made:
            await next_turn()
        acceptor.close()
        await handshakes.end()
        await next_turn()
        return client

    loop = asyncio.SelectorEventLoop()
    client = loop.run_until_complete(accept_late())
    loop.close()
    lines = [record.getMessage().split(" ", 1)[1] for record in caplog.records]

    assert ending(client) == "ended"
    assert [line.partition(":")[0] for line in lines] == [
        *(f"cannot accept a connection (failure {number})" for number in (1, 10, 100)),
        "accepts connections again, after 150 failures",
    ]


@pytest.mark.parametrize("make_loop", LOOPS, ids=["asyncio", "installed"])
def test_many_connections_at_once_get_their_protocols_and_no_other_event_waits_for_all_of_them(
    make_loop: Callable[[], asyncio.AbstractEventLoop],
) -> None:
    """They are more than the loop accepts before it handles other events."""

    async def accept_all() -> tuple[int, int]:
        listening, made, turns = bound_socket(), [0], 0

        def make_protocol() -> TlsOrPlainProtocol:
            made[0] += 1
            return RefusingProtocol()

        handshakes = Handshakes()
        acceptor = Acceptor(listening, make_protocol, tls=None, handshakes=handshakes)
        clients = [socket.create_connection(listening.getsockname(), timeout=TIMEOUT_S) for _ in range(_MANY)]
        while made[0] < _MANY:
            await next_turn()
            turns += 1
        acceptor.close()
        await handshakes.end()
        await next_turn()
        for client in clients:
            assert ending(client) == "ended"
        return made[0], turns

    loop = make_loop()
    made, turns = loop.run_until_complete(asyncio.wait_for(accept_all(), TIMEOUT_S))
    loop.close()

    assert made == _MANY
    assert turns > 1


def ending(client: socket.socket) -> str:
    """What the client sees of its connection, which is closed then."""
    with client:
        try:
            return "ended" if client.recv(1) == b"" else "data"
        except ConnectionResetError:
            return "ended"
        except TimeoutError:
            return "open"
