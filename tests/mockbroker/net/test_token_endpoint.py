"""The token endpoint, by HTTP requests as clients and others send them."""

from __future__ import annotations

import base64
import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlsplit

import jwt
import pytest

from mockbroker import Cluster

GRANT = b"grant_type=client_credentials"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(sasl="OAUTHBEARER alice:sec:ret") as running:
        yield running


def _request(
    cluster: Cluster, body: bytes | None = GRANT, *, url: str | None = None, basic: str | None = "alice:sec:ret"
) -> tuple[int, dict[str, Any]]:
    headers = {} if basic is None else {"Authorization": "Basic " + base64.b64encode(basic.encode()).decode()}
    request = urllib.request.Request(url or cluster.oauth.token_endpoint_url, body, headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_a_client_gets_a_token_with_its_scope(cluster: Cluster) -> None:
    status, answer = _request(cluster, GRANT + b"&scope=read+write")
    claims = jwt.decode(answer["access_token"], options={"verify_signature": False})

    assert (status, answer["token_type"], answer["expires_in"], answer["scope"]) == (200, "Bearer", 3_600, "read write")
    assert (claims["sub"], claims["scope"]) == ("alice", "read write")


def test_credentials_may_be_in_the_form(cluster: Cluster) -> None:
    body = GRANT + b"&client_id=alice&client_secret=sec%3Aret"

    assert _request(cluster, body, basic=None)[0] == 200


def test_the_lifetime_of_tokens_can_be_set(cluster: Cluster) -> None:
    cluster.oauth.token_lifetime_s = 5
    try:
        assert _request(cluster)[1]["expires_in"] == 5
    finally:
        cluster.oauth.token_lifetime_s = 3_600


def test_other_services_get_the_keys(cluster: Cluster) -> None:
    status, answer = _request(cluster, None, url=cluster.oauth.jwks_url)
    key = jwt.PyJWKSet.from_dict(answer).keys[0]

    assert status == 200
    assert jwt.decode(cluster.oauth.token("bob"), key, algorithms=["ES256"], audience="mockbroker")["sub"] == "bob"


@pytest.mark.parametrize(
    ("options", "status", "error"),
    [
        ({"basic": "alice:wrong"}, 401, "invalid_client"),
        ({"basic": "bob:sec:ret"}, 401, "invalid_client"),
        ({"basic": "alice"}, 401, "invalid_client"),
        ({"basic": None}, 401, "invalid_client"),
        ({"body": b"grant_type=password"}, 400, "unsupported_grant_type"),
        ({"body": b""}, 400, "unsupported_grant_type"),
        ({"body": None}, 405, "invalid_request"),
        ({"body": b"x" * 70_000}, 413, "invalid_request"),
    ],
)
def test_other_requests_are_refused(cluster: Cluster, options: dict[str, Any], status: int, error: str) -> None:
    assert _request(cluster, **options) == (status, {"error": error})


def test_other_paths_are_not_found(cluster: Cluster) -> None:
    base = cluster.oauth.token_endpoint_url.removesuffix("/token")

    assert _request(cluster, None, url=f"{base}/other")[0] == 404
    assert _request(cluster, GRANT, url=f"{base}/jwks")[0] == 405


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        (b"GET\r\n\r\n", b"HTTP/1.1 400 "),
        (b"POST /token HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", b"HTTP/1.1 411 "),
        (b"POST /token HTTP/1.1\r\nContent-Length: -1\r\n\r\n", b"HTTP/1.1 411 "),
        (b"POST /token HTTP/1.1\r\n" + b"x: y\r\n" * 10_000, b""),
        (b"\x16\x03\x01\x02", b""),
    ],
)
def test_what_is_no_request_is_refused_or_closed(cluster: Cluster, data: bytes, answer: bytes) -> None:
    host, port = cluster.oauth.token_endpoint_url.removeprefix("http://").removesuffix("/token").split(":")
    with socket.create_connection((host, int(port)), timeout=10) as client:
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        try:
            received = client.makefile("rb").read()
        except ConnectionResetError:
            received = b""

    assert received[: max(1, len(answer))] == answer


def test_the_endpoint_ends_when_the_address_of_a_listener_is_in_use() -> None:
    with Cluster() as first:
        port = int(first.bootstrap_servers.rsplit(":", 1)[1])
        second = Cluster(sasl="OAUTHBEARER", port=port)
        with pytest.raises(OSError, match="in use"):
            second.start()
        security = second._options.security
        assert security is not None

        with pytest.raises(urllib.error.URLError):
            urllib.request.urlopen(str(security.token_endpoint_url), timeout=10)


def test_the_endpoint_ends_with_its_cluster() -> None:
    with Cluster(sasl="OAUTHBEARER") as cluster:
        url = cluster.oauth.token_endpoint_url
        assert _request(cluster, basic="anyone:at all")[0] == 200

    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url, timeout=10)


def test_connections_that_send_no_request_keep_nobody_out(cluster: Cluster) -> None:
    address = urlsplit(cluster.oauth.token_endpoint_url)
    assert address.hostname is not None
    assert address.port is not None
    with ExitStack() as stack:
        silent = [
            stack.enter_context(socket.create_connection((address.hostname, address.port), timeout=10))
            for _ in range(200)
        ]

        assert [_request(cluster)[0] for _ in range(3)] == [200, 200, 200]
        assert silent[0].recv(1) == b""
