"""Who may use the control: Host, Origin and token, over sockets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from starlette.datastructures import Headers

from mockbroker import Cluster
from mockbroker.control.access import check_host
from mockbroker.control.options import ControlOptions
from mockbroker.control.problems import ProblemError
from tests.support.brokers.control_client import ControlClient


@pytest.fixture(scope="module")
def client() -> Iterator[ControlClient]:
    with Cluster(control=0) as cluster:
        yield ControlClient(cluster.control_url)


@pytest.mark.parametrize("host", ["127.0.0.1:1", "localhost", "LOCALHOST:80", "[::1]:80", "127.9.9.9", "a.localhost"])
def test_names_of_this_machine_are_accepted(client: ControlClient, host: str) -> None:
    assert client.send("GET", "/v1/clock", headers={"Host": host}).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:80",
        "",
        "192.0.2.1",
        "u@localhost",
        "localhost:99999",
        "mockbroker",
        "a/b",
        "[::1",
    ],
)
def test_another_host_is_refused(client: ControlClient, host: str) -> None:
    answer = client.send("POST", "/v1/cluster/reset", headers={"Host": host})

    assert (answer.status, answer.problem) == (403, "forbidden-host")


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "https://127.0.0.1:1", "http://127.0.0.1:2", ""])
def test_a_page_from_another_origin_is_refused(client: ControlClient, origin: str) -> None:
    answer = client.send("POST", "/v1/clock/freeze", headers={"Host": "127.0.0.1:1", "Origin": origin})

    assert (answer.status, answer.problem) == (403, "forbidden-origin")
    assert client.get("/v1/clock")["mode"] == "running"


def test_a_page_of_the_control_itself_is_accepted(client: ControlClient) -> None:
    headers = {"Host": "localhost:9", "Origin": "http://localhost:9"}

    assert client.send("GET", "/v1/clock", headers=headers).status == 200


def test_with_a_token_every_request_of_the_api_needs_it() -> None:
    with Cluster(control=0, control_token="s3cret") as cluster:
        client = ControlClient(cluster.control_url)
        refused = [
            client.send("POST", "/v1/topics", {"name": "orders"}, headers=headers)
            for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic s3cret"})
        ]
        page = client.send("GET", "/openapi.json")
        allowed = client.send("GET", "/v1/topics", headers={"Authorization": "Bearer s3cret"})

    assert [(answer.status, answer.problem) for answer in refused] == [(401, "unauthorized")] * 3
    assert {answer.headers["www-authenticate"] for answer in refused} == {"Bearer"}
    assert refused[1].body["detail"].startswith("the token is wrong")
    assert page.body["security"] == [{"token": []}]
    assert allowed.body == {"topics": []}


@pytest.mark.parametrize("host", ["192.0.2.1:9090", "mockbroker:9090", "host.docker.internal", "ci.example.com:1"])
def test_beyond_loopback_names_outside_of_the_public_dns_are_accepted(host: str) -> None:
    assert check_host(Headers({"host": host}), ControlOptions("ci.example.com", 9090, "s3cret")) == host


def test_beyond_loopback_public_names_are_refused() -> None:
    with pytest.raises(ProblemError, match="may lead to another server"):
        check_host(Headers({"host": "evil.example"}), ControlOptions("0.0.0.0", 9090, "s3cret"))
    with pytest.raises(ProblemError, match="is not an address"):
        check_host(Headers(raw=[(b"host", b"localhost"), (b"host", b"evil.example")]), ControlOptions())
