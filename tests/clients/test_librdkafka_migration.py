"""A rolling upgrade with librdkafka: the consumers of one group change to the newer protocol one by one, and back."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer

from mockbroker import Cluster
from tests.clients.librdkafka import PATIENCE_S, QUIET

pytestmark = pytest.mark.client

#: Not cooperative-sticky: librdkafka has data of its own in its assignments, which no broker can carry over.
CLASSIC: dict[str, object] = {"partition.assignment.strategy": "range", "session.timeout.ms": 10_000}
NEWER: dict[str, object] = {"group.protocol": "consumer"}
PARTITIONS = 4


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    properties = {"group.initial.rebalance.delay.ms": 0, "group.consumer.heartbeat.interval.ms": 1_000}
    properties["group.consumer.min.heartbeat.interval.ms"] = 100
    with Cluster(topics={"orders": PARTITIONS}, properties=properties) as running:
        yield running


class Rolling:
    """The consumers of one group, polled in turn; what they read is counted."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.read: list[bytes] = []
        self.members: list[Consumer] = []
        self.producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, **QUIET})
        self.sent = 0

    def start(self, protocol: dict[str, object]) -> None:
        """One more consumer."""
        says = {"bootstrap.servers": self.cluster.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
        member = Consumer({**says, **QUIET, **protocol})
        member.subscribe(["orders"])
        self.members.append(member)

    def stop(self) -> None:
        """The oldest consumer leaves."""
        self.members.pop(0).close()

    def settle(self) -> None:
        """Poll until every partition is somebody's, each consumer has its share, and all that was sent is read."""
        for partition in range(PARTITIONS):
            self.producer.produce("orders", b"%d" % self.sent, partition=partition)
            self.sent += 1
        assert self.producer.flush(PATIENCE_S) == 0
        stop_s = time.monotonic() + PATIENCE_S
        while not self._is_settled():
            assert time.monotonic() < stop_s, [len(member.assignment()) for member in self.members]
            for member in self.members:
                message = member.poll(0.05)
                if message is not None and message.error() is None:
                    self.read.append(message.value() or b"")

    def _is_settled(self) -> bool:
        counts = [len(member.assignment()) for member in self.members]
        return sum(counts) == PARTITIONS and min(counts) > 0 and len(set(self.read)) == self.sent

    def group_type(self) -> str:
        """What the coordinator says the group is."""
        group = self.cluster.run(lambda server: server.core.state.nodes[0].groups.find_group("g"))
        assert group is not None
        return str(group.kind.value)


def test_a_group_is_upgraded_member_by_member_and_downgraded_again(cluster: Cluster) -> None:
    rolling = Rolling(cluster)
    rolling.start(CLASSIC)
    rolling.start(CLASSIC)
    rolling.settle()
    kinds = [rolling.group_type()]
    for protocol in (NEWER, NEWER, CLASSIC, CLASSIC):
        rolling.start(protocol)
        rolling.settle()
        rolling.stop()
        rolling.settle()
        kinds.append(rolling.group_type())
    for member in rolling.members:
        member.close()

    assert kinds == ["classic", "consumer", "consumer", "consumer", "classic"]
