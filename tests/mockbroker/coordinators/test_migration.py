"""Groups that change their protocol with members in them: the policy, deadlines of classic members, records.

What each request is answered is pinned by the conversations other-migration-*.
"""

from __future__ import annotations

from typing import Any

import pytest

from kwire.codec import encode
from kwire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from kwire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.messages.list_groups import ListGroupsRequest
from kwire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.mockbroker.group_broker import GroupBroker

SESSION_MS, REBALANCE_MS = 40_000, 60_000
REBALANCE, NOT_FOUND, UNKNOWN = 27, 69, 25
SUBSCRIPTION = bytes([0, 1]) + encode(ConsumerProtocolSubscription(("T",)), 1)
ASSIGNMENT = bytes([0, 1]) + encode(ConsumerProtocolAssignment([TopicPartition("T", (0, 1))]), 1)


def group_of_one(**config: str) -> tuple[GroupBroker, str]:
    """A stable classic group "g" with one member."""
    broker = GroupBroker(**config)
    member = join(broker, "", version=3).member_id
    sync = SyncGroupRequest("g", 1, member, None, "consumer", "range", [SyncGroupRequestAssignment(member, ASSIGNMENT)])
    assert broker.beat(sync, 5, who="c").error_code == 0
    return broker, member


def join(broker: GroupBroker, member: str, *, version: int = 9) -> Any:
    protocols = [JoinGroupRequestProtocol("range", SUBSCRIPTION)]
    request = JoinGroupRequest("g", SESSION_MS, REBALANCE_MS, member, None, "consumer", protocols)
    return broker.beat(request, version, who="c")


def consumer(broker: GroupBroker, epoch: int) -> Any:
    first: dict[str, Any] = {"rebalance_timeout_ms": REBALANCE_MS, "subscribed_topic_names": ("T",)}
    says = {**first, "topic_partitions": []} if epoch == 0 else {}
    return broker.beat(ConsumerGroupHeartbeatRequest("g", "m", epoch, **says), 1, who="m")


def beat(broker: GroupBroker, member: str, generation: int) -> int:
    return int(broker.beat(HeartbeatRequest("g", generation, member), 4, who="c").error_code)


def group_type(broker: GroupBroker) -> str:
    (row,) = broker.beat(ListGroupsRequest(), 5).groups
    return str(row.group_type)


@pytest.mark.parametrize(
    ("policy", "upgrades", "downgrades"),
    [("bidirectional", True, True), ("UPGRADE", True, False), ("downgrade", False, True), ("disabled", False, False)],
)
def test_the_policy_says_which_way_a_group_may_go(policy: str, upgrades: bool, downgrades: bool) -> None:
    broker, member = group_of_one(**{"group.consumer.migration.policy": policy})
    assert consumer(broker, 0).error_code == (0 if upgrades else NOT_FOUND)
    assert group_type(broker) == ("consumer" if upgrades else "classic")
    if not upgrades:
        assert beat(broker, member, 1) == 0
        return
    consumer(broker, -1)

    assert group_type(broker) == ("classic" if downgrades else "consumer")


def test_members_of_both_protocols_share_what_there_is() -> None:
    broker, member = group_of_one()
    assert consumer(broker, 0).assignment.topic_partitions == []  # The classic member still has everything.
    assert beat(broker, member, 1) == REBALANCE
    assert join(broker, member).generation_id == 2  # It owns nothing any more, as its assignor is an eager one.
    synced = broker.beat(SyncGroupRequest("g", 2, member, None, "consumer", "range"), 5, who="c")
    assert len(synced.assignment) == len(ASSIGNMENT) - 4
    assert beat(broker, member, 2) == 0

    (row,) = consumer(broker, 2).assignment.topic_partitions
    assert len(row.partitions) == 1


def test_a_classic_member_that_does_not_join_anew_in_its_time_is_out() -> None:
    broker, member = group_of_one()
    consumer(broker, 0)
    assert beat(broker, member, 1) == REBALANCE
    for _ in range(5):
        broker.advance(REBALANCE_MS // 6)
        consumer(broker, 2)
        assert beat(broker, member, 1) == REBALANCE
    broker.advance(REBALANCE_MS // 6)

    assert beat(broker, member, 1) == UNKNOWN


@pytest.mark.parametrize("joins_anew", [True, False])
def test_a_classic_member_has_its_own_session_and_must_sync_after_it_joined(joins_anew: bool) -> None:
    broker, member = group_of_one()
    consumer(broker, 0)
    if joins_anew:
        join(broker, member)
    for _ in range(4):
        broker.advance(SESSION_MS // 4)
        consumer(broker, 2)

    assert beat(broker, member, 2 if joins_anew else 1) == UNKNOWN


def test_a_mixed_group_is_the_same_at_the_next_coordinator() -> None:
    broker, member = group_of_one()
    consumer(broker, 0)
    kinds = [("-" if line.value is None else "") + line.kind for line in broker.batches()[-1]]
    before = broker.beat(ConsumerGroupDescribeRequest(("g",)), 1).groups[0]
    broker.move()

    assert kinds[0] == "-GroupMetadata"
    assert broker.beat(ConsumerGroupDescribeRequest(("g",)), 1).groups[0] == before
    assert sorted(row.member_type for row in before.members) == [0, 1]
    assert join(broker, member).generation_id == 2
    consumer(broker, -1)
    assert group_type(broker) == "classic"
    broker.move()
    assert group_type(broker) == "classic"
    assert join(broker, member).member_id == member
