"""Real clients of a topic whose log stores the state of share-partitions: no client receives a control record."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing

import pytest
from confluent_kafka import AcknowledgeType, Consumer, KafkaError, Producer, ShareConsumer, TopicPartition

from mockbroker import Cluster
from tests.clients.fast_share_groups import FAST_SHARE_GROUPS
from tests.clients.librdkafka import PATIENCE_S, QUIET, share_consumer

pytestmark = [pytest.mark.client, pytest.mark.timeout(180)]

COUNT = 200


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(share_persister="control-records", topics={"orders": 1}, properties=FAST_SHARE_GROUPS) as running:
        yield running


def _produce(cluster: Cluster, first: int) -> list[bytes]:
    """Values from a number on, in many small batches."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "batch.num.messages": 5, **QUIET})
    values = [b"v%d" % number for number in range(first, first + COUNT)]
    for value in values:
        producer.produce("orders", value=value)
    assert producer.flush(PATIENCE_S) == 0
    return values


def _accept(consumer: ShareConsumer, deliveries: Counter[bytes], count: int) -> None:
    """Accept a number of records; a record whose value ends in 7 is released at its first delivery."""
    accepted, deadline = 0, time.monotonic() + PATIENCE_S
    while accepted < count and time.monotonic() < deadline:
        for message in consumer.poll(0.2):
            assert message.error() is None
            value = message.value()
            assert isinstance(value, bytes)
            deliveries[value] += 1
            again = value.endswith(b"7") and deliveries[value] == 1
            consumer.acknowledge(message, AcknowledgeType.RELEASE if again else AcknowledgeType.ACCEPT)
            accepted += not again
        consumer.commit_sync(PATIENCE_S)
    assert accepted == count


def _hidden(cluster: Cluster) -> int:
    def count(server: object) -> int:
        state = server.core.state  # type: ignore[attr-defined]
        log = state.nodes[0].logs.find_log(state.metadata.topic("orders").topic_id, 0)
        return len(log.hidden_batches)

    return cluster.run(count)


def test_a_share_consumer_of_librdkafka_gets_every_record_before_and_after_its_leader_is_killed(
    cluster: Cluster,
) -> None:
    deliveries: Counter[bytes] = Counter()
    values = _produce(cluster, 0)
    with closing(share_consumer(cluster, "share", explicit=True)) as consumer:
        _accept(consumer, deliveries, COUNT)
        cluster.kill_node(0)
        cluster.start_node(0)
        values += _produce(cluster, COUNT)
        _accept(consumer, deliveries, COUNT)

    assert deliveries == Counter({value: 2 if value.endswith(b"7") else 1 for value in values})
    assert _hidden(cluster) > 2


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_a_consumer_of_librdkafka_gets_every_record_and_reaches_the_end(cluster: Cluster, isolation: str) -> None:
    values = _produce(cluster, 0)
    with closing(share_consumer(cluster, "share", explicit=True)) as consumer:
        _accept(consumer, Counter(), COUNT)
    values += _produce(cluster, COUNT)
    with closing(share_consumer(cluster, "share", explicit=True)) as consumer:
        _accept(consumer, Counter(), COUNT)
    assert _hidden(cluster) > 2

    settings = {"enable.partition.eof": True, "isolation.level": isolation, "auto.offset.reset": "earliest"}
    plain = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "plain", **settings, **QUIET})
    with closing(plain):
        plain.subscribe(["orders"])
        got: list[bytes | str | None] = []
        deadline, is_at_end = time.monotonic() + PATIENCE_S, False
        while not is_at_end and time.monotonic() < deadline:
            for message in plain.consume(1_000, 0.2):
                error = message.error()
                if error is None:
                    got.append(message.value())
                else:
                    assert error.code() == KafkaError._PARTITION_EOF
                    is_at_end = True
        place = TopicPartition("orders", 0)
        _, high = plain.get_watermark_offsets(place, PATIENCE_S)
        assert plain.position([place])[0].offset == high

    assert got == values
