"""librdkafka's clients while nodes are killed, stopped and restarted: no record is lost or stays acquired."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from confluent_kafka import Producer, ShareConsumer

from mockbroker import Cluster
from mockbroker.broker.inspection import SharePartitionView
from mockbroker.state.metadata.cluster_image import CoordinatorKind
from tests.clients.librdkafka import QUIET, share_from_earliest

pytestmark = pytest.mark.client

PATIENCE_S = 60.0
PARTITIONS = 6
COUNT = 600


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    properties = {
        "default.replication.factor": 3,
        "broker.session.timeout.ms": 1_000,
        "group.share.min.record.lock.duration.ms": 1_000,
        "group.share.record.lock.duration.ms": 5_000,
    }
    with Cluster(nodes=3, topics={"orders": PARTITIONS}, properties=properties) as running:
        share_from_earliest({"bootstrap.servers": running.bootstrap_servers, **QUIET}, "g")
        yield running


def _produce(cluster: Cluster, first: int, count: int) -> list[bytes]:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 5, **QUIET})
    values = [b"v%d" % number for number in range(first, first + count)]
    for number, value in enumerate(values):
        producer.produce("orders", value=value, partition=number % PARTITIONS)
    assert producer.flush(PATIENCE_S) == 0
    return values


def _views(cluster: Cluster) -> list[SharePartitionView]:
    views = [cluster.share_partition("g", "orders", index) for index in range(PARTITIONS)]
    return [view for view in views if view is not None]


def _is_drained(cluster: Cluster) -> bool:
    """Whether every share partition has reached the end of its log with nothing in flight."""
    end = 2 * COUNT // PARTITIONS
    return [(view.start_offset, view.end_offset) for view in _views(cluster)] == [(end, end)] * PARTITIONS


@pytest.mark.parametrize("victim", ["leader", "coordinator"])
@pytest.mark.parametrize("how", ["kill_node", "stop_node"])
def test_a_share_group_gets_every_record_although_a_node_ends(cluster: Cluster, victim: str, how: str) -> None:
    values = _produce(cluster, 0, COUNT)
    seen: Counter[bytes] = Counter()
    consumer = ShareConsumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g", **QUIET})
    consumer.subscribe(["orders"])
    with closing(consumer):
        _poll(consumer, seen, until=lambda: len(seen) >= COUNT // 3)
        node = _coordinator(cluster) if victim == "coordinator" else (_coordinator(cluster) + 1) % 3
        getattr(cluster, how)(node)
        values += _produce(cluster, COUNT, COUNT)
        _poll(consumer, seen, until=lambda: len(seen) == len(values))
        cluster.start_node(node)
        _poll(consumer, seen, until=lambda: _is_drained(cluster))

    assert sorted(seen) == sorted(values)


def _poll(consumer: ShareConsumer, seen: Counter[bytes], *, until: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not until():
        assert time.monotonic() < deadline, f"{len(seen)} different records after {PATIENCE_S} seconds"
        for message in consumer.poll(0.2):
            value = message.value()
            if message.error() is None and isinstance(value, bytes):
                seen[value] += 1


def _coordinator(cluster: Cluster) -> int:
    return cluster.run(lambda server: server.core.state.metadata.coordinator_id(CoordinatorKind.GROUP, "g"))


def test_a_producer_outlives_a_paused_leader_and_writes_to_an_added_node() -> None:
    properties = {"default.replication.factor": 2, "broker.session.timeout.ms": 1_000}
    with Cluster(nodes=2, topics={"orders": 1}, properties=properties) as cluster:
        settings = {"socket.timeout.ms": 1_000, "retry.backoff.ms": 50, "reconnect.backoff.max.ms": 100, **QUIET}
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 0, **settings})
        failures: list[object] = []

        def produce(topic: str, partition: int) -> None:
            producer.produce(topic, b"v", partition=partition, on_delivery=lambda error, _: failures.append(error))
            assert producer.flush(PATIENCE_S) == 0

        produce("orders", 0)
        leader = cluster.run(lambda server: server.core.state.metadata.topics()[0].partitions[0].leader)
        cluster.pause_node(leader)
        produce("orders", 0)
        cluster.resume_node(leader)
        added = cluster.add_node()
        cluster.create_topic("placed", 3, replication_factor=1)
        for partition in range(3):
            produce("placed", partition)
        values = [record.value for record in cluster.read("orders")]

        nodes = {exchange.node_id for exchange in cluster.exchanges("Produce")}

    assert failures == [None] * 5
    assert len(values) >= 2  # The paused leader may have had one as well.
    assert nodes == {0, 1, added}
