"""Certificates over HTTP."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from kwire.client import Client, ClientError
from mockbroker import Cluster
from tests.support.brokers.control_client import ControlClient
from tests.support.certificates import fetch_certificate


@pytest.fixture
def kafka() -> Iterator[Cluster]:
    with Cluster(control=0, nodes=2, tls="auto") as cluster:
        yield cluster


@pytest.fixture
def client(kafka: Cluster) -> ControlClient:
    return ControlClient(kafka.control_url)


def test_a_broker_presents_what_is_rotated(kafka: Cluster, client: ControlClient) -> None:
    rotated = client.ask("POST", "/v1/tls/rotate", {"node": 1, "expired": True})
    addresses = kafka.bootstrap_servers.split(",")

    assert fetch_certificate(addresses[1]) == ssl.PEM_cert_to_DER_cert(rotated["certificate"])
    assert fetch_certificate(addresses[0]) != fetch_certificate(addresses[1])
    context = ssl.create_default_context(cadata=client.get("/v1/tls")["authority"])
    with Client(addresses[0], tls=context):
        pass
    with pytest.raises(ClientError, match="expired"):
        Client(addresses[1], tls=context)


def test_an_issued_certificate_has_its_key_and_its_authority_as_texts_and_as_files(client: ControlClient) -> None:
    issued = client.ask("POST", "/v1/tls/certificates", {"name": "alice", "ca": "foreign"}, status=201)

    for name in ("certificate", "key", "authority"):
        assert Path(issued[f"{name}File"]).read_text() == issued[name]
    assert Path(issued["storeFile"]).read_text() == issued["key"] + issued["certificate"]
    assert issued["authority"] != client.get("/v1/tls")["authority"]


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ({"expired": True, "notYetValid": True}, "invalid-value"),
        ({"ca": "other"}, "invalid-request"),
        ({"node": 9}, "invalid-value"),
        ({"hosts": ["x" * 300]}, "invalid-request"),
    ],
)
def test_a_rotation_that_cannot_be_is_a_problem(client: ControlClient, body: dict[str, object], problem: str) -> None:
    refused = client.send("POST", "/v1/tls/rotate", body)

    assert (refused.status, refused.body["type"]) == (422, f"urn:problem-type:mockbroker:{problem}")


def test_a_cluster_without_certificates_of_its_own_says_so() -> None:
    with Cluster(control=0) as cluster:
        refused = ControlClient(cluster.control_url).send("GET", "/v1/tls")

    assert (refused.status, refused.body["detail"]) == (
        409,
        "the cluster has no certificates of its own: start it with tls='auto'",
    )
