"""The clock that jumps while all clients wait, with real clients and durations that no test waits for."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, Producer
from kafka import KafkaConsumer

import kwire
from kwire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.metadata import MetadataRequest
from mockbroker import Cluster

HOUR_MS = 3_600_000
LONG_DELAY = {"group.initial.rebalance.delay.ms": HOUR_MS}


def _produce(kafka: Cluster) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    producer.produce("orders", b"espresso")
    assert producer.flush(30) == 0


@pytest.mark.client
def test_librdkafka_joins_a_group_whose_first_rebalance_is_delayed_by_an_hour() -> None:
    with Cluster(topics=["orders"], properties=LONG_DELAY) as kafka:
        _produce(kafka)
        kafka.clock.auto()
        start_ms = kafka.clock.now_ms()
        settings = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
        consumer = Consumer(settings)
        consumer.subscribe(["orders"])
        message = consumer.poll(60)
        consumer.close()

        assert message is not None
        assert message.value() == b"espresso"
        assert kafka.clock.now_ms() - start_ms >= HOUR_MS


@pytest.mark.client
def test_kafka_python_joins_a_group_whose_first_rebalance_is_delayed_by_an_hour() -> None:
    with Cluster(topics=["orders"], properties=LONG_DELAY) as kafka:
        _produce(kafka)
        kafka.clock.auto()
        consumer = KafkaConsumer(
            "orders",
            bootstrap_servers=kafka.bootstrap_servers,
            group_id="g",
            auto_offset_reset="earliest",
            consumer_timeout_ms=60_000,
        )
        record = next(consumer)
        consumer.close()

        assert record.value == b"espresso"


@pytest.mark.client
def test_members_keep_their_sessions_while_the_clock_jumps_over_them() -> None:
    """Ten sessions of six seconds pass on the cluster's clock, in which the client has sent hardly a heartbeat."""
    with Cluster(topics=["orders"], profile="quick") as kafka:
        settings = {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": "g",
            "session.timeout.ms": 6_000,
            "heartbeat.interval.ms": 2_000,
            "fetch.wait.max.ms": 1_000,
        }
        consumer = Consumer(settings)
        consumer.subscribe(["orders"])
        consumer.poll(0.1)
        kafka.wait_for_group("g", members=1, timeout_s=30)
        joins = len(kafka.requests("JoinGroup"))
        kafka.clock.auto()
        until_ms = kafka.clock.now_ms() + 60_000
        while kafka.clock.now_ms() < until_ms:
            assert consumer.poll(0.1) is None
        group = kafka.wait_for_group("g", members=1, timeout_s=0)
        consumer.close()

        assert len(kafka.requests("JoinGroup")) == joins
        assert group.state == "Stable"


def _fetch(kafka: Cluster, client: kwire.Client, max_wait_ms: int) -> object:
    topic_id = client.send(MetadataRequest(topics=None)).topics[0].topic_id
    topics = [FetchTopic(topic_id=topic_id, partitions=[FetchPartition(partition=0)])]
    return client.send(FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, topics=topics))


def test_a_long_poll_ends_at_its_deadline_on_the_clock_of_the_cluster() -> None:
    with Cluster(topics=["orders"]) as kafka, kwire.Client(kafka.bootstrap_servers) as client:
        kafka.clock.auto()
        _fetch(kafka, client, HOUR_MS)
        fetch = kafka.requests("Fetch")[0]

        assert fetch.answered_ms is not None
        assert fetch.answered_ms - fetch.arrived_ms >= HOUR_MS


def test_a_delayed_answer_is_a_deadline_that_a_client_waits_for() -> None:
    with Cluster() as kafka, kwire.Client(kafka.bootstrap_servers) as client:
        kafka.clock.auto(settle_ms=1)
        kafka.faults.add("Metadata", delay_ms=HOUR_MS)
        client.send(MetadataRequest(topics=[]))

        metadata = kafka.requests("Metadata")[0]
        assert metadata.answered_ms is not None
        assert metadata.answered_ms - metadata.arrived_ms >= HOUR_MS


def test_without_a_waiting_client_the_clock_does_not_jump() -> None:
    """The next deadline is the check of committed offsets, ten minutes ahead."""
    with Cluster(topics=["orders"]) as kafka, kwire.Client(kafka.bootstrap_servers) as client:
        commit = {"groupId": "g", "topics": [{"name": "orders", "partitions": [{"partitionIndex": 0}]}]}
        client.send(kwire.from_json("OffsetCommitRequest", 8, commit), 8)
        kafka.clock.auto(settle_ms=0)
        start_ms = kafka.clock.now_ms()
        assert kafka.run(lambda server: server.core.next_deadline_ms()) is not None
        for _ in range(10):  # Each call is an event, after which the clock may jump.
            kafka.run(lambda server: None)

        assert kafka.clock.now_ms() - start_ms < 600_000


@pytest.mark.parametrize("end", ["freeze", "thaw"])
def test_freeze_and_thaw_end_the_jumps(end: str) -> None:
    with Cluster(topics=["orders"]) as kafka, kwire.Client(kafka.bootstrap_servers) as client:
        kafka.clock.auto(settle_ms=0)
        getattr(kafka.clock, end)()
        topic_id = client.send(MetadataRequest(topics=None)).topics[0].topic_id
        topics = [FetchTopic(topic_id=topic_id, partitions=[FetchPartition(partition=0)])]
        pending = client.submit(FetchRequest(max_wait_ms=HOUR_MS, min_bytes=1, topics=topics))
        kafka.wait_for_request("Fetch")
        kafka.run(lambda server: None)

        assert kafka.requests("Fetch").unanswered()
        kafka.clock.advance(HOUR_MS)
        assert pending.result(30) is not None


def test_a_negative_settling_time_is_refused() -> None:
    with Cluster() as kafka, pytest.raises(ValueError, match="settle_ms: -1"):
        kafka.clock.auto(settle_ms=-1)
