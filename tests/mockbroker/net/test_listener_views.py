"""Bound addresses beside those that clients are given."""

from __future__ import annotations

import socket

import pytest

from mockbroker import Cluster, ListenerView, Proxy
from mockbroker.net.listener_views import format_address
from tests.support.brokers.control_client import ControlClient


def _connect(address: str) -> None:
    host, port = address.rsplit(":", 1)
    socket.create_connection((host, int(port)), 10).close()


def test_a_free_port_is_known_beside_an_advertised_address() -> None:
    with Cluster(nodes=2, advertised="kafka.test:19092", control=0) as cluster:
        listeners = cluster.listeners()
        rows = ControlClient(cluster.control_url).get("/v1/listeners")["listeners"]
        for listener in listeners:
            _connect(listener.bound)
        advertised = cluster.bootstrap_servers

    assert [(view.node_id, view.name, view.protocol) for view in listeners] == [
        (0, "PLAINTEXT", "PLAINTEXT"),
        (1, "PLAINTEXT", "PLAINTEXT"),
    ]
    assert [view.advertised for view in listeners] == ["kafka.test:19092", "kafka.test:19093"] == advertised.split(",")
    assert [(row["node"], row["bound"], row["advertised"]) for row in rows] == [
        (view.node_id, view.bound, view.advertised) for view in listeners
    ]


def test_a_wildcard_is_bound_and_a_loopback_address_is_advertised() -> None:
    with Cluster(host="0.0.0.0") as cluster:
        [view] = cluster.listeners()

    assert view.bound.rsplit(":")[0] == "0.0.0.0"
    assert view.advertised == f"127.0.0.1:{view.bound.rsplit(':')[1]}"


def test_every_listener_of_every_node_is_listed_also_of_one_that_is_down_or_was_added() -> None:
    properties = {"listeners": "PLAINTEXT://127.0.0.1:0,SECOND://127.0.0.1:0"}
    properties["listener.security.protocol.map"] = "PLAINTEXT:PLAINTEXT,SECOND:PLAINTEXT,CONTROLLER:PLAINTEXT"
    with Cluster(properties=properties, controller_port=0) as cluster:
        before = cluster.listeners()
        cluster.stop_node(0)
        assert cluster.listeners() == before
        cluster.start_node(0)
        cluster.add_node()
        names = [(view.node_id, view.name) for view in cluster.listeners()]
        controller = cluster.bootstrap_controllers

    assert [view.bound for view in before if view.name == "CONTROLLER"] == [controller]
    assert names == [(0, "PLAINTEXT"), (0, "SECOND"), (0, "CONTROLLER"), (1, "PLAINTEXT"), (1, "SECOND")]


def test_a_proxy_has_its_listeners_too() -> None:
    with Cluster() as cluster, Proxy(cluster.bootstrap_servers, advertised="proxy.test:9092") as proxy:
        [view] = proxy.listeners()
        _connect(view.bound)

        assert view.advertised == "proxy.test:9092" == proxy.bootstrap_servers


@pytest.mark.parametrize(("host", "address"), [("::1", "[::1]:9092"), ("kafka.test", "kafka.test:9092")])
def test_an_ipv6_address_is_in_brackets(host: str, address: str) -> None:
    assert format_address(host, 9092) == address


def test_a_line_has_all_facts() -> None:
    view = ListenerView(0, "SSL", "SSL", "127.0.0.1:40001", "kafka.test:9092")

    expected = "listener node=0 name=SSL protocol=SSL bound=127.0.0.1:40001 advertised=kafka.test:9092"
    assert str(view) == expected
