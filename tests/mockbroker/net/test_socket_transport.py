"""The transport of plain sockets, in the event loop of asyncio and in the fastest one that is installed."""

from __future__ import annotations

import asyncio
import socket
import struct
import tracemalloc
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mockbroker.net.event_loops import new_event_loop
from mockbroker.net.socket_transport import SocketProtocol, SocketTransport
from tests.support.event_loop import next_turn, until

LOOPS: list[Callable[[], asyncio.AbstractEventLoop]] = [asyncio.SelectorEventLoop, new_event_loop]
TIMEOUT_S = 20


class Recorder(SocketProtocol):
    """Records the calls of its transport; reads up to 8 bytes at once."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.calls: list[object] = []
        self.lost = asyncio.get_running_loop().create_future()

    def read_socket(self, sock: socket.socket) -> None:
        """Keep the data."""
        data = sock.recv(8)
        if not data:
            raise EOFError
        self.data += data

    def pause_writing(self) -> None:
        """Note the call."""
        self.calls.append("pause")

    def resume_writing(self) -> None:
        """Note the call."""
        self.calls.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        """Note the end."""
        self.calls.append(type(exc))
        self.lost.set_result(None)


Scenario = Callable[[SocketTransport, Recorder, socket.socket], Awaitable[Any]]


@pytest.fixture(params=LOOPS, ids=["asyncio", "installed"])
def run(request: pytest.FixtureRequest) -> Callable[[Scenario], Any]:
    """Runs a scenario with the transport of an accepted connection, and its client, a blocking socket."""

    async def start(scenario: Scenario) -> Any:
        with socket.create_server(("127.0.0.1", 0)) as server:
            client = socket.create_connection(server.getsockname(), timeout=TIMEOUT_S)
            accepted, peer = server.accept()
        accepted.setblocking(False)
        recorder = Recorder()
        with client:
            transport = SocketTransport(accepted, peer, recorder)
            assert transport.get_extra_info("peername") == client.getsockname()
            result = await asyncio.wait_for(scenario(transport, recorder, client), TIMEOUT_S)
            transport.abort()
            await recorder.lost
        assert accepted.fileno() == -1
        return result

    def run_scenario(scenario: Scenario) -> Any:
        loop = request.param()
        try:
            return loop.run_until_complete(start(scenario))
        finally:
            loop.close()

    return run_scenario


def read_all(client: socket.socket) -> bytes:
    chunks = []
    while chunk := client.recv(1 << 16):
        chunks.append(chunk)
    return b"".join(chunks)


async def read_in_thread(client: socket.socket) -> bytes:
    return await asyncio.get_running_loop().run_in_executor(None, read_all, client)


def test_more_than_the_system_accepts_arrives_in_order_before_a_clean_end(run: Callable[[Scenario], Any]) -> None:
    parts = [bytes([number % 251]) * (number % 40_000) for number in range(1_500)]

    async def scenario(transport: SocketTransport, recorder: Recorder, client: socket.socket) -> bytes:
        transport.writelines(parts)
        transport.write(b"last")
        assert recorder.calls == ["pause"]
        assert transport.get_write_buffer_size() > 0
        transport.close()
        transport.write(b"not sent")
        received = await read_in_thread(client)
        await recorder.lost
        assert recorder.calls == ["pause", "resume", type(None)]
        return received

    assert run(scenario) == b"".join(parts) + b"last"


def test_parts_are_not_joined(run: Callable[[Scenario], Any]) -> None:
    data = bytes(8 << 20)

    async def scenario(transport: SocketTransport, recorder: Recorder, client: socket.socket) -> int:
        tracemalloc.start()
        try:
            transport.writelines([b"head", memoryview(data), b"tail", memoryview(data)])
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        return peak

    assert run(scenario) < len(data) // 8


def test_data_is_received_until_reading_pauses(run: Callable[[Scenario], Any]) -> None:
    async def scenario(transport: SocketTransport, recorder: Recorder, client: socket.socket) -> None:
        assert transport.is_reading()
        client.sendall(b"0123456789")
        await until(lambda: len(recorder.data) == 10)
        transport.pause_reading()
        client.sendall(b"abc")
        for _ in range(20):
            await next_turn()
        assert recorder.data == b"0123456789"
        transport.resume_reading()
        await until(lambda: len(recorder.data) == 13)

    run(scenario)


def test_the_end_of_the_client_is_a_clean_end(run: Callable[[Scenario], Any]) -> None:
    async def scenario(transport: SocketTransport, recorder: Recorder, client: socket.socket) -> None:
        client.sendall(b"x")
        client.close()
        await recorder.lost
        assert (bytes(recorder.data), recorder.calls) == (b"x", [type(None)])

    run(scenario)


def test_a_reset_of_the_client_is_an_error(run: Callable[[Scenario], Any]) -> None:
    async def scenario(transport: SocketTransport, recorder: Recorder, client: socket.socket) -> None:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        await recorder.lost
        assert recorder.calls == [ConnectionResetError]

    run(scenario)


def test_after_the_end_of_the_output_data_is_still_received(run: Callable[[Scenario], Any]) -> None:
    async def scenario(transport: SocketTransport, recorder: Recorder, client: socket.socket) -> bytes:
        transport.write(b"before")
        assert transport.can_write_eof()
        transport.write_eof()
        transport.write(b"after")
        received = await read_in_thread(client)
        client.sendall(b"still")
        await until(lambda: recorder.data == b"still")
        return received

    assert run(scenario) == b"before"


def test_an_abrupt_end_drops_what_is_unsent(run: Callable[[Scenario], Any]) -> None:
    data = bytes(64 << 20)

    async def scenario(transport: SocketTransport, recorder: Recorder, client: socket.socket) -> bytes:
        transport.write(data)
        transport.abort()
        await recorder.lost
        return await read_in_thread(client)

    assert len(run(scenario)) < len(data)


def test_a_clean_end_with_unread_data_does_not_reset_the_output(run: Callable[[Scenario], Any]) -> None:
    async def scenario(transport: SocketTransport, recorder: Recorder, client: socket.socket) -> bytes:
        transport.pause_reading()
        client.sendall(b"unread")
        transport.write(b"the last answer")
        transport.close()
        await recorder.lost
        return await read_in_thread(client)

    assert run(scenario) == b"the last answer"


def test_an_error_of_the_protocol_is_logged_and_ends_the_connection(
    run: Callable[[Scenario], Any], caplog: pytest.LogCaptureFixture, internal_errors: list[str]
) -> None:
    def fail(sock: socket.socket) -> None:
        raise ZeroDivisionError

    async def scenario(transport: SocketTransport, recorder: Recorder, client: socket.socket) -> None:
        recorder.read_socket = fail  # type: ignore[method-assign]
        client.sendall(b"x")
        await recorder.lost

    run(scenario)

    assert "ZeroDivisionError" in caplog.text
    assert "ZeroDivisionError()" in internal_errors.pop()
