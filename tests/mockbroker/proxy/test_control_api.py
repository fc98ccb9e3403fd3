"""The control of a proxy over HTTP, with the mock broker as the cluster behind it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from openapi_spec_validator import validate

from kwire.client import Client
from kwire.messages.list_groups import ListGroupsRequest
from kwire.messages.metadata import MetadataRequest
from mockbroker import Cluster, ConfigError, Proxy, WaitTimeout
from mockbroker.control.routes import OPERATIONS
from mockbroker.proxy.control_api import PROXY_API
from tests.support.brokers.control_client import ControlClient, description
from tests.support.brokers.threads import cluster_threads, threads_that_stay
from tests.support.browser import Browser

FAULT = {"when": {"api": "ListGroups", "times": 1}, "then": {"error": "COORDINATOR_NOT_AVAILABLE"}}
#: Public members of `Proxy` whose operation has another name, or that are for Python only.
_IN_OPERATIONS = {
    **dict.fromkeys(("bootstrap_servers", "nodes", "seed", "upstream"), "getProxiedCluster"),
    "check_faults": "listFaultMisses",
    "conformance_notes": "listConformanceNotes",
    "exchanges": "listExchanges",
    "faults": "listFaults",
    "has_faults": "listFaults",
    "share_edition": "getExchangeBytes",
    "wait_for_held": "waitForHeld",
    "wait_for_request": "waitForRequest",
    "listeners": "listListeners",
}
_PYTHON_ONLY = {
    "aio",
    "is_stopping",
    "start",
    "stop",
    "run",
    "run_async",
    "wait_until",
    "journal",
    "control_url",
    "requests",
}
_ASSERTIONS = {"assert_conformant", "assert_sent", "assert_never", "assert_count", "assert_order"}
_REFUSED = {"chaos", "reset"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=2, topics=["orders"], seed=1) as running:
        yield running


@pytest.fixture
def proxy(cluster: Cluster) -> Iterator[Proxy]:
    with Proxy(cluster.bootstrap_servers.split(",")[1], control=0, seed=3) as running:
        yield running


@pytest.fixture
def client(proxy: Proxy) -> ControlClient:
    return ControlClient(proxy.control_url, PROXY_API)


def list_groups(proxy: Proxy) -> int:
    with Client(proxy.bootstrap_servers, client_id="lists") as client:
        return int(client.send(ListGroupsRequest()).error_code)


def test_the_cluster_has_its_addresses_on_both_sides(cluster: Cluster, proxy: Proxy, client: ControlClient) -> None:
    shown = client.get("/v1/cluster")
    with Client(proxy.bootstrap_servers) as raw:
        brokers = raw.send(MetadataRequest(topics=[])).brokers

    addresses = cluster.bootstrap_servers.split(",")
    assert (shown["bootstrapServers"], shown["upstream"]) == (proxy.bootstrap_servers, addresses[1])
    assert shown["seed"] == 3
    assert [(row["node"], row["upstream"]) for row in shown["nodes"]] == [(0, addresses[0]), (1, addresses[1])]
    assert {row["node"]: row["address"] for row in shown["nodes"]} == {
        broker.node_id: f"{broker.host}:{broker.port}" for broker in brokers
    }


def test_a_fault_acts_and_its_hits_are_counted(proxy: Proxy, client: ControlClient) -> None:
    (added,) = client.ask("POST", "/v1/faults", FAULT, status=201)["faults"]
    missing = client.get("/v1/faults/misses")["misses"]
    codes = [list_groups(proxy), list_groups(proxy)]

    assert codes == [15, 0]
    assert [miss["number"] for miss in missing] == [added["number"]]
    assert client.get("/v1/faults/misses") == {"misses": []}
    assert client.ask("DELETE", f"/v1/faults/{added['number']}")["hits"] == 1
    assert client.get("/v1/faults") == {"faults": []}


def test_a_fault_of_nodes_is_refused_with_all_that_are_added_with_it(client: ControlClient) -> None:
    kill = {"action": "kill-node", "node": 0, "atMs": 60_000}
    answer = client.send("POST", "/v1/faults", {"faults": [FAULT], "clusterFaults": [kill]})

    assert (answer.status, answer.problem) == (422, "invalid-fault")
    assert "a proxy has no nodes of its own" in answer.body["detail"]
    assert client.get("/v1/faults") == {"faults": []}


def test_the_history_and_a_wait_have_what_was_forwarded(proxy: Proxy, client: ControlClient) -> None:
    seen = client.ask("POST", "/v1/waits/request", {"api": "ListGroups", "timeoutMs": 0}, status=409)["seen"]
    list_groups(proxy)
    waited = client.ask("POST", "/v1/waits/request", {"api": "ListGroups", "answered": True})
    (listed,) = client.get("/v1/exchanges?api=ListGroups&clientId=lists")["exchanges"]
    one = client.get(f"/v1/exchanges/{listed['number']}")
    shown = client.get(f"/v1/exchanges/{listed['number']}/bytes")

    assert seen.startswith("0; ")
    assert waited["exchanges"] == [listed]
    assert one["response"]["groups"] == []
    assert (shown["request"]["problem"], shown["response"]["problem"]) == (None, None)
    assert client.get("/v1/conformance-notes") == {"notes": []}


def test_the_stream_has_requests_and_faults(proxy: Proxy, client: ControlClient) -> None:
    with client.events("?kinds=exchange,fault") as events:
        assert next(events).body == {"kinds": ["exchange", "fault"]}
        client.ask("POST", "/v1/faults", FAULT, status=201)
        assert next(event for event in events if event.kind == "fault").body["hits"] == 0
        list_groups(proxy)
        answered = next(event for event in events if event.kind == "exchange" and event.body["api"] == "ListGroups")
        acted = next(event for event in events if event.kind == "fault")

    assert answered.body["errors"] == ["COORDINATOR_NOT_AVAILABLE"]
    assert acted.body["hits"] == 1
    with client.events() as events:
        assert next(events).body == {"kinds": list(PROXY_API.event_kinds)}
    answer = client.send("GET", "/v1/events?kinds=group")
    assert answer.problem == "invalid-value"
    assert "expected one of exchange, fault, request" in answer.body["detail"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/topics"),
        ("DELETE", "/v1/groups/g"),
        ("POST", "/v1/cluster/reset"),
        ("POST", "/v1/clock/freeze"),
        ("POST", "/v1/waits/group"),
        ("POST", "/v1/chaos"),
        ("PUT", "/v1/topics"),
    ],
)
def test_an_operation_that_a_proxy_does_not_have_is_refused_with_the_reason(
    client: ControlClient, method: str, path: str
) -> None:
    answer = client.send(method, path)

    assert (answer.status, answer.problem) == (404, "not-supported")
    assert f"{method} {path}: a proxy does not have this" in answer.body["detail"]


def test_other_wrong_requests_are_the_problems_that_they_are_for_a_cluster(client: ControlClient) -> None:
    wrong_method = client.send("PATCH", "/v1/faults")

    assert (wrong_method.status, wrong_method.problem) == (405, "method-not-allowed")
    assert {name.strip() for name in wrong_method.headers["allow"].split(",")} == {"GET", "HEAD", "POST", "DELETE"}
    assert client.send("GET", "/v1/none").problem == "not-found"
    assert client.send("GET", "/v1/cluster", headers={"Host": "attacker.example.com"}).problem == "forbidden-host"
    assert client.send("POST", "/v1/cluster/shutdown").problem == "conflict"


def test_the_description_is_valid_and_lists_the_operations_of_a_proxy_only(client: ControlClient) -> None:
    described = client.get("/openapi.json")
    paths = {(method.upper(), path) for path, item in described["paths"].items() for method in item}

    validate(described)
    assert described == description(PROXY_API)
    assert paths == {(operation.method, operation.path) for operation in PROXY_API.operations}
    assert {row["name"] for row in described["tags"]} == {"cluster", "faults", "waits", "history"}
    assert paths < {(operation.method, operation.path) for operation in OPERATIONS}


def test_faults_of_nodes_are_not_described_since_they_are_refused(client: ControlClient) -> None:
    described = client.get("/openapi.json")
    body = described["paths"]["/v1/faults"]["post"]["requestBody"]["content"]["application/json"]["schema"]

    assert body == {"oneOf": [{"$ref": f"#/components/schemas/{name}"} for name in ("Fault", "RequestFaults")]}
    assert "ClusterFault" not in json.dumps(described)
    assert "clusterFaults" not in json.dumps(described)
    refused = client.send("POST", "/v1/faults", {"clusterFaults": [{"action": "kill-node", "node": 0}]})
    assert refused.problem == "invalid-fault"
    assert len(client.ask("POST", "/v1/faults", {"faults": [FAULT, FAULT]}, status=201)["faults"]) == 2


def test_what_a_proxy_does_in_python_is_in_its_api() -> None:
    names = {name for name in dir(Proxy) if not name.startswith("_")}
    operations = {operation.operation_id for operation in PROXY_API.operations}

    assert names - _PYTHON_ONLY - _ASSERTIONS - _REFUSED == set(_IN_OPERATIONS)
    assert set(_IN_OPERATIONS.values()) <= operations


def test_the_control_ends_with_its_proxy_and_asks_for_its_token(cluster: Cluster) -> None:
    upstream = cluster.bootstrap_servers.split(",")[0]
    before = cluster_threads()
    with Proxy(upstream, control=0, control_token="coffee") as proxy:
        url = proxy.control_url
        port = urlsplit(url).port
        client = ControlClient(url, PROXY_API)
        statuses = [
            client.send("GET", "/v1/cluster").status,
            client.send("GET", "/v1/cluster", headers={"Authorization": "Bearer coffee"}).status,
        ]
        with pytest.raises(OSError, match=f"control: cannot listen on 127.0.0.1:{port}"):
            Proxy(upstream, control=port).start()

    assert statuses == [401, 200]
    assert threads_that_stay(before) == set()
    with pytest.raises(ConnectionRefusedError):
        ControlClient(url).send("GET", "/v1/cluster")
    with pytest.raises(RuntimeError, match="control=0"):
        _ = proxy.control_url
    with pytest.raises(ConfigError, match="control-token: given without control"):
        Proxy(upstream, control_token="coffee")


def test_the_live_page_shows_what_a_proxy_has(proxy: Proxy, chromium: Browser) -> None:
    chromium.open(f"{proxy.control_url}/", width=1280)
    chromium.wait_for("document.querySelector('#stream').textContent === 'live'")
    proxy.faults.add("ListGroups", error="COORDINATOR_NOT_AVAILABLE", times=1)
    list_groups(proxy)
    chromium.wait_for("document.querySelector('#faults-table tbody td.number')?.textContent === '1'")
    chromium.wait_for(
        "document.querySelector('#exchanges-table tbody')?.innerText.includes('COORDINATOR_NOT_AVAILABLE')"
    )
    about = chromium.evaluate("document.querySelector('#about').textContent")
    shown = "[...document.querySelectorAll('main > section, nav li, form.stack')].filter(one => one.checkVisibility())"

    assert about.startswith(f"Proxy for {proxy.upstream}, 2 nodes, seed 3; mockbroker ")
    assert chromium.evaluate(f"{shown}.map(one => one.id || one.innerText)") == [
        *("Faults", "Exchanges"),
        *("faults", "fault-form", "fault-json", "exchanges"),
    ]
    tiles = chromium.evaluate("[...document.querySelectorAll('#tiles dt')].map(one => one.textContent)")
    assert tiles == ["Faults", "Requests"]
    assert chromium.errors == []


def test_waits_and_checks_of_a_proxy_are_coroutines_too(proxy: Proxy) -> None:
    async def check() -> tuple[int, object]:
        _, history = await asyncio.gather(
            asyncio.to_thread(list_groups, proxy), proxy.aio.wait_for_request("ListGroups", answered=True)
        )
        await proxy.aio.assert_conformant()
        with pytest.raises(WaitTimeout):
            await proxy.aio.wait_for_request("Produce", timeout_s=0)
        return len(history), await proxy.aio.conformance_notes(client_id="lists")

    assert asyncio.run(check()) == (1, [])
