"""Requests that are wrong: each is answered with a problem, and changes nothing."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from mockbroker import Cluster
from mockbroker.control.request_parts import BODY_BYTES_MAX
from tests.support.brokers.control_client import ControlClient


@pytest.fixture(scope="module")
def kafka() -> Iterator[Cluster]:
    with Cluster(control=0) as cluster:
        yield cluster


@pytest.fixture
def client(kafka: Cluster) -> ControlClient:
    return ControlClient(kafka.control_url)


@pytest.mark.parametrize(
    ("data", "status", "problem", "detail"),
    [
        ("{", 400, "malformed-json", "truncated"),
        (b"\xff", 400, "malformed-json", ""),
        ('{"x":' * 100_000, 422, "invalid-request", "unknown field 'x'"),
        ('{"configs":' + "[" * 100_000, 422, "invalid-request", "Expected `object | null`, got `array`"),
        ("[]", 422, "invalid-request", "Expected `object`, got `array`"),
        ("", 422, "invalid-request", "missing required field `name`"),
        ('{"name": 7}', 422, "invalid-request", "Expected `str`, got `int` - at `$.name`"),
        ('{"name": "t", "partition": 1}', 422, "invalid-request", "'partition'; did you mean 'partitions'?"),
        ('{"name": "t", "partitions": 0}', 422, "invalid-request", "`int` >= 1"),
        ('{"name": "t", "partitions": 1e400}', 422, "invalid-request", "out of range"),
        ('{"name": "a b"}', 422, "kafka-error", "Topic name is invalid"),
        ('{"name": "t", "configs": {"retention.ms": "x"}}', 422, "kafka-error", "retention.ms"),
        ('{"name": "t", "replicationFactor": 3}', 422, "kafka-error", ""),
    ],
)
def test_a_wrong_body_is_a_problem(
    client: ControlClient, data: str | bytes, status: int, problem: str, detail: str
) -> None:
    answer = client.send("POST", "/v1/topics", data=data)

    assert (answer.status, answer.problem) == (status, problem)
    assert detail in answer.body["detail"]
    assert client.get("/v1/topics") == {"topics": []}


def test_a_body_must_be_json_by_its_type(client: ControlClient) -> None:
    answer = client.send("POST", "/v1/topics", {"name": "t"}, headers={"Content-Type": "text/plain"})

    assert (answer.status, answer.problem) == (415, "unsupported-media-type")


@pytest.mark.parametrize("is_chunked", [True, False])
def test_a_large_body_is_refused_before_it_is_read(kafka: Cluster, is_chunked: bool) -> None:
    parts = urlsplit(kafka.control_url)
    head = "Transfer-Encoding: chunked" if is_chunked else f"Content-Length: {BODY_BYTES_MAX + 1}"
    with socket.create_connection((parts.hostname, parts.port), timeout=60) as connection:
        lines = ["POST /v1/topics HTTP/1.1", "Host: localhost", "Content-Type: application/json", head, "", ""]
        connection.sendall("\r\n".join(lines).encode())
        if is_chunked:
            connection.sendall(b"%x\r\n" % (BODY_BYTES_MAX + 1) + b" " * (BODY_BYTES_MAX + 1))
        response = http.client.HTTPResponse(connection)
        response.begin()

        assert response.status == 413
        assert b"body-too-large" in response.read()


@pytest.mark.parametrize(
    ("method", "path", "status", "problem"),
    [
        ("GET", "/v2/topics", 404, "not-found"),
        ("GET", "/v1/topics/", 404, "not-found"),
        ("GET", "/v1/topics/orders", 404, "kafka-error"),
        ("PUT", "/v1/topics", 405, "method-not-allowed"),
        ("GET", "/v1/topics?x=1", 422, "invalid-request"),
        ("GET", "/v1/exchanges?limit=0", 422, "invalid-request"),
        ("GET", "/v1/exchanges?limit=many", 422, "invalid-request"),
        ("GET", "/v1/exchanges?limit=1&limit=2", 422, "invalid-request"),
        ("GET", "/v1/exchanges?api=Prod", 422, "invalid-value"),
        ("GET", "/v1/exchanges?filter=acks%3D0", 422, "invalid-value"),
        ("GET", "/v1/exchanges?api=Produce&filter=ack%3D0", 422, "invalid-value"),
        ("GET", "/v1/exchanges?api=Produce&group=g", 422, "invalid-value"),
        ("GET", "/v1/exchanges?error=NO_SUCH", 422, "invalid-value"),
        ("GET", "/v1/exchanges/1", 404, "not-found"),
        ("GET", "/v1/events?kinds=exchanges", 422, "invalid-value"),
        ("GET", "/v1/groups/%FF", 400, "malformed-request"),
        ("GET", "/v1/groups?kind=null", 422, "invalid-request"),
        ("DELETE", "/v1/chaos/profiles", 405, "method-not-allowed"),
        ("PUT", "/v1/events", 405, "method-not-allowed"),
        ("GET", "/v1/nodes/one", 422, "invalid-request"),
        ("GET", "/v1/coordinators/share/g", 422, "invalid-request"),
        ("POST", "/v1/cluster/shutdown", 409, "conflict"),
    ],
)
def test_a_wrong_request_is_a_problem(client: ControlClient, method: str, path: str, status: int, problem: str) -> None:
    answer = client.send(method, path)

    assert (answer.status, answer.problem) == (status, problem)
    assert answer.body["detail"]


def test_a_body_where_none_is_expected_is_refused(client: ControlClient) -> None:
    assert client.send("POST", "/v1/clock/freeze", {"durationMs": 5}).problem == "invalid-request"
    assert client.get("/v1/clock")["mode"] == "running"
    assert client.send("POST", "/v1/clock/resume", {}).status == 200


def test_a_method_that_there_is_not_is_answered_with_those_that_there_are(client: ControlClient) -> None:
    answer = client.send("PATCH", "/v1/faults")

    assert {name.strip() for name in answer.headers["allow"].split(",")} == {"GET", "HEAD", "POST", "DELETE"}


def test_an_offer_of_http_2_is_passed_over_in_silence(client: ControlClient, caplog: pytest.LogCaptureFixture) -> None:
    """Java's HttpClient sends it with the first requests."""
    headers = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAEAAEAAAAIAAAAA"}

    assert client.send("POST", "/v1/clock/resume", {}, headers=headers).status == 200
    assert client.send("GET", "/v1/clock", headers=headers).status == 200
    assert caplog.records == []


def test_what_is_not_http_is_logged(kafka: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    parts = urlsplit(kafka.control_url)
    with socket.create_connection((parts.hostname, parts.port), timeout=60) as connection:
        connection.sendall(b"\x16\x03\x01 hello\r\n\r\n")
        response = connection.recv(4096)

    assert response.startswith(b"HTTP/1.1 400 ")
    assert [record.getMessage() for record in caplog.records] == ["Invalid HTTP request received."]


def test_the_page_names_the_description(client: ControlClient) -> None:
    assert b'href="/openapi.json"' in client.get("/")
    assert client.get("/openapi.json")["info"]["title"] == "mockbroker"
    assert client.send("HEAD", "/v1/cluster").status == 200
