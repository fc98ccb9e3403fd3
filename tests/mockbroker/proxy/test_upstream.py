"""The end of a connection to the cluster behind a proxy, whatever the event loop does with its socket."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from mockbroker.proxy.upstream import Endpoint, UpstreamConnection, wait_closed


class ClosedTransport(asyncio.Transport):
    """A transport whose socket the event loop has closed: it calls nothing any more."""

    def __init__(self) -> None:
        super().__init__()
        self.is_aborted = False

    def abort(self) -> None:
        self.is_aborted = True

    def close(self) -> None:
        """Nothing is left to close."""


@pytest.fixture
def listener() -> Any:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.mark.parametrize("is_made_first", [True, False])
def test_a_connection_that_is_closed_while_it_opens_has_ended(listener: socket.socket, is_made_first: bool) -> None:
    async def run() -> bool:
        connection = UpstreamConnection(Endpoint(*listener.getsockname()[:2]), lambda: None)
        transport = ClosedTransport()
        if is_made_first:
            connection.connection_made(transport)
        connection.close()
        async with asyncio.timeout(30):
            await connection.ended
        if not is_made_first:
            connection.connection_made(transport)
        await connection.wait_closed()
        return transport.is_aborted

    assert asyncio.run(run())


def test_many_connections_end_in_the_time_of_one_though_their_broker_reads_nothing(listener: socket.socket) -> None:
    async def run() -> float:
        address = listener.getsockname()[:2]
        connections = [UpstreamConnection(Endpoint(*address), lambda: None) for _ in range(40)]
        for connection in connections:
            connection.send(bytes(8 << 20), None)
        accepted = [await asyncio.to_thread(listener.accept) for _ in connections]
        loop = asyncio.get_running_loop()
        started_s = loop.time()
        for connection in connections:
            connection.close()
        await wait_closed(connections, grace_s=0.1)
        for sock, _ in accepted:
            sock.close()
        assert all(connection.ended.done() for connection in connections)
        return loop.time() - started_s

    assert asyncio.run(run()) < 4.0
