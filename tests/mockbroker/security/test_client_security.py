"""TLS and SASL in one word each, with real clients that use the settings as they are handed out."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer
from kafka import KafkaProducer

from mockbroker import Cluster, ConfigError
from mockbroker.security.client_security import ClientSecurity

SECURITY = [
    {"tls": "auto"},
    {"sasl": "PLAIN alice:secret"},
    {"sasl": "SCRAM-SHA-256 alice:secret"},
    {"tls": "auto", "sasl": "SCRAM-SHA-512 alice:s3cret:x=y"},
    {"tls": "auto", "sasl": "OAUTHBEARER alice:s3cret:x=y"},
    {},
]


def _principals(kafka: Cluster) -> set[str]:
    return {exchange.principal for exchange in kafka.requests("Produce")}


@pytest.mark.client
@pytest.mark.parametrize("options", SECURITY, ids=str)
def test_librdkafka_connects_with_its_settings(options: dict[str, str]) -> None:
    with Cluster(topics=["orders"], **options) as kafka:  # type: ignore[arg-type]
        settings: dict[str, Any] = kafka.client_settings()
        producer = Producer(settings)
        producer.produce("orders", b"espresso")

        assert producer.flush(30) == 0
        assert _principals(kafka) == {"User:alice" if "sasl" in options else "User:ANONYMOUS"}


@pytest.mark.client
@pytest.mark.parametrize("options", SECURITY, ids=str)
def test_kafka_python_connects_with_its_settings(options: dict[str, str]) -> None:
    with Cluster(topics=["orders"], **options) as kafka:  # type: ignore[arg-type]
        producer = KafkaProducer(**kafka.client_settings("kafka-python"))
        producer.send("orders", b"espresso").get(30)
        producer.close()

        assert _principals(kafka) == {"User:alice" if "sasl" in options else "User:ANONYMOUS"}


@pytest.mark.client
def test_aiokafka_connects_with_its_settings() -> None:
    async def produce(settings: dict[str, Any]) -> None:
        producer = AIOKafkaProducer(**settings)
        await producer.start()
        await producer.send_and_wait("orders", b"espresso")
        await producer.stop()

    with Cluster(topics=["orders"], tls="auto", sasl="SCRAM-SHA-256 alice:secret") as kafka:
        asyncio.run(produce(kafka.client_settings("aiokafka")))

        assert _principals(kafka) == {"User:alice"}


@pytest.mark.client
def test_a_broker_may_require_the_certificate_of_the_client() -> None:
    with Cluster(topics=["orders"], tls="auto", properties={"ssl.client.auth": "required"}) as kafka:
        producer = Producer(kafka.client_settings())
        producer.produce("orders", b"espresso")

        assert producer.flush(30) == 0
        assert _principals(kafka) == {"User:CN=client"}


def test_settings_of_java_name_pem_stores() -> None:
    security = ClientSecurity(tls="auto", sasl="PLAIN alice:secret")
    settings = security.client_settings("127.0.0.1:9092", "java")

    assert settings["security.protocol"] == "SASL_SSL"
    assert settings["ssl.truststore.type"] == settings["ssl.keystore.type"] == "PEM"
    assert Path(str(settings["ssl.keystore.location"])).read_text().count("-----BEGIN") == 2
    assert str(settings["sasl.jaas.config"]).endswith('required username="alice" password="secret";')


def test_the_keys_are_readable_by_their_owner_only_and_end_with_their_object() -> None:
    security = ClientSecurity(tls="auto")
    assert security.certificates is not None
    paths = list(security.certificates)
    assert {path.stat().st_mode & 0o077 for path in paths} == {0}
    del security

    assert not any(path.exists() for path in paths)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tls": "yes"}, "tls: 'yes'; expected 'auto'"),
        ({"sasl": "alice:secret"}, "sasl: expected MECHANISM USER:PASSWORD"),
        ({"sasl": "SCRAM-SHA-1 alice:secret"}, "'SCRAM-SHA-1' is not one of PLAIN, SCRAM-SHA-256, SCRAM-SHA-512"),
        ({"sasl": "PLAIN alice:"}, "sasl: expected"),
        ({"sasl": "OAUTHBEARER alice"}, "sasl: expected"),
        ({"tls": "auto", "properties": {"listeners": "SSL://127.0.0.1:0"}}, "given beside tls or sasl"),
    ],
)
def test_wrong_options_are_refused_without_the_password(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as error:
        Cluster(**options)
    assert "secret" not in str(error.value)


def test_settings_of_oauthbearer_need_the_token_endpoint_of_a_running_cluster() -> None:
    security = ClientSecurity(sasl="OAUTHBEARER")
    with pytest.raises(RuntimeError, match="the token endpoint is not running"):
        security.client_settings("127.0.0.1:9092")

    security.token_endpoint_url = "http://127.0.0.1:1/token"
    assert security.client_settings("127.0.0.1:9092")["sasl.oauthbearer.method"] == "oidc"
    java = security.client_settings("127.0.0.1:9092", "java")
    assert java["sasl.oauthbearer.token.endpoint.url"] == security.token_endpoint_url
    assert str(java["sasl.jaas.config"]).endswith('required clientId="client" clientSecret="client";')


def test_an_unknown_library_is_refused() -> None:
    with Cluster() as kafka, pytest.raises(ValueError, match="library='go' is not one of librdkafka"):
        kafka.client_settings("go")  # type: ignore[arg-type]
