"""kafka-python and aiokafka against the broker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from kafka import KafkaConsumer, KafkaProducer
from kafka.admin import KafkaAdminClient, NewTopic

from mockbroker import Cluster

pytestmark = pytest.mark.client

PATIENCE_S = 40
VALUES = [b"v%d" % number for number in range(200)]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, topics={"orders": 3}) as running:
        yield running


def test_kafka_python_consumes_what_it_has_produced(cluster: Cluster) -> None:
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, acks="all", compression_type="gzip")
    futures = [producer.send("orders", value=value, key=value) for value in VALUES]
    for future in futures:
        future.get(PATIENCE_S)
    producer.close()
    consumer = KafkaConsumer(
        "orders",
        bootstrap_servers=cluster.bootstrap_servers,
        group_id="kafka-python",
        auto_offset_reset="earliest",
        consumer_timeout_ms=PATIENCE_S * 1_000,
    )
    got = [next(consumer).value for _ in VALUES]
    consumer.close()

    assert sorted(got) == sorted(VALUES)
    assert cluster.exchanges("OffsetCommit")


def test_kafka_python_administers_topics(cluster: Cluster) -> None:
    admin = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
    admin.create_topics([NewTopic("made", 2, 1)])

    assert "made" in admin.list_topics()
    admin.delete_topics(["made"])
    assert "made" not in admin.list_topics()
    admin.close()


async def _through_aiokafka(bootstrap: str) -> list[bytes]:
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True, compression_type="lz4")
    await producer.start()
    await asyncio.gather(*[await producer.send("orders", value) for value in VALUES])
    await producer.stop()
    consumer = AIOKafkaConsumer(
        "orders", bootstrap_servers=bootstrap, group_id="aiokafka", auto_offset_reset="earliest"
    )
    await consumer.start()
    try:
        async with asyncio.timeout(PATIENCE_S):
            return [bytes((await consumer.getone()).value) for _ in VALUES]
    finally:
        await consumer.stop()


def test_aiokafka_consumes_what_it_has_produced(cluster: Cluster) -> None:
    got = asyncio.run(_through_aiokafka(cluster.bootstrap_servers))

    assert sorted(got) == sorted(VALUES)
