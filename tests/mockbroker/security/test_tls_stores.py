"""Stores of Java as PEM, by real TLS handshakes, and the errors for what cannot be used."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path

import pytest

from kwire import Client
from kwire.messages.metadata import MetadataRequest
from mockbroker import Cluster, ConfigError
from mockbroker.security.tls_stores import read_key_store, trust_store_text
from tests.support.java_stores import KEY_PASSWORD, STORE_PASSWORD, add_key, add_trusted, export_certificate, keytool

pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("stores") / "store.jks"
    for alias in ("three", "two", "one"):
        add_key(path, alias)
    return path


def _properties(store: Path, **more: object) -> dict[str, object]:
    passwords = {"ssl.keystore.password": STORE_PASSWORD, "ssl.key.password": KEY_PASSWORD}
    return {"listeners": "SSL://127.0.0.1:0", "ssl.keystore.location": store, **passwords, **more}


def _shown_certificate(properties: dict[str, object]) -> bytes:
    """The certificate that a broker shows."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with Cluster(properties=properties) as cluster:
        host, port = cluster.bootstrap_servers.rsplit(":", 1)
        raw = socket.create_connection((host, int(port)), timeout=10)
        with raw, context.wrap_socket(raw) as connection:
            certificate = connection.getpeercert(binary_form=True)
    assert certificate is not None
    return certificate


def test_of_several_keys_the_broker_shows_the_first_of_javas_hash_table(store: Path) -> None:
    """Seen with Kafka 4.4.0 on Java 17: of the aliases one, two and three it shows one."""
    assert _shown_certificate(_properties(store)) == export_certificate(store, "one")


def test_jks_is_the_type_without_a_configuration_and_a_pkcs12_file_is_read_all_the_same(tmp_path: Path) -> None:
    path = tmp_path / "store.p12"
    add_key(path, "broker", key_password=STORE_PASSWORD, kind="PKCS12")

    properties = _properties(path, **{"ssl.key.password": STORE_PASSWORD})

    assert _shown_certificate(properties) == export_certificate(path, "broker")


def test_a_jks_file_is_read_as_pkcs12_all_the_same(store: Path) -> None:
    assert _shown_certificate(_properties(store, **{"ssl.keystore.type": "PKCS12"}))


def test_the_password_of_the_store_is_that_of_its_keys_by_default(tmp_path: Path) -> None:
    path = tmp_path / "store.jks"
    add_key(path, "broker", key_password=STORE_PASSWORD)

    assert len(read_key_store(str(path), STORE_PASSWORD, None).texts) == 1


def test_a_client_is_trusted_by_a_trust_store(store: Path, tmp_path: Path) -> None:
    trust = tmp_path / "trust.jks"
    add_trusted(trust, "client", export_certificate(store, "one"))
    client = tmp_path / "client.pem"
    one = export_certificate(store, "one")
    texts = read_key_store(str(store), STORE_PASSWORD, KEY_PASSWORD).texts
    client.write_text(next(text for text in texts if ssl.DER_cert_to_PEM_cert(one) in text))
    trusted = {
        "ssl.truststore.location": trust,
        "ssl.truststore.password": STORE_PASSWORD,
        "ssl.client.auth": "required",
    }
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.load_cert_chain(client)

    with Cluster(properties=_properties(store, **trusted)) as cluster:
        with Client(cluster.bootstrap_servers, tls=context) as connection:
            connection.send(MetadataRequest(topics=[]))
        assert cluster.exchanges("Metadata")[0].principal == "User:CN=one"


@pytest.mark.parametrize(
    ("passwords", "reason"),
    [
        (("wrong", KEY_PASSWORD), "a wrong password, or a damaged store"),
        ((STORE_PASSWORD, "wrong"), "a wrong password of the key"),
        ((STORE_PASSWORD, None), "a wrong password of the key"),
        ((None, None), "ssl.keystore.password: missing"),
    ],
)
def test_wrong_passwords_are_refused_and_not_shown(
    store: Path, passwords: tuple[str | None, str | None], reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason) as refused:
        read_key_store(str(store), *passwords)
    assert "secret" not in str(refused.value)


def test_stores_without_what_is_needed_are_refused(store: Path, tmp_path: Path) -> None:
    trust = tmp_path / "trust.jks"
    add_trusted(trust, "client", export_certificate(store, "one"))
    assert trust_store_text(str(trust), STORE_PASSWORD).count("BEGIN CERTIFICATE") == 1
    with pytest.raises(ConfigError, match="the store has no private key"):
        read_key_store(str(trust), STORE_PASSWORD, None)

    keytool(trust, "-delete", "-alias", "client")
    with pytest.raises(ConfigError, match="the store has no certificate"):
        trust_store_text(str(trust), None)


def test_a_file_that_is_no_store_is_refused_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "store"
    path.write_text("hello")

    with pytest.raises(ConfigError, match=r"store: neither a JKS nor a PKCS12 store, or a wrong password"):
        Cluster(properties=_properties(path)).start()
    with pytest.raises(ConfigError, match=r"ssl\.keystore\.location: the key and certificates cannot be used"):
        Cluster(properties=_properties(tmp_path / "nowhere")).start()
