"""UnregisterBroker: what an unregistered broker leads, and when it registers again."""

from __future__ import annotations

from kwire.error_codes import ErrorCode
from kwire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.messages.describe_cluster import DescribeClusterRequest
from kwire.messages.unregister_broker import UnregisterBrokerRequest
from tests.support.brokers.broker import Broker

REPLICATED = {"default.replication.factor": "2"}


def unregister(broker: Broker, node_id: int) -> int:
    code: int = broker.call(UnregisterBrokerRequest(node_id), 0).error_code
    return code


def broker_ids(broker: Broker) -> list[int]:
    return [row.broker_id for row in broker.call(DescribeClusterRequest(), 1).brokers]


def test_an_unregistered_broker_leads_nothing_and_gets_nothing_until_it_starts_again() -> None:
    broker = Broker(nodes=2, topics={"t": 1}, config=REPLICATED)

    assert unregister(broker, 1) == ErrorCode.NONE
    assert broker_ids(broker) == [0]
    assert unregister(broker, 1) == ErrorCode.BROKER_ID_NOT_REGISTERED
    refused = broker.call(CreateTopicsRequest([CreatableTopic("u", 1, 2)]), 7).topics[0]
    assert refused.error_code == ErrorCode.INVALID_REPLICATION_FACTOR
    partition = broker.metadata.topic("t").partitions[0]  # type: ignore[union-attr]
    assert (partition.leader, partition.isr) == (0, (0,))
    broker.stop_node(1)
    broker.start_node(1)
    assert broker_ids(broker) == [0, 1]
    assert set(partition.isr) == {0, 1}


def test_a_broker_that_is_down_can_be_unregistered_and_registers_when_it_starts() -> None:
    broker = Broker(nodes=2)
    broker.kill_node(1)

    assert unregister(broker, 1) == ErrorCode.NONE
    assert broker_ids(broker) == [0]
    broker.advance(10_000)
    broker.start_node(1)
    assert broker_ids(broker) == [0, 1]


def test_stopped_brokers_are_listed_as_fenced_on_request_until_they_are_unregistered() -> None:
    broker = Broker(nodes=2)

    def fenced_brokers(*, fenced: bool) -> dict[int, bool]:
        request = DescribeClusterRequest(include_fenced_brokers=fenced)
        return {row.broker_id: row.is_fenced for row in broker.call(request, 2).brokers}

    broker.stop_node(1)
    assert fenced_brokers(fenced=False) == {0: False}
    assert fenced_brokers(fenced=True) == {0: False, 1: True}
    unregister(broker, 1)
    assert fenced_brokers(fenced=True) == {0: False}
    broker.start_node(1)
    assert fenced_brokers(fenced=True) == {0: False, 1: False}
