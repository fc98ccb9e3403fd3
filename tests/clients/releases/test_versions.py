"""Clients against a broker with the API versions of Kafka 2.8."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer, KafkaProducer

from mockbroker import Cluster
from mockbroker.config.kafka_versions import parse_versions
from tests.clients.java_tools import CONSOLE_CONSUMER, ToolShell
from tests.clients.librdkafka import QUIET

pytestmark = [pytest.mark.client, pytest.mark.timeout(180)]

_LIMIT_S = 20.0


@pytest.fixture
def old() -> Iterator[Cluster]:
    """A cluster as of 2.8; at its end, no client has used a version that a 2.8 broker lacks."""
    with Cluster(versions="2.8", topics={"orders": 1}, profile="quick") as cluster:
        yield cluster
        for exchange in cluster.exchanges():
            low, high = parse_versions("2.8").versions[exchange.api_key]
            is_first = exchange.api_name == "ApiVersions"
            assert low <= exchange.api_version <= high or is_first, exchange
            assert exchange.closed is None


def test_librdkafka_writes_in_a_transaction_and_reads_as_a_group(old: Cluster) -> None:
    settings = {"bootstrap.servers": old.bootstrap_servers, **QUIET}
    producer = Producer({**settings, "transactional.id": "t"})
    producer.init_transactions(_LIMIT_S)
    producer.begin_transaction()
    producer.produce("orders", b"one")
    producer.commit_transaction(_LIMIT_S)
    consumer = Consumer({**settings, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    with closing(consumer):
        message = consumer.poll(_LIMIT_S)

    assert message is not None
    assert message.value() == b"one"
    assert old.exchanges("AddPartitionsToTxn")


def test_kafka_python_writes_and_reads(old: Cluster) -> None:
    with closing(KafkaProducer(bootstrap_servers=old.bootstrap_servers)) as producer:
        producer.send("orders", b"one").get(_LIMIT_S)
    consumer = KafkaConsumer("orders", bootstrap_servers=old.bootstrap_servers, auto_offset_reset="earliest")
    with closing(consumer):
        assert next(consumer).value == b"one"


def test_the_java_client_reads_as_a_group(tools: ToolShell, old: Cluster) -> None:
    old.produce("orders", "one")
    server = ("--bootstrap-server", old.bootstrap_servers, "--topic", "orders", "--from-beginning")

    output = tools.run(CONSOLE_CONSUMER, *server, "--group", "g", "--max-messages", "1", "--timeout-ms", "20000")

    assert output.splitlines() == ["one"]
    assert old.exchanges("Fetch")[0].api_version == 12
