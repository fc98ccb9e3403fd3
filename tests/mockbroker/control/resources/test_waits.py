"""Waits over HTTP: until the state is there, until the limit, and until the cluster is reset."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

import pytest
from confluent_kafka import Consumer

from mockbroker import Cluster
from tests.support.brokers.control_client import ControlClient


@pytest.fixture
def kafka() -> Iterator[Cluster]:
    with Cluster(control=0, topics=["orders"], profile="quick") as cluster:
        yield cluster


@pytest.fixture
def client(kafka: Cluster) -> ControlClient:
    return ControlClient(kafka.control_url)


@pytest.mark.client
def test_a_wait_ends_when_the_group_the_offset_and_the_request_are_there(kafka: Cluster, client: ControlClient) -> None:
    kafka.produce("orders", "1")
    consumer = Consumer(
        {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["orders"])
    with ThreadPoolExecutor() as pool:
        offset = {"groupId": "g", "topic": "orders", "partition": 0, "offset": 1, "timeoutMs": 60_000}
        waits = [
            pool.submit(client.ask, "POST", "/v1/waits/group", {"groupId": "g", "members": 1, "timeoutMs": 60_000}),
            pool.submit(client.ask, "POST", "/v1/waits/offset", offset),
            pool.submit(client.ask, "POST", "/v1/waits/request", {"api": "Fetch", "topic": "orders", "answered": True}),
        ]
        kafka.wait_until(lambda: consumer.poll(0.1) is not None, timeout_s=60)
        consumer.commit(asynchronous=False)
        group, reached, requests = (wait.result(60) for wait in waits)
        consumer.close()

    assert (group["state"], reached["offset"]) == ("Stable", 1)
    assert requests["exchanges"][0]["topics"] == {"orders": [0]}


def test_a_limit_is_a_problem_that_says_what_was_seen(client: ControlClient) -> None:
    client.ask("POST", "/v1/clock/freeze")
    answer = client.send("POST", "/v1/waits/group", {"groupId": "g", "timeoutMs": 10})

    assert (answer.status, answer.problem) == (409, "wait-timeout")
    assert answer.body["detail"].startswith("waited 0.01 s for group 'g' in state Stable; seen instead: no such group")
    assert answer.body["seen"] == "no such group"


@pytest.mark.parametrize(
    ("path", "body", "problem"),
    [
        ("group", {"groupId": "g", "state": "Stabel"}, "invalid-value"),
        ("group", {"groupId": "g", "state": "Empty", "members": 1}, "invalid-value"),
        ("group", {"groupId": "g", "timeoutMs": -1}, "invalid-request"),
        ("group", {"groupId": "g", "timeoutMs": 700_000}, "invalid-request"),
        ("share-members", {"groupId": "g", "members": 0}, "invalid-request"),
        ("offset", {"groupId": "g", "topic": "nope", "partition": 0, "offset": 1}, "kafka-error"),
        ("request", {"api": "Prodce"}, "invalid-value"),
        ("request", {"api": "Produce", "error": "NOPE"}, "invalid-value"),
        ("request", {"api": "Produce", "groupId": "g"}, "invalid-request"),
    ],
)
def test_what_cannot_come_is_refused_at_once(
    client: ControlClient, path: str, body: dict[str, object], problem: str
) -> None:
    assert client.send("POST", f"/v1/waits/{path}", body).problem == problem


def _wait_count(kafka: Cluster) -> int:
    """The number of waits in progress; `wait_until` is one of them."""
    return kafka.run(lambda server: len(server.require_started().watchers)) - 1


def test_a_wait_ends_when_the_cluster_is_reset_or_stopped(kafka: Cluster, client: ControlClient) -> None:
    body = {"groupId": "g", "members": 1, "timeoutMs": 60_000}
    with ThreadPoolExecutor() as pool:
        wait = pool.submit(client.send, "POST", "/v1/waits/share-members", body)
        kafka.wait_until(lambda: _wait_count(kafka) == 1, timeout_s=30)
        client.ask("POST", "/v1/cluster/reset", status=204)
        reset = wait.result(60)
        wait = pool.submit(client.send, "POST", "/v1/waits/group", body)
        kafka.wait_until(lambda: _wait_count(kafka) == 1, timeout_s=30)
        kafka.stop()
        stopped = wait.result(60)

    assert (reset.status, reset.problem) == (409, "conflict")
    assert "the cluster was reset during a wait" in reset.body["detail"]
    assert (stopped.status, stopped.problem) == (503, "stopping")


def test_a_wait_ends_when_its_client_has_gone(kafka: Cluster) -> None:
    parts = urlsplit(kafka.control_url)
    body = b'{"groupId": "g", "timeoutMs": 600000}'
    with socket.create_connection((parts.hostname, parts.port)) as connection:
        head = f"Host: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        connection.sendall(f"POST /v1/waits/group HTTP/1.1\r\n{head}\r\n\r\n".encode() + body)
        kafka.wait_until(lambda: _wait_count(kafka) == 1, timeout_s=30)

    kafka.wait_until(lambda: _wait_count(kafka) == 0, timeout_s=30)
