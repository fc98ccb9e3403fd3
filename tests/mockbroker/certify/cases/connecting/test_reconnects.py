"""What the cases of reconnecting use: a server that closes connections, and the limit of a node."""

from __future__ import annotations

import socket

from kwire import Client
from kwire.messages.metadata import MetadataRequest
from mockbroker import Cluster
from mockbroker.certify.cases.connecting.reconnects import closing_server, describe_times, set_limit


def _is_closed_at_once(address: tuple[str, int]) -> bool:
    with socket.create_connection(address, timeout=5) as client:
        return client.recv(1) == b""


def test_the_closing_server_closes_each_connection_and_has_its_time() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = free.getsockname()
    with closing_server(*address) as times:
        closed = [_is_closed_at_once(address) for _ in range(3)]

    assert closed == [True] * 3
    assert len(times) == 3
    assert times == sorted(times)


def test_the_pauses_between_connections_are_described_in_milliseconds() -> None:
    assert describe_times([1.0, 1.1, 1.35]) == "3 connections, with pauses of 100, 250 ms"


def test_a_node_at_its_limit_closes_new_connections_until_the_limit_is_raised() -> None:
    with Cluster() as cluster, Client(cluster.bootstrap_servers) as admin:
        host, port = cluster.bootstrap_servers.split(":")
        set_limit(admin, "max.connections.per.ip", 1)
        is_full = _is_closed_at_once((host, int(port)))
        set_limit(admin, "max.connections.per.ip", 1_000)
        with Client(cluster.bootstrap_servers) as client:
            answer = client.send(MetadataRequest(topics=[]))

    assert is_full
    assert len(answer.brokers) == 1
