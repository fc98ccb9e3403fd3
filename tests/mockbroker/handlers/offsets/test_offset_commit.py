"""Committed offsets of topics and groups that are deleted or change their protocol."""

from __future__ import annotations

from kwire.error_codes import ErrorCode
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.messages.delete_groups import DeleteGroupsRequest
from kwire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from tests.support.brokers.broker import Broker
from tests.support.brokers.group_requests import commit, fetch_offset


def committed(broker: Broker) -> int:
    return int(broker.call(fetch_offset(), 9).groups[0].topics[0].partitions[0].committed_offset)


def test_offsets_of_a_deleted_topic_stay_deleted_when_its_name_is_used_again() -> None:
    broker = Broker(topics={"T": 1})
    broker.call(commit(7), 9)
    assert committed(broker) == 7

    broker.call(DeleteTopicsRequest(topics=[DeleteTopicState(name="T")], timeout_ms=1_000), 6)
    assert committed(broker) == -1
    broker.call(CreateTopicsRequest([CreatableTopic("T", 1, 1)], 1_000), 7)

    assert committed(broker) == -1


def test_offsets_stay_when_an_empty_group_changes_its_protocol_and_are_deleted_with_the_group() -> None:
    broker = Broker(topics={"T": 1})
    broker.call(commit(7), 9)
    beat = ConsumerGroupHeartbeatRequest(
        "g", "c1", 0, rebalance_timeout_ms=10_000, subscribed_topic_names=("T",), topic_partitions=[]
    )
    assert broker.call(beat, 1).member_epoch == 2
    assert committed(broker) == 7
    assert broker.call(commit(8), 9).topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID

    assert broker.call(DeleteGroupsRequest(("g",)), 2).results[0].error_code == ErrorCode.NON_EMPTY_GROUP
    broker.call(ConsumerGroupHeartbeatRequest("g", "c1", -1), 1)
    assert broker.call(DeleteGroupsRequest(("g",)), 2).results[0].error_code == ErrorCode.NONE

    assert committed(broker) == -1
