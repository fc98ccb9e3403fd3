"""A restart takes time by the cluster's clock, so that clients notice it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer

from mockbroker import Cluster, KafkaError, WaitTimeout
from tests.support.brokers.control_client import ControlClient
from tests.support.certificates import STORE_PASSWORD, create_self_signed

_SECOND_MS = 1_000


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=2, topics=["orders"], control=0) as cluster:
        cluster.clock.freeze()
        yield cluster


def _states(cluster: Cluster) -> list[str]:
    return [node.state for node in cluster.nodes()]


@pytest.mark.parametrize("kill", [False, True])
def test_a_node_is_down_for_a_second_by_default(cluster: Cluster, kill: bool) -> None:
    host, port = cluster.bootstrap_servers.split(",")[1].split(":")
    cluster.restart_node(1, kill=kill)

    assert _states(cluster) == ["running", "down"]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((host, int(port)), 10)
    cluster.clock.advance(_SECOND_MS - 1)
    assert _states(cluster) == ["running", "down"]
    cluster.clock.advance(1)
    assert _states(cluster) == ["running", "running"]
    socket.create_connection((host, int(port)), 10).close()


def test_the_time_can_be_chosen_and_a_node_may_come_back_at_once(cluster: Cluster) -> None:
    cluster.restart_node(1, after_ms=5_000)
    cluster.clock.advance(4_999)
    assert _states(cluster) == ["running", "down"]
    cluster.clock.advance(1)
    cluster.restart_node(1, after_ms=0)

    assert _states(cluster) == ["running", "running"]
    with pytest.raises(ValueError, match="after_ms: -1"):
        cluster.restart_node(1, after_ms=-1)


def test_a_node_that_is_down_cannot_be_restarted(cluster: Cluster) -> None:
    cluster.restart_node(1)

    with pytest.raises(KafkaError):
        cluster.restart_node(1)


def test_a_restart_leaves_a_node_alone_that_was_started_and_stopped_meanwhile(cluster: Cluster) -> None:
    cluster.restart_node(1)
    cluster.start_node(1)
    cluster.stop_node(1)
    cluster.clock.advance(_SECOND_MS)

    assert _states(cluster) == ["running", "down"]


def test_reset_ends_a_restart(cluster: Cluster) -> None:
    cluster.restart_node(1)
    cluster.reset()
    cluster.clock.freeze()
    cluster.stop_node(1)
    cluster.clock.advance(_SECOND_MS)

    assert _states(cluster) == ["running", "down"]


def test_a_node_that_cannot_start_again_is_named_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = create_self_signed(tmp_path, "store").pkcs12
    properties = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.location": store,
        "ssl.keystore.password": STORE_PASSWORD,
    }
    with Cluster(properties=properties, nodes=2) as cluster:
        cluster.clock.freeze()
        cluster.restart_node(1)
        store.unlink()
        cluster.clock.advance(_SECOND_MS)

        assert _states(cluster) == ["running", "down"]
    assert "node 1 does not start again after its restart: INVALID_CONFIG: node 1 cannot start: ssl.key" in caplog.text


def test_the_return_of_a_node_can_be_awaited(cluster: Cluster) -> None:
    cluster.restart_node(1)
    with pytest.raises(WaitTimeout, match="node 1 in state running; seen instead: it is down"):
        cluster.wait_for_node(1, timeout_s=0)
    cluster.clock.thaw()

    assert cluster.wait_for_node(1).state == "running"
    with pytest.raises(ValueError, match="there is no node 9"):
        cluster.wait_for_node(9)
    with pytest.raises(ValueError, match="'up' is not a state of a node"):
        cluster.wait_for_node(1, state="up")  # type: ignore[arg-type]


def test_coroutines_restart_and_await_a_node(cluster: Cluster) -> None:
    async def restart() -> str:
        await cluster.aio.restart_node(1, after_ms=10)
        cluster.clock.thaw()
        return (await cluster.aio.wait_for_node(1)).state

    assert asyncio.run(restart()) == "running"


def test_a_node_is_restarted_over_http(cluster: Cluster) -> None:
    client = ControlClient(cluster.control_url)

    assert client.ask("POST", "/v1/nodes/1/restart", {"afterMs": 50, "kill": True})["state"] == "down"
    client.ask("POST", "/v1/clock/advance", {"durationMs": 50})
    assert client.ask("POST", "/v1/waits/node", {"node": 1, "timeoutMs": 0})["state"] == "running"
    assert client.ask("POST", "/v1/nodes/1/restart")["state"] == "down"
    assert client.send("POST", "/v1/nodes/1/restart").body["kafkaError"]
    assert client.send("POST", "/v1/waits/node", {"node": 1, "state": "up"}).status == 422


def test_a_client_notices_the_default_restart() -> None:
    seen: list[str] = []
    with Cluster(topics=["orders"]) as cluster:
        settings = {"bootstrap.servers": cluster.bootstrap_servers, "error_cb": lambda error: seen.append(str(error))}
        producer = Producer(settings)
        producer.produce("orders", b"first")
        assert producer.flush(10) == 0
        cluster.restart_node(0)
        producer.produce("orders", b"second")

        assert producer.flush(10) == 0
    assert any("Connection refused" in text for text in seen), seen
