"""The cluster, its nodes and its clock over HTTP."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mockbroker import Cluster
from tests.support.brokers.control_client import ControlClient


@pytest.fixture
def kafka() -> Iterator[Cluster]:
    properties = {"default.replication.factor": 2}
    with Cluster(control=0, nodes=2, topics=["orders"], seed=7, profile="quick", properties=properties) as cluster:
        yield cluster


@pytest.fixture
def client(kafka: Cluster) -> ControlClient:
    return ControlClient(kafka.control_url)


def test_the_cluster_has_its_addresses_and_its_seed(kafka: Cluster, client: ControlClient) -> None:
    cluster = client.get("/v1/cluster")
    endpoints = [node["endpoints"]["PLAINTEXT"] for node in cluster["nodes"]]

    assert ",".join(endpoints) == cluster["bootstrapServers"] == kafka.bootstrap_servers
    assert cluster["bootstrapControllers"] is None
    assert (cluster["seed"], cluster["profile"], cluster["release"]) == (7, "quick", "4.4")
    settings = client.get("/v1/cluster/client-settings?library=aiokafka")["settings"]
    assert settings["bootstrap_servers"] == kafka.bootstrap_servers


def test_a_reset_leaves_nothing_and_goes_on_at_the_same_address(kafka: Cluster, client: ControlClient) -> None:
    client.ask("POST", "/v1/topics", {"name": "later"}, status=201)
    client.ask("POST", "/v1/clock/freeze")
    client.ask("POST", "/v1/cluster/reset", status=204)

    assert [topic["name"] for topic in client.get("/v1/topics")["topics"]] == ["orders"]
    assert client.get("/v1/clock")["mode"] == "running"


def test_nodes_are_killed_started_paused_stopped_and_added(client: ControlClient) -> None:
    states = [
        client.ask("POST", f"/v1/nodes/1/{action}")["state"]
        for action in ("kill", "start", "pause", "resume", "stop", "start")
    ]
    added = client.send("POST", "/v1/nodes")

    assert states == ["down", "running", "paused", "running", "down", "running"]
    assert (added.status, added.headers["location"]) == (201, "/v1/nodes/2")
    assert client.get("/v1/nodes/2") == added.body
    assert [node["node"] for node in client.get("/v1/nodes")["nodes"]] == [0, 1, 2]


def test_a_node_that_cannot_do_it_is_a_problem_and_stays_as_it_is(client: ControlClient) -> None:
    refused = client.send("POST", "/v1/nodes/1/start")

    assert (refused.status, refused.body["kafkaError"]) == (409, "DUPLICATE_BROKER_REGISTRATION")
    assert client.send("POST", "/v1/nodes/9/stop").status == 404
    assert client.send("POST", "/v1/nodes/1/resume").body["kafkaError"] == "BROKER_NOT_AVAILABLE"
    assert client.get("/v1/nodes/1")["state"] == "running"


def test_the_clock_is_frozen_moved_and_resumed(kafka: Cluster, client: ControlClient) -> None:
    frozen = client.ask("POST", "/v1/clock/freeze")
    moved = client.ask("POST", "/v1/clock/advance", {"durationMs": 30_000})

    assert moved == {"nowMs": frozen["nowMs"] + 30_000, "mode": "frozen"}
    assert kafka.clock.now_ms() == moved["nowMs"]
    assert client.ask("POST", "/v1/clock/auto", {"settleMs": 5})["mode"] == "auto"
    assert client.ask("POST", "/v1/clock/resume")["mode"] == "running"


def test_a_move_of_the_clock_beyond_its_limit_is_answered_with_how_far_it_came() -> None:
    replication = {"mockbroker.replication": "real", "default.replication.factor": "3"}
    with Cluster(nodes=3, topics=["orders"], properties=replication, control=0) as kafka:
        client = ControlClient(kafka.control_url)
        client.ask("POST", "/v1/clock/freeze")
        before_ms = client.get("/v1/clock")["nowMs"]
        body = {"durationMs": 100 * 365 * 24 * 3_600_000, "timeoutMs": 50}
        answer = client.send("POST", "/v1/clock/advance", body)
        moved_ms = client.get("/v1/clock")["nowMs"] - before_ms

    assert (answer.status, answer.problem) == (409, "wait-timeout")
    assert moved_ms > 0
    assert answer.body["seen"].startswith(f"it was moved by {moved_ms} ms, with deadlines at ")


@pytest.mark.parametrize(("action", "body"), [("advance", {"durationMs": -1}), ("auto", {"settleMs": -1})])
def test_a_negative_time_is_refused(client: ControlClient, action: str, body: dict[str, int]) -> None:
    before = client.ask("POST", "/v1/clock/freeze")

    assert client.send("POST", f"/v1/clock/{action}", body).problem == "invalid-request"
    assert client.get("/v1/clock") == before
