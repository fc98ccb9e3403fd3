"""TLS is verified unless told otherwise; SASL/PLAIN names the user; passwords are in no error."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from kwire.client import AuthenticationFailed, Client, ConnectFailed
from kwire.messages.metadata import MetadataRequest, MetadataResponse
from kwire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kwire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.kwire.client.scripted import Peer, ScriptedBroker

SECRET = "correct horse"


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate for 127.0.0.1 and its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "broker")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "broker.pem"
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + made.public_bytes(serialization.Encoding.PEM)
    )
    return path


@pytest.fixture
def server_tls(certificate: Path) -> ssl.SSLContext:
    """What the broker's side of a TLS connection needs."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


def serve_one(peer: Peer) -> None:
    peer.welcome()
    peer.request()
    peer.answer(MetadataResponse(cluster_id="c" * 30_000))


def trusting(certificate: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=certificate)


def test_a_verified_tls_connection_works(server_tls: ssl.SSLContext, certificate: Path) -> None:
    with (
        ScriptedBroker(serve_one, tls=server_tls) as broker,
        Client(broker.bootstrap, tls=trusting(certificate)) as client,
    ):
        assert client.send(MetadataRequest()).cluster_id == "c" * 30_000


def test_a_certificate_of_nobody_we_trust_is_refused(server_tls: ssl.SSLContext) -> None:
    with (
        ScriptedBroker(serve_one, tls=server_tls) as broker,
        pytest.raises(ConnectFailed, match="certificate verify failed"),
    ):
        Client(broker.bootstrap, tls=True)


def test_a_certificate_for_another_host_is_refused(server_tls: ssl.SSLContext, certificate: Path) -> None:
    with (
        ScriptedBroker(serve_one, tls=server_tls) as broker,
        pytest.raises(ConnectFailed, match="certificate verify failed"),
    ):
        Client(broker.bootstrap.replace("127.0.0.1", "localhost"), tls=trusting(certificate))


def test_a_context_that_verifies_nothing_connects_to_anybody(server_tls: ssl.SSLContext) -> None:
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
            peer.send(peer.last.correlation_id.to_bytes(4, "big") + big)

    with (
        ScriptedBroker(script, tls=server_tls) as broker,
        Client(broker.bootstrap, tls=trusting(certificate), timeout_s=20) as client,
    ):
        assert all(client.send_raw(3, 1, big) == big for _ in range(4))


def test_a_broker_without_tls_is_not_talked_to_when_tls_is_wanted() -> None:
    def script(peer: Peer) -> None:
        assert peer.socket.recv(1) == b"\x16"  # A TLS handshake record.

    with ScriptedBroker(script) as broker, pytest.raises(ConnectFailed):
        Client(broker.bootstrap, tls=True)


def test_sasl_plain_sends_user_and_password_after_the_handshake() -> None:
    seen = []

    def script(peer: Peer) -> None:
        peer.welcome()
        seen.append((peer.request(), peer.last.request_api_version))
        peer.answer(SaslHandshakeResponse(mechanisms=("PLAIN",)))
        seen.append((peer.request(), peer.last.request_api_version))
        peer.answer(SaslAuthenticateResponse())
        peer.request()
        peer.answer(MetadataResponse(cluster_id="in"))

    with ScriptedBroker(script) as broker, Client(broker.bootstrap, sasl=("käthe", SECRET)) as client:
        assert client.send(MetadataRequest()).cluster_id == "in"

    assert seen == [
        (SaslHandshakeRequest(mechanism="PLAIN"), 1),
        (SaslAuthenticateRequest(auth_bytes=f"\0käthe\0{SECRET}".encode()), 2),
    ]


def test_a_mechanism_that_the_broker_does_not_have_is_named_with_those_that_it_has() -> None:
    def script(peer: Peer) -> None:
        peer.welcome()
        peer.request()
        peer.answer(SaslHandshakeResponse(error_code=33, mechanisms=("SCRAM-SHA-256", "GSSAPI")))
        assert peer.until_closed()

    with (
        ScriptedBroker(script) as broker,
        pytest.raises(AuthenticationFailed, match="UNSUPPORTED_SASL_MECHANISM; it has SCRAM-SHA-256, GSSAPI"),
    ):
        Client(broker.bootstrap, sasl=("user", SECRET))


def test_a_wrong_password_is_the_brokers_reason_and_never_the_password_itself() -> None:
    def script(peer: Peer) -> None:
        peer.welcome()
        peer.request()
        peer.answer(SaslHandshakeResponse(mechanisms=("PLAIN",)))
        peer.request()
        peer.answer(SaslAuthenticateResponse(error_code=58, error_message="invalid credentials"))
        assert peer.until_closed()

    with (
        ScriptedBroker(script) as broker,
        pytest.raises(AuthenticationFailed, match="SASL_AUTHENTICATION_FAILED: invalid credentials") as caught,
    ):
        Client(f"{broker.bootstrap},127.0.0.1:1", sasl=("user", SECRET))

    assert SECRET not in str(caught.value)
