"""Clients with certificates, and users behind TLS, through real sockets."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
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
from tests.mockbroker.security.sasl_kit import PLAIN_MODULE, SCRAM_MODULE

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
    name = x509.Name(
        [
            x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, "Orders"),
            x509.NameAttribute(x509.NameOID.COMMON_NAME, "a,b"),
        ]
    )
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
    stores.pem.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + made.public_bytes(serialization.Encoding.PEM)
    )
    locked = serialization.BestAvailableEncryption(_PASSWORD.encode())
    stores.pkcs12.write_bytes(pkcs12.serialize_key_and_certificates(b"a", key, made, [made], locked))
    return stores


def _pem(stores: Stores, listener: str = "SSL") -> dict[str, object]:
    return {
        "listeners": f"{listener}://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": stores.pem,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": stores.pem,
    }


def _asker(properties: dict[str, object], tls: ssl.SSLContext) -> str:
    """The principal of a client that asks for metadata."""
    with Cluster(properties=properties) as cluster:
        with Client(cluster.bootstrap_servers, tls=tls) as client:
            client.send(MetadataRequest(topics=[]))
        return cluster.exchanges("Metadata")[0].principal


@pytest.mark.parametrize("wanted", ["required", "requested"])
def test_a_client_is_who_its_certificate_names(stores: Stores, wanted: str) -> None:
    properties = {**_pem(stores), "ssl.client.auth": wanted}

    assert _asker(properties, stores.trusting(shown=True)) == r"User:CN=a\,b,O=Orders"


def test_rules_make_a_principal_of_the_name(stores: Stores) -> None:
    rules = r"RULE:^CN=(.*?),O=(.*)$/$2/L, DEFAULT"
    properties = {**_pem(stores), "ssl.client.auth": "required", "ssl.principal.mapping.rules": rules}

    assert _asker(properties, stores.trusting(shown=True)) == "User:orders"


def test_who_need_not_show_a_certificate_is_nobody(stores: Stores) -> None:
    properties = {**_pem(stores), "ssl.client.auth": "requested"}

    assert _asker(properties, stores.trusting(shown=False)) == "User:ANONYMOUS"
    assert _asker(_pem(stores), stores.trusting(shown=True)) == "User:ANONYMOUS"


@pytest.mark.parametrize("rules", ["DEFAULT", "RULE:^CN=other$/x/"])
def test_who_has_no_certificate_or_no_rule_is_not_let_in(stores: Stores, rules: str) -> None:
    properties = {**_pem(stores), "ssl.client.auth": "required", "ssl.principal.mapping.rules": rules}
    with Cluster(properties=properties) as cluster, pytest.raises(ClientError):
        Client(cluster.bootstrap_servers, tls=stores.trusting(shown=rules != "DEFAULT"), timeout_s=10)


def test_stores_may_be_of_pkcs12(stores: Stores) -> None:
    properties: dict[str, object] = {"listeners": "SSL://127.0.0.1:0", "listener.name.ssl.ssl.client.auth": "required"}
    for store in ("keystore", "truststore"):
        properties[f"ssl.{store}.type"] = "PKCS12"
        properties[f"ssl.{store}.location"] = stores.pkcs12
        properties[f"ssl.{store}.password"] = _PASSWORD

    assert _asker(properties, stores.trusting(shown=True)) == r"User:CN=a\,b,O=Orders"


def test_a_pkcs12_store_with_another_password_is_refused_without_it(stores: Stores) -> None:
    properties = {
        "listeners": "SSL://127.0.0.1:0",
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": stores.pkcs12,
        "ssl.keystore.password": "misremembered",
    }

    with pytest.raises(ValueError, match="no PKCS12 store, or another password") as refused:
        Cluster(properties=properties).start()
    assert "misremembered" not in str(refused.value)


def test_behind_tls_a_user_is_who_sasl_says_whatever_its_certificate(stores: Stores) -> None:
    properties = {
        **_pem(stores, "SASL_SSL"),
        "ssl.client.auth": "required",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_alice="secret";',
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
    }
    users = ["SCRAM-SHA-512=[name=bob,password=sesame,iterations=5000]"]
    with Cluster(properties=properties, add_scram=users) as cluster:
        for user, mechanism in ((("alice", "secret"), "PLAIN"), (("bob", "sesame"), "SCRAM-SHA-512")):
            tls = stores.trusting(shown=False)
            with Client(cluster.bootstrap_servers, tls=tls, sasl=user, sasl_mechanism=mechanism) as client:
                client.send(MetadataRequest(topics=[]))
        with pytest.raises(AuthenticationFailed, match="SASL_AUTHENTICATION_FAILED"):
            Client(
                cluster.bootstrap_servers,
                tls=stores.trusting(shown=False),
                sasl=("bob", "wrong"),
                sasl_mechanism="SCRAM-SHA-512",
            )

        assert [exchange.principal for exchange in cluster.exchanges("Metadata")] == ["User:alice", "User:bob"]
