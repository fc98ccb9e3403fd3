"""Faults as real clients meet them: what they retry, what they report, and what they must not do twice."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import MessageSizeTooLargeError

from mockbroker import Cluster
from mockbroker.server import Server
from tests.clients.fast_share_groups import FAST_SHARE_GROUPS
from tests.clients.librdkafka import PATIENCE_S, QUIET, share_consumer

pytestmark = pytest.mark.client


@pytest.fixture
def kafka() -> Iterator[Cluster]:
    with Cluster(nodes=2, topics={"orders": 2}, properties=FAST_SHARE_GROUPS, profile="quick", seed=3) as cluster:
        yield cluster
        cluster.check_faults()


def _settings(kafka: Cluster, **settings: Any) -> dict[str, Any]:
    return {"bootstrap.servers": kafka.bootstrap_servers, "retry.backoff.ms": 10, **QUIET, **settings}


def _produce(producer: Producer, *values: bytes) -> list[str | None]:
    """Produce values to partition 0; the name of the error of each, None when it was written."""
    errors: list[str | None] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        errors.append(None if error is None else error.name())

    for value in values:
        producer.produce("orders", value, partition=0, on_delivery=delivered)
    assert producer.flush(PATIENCE_S) == 0
    return errors


def _end_offset(kafka: Cluster, partition: int = 0) -> int:
    def read(server: Server) -> int:
        topic = server.core.state.metadata.topic("orders")
        assert topic is not None
        leader = server.core.state.nodes[topic.partitions[partition].leader]
        return leader.logs.find_log(topic.topic_id, partition).end_offset

    return kafka.run(read)


def _wait_for(kafka: Cluster, condition: Callable[[], bool], poll: Callable[[], object]) -> None:
    """Poll a client until a condition holds."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        poll()
        if condition():
            return
    pytest.fail(f"not reached; the last exchanges: {kafka.exchanges()[-10:]}")


def test_librdkafka_retries_a_produce_to_a_node_that_does_not_lead(kafka: Cluster) -> None:
    fault = kafka.faults.add("Produce", topic="orders", partition=0, times=2, error="NOT_LEADER_OR_FOLLOWER")

    assert _produce(Producer(_settings(kafka)), b"one") == [None]

    assert fault.hits == 2
    assert _end_offset(kafka) == 1
    assert [bool(exchange.faults) for exchange in kafka.exchanges("Produce")] == [True, True, False]


def test_an_idempotent_producer_writes_once_though_the_answer_was_lost(kafka: Cluster) -> None:
    fault = kafka.faults.add("Produce", drop="close", after=True, times=2)

    assert _produce(Producer(_settings(kafka, **{"enable.idempotence": True})), b"one", b"two") == [None, None]

    assert fault.hits == 2
    assert _end_offset(kafka) == 2


def test_a_producer_without_idempotence_writes_twice_when_the_answer_was_lost(kafka: Cluster) -> None:
    kafka.faults.add("Produce", drop="reset", after=True, times=1)

    assert _produce(Producer(_settings(kafka)), b"one") == [None]

    assert _end_offset(kafka) == 2


def test_a_fatal_error_reaches_the_application(kafka: Cluster) -> None:
    kafka.faults.add("Produce", error="TOPIC_AUTHORIZATION_FAILED")

    assert _produce(Producer(_settings(kafka)), b"one") == ["TOPIC_AUTHORIZATION_FAILED"]


@pytest.mark.parametrize(
    "fault",
    [
        {"answer": "never"},
        {"truncate": 7},
        {"wrong_correlation_id": True},
        {"drop": "half-close"},
    ],
)
def test_a_producer_recovers_from_damaged_answers(kafka: Cluster, fault: dict[str, Any]) -> None:
    producer = Producer(_settings(kafka, **{"enable.idempotence": True, "socket.timeout.ms": 1000}))
    assert _produce(producer, b"one") == [None]
    kafka.faults.add("Produce", times=1, **fault)

    assert _produce(producer, b"two") == [None]

    assert _end_offset(kafka) == 2


def test_an_answer_with_inverted_bits_is_an_error_of_its_message_only(kafka: Cluster) -> None:
    producer = Producer(_settings(kafka, retries=0))
    kafka.faults.add("Produce", times=1, flip_bits=40)

    errors = [_produce(producer, value)[0] for value in (b"one", b"two")]

    assert errors == ["_UNDERFLOW", None]
    assert _end_offset(kafka) == 2


def test_slow_drips_and_delayed_answers_do_no_harm(kafka: Cluster) -> None:
    kafka.faults.add("Metadata", drip_bytes=20, drip_ms=1)
    kafka.faults.add("Produce", delay_ms=20, jitter_ms=10, after=True)

    assert _produce(Producer(_settings(kafka)), b"one", b"two") == [None, None]


def test_a_consumer_skips_no_record_when_a_batch_was_damaged(kafka: Cluster) -> None:
    _produce(Producer(_settings(kafka)), b"one", b"two", b"three")
    kafka.faults.add("Fetch", topic="orders", partition=0, corrupt_records=True, times=1)
    consumer = Consumer(
        _settings(kafka, **{"group.id": "g", "auto.offset.reset": "earliest", "check.crcs": True, "retries": 3})
    )
    consumer.subscribe(["orders"])
    values: list[bytes] = []

    def poll() -> None:
        message = consumer.poll(0.05)
        if message is not None and message.error() is None:
            values.append(message.value() or b"")

    _wait_for(kafka, lambda: len(values) == 3, poll)
    consumer.close()

    assert values == [b"one", b"two", b"three"]


def test_a_coordinator_that_loads_is_asked_again(kafka: Cluster) -> None:
    fault = kafka.faults.add("FindCoordinator", error="COORDINATOR_NOT_AVAILABLE", times=2)
    consumer = Consumer(_settings(kafka, **{"group.id": "g", "auto.offset.reset": "earliest"}))
    consumer.subscribe(["orders"])
    _wait_for(kafka, lambda: bool(consumer.assignment()), lambda: consumer.poll(0.05))
    consumer.close()

    assert fault.hits == 2


def test_an_admin_client_gets_the_error_of_a_list_of_groups(kafka: Cluster) -> None:
    kafka.faults.add("ListGroups", error="GROUP_AUTHORIZATION_FAILED")
    admin = AdminClient(_settings(kafka))
    result = admin.list_consumer_groups().result(PATIENCE_S)

    assert {error.name() for error in result.errors} == {"GROUP_AUTHORIZATION_FAILED"}


def test_a_share_consumer_gets_records_again_whose_acknowledgement_failed(kafka: Cluster) -> None:
    fault = kafka.faults.add(
        "ShareAcknowledge", topic="orders", partition=0, times=1, error="NOT_LEADER_OR_FOLLOWER", optional=True
    )
    fetch_fault = kafka.faults.add("ShareFetch", group="g", topic="orders", times=2, error="NOT_LEADER_OR_FOLLOWER")
    _produce(Producer(_settings(kafka)), b"one")
    consumer = share_consumer(kafka, "g", explicit=True)
    values: list[bytes] = []

    def poll() -> None:
        for message in consumer.poll(0.2):
            if message.error() is None:
                values.append(message.value() or b"")
                consumer.acknowledge(message)
        if values:
            consumer.commit_sync()

    _wait_for(kafka, lambda: fault.hits > 0 or len(values) > 1, poll)
    consumer.close()

    assert fetch_fault.hits == 2
    assert fault.hits == 1
    assert set(values) == {b"one"}


def test_kafka_python_retries_and_reports(kafka: Cluster) -> None:
    retried = kafka.faults.add("Produce", topic="orders", times=1, error="NOT_LEADER_OR_FOLLOWER")
    producer = KafkaProducer(bootstrap_servers=kafka.bootstrap_servers, retries=3, retry_backoff_ms=10)
    producer.send("orders", b"one", partition=0).get(PATIENCE_S)
    with kafka.faults.add("Produce", topic="orders", error="MESSAGE_TOO_LARGE"):
        future = producer.send("orders", b"two", partition=0)
        with pytest.raises(MessageSizeTooLargeError):
            future.get(PATIENCE_S)
    producer.close()

    assert retried.hits == 1
    assert _end_offset(kafka) == 1


def test_kafka_python_reads_all_after_an_error_and_a_delay(kafka: Cluster) -> None:
    _produce(Producer(_settings(kafka)), b"one", b"two")
    kafka.faults.add("Fetch", topic="orders", partition=0, times=1, error="NOT_LEADER_OR_FOLLOWER")
    kafka.faults.add("Fetch", delay_ms=20, after=True, times=1)
    consumer = KafkaConsumer(
        "orders",
        bootstrap_servers=kafka.bootstrap_servers,
        auto_offset_reset="earliest",
        consumer_timeout_ms=int(PATIENCE_S * 1000),
        retry_backoff_ms=10,
    )
    values = [next(consumer).value for _ in range(2)]
    consumer.close()

    assert values == [b"one", b"two"]


def test_a_capture_has_each_hit_as_a_comment(tmp_path: Path) -> None:
    capture = tmp_path / "faults.pcapng"
    with Cluster(topics={"orders": 1}, capture=capture) as kafka:
        kafka.faults.add("Produce", error="NOT_LEADER_OR_FOLLOWER", times=1, name="moved")
        kafka.faults.add("Produce", drop=True, after=True, times=1, name="lost answer")
        assert _produce(Producer(_settings(kafka)), b"one") == [None]
    data = capture.read_bytes()

    assert data.count(b"fault: moved") == 1
    assert data.count(b"fault: lost answer") == 1


def test_faults_are_given_at_the_start(tmp_path: Path) -> None:
    path = tmp_path / "faults.json"
    path.write_text('{"faults": [{"when": {"api": "ListGroups", "times": 1}, "then": {"error": "NOT_CONTROLLER"}}]}')
    with Cluster(faults=path) as kafka:
        admin = AdminClient(_settings(kafka))
        result = admin.list_consumer_groups().result(PATIENCE_S)
        kafka.check_faults()

    assert [error.name() for error in result.errors] == ["NOT_CONTROLLER"]
    assert [fault.hits for fault in kafka.faults.list()] == [1]


def test_a_client_connects_again_when_connections_are_reset(kafka: Cluster) -> None:
    fault = kafka.faults.add(on="connection", times=2, drop="reset")

    assert _produce(Producer(_settings(kafka)), b"one") == [None]
    assert fault.hits == 2


def test_a_client_uses_the_versions_of_an_older_broker(kafka: Cluster) -> None:
    kafka.faults.add("ApiVersions", max_versions={"Produce": 7, "Metadata": 8})

    assert _produce(Producer(_settings(kafka)), b"one") == [None]

    assert {exchange.api_version for exchange in kafka.exchanges("Produce")} == {7}
    assert max(exchange.api_version for exchange in kafka.exchanges("Metadata")) <= 8


def test_a_producer_finds_the_leader_after_stale_metadata() -> None:
    properties = {"default.replication.factor": 2}
    with Cluster(nodes=2, topics={"orders": 1}, properties=properties, profile="quick") as kafka:
        kafka.faults.add("Metadata", stale=True, times=3)
        kafka.move_leader("orders", 0)

        assert _produce(Producer(_settings(kafka, **{"topic.metadata.refresh.fast.interval.ms": 20})), b"one") == [None]

        assert kafka.exchanges("Produce")[0].response is not None
        assert _end_offset(kafka) == 1


def test_a_producer_survives_nodes_that_go_down_pause_and_refuse_connections() -> None:
    properties = {"default.replication.factor": 3}
    with Cluster(nodes=3, topics={"orders": 1}, properties=properties, profile="quick", seed=5) as kafka:
        producer = Producer(_settings(kafka, **{"enable.idempotence": True, "reconnect.backoff.max.ms": 100}))
        assert _produce(producer, b"0") == [None]
        faults = [
            kafka.faults.schedule("stop-node", node=0, for_ms=300),
            kafka.faults.schedule("pause-node", node=1, at_ms=400, for_ms=200),
            kafka.faults.schedule("refuse-connections", node=2, at_ms=400, for_ms=300),
            kafka.faults.schedule("move-leader", topic="orders", at_ms=500),
        ]
        count = 1

        def produce_one() -> None:
            nonlocal count
            assert _produce(producer, b"%d" % count) == [None]
            count += 1

        _wait_for(kafka, lambda: all(fault.hits for fault in faults), produce_one)
        _wait_for(kafka, lambda: len(kafka.run(lambda server: server.core.state.inter_broker.nodes)) == 3, produce_one)

        assert _end_offset(kafka) == count


def test_refused_connections_are_refused_by_the_system() -> None:
    with Cluster(nodes=2) as kafka:
        kafka.clock.freeze()
        host, _, port = kafka.bootstrap_servers.split(",")[1].rpartition(":")
        with kafka.faults.schedule("refuse-connections", node=1):
            kafka.clock.advance(1)
            with pytest.raises(ConnectionRefusedError):
                socket.create_connection((host, int(port)), PATIENCE_S)
        socket.create_connection((host, int(port)), PATIENCE_S).close()
