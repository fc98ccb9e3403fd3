"""Acceptance of connections, with the event loop of asyncio and with the fastest one that is installed."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable
from pathlib import Path

import pytest

from mockbroker.net.acceptor import Acceptor, StartingConnections
from mockbroker.server import new_event_loop
from tests.support.brokers.self_signed import create_certificate

LOOPS: list[Callable[[], asyncio.AbstractEventLoop]] = [asyncio.SelectorEventLoop, new_event_loop]
TIMEOUT_S = 20


class RefusingProtocol(asyncio.Protocol):
    """Closes each connection at once, as the server of a node that is down does."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Close the connection."""
        transport.close()


async def next_turn() -> None:
    """Let the event loop run once."""
    loop = asyncio.get_running_loop()
    turn = loop.create_future()
    loop.call_soon(turn.set_result, None)
    await turn


def bound_socket() -> socket.socket:
    sock = socket.socket()
    sock.bind(("127.0.0.1", 0))
    return sock


@pytest.mark.parametrize("make_loop", LOOPS, ids=["asyncio", "installed"])
def test_no_connection_stays_open_when_accepting_ends(make_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    """Closed in the same turn of the loop in which connections arrive, a server of asyncio forgets their sockets."""

    async def accept_and_close() -> list[socket.socket]:
        listening = bound_socket()
        starting = StartingConnections()
        acceptor = Acceptor(listening, RefusingProtocol, tls=None, starting=starting)
        clients = [socket.create_connection(listening.getsockname(), timeout=TIMEOUT_S) for _ in range(8)]
        while not starting.others:
            await next_turn()
        acceptor.close()
        await starting.end()
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
        starting = StartingConnections()
        acceptor = Acceptor(listening, RefusingProtocol, tls=tls, starting=starting)
        client = socket.create_connection(listening.getsockname(), timeout=TIMEOUT_S)
        while not starting.handshakes:
            await next_turn()
        acceptor.close()
        await starting.end()
        await next_turn()
        return client

    loop = make_loop()
    client = loop.run_until_complete(accept_and_give_up())
    try:
        assert ending(client) == "ended"
    finally:
        loop.close()


def ending(client: socket.socket) -> str:
    """What the client sees of its connection, which is closed then."""
    with client:
        try:
            return "ended" if client.recv(1) == b"" else "data"
        except ConnectionResetError:
            return "ended"
        except TimeoutError:
            return "open"
