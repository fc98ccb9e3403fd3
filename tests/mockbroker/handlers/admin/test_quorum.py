"""DescribeQuorum in a cluster of several nodes."""

from __future__ import annotations

from kwire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
)
from tests.support.brokers.broker import Broker


def test_other_brokers_are_observers_of_the_quorum_while_they_run() -> None:
    broker = Broker(nodes=3)
    metadata = DescribeQuorumRequestTopicData("__cluster_metadata", [DescribeQuorumRequestPartitionData(0)])

    def observers() -> list[int]:
        row = broker.call(DescribeQuorumRequest([metadata]), 2).topics[0].partitions[0]
        assert (row.leader_id, [voter.replica_id for voter in row.current_voters]) == (0, [0])
        return [broker_node.replica_id for broker_node in row.observers]

    assert observers() == [1, 2]
    broker.stop_node(1)
    assert observers() == [2]
