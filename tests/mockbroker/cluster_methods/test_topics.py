"""Topics and records of a cluster without a client library, and what clients find."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, ConfigResource

from mockbroker import Cluster, KafkaError, TopicRecord


@pytest.fixture
def kafka() -> Iterator[Cluster]:
    with Cluster(topics={"orders": 3}, profile="quick") as cluster:
        yield cluster


@pytest.mark.client
def test_a_client_consumes_what_was_produced_without_one(kafka: Cluster) -> None:
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "fetch.wait.max.ms": 60_000, "fetch.min.bytes": 1})
    consumer.subscribe(["orders"])
    kafka.wait_until(lambda: consumer.poll(0.1) is None and consumer.assignment(), timeout_s=30)
    kafka.wait_for_request("Fetch", topic="orders", timeout_s=30)
    kafka.produce("orders", "espresso", key=b"table 4", headers={"x": "1", "y": None}, timestamp_ms=1_700_000_000_000)
    message = consumer.poll(30)
    consumer.close()

    assert message is not None
    assert (message.value(), message.key()) == (b"espresso", b"table 4")
    assert message.headers() == [("x", b"1"), ("y", None)]
    assert message.timestamp()[1] == 1_700_000_000_000


@pytest.mark.client
def test_what_a_producer_wrote_is_read_without_a_client_and_keys_have_the_same_partitions(kafka: Cluster) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "partitioner": "murmur2"})
    keys = [f"key {number}" for number in range(20)]
    for key in keys:
        producer.produce("orders", b"by a client", key=key)
    assert producer.flush(30) == 0
    by_client = {record.key: record.partition for record in kafka.read("orders")}
    own = {record.key: record.partition for record in (kafka.produce("orders", "own", key=key) for key in keys)}

    assert by_client == own
    assert set(own.values()) == {0, 1, 2}


@pytest.mark.client
def test_records_of_transactions_are_read_by_isolation(kafka: Cluster) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": "t"})
    producer.init_transactions(30)
    for value, ends in ((b"aborted", "abort"), (b"committed", "commit"), (b"open", "")):
        producer.begin_transaction()
        producer.produce("orders", value, partition=0)
        assert producer.flush(30) == 0
        if ends:
            getattr(producer, f"{ends}_transaction")(30)
    committed = [record.value for record in kafka.read("orders", isolation="read_committed")]
    producer.abort_transaction(30)

    assert committed == [b"committed"]
    assert [record.value for record in kafka.read("orders", partition=0)] == [b"aborted", b"committed", b"open"]


@pytest.mark.client
def test_topics_are_created_with_configurations_and_deleted(kafka: Cluster) -> None:
    kafka.create_topic("compact", 2, configs={"cleanup.policy": "compact", "preallocate": True})
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    resource = ConfigResource(ConfigResource.Type.TOPIC, "compact")
    configs = admin.describe_configs([resource])[resource].result(30)
    kafka.delete_topic("orders")

    assert (configs["cleanup.policy"].value, configs["preallocate"].value) == ("compact", "true")
    assert kafka.topics() == {"compact": 2}


def test_a_record_has_its_offset_and_the_time_of_the_cluster(kafka: Cluster) -> None:
    kafka.clock.freeze()
    now_ms = kafka.clock.now_ms()
    first, second = kafka.produce("orders", partition=1), kafka.produce("orders", b"x", partition=1)

    assert first == TopicRecord("orders", 1, 0, now_ms, None, None)
    assert kafka.read("orders", partition=1, offset=1) == [second]
    assert second.offset == 1


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (lambda kafka: kafka.produce("bills", "x"), "there is no topic 'bills'"),
        (lambda kafka: kafka.produce("orders", "x", partition=3), "there is no partition orders-3"),
        (lambda kafka: kafka.read("orders", partition=-1), "there is no partition orders--1"),
        (lambda kafka: kafka.delete_topic("bills"), "there is no topic 'bills'"),
        (lambda kafka: kafka.create_topic("orders"), "Topic 'orders' already exists"),
        (lambda kafka: kafka.create_topic("new", 0), "(?i)partition"),
        (lambda kafka: kafka.create_topic("new", configs={"retention.ms": "soon"}), r"retention\.ms"),
        (lambda kafka: kafka.create_topic("new", configs={"retention": 1}), "retention"),
        (lambda kafka: kafka.create_topic("new", replication_factor=5), "(?i)replication"),
    ],
)
def test_what_cannot_be_done_is_an_error_and_changes_nothing(kafka: Cluster, action: object, message: str) -> None:
    assert callable(action)
    with pytest.raises(KafkaError, match=message):
        action(kafka)

    assert kafka.topics() == {"orders": 3}
    assert kafka.read("orders") == []


def test_an_unknown_isolation_is_refused(kafka: Cluster) -> None:
    with pytest.raises(ValueError, match="isolation='committed'"):
        kafka.read("orders", isolation="committed")  # type: ignore[arg-type]


def test_a_partition_without_a_leader_cannot_be_read() -> None:
    with Cluster(nodes=2, topics=["orders"]) as kafka:
        kafka.stop_node(kafka.run(lambda server: server.core.state.metadata.topics()[0].partitions[0].leader))

        with pytest.raises(KafkaError, match="orders-0 has no leader that runs"):
            kafka.read("orders")
