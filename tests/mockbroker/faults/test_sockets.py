"""What faults do to real connections, byte by byte, and what a capture has of it."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from kwire import headers
from kwire.capture.reader import read_rows
from kwire.messages.list_groups import ListGroupsRequest
from mockbroker import Cluster
from tests.support.brokers.self_signed import create_certificate

_LIMIT_S = 30.0


@contextmanager
def _connected(cluster: Cluster) -> Iterator[socket.socket]:
    host, _, port = cluster.bootstrap_servers.rpartition(":")
    with socket.create_connection((host, int(port)), _LIMIT_S) as connection:
        yield connection


def _connect_and_receive(cluster: Cluster) -> bytes:
    with _connected(cluster) as connection:
        return connection.recv(1)


def _frame(number: int) -> bytes:
    body = headers.encode_request(ListGroupsRequest(), 5, number, "raw")
    return len(body).to_bytes(4, "big") + body


def _receive(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (part := connection.recv(size - len(data))):
        data += part
    return data


def _receive_frame(connection: socket.socket) -> bytes:
    return _receive(connection, int.from_bytes(_receive(connection, 4), "big"))


def test_a_reset_is_a_tcp_reset() -> None:
    with Cluster() as cluster, _connected(cluster) as connection:
        cluster.faults.add("ListGroups", drop="reset")
        connection.sendall(_frame(1))

        with pytest.raises(ConnectionResetError):
            connection.recv(1)


def test_a_closed_connection_ends_without_an_error() -> None:
    with Cluster() as cluster, _connected(cluster) as connection:
        cluster.faults.add("ListGroups", drop="close")
        connection.sendall(_frame(1))

        assert connection.recv(1) == b""


def test_a_half_closed_connection_takes_more_requests_and_answers_none() -> None:
    with Cluster() as cluster, _connected(cluster) as connection:
        cluster.faults.add("ListGroups", drop="half-close")
        connection.sendall(_frame(1))
        ended = connection.recv(1)
        connection.sendall(_frame(2))
        connection.sendall(_frame(3))

        assert ended == b""
        assert cluster.exchanges("ListGroups")[0].answered_ms is None


def test_a_new_connection_is_reset() -> None:
    with Cluster() as cluster:
        cluster.faults.add(on="connection", drop="reset", times=1)
        with pytest.raises(ConnectionResetError):  # By `connect` or by `recv`, whichever the system does first.
            _connect_and_receive(cluster)
        with _connected(cluster) as connection:
            connection.sendall(_frame(1))
            assert _receive_frame(connection)[:4] == b"\0\0\0\1"


def test_an_answer_comes_in_parts_and_whole() -> None:
    with Cluster() as cluster, _connected(cluster) as connection:
        connection.sendall(_frame(1))
        plain = _receive_frame(connection)
        cluster.faults.add("ListGroups", drip_bytes=2, drip_ms=1)
        connection.sendall(_frame(1))

        assert _receive_frame(connection) == plain


def test_a_truncated_answer_ends_after_its_bytes() -> None:
    with Cluster() as cluster, _connected(cluster) as connection:
        cluster.faults.add("ListGroups", truncate=6)
        connection.sendall(_frame(1))
        size = int.from_bytes(_receive(connection, 4), "big")

        assert len(_receive(connection, size)) == 6 < size


def test_a_frozen_clock_holds_a_delayed_answer_until_it_is_moved() -> None:
    with Cluster() as cluster, _connected(cluster) as connection:
        cluster.clock.freeze()
        cluster.faults.add("ListGroups", delay_ms=60_000, after=True)
        connection.sendall(_frame(1))
        cluster.wait_for_request("ListGroups")
        waiting = cluster.exchanges("ListGroups")[0].answered_ms is None
        cluster.clock.advance(60_000)

        assert waiting
        assert _receive_frame(connection)[:4] == b"\0\0\0\1"


def test_comments_of_faults_are_on_the_packets_of_a_capture_that_decodes(tmp_path: Path) -> None:
    path = tmp_path / "out.pcapng"
    with Cluster(capture=path) as cluster:
        cluster.faults.add("ListGroups", error="NOT_COORDINATOR", times=1, name="first")
        cluster.faults.add("ListGroups", answer="never", name="second")
        with _connected(cluster) as connection:
            connection.sendall(_frame(1))
            _receive_frame(connection)
            connection.sendall(_frame(2))
            while len(cluster.exchanges("ListGroups")) < 2:
                pass
        faults = [exchange.faults for exchange in cluster.exchanges()]
    data = path.read_bytes()
    rows = [row for row in read_rows(path) if row["api_name"] == "ListGroups"]

    assert [(row["status"], row["error_name"]) for row in rows] == [
        ("ok", "NOT_COORDINATOR"),
        ("no_response", None),
    ]
    assert faults == [("first",), ("second",)]
    assert [data.count(b"fault: first"), data.count(b"fault: second")] == [1, 1]


@pytest.mark.parametrize("action", ["refuse-connections", "kill-node", "pause-node"])
def test_a_reset_of_the_cluster_ends_the_faults_of_its_nodes(action: str) -> None:
    with Cluster() as cluster:
        cluster.clock.freeze()
        cluster.faults.schedule(action, node=0)
        cluster.faults.add("ListGroups", error="NOT_COORDINATOR")
        cluster.clock.advance(1)
        cluster.reset()
        with _connected(cluster) as connection:
            connection.sendall(_frame(1))
            answer = _receive_frame(connection)

        assert answer[:4] == b"\0\0\0\1"
        assert cluster.exchanges("ListGroups")[0].faults == ()
        assert cluster.faults.list() == []


@pytest.mark.parametrize(
    ("fault", "received"),
    [({"drop": "reset"}, 0), ({"drop": "close"}, 0), ({"drop": "half-close"}, 0), ({"truncate": 6}, 10)],
)
def test_faults_act_on_tls_connections(tmp_path: Path, fault: dict[str, Any], received: int) -> None:
    certificate, key_store = create_certificate(tmp_path)
    properties = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(key_store),
    }
    context = ssl.create_default_context(cafile=str(certificate))
    with Cluster(properties=properties) as cluster, _connected(cluster) as plain:
        cluster.faults.add("ListGroups", **fault)
        with context.wrap_socket(plain, server_hostname="127.0.0.1") as connection:
            connection.sendall(_frame(1))
            data = b""
            with suppress(ConnectionResetError, ssl.SSLEOFError):
                data = _receive(connection, 100)

        assert len(data) == received
        cluster.check_faults()
