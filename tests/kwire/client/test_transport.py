"""TLS certificates are verified by default."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest

from kwire.client import Client, ConnectFailed
from kwire.messages.metadata import MetadataRequest, MetadataResponse
from tests.support.brokers.self_signed import create_certificate
from tests.support.messages.scripted_broker import Peer, ScriptedBroker

REFUSED = "certificate verify failed"


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate for 127.0.0.1 and its key, in one file."""
    return create_certificate(tmp_path_factory.mktemp("tls"))[1]


@pytest.fixture
def server_tls(certificate: Path) -> ssl.SSLContext:
    """What the broker's side of a TLS connection needs."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


def serve_one(peer: Peer) -> None:
    peer.welcome()
    peer.reply(MetadataResponse(cluster_id="c" * 30_000))


def trusting(certificate: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=certificate)


def test_a_verified_tls_connection_works(server_tls: ssl.SSLContext, certificate: Path) -> None:
    tls = trusting(certificate)
    with ScriptedBroker(serve_one, tls=server_tls) as broker, Client(broker.bootstrap, tls=tls) as client:
        assert client.send(MetadataRequest()).cluster_id == "c" * 30_000


def test_a_certificate_of_nobody_we_trust_is_rejected(server_tls: ssl.SSLContext) -> None:
    with ScriptedBroker(serve_one, tls=server_tls) as broker, pytest.raises(ConnectFailed, match=REFUSED):
        Client(broker.bootstrap, tls=True)


def test_a_certificate_for_another_host_is_rejected(server_tls: ssl.SSLContext, certificate: Path) -> None:
    with ScriptedBroker(serve_one, tls=server_tls) as broker, pytest.raises(ConnectFailed, match=REFUSED):
        Client(broker.bootstrap.replace("127.0.0.1", "localhost"), tls=trusting(certificate))


def test_a_context_without_verification_connects_to_any_broker(server_tls: ssl.SSLContext) -> None:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE

    with ScriptedBroker(serve_one, tls=server_tls) as broker, Client(broker.bootstrap, tls=context) as client:
        assert client.send(MetadataRequest()).cluster_id


def test_tls_with_pipelined_megabytes_both_ways(server_tls: ssl.SSLContext, certificate: Path) -> None:
    big = bytes(1_500_000)

    def script(peer: Peer) -> None:
        peer.welcome()
        for _ in range(4):
            assert peer.receive() == big
            peer.send_body(big)

    tls = trusting(certificate)
    with ScriptedBroker(script, tls=server_tls) as broker, Client(broker.bootstrap, tls=tls, timeout_s=20) as client:
        assert all(client.send_raw(3, 1, big) == big for _ in range(4))


def test_a_broker_without_tls_is_rejected_when_tls_is_required() -> None:
    def script(peer: Peer) -> None:
        assert peer.socket.recv(1) == b"\x16"  # A TLS handshake record.

    with ScriptedBroker(script) as broker, pytest.raises(ConnectFailed):
        Client(broker.bootstrap, tls=True)
