"""Topics and records of a cluster without a client library, and what clients find."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, ConfigResource

from kwire import Client, InvalidValue
from kwire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.records import read_batches
from mockbroker import Cluster, KafkaError, TopicRecord
from mockbroker.cluster_methods.topics import RecordFields


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


def test_old_messages_are_read_as_they_were_written_and_new_records_follow_them(kafka: Cluster) -> None:
    now_ms = kafka.clock.now_ms()
    records: list[RecordFields] = [{"value": "a", "timestamp_ms": 7}, {"key": "k", "value": None}]
    plain = kafka.append_old_messages("orders", records, magic=0)
    packed = kafka.append_old_messages("orders", records, magic=1, compression="gzip", append_time_ms=now_ms)
    new = kafka.produce("orders", "new", partition=0)

    assert [(each.offset, each.timestamp_ms, each.key, each.value) for each in (*plain, *packed)] == [
        (0, -1, None, b"a"),
        (1, -1, b"k", None),
        (2, now_ms, None, b"a"),
        (3, now_ms, b"k", None),
    ]
    assert kafka.read("orders", partition=0) == [*plain, *packed, new]


def test_a_fetch_returns_old_messages_in_their_own_format(kafka: Cluster) -> None:
    kafka.append_old_messages("orders", [{"value": "a"}], magic=0, partition=1)
    kafka.append_old_messages("orders", [{"value": "b"}, {"value": "c"}], magic=1, partition=1, compression="snappy")
    kafka.produce("orders", "d", partition=1)
    wanted = FetchTopic(topic="orders", partitions=[FetchPartition(partition=1, partition_max_bytes=10_000)])
    with Client(kafka.bootstrap_servers) as client:
        [row] = client.send(FetchRequest(topics=[wanted], max_bytes=10_000), version=4).responses[0].partitions
    batches = list(read_batches(row.records))

    assert [(batch.magic, batch.base_offset, batch.last_offset) for batch in batches] == [
        (0, 0, 0),
        (1, 1, 2),
        (2, 3, 3),
    ]
    assert [record.value for batch in batches for record in batch.records()] == [b"a", b"b", b"c", b"d"]


def test_old_messages_have_gaps_where_compaction_has_removed_some(kafka: Cluster) -> None:
    kafka.produce("orders", "new", partition=0)
    records: list[RecordFields] = [{"value": "a"}, {"value": "b"}]
    packed = kafka.append_old_messages("orders", records, magic=1, compression="lz4", offsets=[1, 4])
    plain = kafka.append_old_messages("orders", records, magic=1, offsets=[0, 2])

    assert [each.offset for each in packed] == [2, 5]
    assert [each.offset for each in plain] == [6, 8]
    assert kafka.produce("orders", "last", partition=0).offset == 9


def test_records_are_found_by_the_timestamps_of_old_messages(kafka: Cluster) -> None:
    kafka.append_old_messages("orders", [{"value": "without a time"}], magic=0)
    records: list[RecordFields] = [{"value": "a", "timestamp_ms": 100}, {"value": "b", "timestamp_ms": 200}]
    kafka.append_old_messages("orders", records, magic=1, compression="gzip")
    asked = ListOffsetsPartition(partition_index=0, timestamp=150)
    with Client(kafka.bootstrap_servers) as client:
        request = ListOffsetsRequest(topics=[ListOffsetsTopic(name="orders", partitions=[asked])])
        [row] = client.send(request, version=4).topics[0].partitions

    assert (row.offset, row.timestamp, row.leader_epoch) == (2, 200, -1)


def test_old_messages_that_cannot_be_written_are_an_error(kafka: Cluster, tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match="magic 1 has no headers"):
        kafka.append_old_messages("orders", [{"value": "a", "headers": {"x": "y"}}], magic=1)
    for offsets in ([1, 2], [-1]):
        with pytest.raises(ValueError, match="expected 1 numbers from 0 on, ascending"):
            kafka.append_old_messages("orders", [{"value": "a"}], magic=1, offsets=offsets)
    with pytest.raises(ValueError, match=r"offsets=\[1, 1\]; expected 2 numbers"):
        kafka.append_old_messages("orders", [{}, {}], magic=1, offsets=[1, 1])
    with pytest.raises(KafkaError, match="there is no partition orders-3"):
        kafka.append_old_messages("orders", [{"value": "a"}], magic=1, partition=3)
    with (
        Cluster(data_dir=tmp_path, topics={"orders": 1}) as stored,
        pytest.raises(KafkaError, match="logs in files have only batches of magic 2"),
    ):
        stored.append_old_messages("orders", [{"value": "a"}], magic=1)

    assert kafka.read("orders") == []
