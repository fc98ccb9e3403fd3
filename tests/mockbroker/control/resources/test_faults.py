"""Faults and chaos profiles over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Producer

from kwire import Client
from kwire.messages.list_groups import ListGroupsRequest
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
    added = client.ask("POST", "/v1/faults", {"faults": [FAULT] * 1000}, status=201)["faults"]

    assert len(client.get("/v1/faults")["faults"]) == len(added) == 1000
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


def test_requests_are_held_and_released(kafka: Cluster, client: ControlClient) -> None:
    fault = {"when": {"api": "ListGroups"}, "then": {"hold": True}}
    client.ask("POST", "/v1/faults", fault, status=201)
    with Client(kafka.bootstrap_servers) as first, Client(kafka.bootstrap_servers) as second:
        pending = [each.submit(ListGroupsRequest()) for each in (first, second)]
        reached = client.ask("POST", "/v1/waits/held", {"fault": 1, "count": 2})
        late = client.send("POST", "/v1/waits/held", {"fault": 1, "count": 3, "timeoutMs": 1})
        shown = client.get("/v1/faults/1")["held"]
        released = client.ask("POST", "/v1/faults/1/release", {"count": 1})
        left = client.get("/v1/faults/1")["held"]
        rest = client.ask("POST", "/v1/faults/1/release")
        codes = [each.result(10).error_code for each in pending]
        held_again = client.ask("POST", "/v1/faults/1/hold")

    assert (reached, shown, left) == ({"fault": 1, "held": 2}, 2, 1)
    assert (released, rest) == ({"count": 1}, {"count": 1})
    assert codes == [0, 0]
    assert held_again["held"] == 0
    assert (late.status, late.problem) == (409, "wait-timeout")
    assert "waited 0.001 s for 3 requests held by the fault" in late.body["detail"]


def test_a_fault_that_holds_no_requests_is_refused(client: ControlClient) -> None:
    client.ask("POST", "/v1/faults", {"action": "expire-sessions", "optional": True, "atMs": 99999}, status=201)

    for path, body in (("/v1/faults/1/hold", None), ("/v1/faults/1/release", {}), ("/v1/waits/held", {"fault": 1})):
        answer = client.send("POST", path, body)
        assert (answer.status, answer.problem) == (422, "invalid-fault"), answer
    assert client.send("POST", "/v1/faults/9/hold").status == 404
    assert client.send("POST", "/v1/waits/held", {"fault": 9}).status == 404
    assert client.send("POST", "/v1/faults/1/release", {"count": 0}).status == 422


def test_a_member_is_fenced_and_a_response_is_given(kafka: Cluster, client: ControlClient) -> None:
    faults = [
        {"when": {"api": "ListGroups"}, "then": {"response": {"errorCode": 15}}},
        {"when": {"api": "Heartbeat"}, "then": {"state": "fence-member"}, "optional": True},
    ]
    client.ask("POST", "/v1/faults", {"faults": faults, "clusterFaults": []}, status=201)
    with Client(kafka.bootstrap_servers) as wire:
        assert wire.send(ListGroupsRequest()).error_code == 15

    wrong = client.send(
        "POST", "/v1/faults", {"when": {"api": "ListGroups"}, "then": {"setFields": {"error_code": [1]}}}
    )
    assert wrong.body["detail"] == "fault 1: then.setFields.error_code: expected `bool | int | str | null`, got `array`"
