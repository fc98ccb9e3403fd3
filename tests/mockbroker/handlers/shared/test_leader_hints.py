"""Leader hints of Produce, Fetch, ShareFetch and ShareAcknowledge, in a cluster with two listeners (KIP-951)."""

from __future__ import annotations

from typing import Any

import pytest

from kwire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.messages.share_acknowledge import (
    AcknowledgementBatch,
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
)
from kwire.messages.share_fetch import FetchPartition as SharePartition
from kwire.messages.share_fetch import FetchTopic as ShareTopic
from kwire.messages.share_fetch import ShareFetchRequest
from kwire.records import Record, write_batch
from tests.support.brokers.share_members import ShareBroker

LISTENERS = {"PLAINTEXT": ("127.0.0.1", 9092), "EXTERNAL": ("broker.example", 19092)}


@pytest.fixture
def broker() -> ShareBroker:
    """Two nodes, each with an address for each listener."""
    broker = ShareBroker(nodes=2, config={"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,EXTERNAL:PLAINTEXT"})
    for node in broker.core.state.nodes.values():
        host, port = LISTENERS["EXTERNAL"]
        node.add_endpoint("EXTERNAL", host, port + node.node_id)
    return broker


def hints(response: Any) -> list[tuple[int, str, int]]:
    return [(row.node_id, row.host, row.port) for row in response.node_endpoints]


@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.parametrize("api", ["Produce", "Fetch", "ShareFetch"])
def test_a_request_to_another_node_names_the_leader_at_the_listener_of_the_client(
    broker: ShareBroker, api: str, listener: str
) -> None:
    leader, topic_id = broker.leader("A", 0), broker.topic_id("A")
    batch = write_batch([Record(0, broker.now_ms, None, b"v")])
    produce = ProduceRequest(acks=1, topic_data=[TopicProduceData("A", topic_id, [PartitionProduceData(0, batch)])])
    fetch = FetchRequest(topics=[FetchTopic(topic_id=topic_id, partitions=[FetchPartition(current_leader_epoch=0)])])
    share_fetch = ShareFetchRequest("g", "m1", 0, max_bytes=1_000, max_records=10)
    share_fetch.topics = [ShareTopic(topic_id, [SharePartition(0)])]
    request, version = {"Produce": (produce, 13), "Fetch": (fetch, 18), "ShareFetch": (share_fetch, 2)}[api]
    broker.connect(listener, node=1 - leader, listener=listener)
    host, port = LISTENERS[listener]

    assert hints(broker.call(request, version, connection=listener)) == [(leader, host, port + leader)]


@pytest.mark.parametrize("listener", LISTENERS)
def test_a_fenced_acknowledgement_names_the_leader_at_the_listener_of_the_client(
    broker: ShareBroker, listener: str
) -> None:
    leader, topic_id = broker.leader("A", 0), broker.topic_id("A")
    broker.connect("m1", node=leader, listener=listener)
    broker.produce("A", 3)
    assert broker.fetch("m1", 0, "A0", wait_ms=100) == "A0 0-2/1"
    broker.initialize("A", start=2, epoch=7)
    rows = [AcknowledgePartition(0, [AcknowledgementBatch(0, 0, (1,))])]
    request = ShareAcknowledgeRequest("g", "m1", 1, topics=[AcknowledgeTopic(topic_id, rows)])
    host, port = LISTENERS[listener]

    assert hints(broker.call(request, 2, connection="m1")) == [(leader, host, port + leader)]
