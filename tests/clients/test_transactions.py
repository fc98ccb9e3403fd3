"""Transactions of real clients: librdkafka's producer and consumers, and Kafka's own tools."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing

import pytest
from confluent_kafka import OFFSET_INVALID, Consumer, KafkaException, Message, Producer, TopicPartition

from mockbroker import Cluster
from tests.clients.java_tools import ToolShell
from tests.clients.librdkafka import PATIENCE_S, QUIET

pytestmark = [pytest.mark.client, pytest.mark.timeout(600)]

PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=3, topics={"orders": 3, "bills": 1}) as running:
        yield running


def _producer(cluster: Cluster, name: str = "tx") -> Producer:
    settings = {"transactional.id": name, "linger.ms": 1, **QUIET}
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, **settings})
    producer.init_transactions(PATIENCE_S)
    return producer


def _begin(producer: Producer, topic: str, values: list[bytes]) -> None:
    """Begin a transaction, and write these records in it."""
    producer.begin_transaction()
    for number, value in enumerate(values):
        producer.produce(topic, value=value, key=b"%d" % number)
    assert producer.flush(PATIENCE_S) == 0


def _end(producer: Producer, *, commit: bool = True) -> None:
    (producer.commit_transaction if commit else producer.abort_transaction)(PATIENCE_S)


def _consumer(cluster: Cluster, group: str = "readers", *, isolation: str = "read_committed") -> Consumer:
    settings = {"auto.offset.reset": "earliest", "enable.auto.commit": False, "enable.partition.eof": True, **QUIET}
    group_settings = {"group.id": group, "isolation.level": isolation}
    return Consumer({"bootstrap.servers": cluster.bootstrap_servers, **group_settings, **settings})


def _read(cluster: Cluster, topic: str, partitions: int, *, isolation: str) -> list[bytes]:
    """Everything from the beginning to the end of every partition."""
    with closing(_consumer(cluster, f"r-{isolation}", isolation=isolation)) as consumer:
        consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
        values: list[bytes] = []
        ends = 0
        deadline = time.monotonic() + PATIENCE_S
        while ends < partitions and time.monotonic() < deadline:
            message = consumer.poll(0.5)
            if message is None:
                continue
            if message.error() is not None:
                ends += 1
            else:
                value = message.value()
                assert isinstance(value, bytes)
                values.append(value)
    assert ends == partitions
    return sorted(values)


def _polled(consumer: Consumer, count: int) -> list[Message]:
    """As many records, whatever partition ends in between."""
    messages: list[Message] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(messages) < count and time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is not None and message.error() is None:
            messages.append(message)
    assert len(messages) == count
    return messages


def test_committed_records_are_read_and_aborted_ones_only_by_read_uncommitted(cluster: Cluster) -> None:
    producer = _producer(cluster)
    kept, dropped = [b"kept %d" % at for at in range(30)], [b"dropped %d" % at for at in range(30)]
    for values, commit in ((kept, True), (dropped, False)):
        _begin(producer, "orders", values)
        _end(producer, commit=commit)

    assert _read(cluster, "orders", 3, isolation="read_committed") == sorted(kept)
    assert _read(cluster, "orders", 3, isolation="read_uncommitted") == sorted(kept + dropped)


def test_records_of_an_open_transaction_wait(cluster: Cluster) -> None:
    producer = _producer(cluster)
    _begin(producer, "bills", [b"open"])

    assert _read(cluster, "bills", 1, isolation="read_committed") == []
    assert _read(cluster, "bills", 1, isolation="read_uncommitted") == [b"open"]
    _end(producer)
    assert _read(cluster, "bills", 1, isolation="read_committed") == [b"open"]


def test_many_transactions_in_a_row_are_each_whole(cluster: Cluster) -> None:
    producer = _producer(cluster)
    values: list[bytes] = []
    for number in range(25):
        batch = [b"%d of %d" % (at, number) for at in range(6)]
        _begin(producer, "orders", batch)
        _end(producer, commit=number % 3 > 0)
        values += batch if number % 3 else []

    assert _read(cluster, "orders", 3, isolation="read_committed") == sorted(values)


def test_a_second_producer_of_the_name_fences_the_first(cluster: Cluster) -> None:
    first = _producer(cluster)
    _begin(first, "bills", [b"first"])
    second = _producer(cluster)
    _begin(second, "bills", [b"second"])
    _end(second)

    with pytest.raises(KafkaException) as caught:
        first.commit_transaction(PATIENCE_S)
    assert caught.value.args[0].fatal()
    assert _read(cluster, "bills", 1, isolation="read_committed") == [b"second"]


@pytest.mark.parametrize("commit", [True, False])
def test_offsets_are_committed_with_the_records_made_from_them(cluster: Cluster, commit: bool) -> None:
    source = _producer(cluster, "source")
    _begin(source, "bills", [b"a", b"b", b"c"])
    _end(source)
    producer = _producer(cluster)
    with closing(_consumer(cluster)) as consumer:
        consumer.subscribe(["bills"])
        messages = _polled(consumer, 3)
        _begin(producer, "orders", [b"made of " + (message.value() or b"") for message in messages])
        positions = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), PATIENCE_S)
        _end(producer, commit=commit)
        committed = consumer.committed([TopicPartition("bills", 0)], PATIENCE_S)

    made = [b"made of a", b"made of b", b"made of c"]
    assert committed[0].offset == (3 if commit else OFFSET_INVALID)
    assert _read(cluster, "orders", 3, isolation="read_committed") == (made if commit else [])


def test_kafkas_own_producer_commits_under_the_second_version(cluster: Cluster, tools: ToolShell) -> None:
    written = tools.run(
        PERFORMANCE,
        *("--topic", "orders", "--num-records", "300", "--record-size", "10", "--throughput", "-1"),
        *("--transactional-id", "java", "--transaction-duration-ms", "20"),
        *("--command-property", f"bootstrap.servers={cluster.bootstrap_servers}"),
    )

    assert "300 records sent" in written
    assert len(_read(cluster, "orders", 3, isolation="read_committed")) == 300
    listed = tools.run(TRANSACTIONS, "--bootstrap-server", cluster.bootstrap_servers, "list")
    row = next(line for line in listed.splitlines() if line.startswith("java"))
    assert "CompleteCommit" in row


def test_the_admin_client_describes_an_open_transaction(cluster: Cluster, tools: ToolShell) -> None:
    producer = _producer(cluster)
    _begin(producer, "bills", [b"open"])

    server = ("--bootstrap-server", cluster.bootstrap_servers)
    described = tools.run(TRANSACTIONS, *server, "describe", "--transactional-id", "tx")
    assert "Ongoing" in described
    assert "bills-0" in described


def test_kafkas_formatters_read_the_records_of_both_coordinators(cluster: Cluster, tools: ToolShell) -> None:
    producer = _producer(cluster)
    with closing(_consumer(cluster)) as consumer:
        _begin(producer, "bills", [b"one"])
        position = TopicPartition("bills", 0, 17)
        producer.send_offsets_to_transaction([position], consumer.consumer_group_metadata(), PATIENCE_S)
        _end(producer)

    transactions = tools.read_topic(cluster, "__transaction_state", "TransactionLogMessageFormatter")
    assert [row["key"]["data"]["transactionalId"] for row in transactions] == ["tx"] * len(transactions)
    assert [row["value"]["data"]["transactionStatus"] for row in transactions] == [0, 1, 1, 2, 4]
    offsets = tools.read_topic(cluster, "__consumer_offsets", "OffsetsMessageFormatter")
    of_readers = [row for row in offsets if row["key"]["data"]["group"] == "readers"]
    assert [row["value"]["data"]["offset"] for row in of_readers] == [17]
