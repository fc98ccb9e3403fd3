"""`cluster.oauth`: tokens by which tests log in as anyone, until a time of the cluster's clock."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kwire import Client
from kwire.capture.reader import read_rows
from kwire.client import ClientError
from kwire.messages.metadata import MetadataRequest
from kwire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kwire.messages.sasl_handshake import SaslHandshakeRequest
from mockbroker import Cluster
from tests.support.tokens import bearer_message

INVALID = b'{"status":"invalid_token"}'


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(topics=["orders"], sasl="OAUTHBEARER") as running:
        running.clock.freeze()
        yield running


def _authenticate(client: Client, token: str) -> SaslAuthenticateResponse:
    client.send(SaslHandshakeRequest("OAUTHBEARER"), 1)
    response: SaslAuthenticateResponse = client.send(SaslAuthenticateRequest(bearer_message(token)), 2)
    return response


def _log_in(cluster: Cluster, token: str) -> SaslAuthenticateResponse:
    with Client(cluster.bootstrap_servers) as client:
        return _authenticate(client, token)


def test_the_subject_of_a_token_is_the_principal(cluster: Cluster) -> None:
    with Client(cluster.bootstrap_servers) as client:
        _authenticate(client, cluster.oauth.token("alice"))
        client.send(MetadataRequest(topics=[]))

    assert cluster.exchanges("Metadata")[0].principal == "User:alice"


def test_the_session_lasts_as_long_as_the_token_by_the_clock_of_the_cluster(cluster: Cluster) -> None:
    with Client(cluster.bootstrap_servers) as client:
        lifetime_ms = _authenticate(client, cluster.oauth.token("alice", expires_in_s=60)).session_lifetime_ms
        cluster.clock.advance(lifetime_ms - 1)
        client.send(MetadataRequest(topics=[]))
        cluster.clock.advance(1)
        with pytest.raises(ClientError):
            client.send(MetadataRequest(topics=[]))

    assert 59_000 <= lifetime_ms <= 60_000
    assert cluster.exchanges("Metadata")[-1].closed == "the session of User:alice has ended"


def test_a_client_that_authenticates_again_goes_on(cluster: Cluster) -> None:
    with Client(cluster.bootstrap_servers) as client:
        _authenticate(client, cluster.oauth.token("alice", expires_in_s=60))
        cluster.clock.advance(59_000)
        again = _authenticate(client, cluster.oauth.token("alice", expires_in_s=60))
        cluster.clock.advance(30_000)

        assert again.error_code == 0
        assert client.send(MetadataRequest(topics=[])).brokers


def test_tokens_that_clients_should_not_have_are_refused(cluster: Cluster) -> None:
    oauth = cluster.oauth
    kept = oauth.token("alice")
    assert _log_in(cluster, oauth.token("alice", expires_in_s=-60)).auth_bytes == INVALID
    assert _log_in(cluster, oauth.token("alice", claims={"iss": "other"})).auth_bytes == INVALID
    oauth.rotate_keys(keep_previous=True)
    assert _log_in(cluster, kept).auth_bytes == b""
    oauth.rotate_keys()
    assert _log_in(cluster, kept).auth_bytes == INVALID
    assert _log_in(cluster, oauth.token("alice")).auth_bytes == b""


def test_tokens_are_in_no_journal_log_or_capture(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "traffic.pcapng"
    caplog.set_level("DEBUG")
    with Cluster(sasl="OAUTHBEARER", capture=path) as cluster:
        tokens = [cluster.oauth.token("alice"), cluster.oauth.token("alice", expires_in_s=-60)]
        for token in tokens:
            _log_in(cluster, token)
        shown = str([exchange.to_json() for exchange in cluster.exchanges()]) + caplog.text
    rows = str(list(read_rows(str(path))))

    assert "'authBytes': '***'" in shown
    assert "***" in rows
    for token in tokens:
        for part in token.split("."):
            assert part not in shown
            assert part not in rows


def test_a_cluster_that_is_reset_accepts_its_tokens(cluster: Cluster) -> None:
    token = cluster.oauth.token("alice")
    cluster.reset()

    assert _log_in(cluster, token).auth_bytes == b""


def test_other_clusters_issue_no_tokens() -> None:
    with Cluster() as cluster, pytest.raises(RuntimeError, match='start it with sasl="OAUTHBEARER"'):
        cluster.oauth.token("alice")
