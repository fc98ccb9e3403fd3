"""Topology descriptions of streams groups over time; their checks are pinned by other-streams-44-descriptions."""

from __future__ import annotations

from kwire.messages.streams_group_describe import StreamsGroupDescribeRequest, StreamsGroupDescribeResponse
from kwire.messages.streams_group_heartbeat import StreamsGroupHeartbeatResponse
from kwire.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    TopologyDescription,
    TopologyDescriptionSubtopology,
)
from tests.support.brokers.broker import Broker
from tests.support.brokers.streams_requests import beat

CONFIG = {
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.topology.description.plugin.class": "com.example.AnyPlugin",
}
DESCRIPTION = TopologyDescription([TopologyDescriptionSubtopology("0")])


def described_broker() -> Broker:
    return Broker(topics={"T": 2}, config=CONFIG, release="4.4")


def is_asked(broker: Broker, epoch: int) -> bool:
    response = broker.call(beat("m", epoch), 1)
    assert isinstance(response, StreamsGroupHeartbeatResponse)
    assert response.error_code == 0
    return response.topology_description_required


def status(broker: Broker) -> int:
    response = broker.call(StreamsGroupDescribeRequest(("g",), include_topology_description=True), 1)
    assert isinstance(response, StreamsGroupDescribeResponse)
    return response.groups[0].topology_description_status


def test_a_member_is_asked_once_and_again_after_a_delay_until_it_has_sent_the_description() -> None:
    broker = described_broker()

    assert is_asked(broker, 0)
    assert not is_asked(broker, 2)
    broker.advance(36_000)
    assert is_asked(broker, 2)
    broker.call(StreamsGroupTopologyDescriptionUpdateRequest("g", "m", 0, DESCRIPTION), 0)
    broker.advance(40_000)
    assert not is_asked(broker, 2)
    assert status(broker) == 3


def test_without_a_plugin_nobody_is_asked() -> None:
    broker = Broker(topics={"T": 2}, config={"group.streams.initial.rebalance.delay.ms": "0"}, release="4.4")

    assert not is_asked(broker, 0)
    assert status(broker) == 1
