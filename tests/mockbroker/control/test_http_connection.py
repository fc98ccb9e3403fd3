"""Connections of the control that send no request, or a part of one, or do not read."""

from __future__ import annotations

import json
import logging
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from mockbroker import Cluster
from mockbroker.control.connection_table import HttpLimits
from mockbroker.control.control_server import ControlServer
from mockbroker.control.events.event_hub import ReaderLimits
from mockbroker.control.options import ControlOptions
from mockbroker.control.routes import CLUSTER_API
from tests.support.brokers.control_client import ControlClient

_HEAD = b"POST /v1/topics HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@contextmanager
def _control(limits: HttpLimits) -> Iterator[tuple[ControlClient, tuple[str, int]]]:
    with Cluster(topics={"orders": 1}) as cluster:
        control = ControlServer(cluster, CLUSTER_API, ControlOptions(), limits=limits)
        control.start()
        try:
            host, _, port = control.url.removeprefix("http://").rpartition(":")
            yield ControlClient(control.url), (host, int(port))
        finally:
            control.stop(1.0)


@pytest.mark.parametrize("sent", [b"", b"GET /v1/clu", b"GET /v1/cluster HTTP/1.1\r\nHost: localhost\r\n"])
def test_half_open_connections_keep_nobody_out(sent: bytes) -> None:
    with _control(HttpLimits(connections=40, client_connections=20)) as (client, address), ExitStack() as stack:
        open_ones = [stack.enter_context(socket.create_connection(address, timeout=10)) for _ in range(60)]
        for each in open_ones:
            try:
                each.sendall(sent)
            except ConnectionError:  # It was closed for a newer one.
                continue

        assert {client.send("GET", "/v1/cluster").status for _ in range(5)} == {200}


@pytest.mark.parametrize(
    ("sent", "part"),
    [(b"GET /v1/cluster HTTP/1.1\r\nHost: local", "head"), (_HEAD + b'Content-Length: 9\r\n\r\n{"a', "body")],
)
def test_a_request_of_which_a_part_is_missing_is_answered_and_its_connection_closed(sent: bytes, part: str) -> None:
    with (
        _control(HttpLimits(head_s=0.05, body_s=0.05)) as (_, address),
        socket.create_connection(address, timeout=10) as connection,
    ):
        connection.sendall(sent)
        answer = _read_all(connection)

    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 ")
    assert b"connection: close" in head
    assert json.loads(body)["type"].endswith(":request-timeout")
    assert json.loads(body)["detail"].startswith(f"the {part} did not come")


def test_bytes_that_come_one_by_one_do_not_extend_the_time_of_the_head() -> None:
    with (
        _control(HttpLimits(head_s=0.2)) as (_, address),
        socket.create_connection(address, timeout=0.02) as connection,
    ):
        until = time.monotonic() + 20
        answer = b""
        while not answer and time.monotonic() < until:
            connection.send(b"G")
            try:
                answer = connection.recv(4096)
            except TimeoutError:
                continue

    assert answer.startswith(b"HTTP/1.1 408 ")


def test_a_connection_that_sends_nothing_is_closed() -> None:
    with _control(HttpLimits(head_s=0.05)) as (_, address), socket.create_connection(address, timeout=10) as connection:
        assert _read_all(connection) == b""


def test_a_second_request_has_the_same_limits_and_a_whole_one_has_none() -> None:
    with (
        _control(HttpLimits(head_s=0.3, keep_alive_s=30)) as (_, address),
        socket.create_connection(address, timeout=10) as connection,
    ):
        whole = b"GET /v1/clock HTTP/1.1\r\nHost: localhost\r\n\r\n"
        connection.sendall(whole + whole + b"GET /v1/clo")
        answer = _read_all(connection)

    assert (answer.count(b"HTTP/1.1 200 "), answer.count(b"HTTP/1.1 408 ")) == (2, 1)
    assert b"request-timeout" in answer


def test_a_wait_may_take_longer_than_the_head_of_a_request() -> None:
    with _control(HttpLimits(head_s=0.05, body_s=0.05)) as (client, _):
        wait = {"groupId": "shop", "state": "Stable", "members": 1, "timeoutMs": 300}

        assert client.send("POST", "/v1/waits/group", wait).problem == "wait-timeout"


def test_a_client_that_goes_away_within_a_body_is_no_internal_error(caplog: pytest.LogCaptureFixture) -> None:
    with _control(HttpLimits()) as (client, address), caplog.at_level(logging.DEBUG):
        with socket.create_connection(address, timeout=10) as connection:
            connection.sendall(_HEAD + b'Content-Length: 900\r\n\r\n{"name')
        assert client.send("GET", "/v1/cluster").status == 200

    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_a_client_that_does_not_read_is_closed() -> None:
    with _control(HttpLimits(stalled_s=0.1)) as (client, address):
        records = [{"value": "x" * 100_000} for _ in range(60)]
        client.ask("POST", "/v1/topics/orders/records", {"records": records}, status=201)
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.settimeout(10)
            connection.connect(address)
            connection.sendall(b"GET /v1/topics/orders/records HTTP/1.1\r\nHost: localhost\r\n\r\n" * 4)
            # Sent until the connection has ended, after which the system answers by a reset.
            with pytest.raises(ConnectionError):
                _send_until_refused(connection)


def _send_until_refused(connection: socket.socket) -> None:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        try:
            connection.settimeout(0.05)
            connection.send(b"\r\n")
        except TimeoutError:
            continue


def _read_all(connection: socket.socket) -> bytes:
    data = bytearray()
    while part := connection.recv(65536):
        data += part
    return bytes(data)


def _open_stream(address: tuple[str, int], source: str) -> socket.socket:
    connection = socket.create_connection(address, timeout=10, source_address=(source, 0))
    connection.sendall(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return connection


def test_a_client_with_many_streams_of_events_is_refused_more_and_others_are_served() -> None:
    limits = HttpLimits(streams=ReaderLimits(readers=8, client_readers=4))
    with _control(limits) as (client, address), ExitStack() as stack:
        streams = [stack.enter_context(_open_stream(address, "127.0.0.1")) for _ in range(4)]
        assert {_read_until(each, b"event: start")[:15] for each in streams} == {b"HTTP/1.1 200 OK"}

        refused = stack.enter_context(_open_stream(address, "127.0.0.1"))
        head, body = _read_until(refused, b"}").split(b"\r\n\r\n")
        problem = json.loads(body)
        assert b"HTTP/1.1 429" in head
        assert b"retry-after: 1" in head.lower()
        assert problem["type"].endswith(":too-many-streams")
        assert problem["detail"] == "127.0.0.1 has 4 streams open already; close one of them"
        assert client.send("GET", "/v1/cluster").status == 200
        other = stack.enter_context(_open_stream(address, "127.0.0.2"))
        assert _read_until(other, b"event: start").startswith(b"HTTP/1.1 200 OK")

        streams[0].close()
        _until_served(address, stack)


def test_streams_that_end_at_once_do_not_count() -> None:
    with _control(HttpLimits(streams=ReaderLimits(client_readers=4))) as (_, address), ExitStack() as stack:
        for _ in range(40):
            _open_stream(address, "127.0.0.1").close()

        _until_served(address, stack)


def _read_until(connection: socket.socket, end: bytes) -> bytes:
    data = b""
    while end not in data:
        part = connection.recv(65536)
        assert part, data
        data += part
    return data


def _until_served(address: tuple[str, int], stack: ExitStack) -> None:
    """Open a stream as soon as the server has noticed that others were closed."""
    deadline = time.monotonic() + 30
    while True:
        stream = stack.enter_context(_open_stream(address, "127.0.0.1"))
        if _read_until(stream, b"\r\n\r\n").startswith(b"HTTP/1.1 200"):
            return
        assert time.monotonic() < deadline
