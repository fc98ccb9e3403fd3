"""Faults and chaos profiles over HTTP."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from mockbroker import Cluster
from mockbroker.faults.chaos import PROFILES
from tests.support.brokers.control_client import ControlClient

FAULT = {"when": {"api": "Produce", "topic": "orders", "times": 1}, "then": {"error": "NOT_LEADER_OR_FOLLOWER"}}


@pytest.fixture
def kafka() -> Iterator[Cluster]:
    with Cluster(control=0, topics=["orders"]) as cluster:
        yield cluster


@pytest.fixture
def client(kafka: Cluster) -> ControlClient:
    return ControlClient(kafka.control_url)


@pytest.mark.client
def test_a_fault_acts_on_a_producer_and_counts_its_hits(kafka: Cluster, client: ControlClient) -> None:
    (added,) = client.ask("POST", "/v1/faults", FAULT, status=201)["faults"]
    missing = client.get("/v1/faults/misses")["misses"]
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    producer.produce("orders", b"one espresso")
    assert producer.flush(30) == 0

    assert (added["number"], added["hits"], added["fault"]) == (1, 0, FAULT)
    assert [miss["number"] for miss in missing] == [1]
    assert "no requests of Produce came" in missing[0]["message"]
    assert client.get("/v1/faults/1")["hits"] == 1
    assert client.get("/v1/faults/misses") == {"misses": []}
    assert client.ask("DELETE", "/v1/faults/1")["hits"] == 1
    assert client.get("/v1/faults") == {"faults": []}
    assert client.get("/v1/faults/1")["isActive"] is False


def test_a_fault_that_was_removed_before_it_acted_is_a_miss_unless_it_is_left_out(
    kafka: Cluster, client: ControlClient
) -> None:
    client.ask("POST", "/v1/faults", {"faults": [FAULT, FAULT]}, status=201)
    client.ask("DELETE", "/v1/faults/1")

    misses = client.get("/v1/faults/misses")["misses"]
    assert [(miss["number"], miss["isActive"]) for miss in misses] == [(1, False), (2, True)]
    assert misses[0]["message"].endswith('\n  With "optional": true in it the fault need not act.')
    assert "optional=True" not in misses[0]["message"]
    assert client.get("/v1/faults/misses?removed=false")["misses"] == misses[1:]
    client.ask("DELETE", "/v1/faults", status=204)
    assert client.get("/v1/faults/misses") == {"misses": []}


def test_faults_of_requests_and_of_nodes_are_added_together(kafka: Cluster, client: ControlClient) -> None:
    body = {"faults": [FAULT, FAULT], "clusterFaults": [{"action": "kill-node", "node": 0, "atMs": 60_000}]}
    added = client.ask("POST", "/v1/faults", body, status=201)["faults"]
    one = client.ask("POST", "/v1/faults", {"action": "pause-node", "node": 0, "atMs": 60_000}, status=201)

    assert [fault["number"] for fault in added + one["faults"]] == [1, 2, 3, 4]
    assert [handle.number for handle in kafka.faults.list()] == [1, 2, 3, 4]
    client.ask("DELETE", "/v1/faults", status=204)
    assert client.get("/v1/faults") == {"faults": []}
    assert client.send("GET", "/v1/faults/1").problem == "not-found"


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({}, "missing required field `then`"),
        ({"when": {"api": "Prduce"}, "then": {"drop": "close"}}, "did you mean 'Produce'?"),
        ({"when": {"api": "Produce"}, "then": {"eror": "X"}}, "did you mean 'error'?"),
        ({"when": {"api": "Produce"}, "then": {"error": "NO_LEADER"}}, "NO_LEADER"),
        ({"when": {"api": "Produce"}, "then": {"delayMs": -1}}, ">= 0"),
        ({"faults": [FAULT, {"when": {"api": "Fetch", "node": 9}, "then": {"drop": "close"}}]}, "fault 2: node: 9"),
        ({"action": "kill-node", "node": 9}, "node: 9 is not one of 0"),
        ({"action": "kill"}, "kill"),
    ],
)
def test_one_fault_that_can_never_act_adds_none(client: ControlClient, body: dict[str, Any], detail: str) -> None:
    answer = client.send("POST", "/v1/faults", body)

    assert (answer.status, answer.problem) == (422, "invalid-fault")
    assert detail in answer.body["detail"]
    assert client.get("/v1/faults") == {"faults": []}


def test_a_thousand_faults_are_added_at_once(client: ControlClient) -> None:
    started_s = time.monotonic()
    added = client.ask("POST", "/v1/faults", {"faults": [FAULT] * 1000}, status=201)["faults"]

    assert len(client.get("/v1/faults")["faults"]) == len(added) == 1000
    assert time.monotonic() - started_s < 20
    assert client.send("POST", "/v1/faults", {"faults": [FAULT] * 10_001}).problem == "invalid-value"
    assert len(client.get("/v1/faults")["faults"]) == 1000


def test_a_chaos_profile_runs_until_it_is_stopped(client: ControlClient) -> None:
    started = client.send("POST", "/v1/chaos", {"profile": "slow-network", "seed": 7})
    running = client.get("/v1/chaos/1")
    stopped = client.ask("DELETE", "/v1/chaos/1")

    assert (started.status, started.headers["location"], running["seed"]) == (201, "/v1/chaos/1", 7)
    assert (running["isActive"], stopped["isActive"]) == (True, False)
    assert client.get("/v1/chaos")["chaos"] == [stopped]
    assert client.get("/v1/faults") == {"faults": []}
    assert [profile["name"] for profile in client.get("/v1/chaos/profiles")["profiles"]] == list(PROFILES)
    assert client.send("POST", "/v1/chaos", {"profile": "slow"}).problem == "invalid-fault"
    assert client.send("GET", "/v1/chaos/2").status == 404
