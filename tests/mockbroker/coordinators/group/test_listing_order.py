"""The order of groups in ListGroups. Source: kafka.server.ListGroupsRequestTest of Kafka 4.3.0 (tests/foreign)."""

from __future__ import annotations

from kwire.messages.list_groups import ListGroupsRequest
from kwire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from mockbroker.state.java.hash_order import timeline_order
from mockbroker.state.metadata.topics import CoordinatorKind, java_hash
from tests.support.brokers.broker import Broker

NAMES = [f"grp-{number}" for number in range(1, 7)]


def create_groups(broker: Broker) -> None:
    for name in NAMES:
        row = OffsetCommitRequestTopic(name="t", partitions=[OffsetCommitRequestPartition(0, 1)])
        node = broker.metadata.coordinator_id(CoordinatorKind.GROUP, name)
        broker.call(OffsetCommitRequest(name, topics=[row]), 9, node=node, connection=f"node-{node}")


def listed_groups(broker: Broker) -> list[str]:
    return [group.group_id for group in broker.call(ListGroupsRequest(), 5, node=0, connection="node-0").groups]


def test_groups_of_one_partition_are_listed_in_the_order_of_kafka_s_map() -> None:
    broker = Broker(nodes=1, topics={"t": 1}, config={"offsets.topic.num.partitions": "1"})
    create_groups(broker)
    listed = listed_groups(broker)

    assert listed == timeline_order(NAMES, java_hash, most=6)
    # The order that Kafka's test expects.
    assert listed.index("grp-4") < listed.index("grp-1")


def test_groups_are_listed_partition_by_partition() -> None:
    broker = Broker(nodes=1, topics={"t": 1}, config={"offsets.topic.num.partitions": "3"})
    create_groups(broker)
    shards = [
        broker.metadata.coordinator_partition_index(CoordinatorKind.GROUP, name) for name in listed_groups(broker)
    ]

    assert len(set(shards)) > 1
    assert len([at for at in range(1, len(shards)) if shards[at] != shards[at - 1]]) == len(set(shards)) - 1
