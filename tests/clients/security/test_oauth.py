"""Clients that log in by OAUTHBEARER: librdkafka, Java, kafka-python and aiokafka, with tokens of a cluster."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import KafkaError, Producer
from kafka import KafkaProducer

from mockbroker import Cluster
from tests.clients.java_tools import clients_of_release, run_program
from tests.clients.librdkafka import PATIENCE_S, QUIET

pytestmark = [pytest.mark.client, pytest.mark.timeout(180)]

PROGRAM = Path(__file__).parents[1] / "java" / "OAuthLogin.java"
_OAUTH = "org.apache.kafka.common.security.oauthbearer"


@pytest.fixture
def kafka() -> Iterator[Cluster]:
    with Cluster(topics=["orders"], sasl="OAUTHBEARER") as running:
        yield running


def _principals(kafka: Cluster) -> set[str]:
    return {exchange.principal for exchange in kafka.requests("Produce")}


def _produce(settings: dict[str, Any]) -> None:
    producer = Producer({**settings, **QUIET})
    producer.produce("orders", b"espresso")
    assert producer.flush(PATIENCE_S) == 0


def _errors(settings: dict[str, Any]) -> str:
    """What librdkafka reports until a login has failed."""
    errors: list[KafkaError] = []
    producer = Producer({**settings, **QUIET, "error_cb": errors.append})
    deadline = time.monotonic() + PATIENCE_S
    while not any(one.code() == KafkaError._AUTHENTICATION for one in errors):
        assert time.monotonic() < deadline, errors
        producer.poll(0.05)
    return str(errors)


def test_librdkafka_gets_tokens_from_the_endpoint(kafka: Cluster) -> None:
    _produce(kafka.client_settings())

    assert _principals(kafka) == {"User:client"}


def test_librdkafka_logs_in_with_tokens_of_a_callback(kafka: Cluster) -> None:
    def give_token(_: str) -> tuple[str, float, str, dict[str, str]]:
        return kafka.oauth.token("alice", scope="write"), time.time() + 3_600, "alice", {"traceId": "7"}

    settings = {"bootstrap.servers": kafka.bootstrap_servers, "security.protocol": "SASL_PLAINTEXT"}
    _produce({**settings, "sasl.mechanism": "OAUTHBEARER", "oauth_cb": give_token})

    assert _principals(kafka) == {"User:alice"}


def test_librdkafka_reports_the_challenge_of_a_token_that_is_refused(
    kafka: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    token = kafka.oauth.token("alice", claims={"aud": "another cluster"})
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "security.protocol": "SASL_PLAINTEXT"}
    login = {"sasl.mechanism": "OAUTHBEARER", "oauth_cb": lambda _: (token, time.time() + 3_600)}

    assert "invalid_token" in _errors({**settings, **login})
    assert "refuses the token of 127.0.0.1" in caplog.text
    assert "its audience, the claim aud, is not the expected one" in caplog.text
    assert token not in caplog.text
    assert token not in str([exchange.to_json() for exchange in kafka.exchanges()])


def test_librdkafka_reauthenticates_with_new_tokens() -> None:
    properties = {"connections.max.reauth.ms": 1_000}
    with Cluster(topics=["orders"], sasl="OAUTHBEARER", properties=properties) as kafka:
        producer = Producer({**kafka.client_settings(), **QUIET})
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and len(kafka.exchanges("SaslHandshake")) < 4:
            producer.produce("orders", b"v")
            assert producer.flush(PATIENCE_S) == 0
            producer.poll(0.1)
        connections = [exchange.connection_id for exchange in kafka.exchanges("SaslHandshake")]

        assert len(set(connections)) < len(connections)


def test_kafka_python_logs_in(kafka: Cluster) -> None:
    producer = KafkaProducer(**kafka.client_settings("kafka-python"))
    producer.send("orders", b"espresso").get(PATIENCE_S)
    producer.close()

    assert _principals(kafka) == {"User:client"}


async def _produce_by_aiokafka(settings: dict[str, Any]) -> None:
    producer = AIOKafkaProducer(**settings)
    try:
        await producer.start()
        await producer.send_and_wait("orders", b"espresso")
    finally:
        await producer.stop()


def test_aiokafka_logs_in(kafka: Cluster) -> None:
    asyncio.run(_produce_by_aiokafka(kafka.client_settings("aiokafka")))

    assert _principals(kafka) == {"User:client"}


def _run_java(path: Path, settings: dict[str, Any], count: int = 1, pause_ms: int = 0) -> str:
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), "utf-8")
    return run_program(PROGRAM, str(path), str(count), str(pause_ms), class_path=clients_of_release("4.4")).strip()


def test_java_gets_tokens_from_the_endpoint_and_reauthenticates(tmp_path: Path) -> None:
    properties = {"connections.max.reauth.ms": 1_000}
    with Cluster(topics=["orders"], sasl="OAUTHBEARER alice:secret", properties=properties) as kafka:
        assert _run_java(tmp_path / "client", kafka.client_settings("java"), 20, 100) == "sent 20"
        connections = [exchange.connection_id for exchange in kafka.exchanges("SaslHandshake")]

        assert _principals(kafka) == {"User:alice"}
        assert len(set(connections)) < len(connections)


def test_java_logs_in_with_unsecured_tokens_and_gets_the_scope_that_it_lacks(tmp_path: Path) -> None:
    prefix = "listener.name.sasl_plaintext.oauthbearer"
    module = f"{_OAUTH}.OAuthBearerLoginModule required"
    properties = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{prefix}.sasl.jaas.config": f'{module} unsecuredValidatorRequiredScope="write";',
    }
    settings = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "OAUTHBEARER"}
    claims = 'unsecuredLoginStringClaim_sub="alice" unsecuredLoginListClaim_scope="|read|write"'
    with Cluster(topics=["orders"], properties=properties) as kafka:
        settings["bootstrap.servers"] = kafka.bootstrap_servers
        sent = _run_java(tmp_path / "client", {**settings, "sasl.jaas.config": f"{module} {claims};"})
        lacking = {**settings, "sasl.jaas.config": f"{module} {claims.replace('|write', '')};"}
        refused = _run_java(tmp_path / "client", {**lacking, "max.block.ms": 20_000})

        assert sent == "sent 1"
        assert _principals(kafka) == {"User:alice"}
        assert refused == 'SaslAuthenticationException: {"status":"insufficient_scope", "scope":"[write]"}'
