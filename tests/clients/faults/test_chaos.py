"""Chaos profiles around real clients: an idempotent producer and a consumer group lose and double nothing."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer

from mockbroker import Cluster
from tests.clients.librdkafka import PATIENCE_S, QUIET

pytestmark = pytest.mark.client

#: At least so many records, and so many until the faults have acted so often.
_COUNT, _HITS = 60, 3
_REPLICATED = {
    "default.replication.factor": 3,
    "offsets.topic.replication.factor": 3,
    "transaction.state.log.replication.factor": 3,
}


def _settings(kafka: Cluster, **settings: Any) -> dict[str, Any]:
    limits = {"retry.backoff.ms": 20, "reconnect.backoff.max.ms": 200, "topic.metadata.refresh.fast.interval.ms": 50}
    return {"bootstrap.servers": kafka.bootstrap_servers, **limits, **QUIET, **settings}


@pytest.mark.parametrize(
    "profile", ["slow-network", "flaky-leader", "rolling-restart", "coordinator-storm", "isolated-node"]
)
def test_nothing_is_lost_or_doubled(profile: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Cluster(nodes=3, topics={"orders": 3}, properties=_REPLICATED, profile="quick", seed=1) as kafka:
        producer = Producer(_settings(kafka, **{"enable.idempotence": True}))
        consumer = Consumer(_settings(kafka, **{"group.id": "g", "auto.offset.reset": "earliest"}))
        consumer.subscribe(["orders"])
        chaos = kafka.chaos(profile, seed=7)
        values: list[bytes] = []
        sent = 0
        deadline = time.monotonic() + PATIENCE_S * 2
        while (len(set(values)) < sent or sent < _COUNT or chaos.hits < _HITS) and time.monotonic() < deadline:
            if sent < _COUNT or chaos.hits < _HITS:
                producer.produce("orders", b"%d" % sent)
                sent += 1
            producer.poll(0)
            message = consumer.poll(0.05)
            if message is not None and message.error() is None:
                values.append(message.value() or b"")
        unsent = producer.flush(PATIENCE_S)
        chaos.stop()
        consumer.close()

        assert unsent == 0
        assert chaos.hits >= _HITS
        assert set(values) == {b"%d" % number for number in range(sent)}
        ends = kafka.run(lambda server: [_end(server, index) for index in range(3)])
        assert sum(ends) == sent
    assert f"chaos {profile!r}, seed 7" in capsys.readouterr().out


def _end(server: Any, index: int) -> int:
    topic = server.core.state.metadata.topic("orders")
    end: int = server.core.state.nodes[topic.partitions[index].leader].logs.find_log(topic.topic_id, index).end_offset
    return end


def test_a_producer_logs_in_again_and_delivers_everything_while_credentials_expire() -> None:
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    properties = {
        "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f'{login} user_alice="alice-secret";',
        "connections.max.reauth.ms": 3_600_000,
    }
    errors: list[str | None] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        errors.append(None if error is None else error.name())

    with Cluster(topics={"orders": 1}, properties=properties) as kafka:
        kafka.chaos("expiring-credentials", seed=7)
        user = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": "alice"}
        producer = Producer(_settings(kafka, **user, **{"sasl.password": "alice-secret"}))
        deadline = time.monotonic() + PATIENCE_S
        while len(kafka.exchanges("SaslAuthenticate")) < _HITS and time.monotonic() < deadline:
            producer.produce("orders", b"v", on_delivery=delivered)
            producer.poll(0.05)
        unsent = producer.flush(PATIENCE_S)
        logins = len(kafka.exchanges("SaslAuthenticate"))

    assert unsent == 0
    assert set(errors) == {None}
    assert logins >= _HITS
