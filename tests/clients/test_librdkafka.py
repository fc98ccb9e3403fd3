"""confluent-kafka (librdkafka): producer, consumers of both protocols, share consumers, against the broker."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing

import pytest
from confluent_kafka import AcknowledgeType, Consumer, Message, Producer, ShareConsumer
from confluent_kafka.admin import AdminClient, NewTopic

from mockbroker import Cluster
from tests.clients.librdkafka import PATIENCE_S, QUIET, share_consumer

pytestmark = pytest.mark.client


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    properties = {"group.share.min.record.lock.duration.ms": 1_000}
    with Cluster(nodes=3, topics={"orders": 3}, properties=properties) as running:
        yield running


def _produce(cluster: Cluster, count: int, *, codec: str = "none", idempotent: bool = False) -> list[bytes]:
    """Values v0, v1, … over all partitions; returned when the broker has them."""
    settings = {"compression.type": codec, "enable.idempotence": idempotent, "linger.ms": 5, **QUIET}
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, **settings})
    values = [b"v%d" % number for number in range(count)]
    failures: list[object] = []
    for number, value in enumerate(values):
        key, headers = b"k%d" % number, {"number": b"%d" % number}
        producer.produce("orders", value, key, on_delivery=lambda error, _: failures.append(error), headers={**headers})
    assert producer.flush(PATIENCE_S) == 0
    assert failures == [None] * count
    return values


def _value(message: Message) -> bytes:
    value = message.value()
    assert isinstance(value, bytes)
    return value


def _consume(cluster: Cluster, count: int, protocol: str) -> list[Message]:
    group = {"group.id": f"group-{protocol}", "group.protocol": protocol, "auto.offset.reset": "earliest"}
    with closing(Consumer({"bootstrap.servers": cluster.bootstrap_servers, **group, **QUIET})) as consumer:
        consumer.subscribe(["orders"])
        messages: list[Message] = []
        deadline = time.monotonic() + PATIENCE_S
        while len(messages) < count and time.monotonic() < deadline:
            messages += [message for message in consumer.consume(1_000, 0.2) if message.error() is None]
    return messages


def _polled(consumer: ShareConsumer) -> Iterable[Message]:
    messages = list(consumer.poll(0.2))
    assert [message.error() for message in messages if message.error() is not None] == []
    return messages


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_consumer_gets_keys_values_and_headers_in_every_codec(cluster: Cluster, codec: str) -> None:
    values = _produce(cluster, 200, codec=codec, idempotent=codec == "zstd")

    messages = _consume(cluster, len(values), "classic")

    assert sorted(_value(message) for message in messages) == sorted(values)
    for message in messages:
        number = _value(message)[1:]
        assert message.key() == b"k" + number
        assert message.headers() == [("number", number)]


def test_a_consumer_of_the_kip_848_protocol_gets_every_record(cluster: Cluster) -> None:
    values = _produce(cluster, 500)

    messages = _consume(cluster, len(values), "consumer")

    assert sorted(_value(message) for message in messages) == sorted(values)
    assert cluster.exchanges("ConsumerGroupHeartbeat")
    assert not cluster.exchanges("JoinGroup")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_second_consumer_continues_at_the_committed_offset(cluster: Cluster, protocol: str) -> None:
    values = _produce(cluster, 30)
    assert len(_consume(cluster, len(values), protocol)) == len(values)

    more = [_value(message) for message in (_produce(cluster, 5), _consume(cluster, 5, protocol))[1]]

    assert sorted(more) == sorted(values[:5])


def test_a_share_consumer_acknowledges_implicitly(cluster: Cluster) -> None:
    values = _produce(cluster, 1_000)
    got: list[bytes] = []
    with closing(share_consumer(cluster, "implicit", explicit=False)) as consumer:
        deadline = time.monotonic() + PATIENCE_S
        while len(got) < len(values) and time.monotonic() < deadline:
            got += [_value(message) for message in _polled(consumer)]

    assert sorted(got) == sorted(values)


def test_share_consumers_share_partitions_and_get_released_records_again(cluster: Cluster) -> None:
    """Three members: every record that is released is delivered once more, nothing else is, nothing is lost."""
    values = _produce(cluster, 600)
    deliveries: Counter[bytes] = Counter()
    released: set[bytes] = set()
    accepted: set[bytes] = set()
    with ExitStack() as stack:
        consumers = [stack.enter_context(closing(share_consumer(cluster, "several", explicit=True))) for _ in range(3)]
        deadline = time.monotonic() + PATIENCE_S
        while len(accepted) < len(values) and time.monotonic() < deadline:
            for consumer in consumers:
                for message in _polled(consumer):
                    value = _value(message)
                    deliveries[value] += 1
                    assert message.delivery_count() == deliveries[value]
                    again = value.endswith(b"7") and value not in released
                    (released if again else accepted).add(value)
                    consumer.acknowledge(message, AcknowledgeType.RELEASE if again else AcknowledgeType.ACCEPT)
                consumer.commit_sync(PATIENCE_S)

    assert accepted == set(values)
    assert {value for value, count in deliveries.items() if count == 2} == released
    assert set(deliveries.values()) == {1, 2}


def test_a_rejected_record_is_never_seen_again(cluster: Cluster) -> None:
    values = _produce(cluster, 50)
    deliveries: Counter[bytes] = Counter()
    with closing(share_consumer(cluster, "rejecting", explicit=True)) as consumer:
        deadline = time.monotonic() + PATIENCE_S
        while len(deliveries) < len(values) and time.monotonic() < deadline:
            for message in _polled(consumer):
                deliveries[_value(message)] += 1
                consumer.acknowledge(message, AcknowledgeType.REJECT)
            consumer.commit_sync(PATIENCE_S)
        for _ in range(5):
            deliveries.update(_value(message) for message in _polled(consumer))

    assert deliveries == Counter(values)


def test_topics_are_created_listed_and_deleted(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, **QUIET})

    admin.create_topics([NewTopic("made", 4, 2)])["made"].result(PATIENCE_S)
    made = admin.list_topics(timeout=PATIENCE_S).topics["made"]
    assert [len(partition.replicas) for partition in made.partitions.values()] == [2, 2, 2, 2]

    admin.delete_topics(["made"])["made"].result(PATIENCE_S)
    assert "made" not in admin.list_topics(timeout=PATIENCE_S).topics
