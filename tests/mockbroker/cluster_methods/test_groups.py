"""Groups as a tester sees them, and coordinators that move."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, TopicPartition

from mockbroker import Cluster


@pytest.mark.client
def test_a_group_has_members_assignment_offset_and_lag() -> None:
    with Cluster(topics={"orders": 2}, profile="quick") as kafka:
        for _ in range(3):
            kafka.produce("orders", "x", partition=1)
        consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "g", "client.id": "shop"})
        consumer.subscribe(["orders"])
        consumer.poll(0.1)
        kafka.wait_until(lambda: consumer.poll(0.1) is None and len(consumer.assignment()) == 2, timeout_s=30)
        consumer.commit(offsets=[TopicPartition("orders", 1, 1)], asynchronous=False)
        (view,) = kafka.groups()
        consumer.close()

        assert (view.group_id, view.kind, view.state, view.lag_of("orders")) == ("g", "classic", "Stable", 2)
        assert (view.members[0].client_id, view.members[0].partitions) == ("shop", {"orders": (0, 1)})
        assert "  orders-1: offset 1, lag 2" in str(view)
        assert kafka.group("other") is None


@pytest.mark.client
def test_a_group_goes_on_when_its_coordinator_moves() -> None:
    properties = {"offsets.topic.replication.factor": 3, "default.replication.factor": 3}
    with Cluster(nodes=3, topics=["orders"], profile="quick", properties=properties) as kafka:
        settings = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
        consumer = Consumer(settings)
        consumer.subscribe(["orders"])
        kafka.wait_until(lambda: consumer.poll(0.1) is None and consumer.assignment(), timeout_s=30)
        before = kafka.coordinator("g")
        kafka.move_coordinator("g")

        assert kafka.coordinator("g") != before
        kafka.produce("orders", "espresso")
        kafka.wait_until(lambda: (message := consumer.poll(0.1)) is not None and message.value(), timeout_s=60)
        consumer.commit(asynchronous=False)
        kafka.assert_sent("OffsetCommit", node=kafka.coordinator("g"))
        consumer.close()
