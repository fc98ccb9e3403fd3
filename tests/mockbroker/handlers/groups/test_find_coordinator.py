"""Group requests to a node that does not coordinate the group."""

from __future__ import annotations

from typing import Any

import pytest

from kwire.error_codes import ErrorCode
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.support.brokers.broker import Broker
from tests.support.brokers.group_requests import join, share, sync


def coordinator_of(broker: Broker, group_id: str) -> int:
    row = broker.call(FindCoordinatorRequest(coordinator_keys=(group_id,)), 6).coordinators[0]
    node_id = row.node_id
    assert isinstance(node_id, int)
    return node_id


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (HeartbeatRequest(group_id="g"), 4),
        (sync("m", -1), 5),
        (LeaveGroupRequest(group_id="g", members=[MemberIdentity("m")]), 5),
        (share(0, "T"), 1),
        (ConsumerGroupHeartbeatRequest("g", "m", 0, rebalance_timeout_ms=1, topic_partitions=[]), 1),
        (join(), 9),
    ],
)
def test_only_the_coordinator_answers_for_a_group(request_: Any, version: int) -> None:
    broker = Broker(nodes=3, topics={"T": 1})
    other = (coordinator_of(broker, "g") + 1) % 3
    if isinstance(request_, ConsumerGroupHeartbeatRequest):
        request_.subscribed_topic_names = ("T",)

    answer = broker.call(request_, version, connection="other", node=other)

    assert answer.error_code == ErrorCode.NOT_COORDINATOR
