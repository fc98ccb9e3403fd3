"""Metadata of a cluster of several nodes."""

from __future__ import annotations

from kwire import uuids
from kwire.error_codes import ErrorCode
from kwire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.support.brokers.broker import Broker


def test_metadata_names_leaders_over_all_nodes_and_partitions_without_one() -> None:
    broker = Broker(nodes=3, topics={"t": 3})
    topic = broker.topic("t")
    broker.metadata.change_leader(topic, 2, -1)
    request = MetadataRequest(topics=[MetadataRequestTopic(uuids.ZERO, "t")])
    answer = broker.call(request, 13)

    assert [(node.node_id, node.port) for node in answer.brokers] == [(0, 9092), (1, 9093), (2, 9094)]
    rows = answer.topics[0].partitions
    assert sorted(row.leader_id for row in rows[:2]) != [-1, -1]
    assert (rows[2].leader_id, rows[2].error_code) == (-1, ErrorCode.LEADER_NOT_AVAILABLE)
