"""Where nodes listen, and the addresses that clients are given."""

from __future__ import annotations

import socket
import ssl

import pytest

from kwire import Client
from kwire.messages.metadata import MetadataRequest
from mockbroker import Cluster, ConfigError


def test_ports_of_advertised_addresses_count_up_with_the_nodes() -> None:
    with Cluster(nodes=2, advertised="kafka:19092") as cluster:
        added = cluster.add_node()
        (port,) = cluster.run(lambda server: server.require_started().require_listeners().ports(0))
        with Client(f"127.0.0.1:{port}") as client:
            brokers = client.send(MetadataRequest()).brokers

        assert cluster.bootstrap_servers == "kafka:19092,kafka:19093,kafka:19094"
        assert [(broker.host, broker.port) for broker in brokers] == [("kafka", 19092 + node) for node in range(3)]
        assert added == 2


def test_without_a_port_clients_are_given_the_bound_one_of_another_host() -> None:
    with Cluster(host="127.0.0.2", advertised="127.0.0.2", tls="auto") as cluster:
        authority = str(cluster.client_settings()["ssl.ca.location"])
        with Client(cluster.bootstrap_servers, tls=ssl.create_default_context(cafile=authority)) as client:
            assert [broker.host for broker in client.send(MetadataRequest()).brokers] == ["127.0.0.2"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"host": "::1", "properties": {"listeners": "PLAINTEXT://:0"}}, "host: given beside listeners"),
        (
            {"advertised": "a", "properties": {"advertised.listeners": "PLAINTEXT://b:1"}},
            "advertised: given beside advertised.listeners",
        ),
    ],
)
def test_an_address_that_is_given_twice_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message), Cluster(**options):  # type: ignore[arg-type]
        pass


def test_no_other_program_gets_the_port_of_a_node_that_is_stopped() -> None:
    with Cluster(nodes=2) as cluster, socket.socket() as other:
        (port,) = cluster.run(lambda server: server.require_started().require_listeners().ports(1))
        cluster.stop_node(1)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=60).close()
        with pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))

        cluster.start_node(1)
        with Client(f"127.0.0.1:{port}") as client:
            assert len(client.send(MetadataRequest()).brokers) == 2


def test_the_port_of_a_stopped_node_is_free_when_the_cluster_has_ended() -> None:
    with Cluster(nodes=2) as cluster:
        (port,) = cluster.run(lambda server: server.require_started().require_listeners().ports(1))
        cluster.stop_node(1)

    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        other.bind(("127.0.0.1", port))
        other.listen()
