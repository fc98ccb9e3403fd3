"""librdkafka's clients over nodes that die, stop and come back: nothing is lost, and nothing stays held for ever."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from confluent_kafka import Producer, ShareConsumer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from mockbroker import Cluster
from mockbroker.inside import SharePartitionView
from mockbroker.state.metadata import CoordinatorKind

pytestmark = pytest.mark.client

PATIENCE_S = 60.0
QUIET = {"log_level": 0}
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
        resource = ConfigResource(
            ResourceType.GROUP,
            "g",
            incremental_configs=[
                ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
            ],
        )
        admin = AdminClient({"bootstrap.servers": running.bootstrap_servers, **QUIET})
        for future in admin.incremental_alter_configs([resource]).values():
            future.result(PATIENCE_S)
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
    views = _views(cluster)
    return len(views) == PARTITIONS and all(
        view.start_offset == view.end_offset == 2 * COUNT // PARTITIONS for view in views
    )


@pytest.mark.parametrize("victim", ["leader", "coordinator"])
@pytest.mark.parametrize("how", ["kill_node", "stop_node"])
def test_a_share_group_gets_everything_though_a_node_goes_in_the_middle(
    cluster: Cluster, victim: str, how: str
) -> None:
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
    return cluster.run(lambda server: server.core.state.metadata.coordinator_for(CoordinatorKind.GROUP, "g"))
