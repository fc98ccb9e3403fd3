"""Clients with certificates, and users behind TLS, through real sockets."""

from __future__ import annotations

import asyncio
import datetime
import ipaddress
import socket
import ssl
import time
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12

from kwire.client import AuthenticationFailed, Client, ClientError
from kwire.messages.metadata import MetadataRequest
from mockbroker import Cluster
from mockbroker.cluster_methods import cluster_thread
from mockbroker.net.event_loops import new_event_loop
from tests.support.brokers.sasl_clients import PLAIN_MODULE, SCRAM_MODULE

_PASSWORD = "store-secret"


class Stores(NamedTuple):
    """One self-signed certificate for 127.0.0.1 with its key, in files of both kinds."""

    pem: Path
    pkcs12: Path

    def trusting(self, *, shown: bool) -> ssl.SSLContext:
        """A client's context, which shows the certificate itself or none."""
        context = ssl.create_default_context(cafile=str(self.pem))
        if shown:
            context.load_cert_chain(self.pem)
        return context


@pytest.fixture(scope="session")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Stores:
    key = ec.generate_private_key(ec.SECP256R1())
    parts = {x509.NameOID.ORGANIZATION_NAME: "Orders", x509.NameOID.COMMON_NAME: "a,b"}
    name = x509.Name([x509.NameAttribute(*part) for part in parts.items()])
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
    folder = tmp_path_factory.mktemp("stores")
    stores = Stores(folder / "store.pem", folder / "store.p12")
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    key_pem = key.private_bytes(encoding, form, serialization.NoEncryption())
    stores.pem.write_bytes(key_pem + made.public_bytes(encoding))
    locked = serialization.BestAvailableEncryption(_PASSWORD.encode())
    stores.pkcs12.write_bytes(pkcs12.serialize_key_and_certificates(b"a", key, made, [made], locked))
    return stores


def _pem(stores: Stores, listener: str = "SSL") -> dict[str, object]:
    types = {"ssl.keystore.type": "PEM", "ssl.truststore.type": "PEM"}
    locations = {"ssl.keystore.location": stores.pem, "ssl.truststore.location": stores.pem}
    return {"listeners": f"{listener}://127.0.0.1:0", **types, **locations}


def _client_principal(properties: dict[str, object], tls: ssl.SSLContext) -> str:
    """The principal of a client that requests metadata."""
    with Cluster(properties=properties) as cluster:
        with Client(cluster.bootstrap_servers, tls=tls) as client:
            client.send(MetadataRequest(topics=[]))
        return cluster.exchanges("Metadata")[0].principal


@pytest.mark.parametrize("wanted", ["required", "requested"])
def test_the_principal_of_a_client_is_the_name_of_its_certificate(stores: Stores, wanted: str) -> None:
    properties = {**_pem(stores), "ssl.client.auth": wanted}

    assert _client_principal(properties, stores.trusting(shown=True)) == r"User:CN=a\,b,O=Orders"


def test_mapping_rules_apply_to_the_name(stores: Stores) -> None:
    rules = r"RULE:^CN=(.*?),O=(.*)$/$2/L, DEFAULT"
    properties = {**_pem(stores), "ssl.client.auth": "required", "ssl.principal.mapping.rules": rules}

    assert _client_principal(properties, stores.trusting(shown=True)) == "User:orders"


def test_a_client_without_an_optional_certificate_is_anonymous(stores: Stores) -> None:
    properties = {**_pem(stores), "ssl.client.auth": "requested"}

    assert _client_principal(properties, stores.trusting(shown=False)) == "User:ANONYMOUS"
    assert _client_principal(_pem(stores), stores.trusting(shown=True)) == "User:ANONYMOUS"


@pytest.mark.parametrize("rules", ["DEFAULT", "RULE:^CN=other$/x/"])
def test_a_client_without_a_certificate_or_a_matching_rule_is_rejected(stores: Stores, rules: str) -> None:
    properties = {**_pem(stores), "ssl.client.auth": "required", "ssl.principal.mapping.rules": rules}
    with Cluster(properties=properties) as cluster, pytest.raises(ClientError):
        Client(cluster.bootstrap_servers, tls=stores.trusting(shown=rules != "DEFAULT"), timeout_s=10)


def test_pkcs12_stores_are_supported(stores: Stores) -> None:
    properties: dict[str, object] = {"listeners": "SSL://127.0.0.1:0", "listener.name.ssl.ssl.client.auth": "required"}
    for store in ("keystore", "truststore"):
        properties[f"ssl.{store}.type"] = "PKCS12"
        properties[f"ssl.{store}.location"] = stores.pkcs12
        properties[f"ssl.{store}.password"] = _PASSWORD

    assert _client_principal(properties, stores.trusting(shown=True)) == r"User:CN=a\,b,O=Orders"


def test_a_wrong_password_of_a_pkcs12_store_is_not_shown(stores: Stores) -> None:
    store = {"ssl.keystore.type": "PKCS12", "ssl.keystore.location": stores.pkcs12}
    properties = {"listeners": "SSL://127.0.0.1:0", **store, "ssl.keystore.password": "misremembered"}

    with pytest.raises(ValueError, match="neither a JKS nor a PKCS12 store, or a wrong password") as refused:
        Cluster(properties=properties).start()
    assert "misremembered" not in str(refused.value)


def test_sasl_overrides_the_certificate_of_a_client(stores: Stores) -> None:
    properties = {
        **_pem(stores, "SASL_SSL"),
        "ssl.client.auth": "required",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_alice="secret";',
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
    }
    users = ["SCRAM-SHA-512=[name=bob,password=sesame,iterations=5000]"]
    with Cluster(properties=properties, add_scram=users) as cluster:
        servers, tls = cluster.bootstrap_servers, stores.trusting(shown=False)
        for user, mechanism in ((("alice", "secret"), "PLAIN"), (("bob", "sesame"), "SCRAM-SHA-512")):
            with Client(servers, tls=tls, sasl=user, sasl_mechanism=mechanism) as client:
                client.send(MetadataRequest(topics=[]))
        with pytest.raises(AuthenticationFailed, match="SASL_AUTHENTICATION_FAILED"):
            Client(servers, tls=tls, sasl=("bob", "wrong"), sasl_mechanism="SCRAM-SHA-512")

        assert [exchange.principal for exchange in cluster.exchanges("Metadata")] == ["User:alice", "User:bob"]


@pytest.fixture(params=[new_event_loop, asyncio.SelectorEventLoop])
def _either_loop(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clusters run in the event loop that is installed, then in that of asyncio."""
    monkeypatch.setattr(cluster_thread, "new_event_loop", request.param)


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n", "HTTP_REQUEST (the client sent HTTP without TLS)"),
        (b"\0\0\0\x13\0\x12\0\0\0\0\0\0", "WRONG_VERSION_NUMBER (the client sent no TLS"),
    ],
)
@pytest.mark.usefixtures("_either_loop")
def test_a_client_without_tls_leaves_a_log_line(
    stores: Stores, sent: bytes, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Cluster(properties=_pem(stores)) as cluster:
        host, port = cluster.bootstrap_servers.split(":")
        with socket.create_connection((host, int(port)), timeout=10) as connection:
            client = "{}:{}".format(*connection.getsockname())
            connection.sendall(sent)
            while connection.recv(1024):
                pass

    assert f"listener SSL closes {client}: TLS handshake failed: {reason}" in caplog.text


def test_a_client_that_does_not_trust_the_broker_leaves_a_log_line(
    stores: Stores, caplog: pytest.LogCaptureFixture
) -> None:
    with Cluster(properties=_pem(stores)) as cluster:
        with pytest.raises(ClientError, match="certificate"):
            Client(cluster.bootstrap_servers, tls=ssl.create_default_context())
        deadline = time.monotonic() + 10
        while "TLS handshake failed" not in caplog.text and time.monotonic() < deadline:
            cluster.clock.now_ms()  # Takes a turn of the event loop, which reads the client's alert.

    assert "TLSV1_ALERT_UNKNOWN_CA (the client does not trust the broker's certificate)" in caplog.text
