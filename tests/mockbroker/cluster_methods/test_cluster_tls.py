"""Certificates that are wrong on purpose, for brokers and for clients."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from kwire.client import Client, ClientError
from kwire.messages.metadata import MetadataRequest
from mockbroker import Cluster
from mockbroker.security.issued_certificates import IssuedCertificate
from tests.support.certificates import fetch_certificate


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=2, tls="auto", properties={"ssl.client.auth": "required"}) as cluster:
        yield cluster


def _connect(cluster: Cluster, shown: IssuedCertificate | None = None, node_id: int = 0) -> None:
    """Connect as a client that checks the broker. Raises: ClientError."""
    settings = cluster.client_settings(certificate=shown)
    context = ssl.create_default_context(cafile=str(settings["ssl.ca.location"]))
    context.load_cert_chain(str(settings["ssl.certificate.location"]), str(settings["ssl.key.location"]))
    with Client(cluster.bootstrap_servers.split(",")[node_id], tls=context, timeout_s=10):
        pass


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"expired": True}, "expired"),
        ({"not_yet_valid": True}, "not yet valid"),
        ({"hosts": ["elsewhere.test", "192.0.2.1"]}, "not valid for '127.0.0.1'"),
        ({"ca": "foreign"}, "unable to get local issuer certificate"),
    ],
)
def test_a_client_refuses_a_broker_whose_certificate_is_wrong(
    cluster: Cluster, wrong: dict[str, object], reason: str
) -> None:
    _connect(cluster)
    cluster.tls.rotate(**wrong)  # type: ignore[arg-type]
    with pytest.raises(ClientError, match=reason):
        _connect(cluster)

    cluster.tls.rotate()
    _connect(cluster)


@pytest.mark.parametrize("wrong", [{"expired": True}, {"not_yet_valid": True}, {"ca": "foreign"}])
def test_a_broker_refuses_a_client_whose_certificate_is_wrong(cluster: Cluster, wrong: dict[str, object]) -> None:
    with pytest.raises(ClientError):
        _connect(cluster, cluster.tls.issue("alice", **wrong))  # type: ignore[arg-type]

    _connect(cluster, cluster.tls.issue("alice"))
    assert [exchange.principal for exchange in cluster.exchanges("ApiVersions")] == ["User:CN=alice"]


def test_one_node_rotates_and_keeps_its_certificate_until_the_cluster_is_reset(cluster: Cluster) -> None:
    addresses = cluster.bootstrap_servers.split(",")
    before = fetch_certificate(addresses[0])
    issued = cluster.tls.rotate(node_id=1, hosts=["elsewhere.test"])
    rotated = ssl.PEM_cert_to_DER_cert(issued.certificate.read_text())

    assert [fetch_certificate(address) for address in addresses] == [before, rotated]
    cluster.stop_node(1)
    cluster.start_node(1)
    assert fetch_certificate(addresses[1]) == rotated
    cluster.reset()
    assert [fetch_certificate(address) for address in addresses] == [before, before]
    with pytest.raises(ValueError, match="there is no node 7"):
        cluster.tls.rotate(node_id=7)


def test_a_certificate_that_was_issued_before_can_be_presented(cluster: Cluster) -> None:
    issued = cluster.tls.issue("localhost", expired=True)

    assert cluster.tls.rotate(issued) == issued
    with pytest.raises(ClientError, match="expired"):
        _connect(cluster)


def test_a_client_that_trusts_the_foreign_authority_accepts_all_that_it_signs(cluster: Cluster) -> None:
    first, second = cluster.tls.issue(ca="foreign"), cluster.tls.rotate(ca="foreign")

    context = ssl.create_default_context(cafile=str(first.authority))
    context.load_cert_chain(cluster.tls.issue().store)
    with Client(cluster.bootstrap_servers.split(",")[0], tls=context, timeout_s=10):
        pass
    assert first.authority.read_bytes() == second.authority.read_bytes()


def test_open_connections_outlive_a_rotation(cluster: Cluster) -> None:
    settings = cluster.client_settings()
    context = ssl.create_default_context(cafile=str(settings["ssl.ca.location"]))
    context.load_cert_chain(str(settings["ssl.certificate.location"]), str(settings["ssl.key.location"]))
    with Client(cluster.bootstrap_servers.split(",")[0], tls=context, timeout_s=10) as client:
        cluster.tls.rotate(expired=True)

        assert client.send(MetadataRequest(topics=[])).brokers


def test_coroutines_issue_and_rotate(cluster: Cluster) -> None:
    async def rotate() -> IssuedCertificate:
        assert (await cluster.aio.tls.issue("alice")).certificate.exists()
        return await cluster.aio.tls.rotate(expired=True)

    issued = asyncio.run(rotate())
    certificate = fetch_certificate(cluster.bootstrap_servers.split(",")[0])
    assert certificate == ssl.PEM_cert_to_DER_cert(issued.certificate.read_text())


def test_what_cannot_be_is_refused(cluster: Cluster) -> None:
    with pytest.raises(ValueError, match="cannot be both"):
        cluster.tls.issue(expired=True, not_yet_valid=True)
    with pytest.raises(ValueError, match="one text"):
        cluster.tls.issue(hosts="elsewhere.test")
    with pytest.raises(ValueError, match="neither 'own' nor 'foreign'"):
        cluster.tls.issue(ca="other")  # type: ignore[arg-type]


def test_only_a_cluster_that_made_its_certificates_issues_further_ones() -> None:
    with Cluster() as cluster, pytest.raises(RuntimeError, match="tls='auto'"):
        _ = cluster.tls


def test_a_kept_authority_issues_nothing_before_the_cluster_has_started(tmp_path: Path) -> None:
    cluster = Cluster(tls="auto", data_dir=tmp_path / "data")
    with pytest.raises(RuntimeError, match="start the cluster first"):
        cluster.tls.issue()
    with cluster:
        issued = cluster.tls.issue()

        assert issued.authority.read_bytes() == cluster.tls.authority.read_bytes()


def test_the_next_cluster_in_a_data_directory_has_the_same_authority(tmp_path: Path) -> None:
    seen = []
    for _ in range(2):
        with Cluster(tls="auto", data_dir=tmp_path / "data") as cluster:
            seen.append((cluster.tls.authority, cluster.tls.authority.read_bytes()))
            settings = cluster.client_settings()
            context = ssl.create_default_context(cafile=str(seen[0][0]))
            with Client(cluster.bootstrap_servers, tls=context):
                pass
            assert settings["ssl.ca.location"] == str(tmp_path / "data" / "tls" / "ca.pem")

    assert seen[0] == seen[1]
