"""Keys that are fetched from a URL: at the start, at intervals of the clock, for unknown ids, and from bad servers."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from kwire import Client
from kwire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kwire.messages.sasl_handshake import SaslHandshakeRequest
from mockbroker import Cluster, ConfigError
from mockbroker.net.jwks_refresh import fetch
from mockbroker.security.token_issuer import TokenIssuer
from tests.support.tokens import bearer_message

PACKAGE = "org.apache.kafka.common.security.oauthbearer"
TIMEOUT_S = 30
HOUR_MS = 3_600_000


class JwksServer:
    """An HTTP server with one body; `answer` is what follows the request line, None for the keys of the issuer."""

    def __init__(self, issuer: TokenIssuer) -> None:
        self.issuer = issuer
        self.request_count = 0
        self.answer: bytes | None = None
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.request_count += 1
                if outer.answer is not None:
                    self.wfile.write(outer.answer)
                    return
                self.send_response(200)
                self.end_headers()
                self.wfile.write(outer.issuer.public_keys())

            def log_message(self, *_: object) -> None:
                """Nothing is printed."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/keys?x=1"


@pytest.fixture
def jwks(tmp_path: Path) -> Iterator[JwksServer]:
    server = JwksServer(TokenIssuer(tmp_path / "jwks.json"))
    thread = threading.Thread(target=server.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.server.shutdown()
    thread.join(TIMEOUT_S)
    server.server.server_close()


def _cluster(url: str, **more: object) -> Cluster:
    prefix = "listener.name.sasl_plaintext.oauthbearer.sasl"
    properties = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{prefix}.jaas.config": f"{PACKAGE}.OAuthBearerLoginModule required;",
        f"{prefix}.server.callback.handler.class": f"{PACKAGE}.OAuthBearerValidatorCallbackHandler",
        "sasl.oauthbearer.jwks.endpoint.url": url,
        "sasl.oauthbearer.expected.audience": "mockbroker",
        "sasl.oauthbearer.expected.issuer": "mockbroker",
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": 1,
        "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": 4,
        **more,
    }
    return Cluster(properties=properties)


def _logs_in(cluster: Cluster, jwks: JwksServer) -> bool:
    token = jwks.issuer.create_token("alice", now_ms=cluster.clock.now_ms(), expires_in_s=24 * 3_600)
    with Client(cluster.bootstrap_servers) as client:
        client.send(SaslHandshakeRequest("OAUTHBEARER"), 1)
        response: SaslAuthenticateResponse = client.send(SaslAuthenticateRequest(bearer_message(token)), 2)
        return response.auth_bytes == b""


def _wait_until_it_logs_in(cluster: Cluster, jwks: JwksServer) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not _logs_in(cluster, jwks):
        assert time.monotonic() < deadline, "the keys were not fetched"


def test_keys_are_fetched_once_at_the_start(jwks: JwksServer) -> None:
    with _cluster(jwks.url) as cluster:
        assert _logs_in(cluster, jwks)
        assert _logs_in(cluster, jwks)

    assert jwks.request_count == 1


def test_an_unknown_key_is_fetched_for_the_next_login(jwks: JwksServer) -> None:
    """Seen with Kafka 4.4.0: the first login is refused, and the one after the refresh is not."""
    with _cluster(jwks.url) as cluster:
        jwks.issuer.rotate_keys()
        assert not _logs_in(cluster, jwks)
        _wait_until_it_logs_in(cluster, jwks)

    assert jwks.request_count == 2


def test_keys_are_fetched_again_when_the_clock_has_moved_by_their_interval(jwks: JwksServer) -> None:
    with _cluster(jwks.url) as cluster:
        cluster.clock.freeze()
        cluster.clock.advance(HOUR_MS - 10_000)
        assert jwks.request_count == 1
        jwks.issuer.rotate_keys()
        cluster.clock.advance(10_001)
        _wait_until_it_logs_in(cluster, jwks)

    assert jwks.request_count >= 2


def test_keys_remain_when_fetching_them_fails(jwks: JwksServer, caplog: pytest.LogCaptureFixture) -> None:
    with _cluster(jwks.url) as cluster:
        jwks.answer = b"HTTP/1.1 500 Broken\r\n\r\n"
        cluster.clock.advance(HOUR_MS + 1)
        deadline = time.monotonic() + TIMEOUT_S
        while "cannot be fetched, its last keys remain: the answer has the status 500" not in caplog.text:
            assert time.monotonic() < deadline
        assert _logs_in(cluster, jwks)
        # One at the start, then three attempts: the later ones after 1 and 2 ms.
        assert jwks.request_count == 4


def test_a_cluster_that_is_reset_keeps_the_keys(jwks: JwksServer) -> None:
    with _cluster(jwks.url) as cluster:
        cluster.reset()
        assert _logs_in(cluster, jwks)
        jwks.issuer.rotate_keys()
        _wait_until_it_logs_in(cluster, jwks)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"HTTP/1.1 404 Not Found\r\n\r\n", "the answer has the status 404"),
        (b"HTTP/1.1 302 Found\r\nLocation: /elsewhere\r\n\r\n", "the answer has the status 302"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}", "no valid answer: IncompleteRead"),
        (b"\x15\x03\x01", "no valid answer: BadStatusLine"),
        (b"HTTP/1.1 200 OK\r\n\r\n<html>", "not a JWKS"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b" " * 1_200_000, "the answer has more than 1048576 bytes"),
    ],
)
def test_a_cluster_does_not_start_without_keys(jwks: JwksServer, answer: bytes, reason: str) -> None:
    jwks.answer = answer

    with pytest.raises(ConfigError, match=f"jwks.endpoint.url: http://127.0.0.1:.*{reason}"):
        _cluster(jwks.url).start()


def test_a_server_that_is_not_there_is_named(jwks: JwksServer) -> None:
    jwks.server.server_close()

    with pytest.raises(ConfigError, match=r"jwks\.endpoint\.url: http://127\.0\.0\.1:"):
        _cluster(jwks.url).start()


def test_chunks_are_joined(jwks: JwksServer) -> None:
    jwks.answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"

    assert asyncio.run(fetch(jwks.url)) == b"abcde"
