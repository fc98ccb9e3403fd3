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
from kwire.messages.list_groups import ListGroupsRequest
from tests.support.brokers.group_broker import GroupBroker
from tests.support.brokers.group_requests import join, sync

SESSION_MS, REBALANCE_MS = 40_000, 60_000
REBALANCE, NOT_FOUND, UNKNOWN, INCONSISTENT = 27, 69, 25, 23
SUBSCRIPTION = bytes([0, 1]) + encode(ConsumerProtocolSubscription(("T",)), 1)
ASSIGNMENT = bytes([0, 1]) + encode(ConsumerProtocolAssignment([TopicPartition("T", (0, 1))]), 1)


def group_of_one(**config: str) -> tuple[GroupBroker, str]:
    """A stable classic group "g" with one member."""
    broker = GroupBroker(**config)
    member = rejoin(broker, "", version=3).member_id
    assert broker.call_coordinator(sync(member, assigned={member: ASSIGNMENT}), 5, who="c").error_code == 0
    return broker, member


def rejoin(broker: GroupBroker, member: str, *, version: int = 9) -> Any:
    return broker.call_coordinator(join(member, SUBSCRIPTION, session_ms=SESSION_MS), version, who="c")


def consumer(broker: GroupBroker, epoch: int) -> Any:
    first: dict[str, Any] = {"rebalance_timeout_ms": REBALANCE_MS, "subscribed_topic_names": ("T",)}
    says = {**first, "topic_partitions": []} if epoch == 0 else {}
    return broker.call_coordinator(ConsumerGroupHeartbeatRequest("g", "m", epoch, **says), 1, who="m")


def beat(broker: GroupBroker, member: str, generation: int) -> int:
    return int(broker.call_coordinator(HeartbeatRequest("g", generation, member), 4, who="c").error_code)


def group_type(broker: GroupBroker) -> str:
    (row,) = broker.call_coordinator(ListGroupsRequest(), 5).groups
    return str(row.group_type)


@pytest.mark.parametrize(
    ("policy", "upgrades", "downgrades"),
    [("bidirectional", True, True), ("UPGRADE", True, False), ("downgrade", False, True), ("disabled", False, False)],
)
def test_the_policy_allows_upgrade_and_downgrade(policy: str, upgrades: bool, downgrades: bool) -> None:
    broker, member = group_of_one(**{"group.consumer.migration.policy": policy})
    assert consumer(broker, 0).error_code == (0 if upgrades else NOT_FOUND)
    assert group_type(broker) == ("consumer" if upgrades else "classic")
    if not upgrades:
        assert beat(broker, member, 1) == 0
        return
    consumer(broker, -1)

    assert group_type(broker) == ("classic" if downgrades else "consumer")


def test_a_join_that_a_consumer_group_refuses_does_not_return_the_member_id() -> None:
    # Source: kafka.server.ConsumerProtocolMigrationTest of Kafka 4.3.0 (tests/foreign).
    broker, member = group_of_one()
    consumer(broker, 0)
    request = join(member, SUBSCRIPTION, session_ms=SESSION_MS, protocol_type="connect")
    response = broker.call_coordinator(request, 9, who="c")

    assert (response.error_code, response.member_id) == (INCONSISTENT, "")


def test_members_of_both_protocols_share_what_there_is() -> None:
    broker, member = group_of_one()
    assert consumer(broker, 0).assignment.topic_partitions == []  # The classic member still has everything.
    assert beat(broker, member, 1) == REBALANCE
    assert rejoin(broker, member).generation_id == 2  # It owns nothing any more, as its assignor is an eager one.
    synced = broker.call_coordinator(sync(member, 2), 5, who="c")
    assert len(synced.assignment) == len(ASSIGNMENT) - 4
    assert beat(broker, member, 2) == 0

    (row,) = consumer(broker, 2).assignment.topic_partitions
    assert len(row.partitions) == 1


def test_a_classic_member_that_does_not_rejoin_in_time_is_removed() -> None:
    broker, member = group_of_one()
    consumer(broker, 0)
    assert beat(broker, member, 1) == REBALANCE
    for _ in range(5):
        broker.advance(REBALANCE_MS // 6)
        consumer(broker, 2)
        assert beat(broker, member, 1) == REBALANCE
    broker.advance(REBALANCE_MS // 6)

    assert beat(broker, member, 1) == UNKNOWN


@pytest.mark.parametrize("rejoins", [True, False])
def test_a_classic_member_has_its_own_session_and_must_sync_after_it_joined(rejoins: bool) -> None:
    broker, member = group_of_one()
    consumer(broker, 0)
    if rejoins:
        rejoin(broker, member)
    for _ in range(4):
        broker.advance(SESSION_MS // 4)
        consumer(broker, 2)

    assert beat(broker, member, 2 if rejoins else 1) == UNKNOWN


def test_a_mixed_group_is_the_same_at_the_next_coordinator() -> None:
    broker, member = group_of_one()
    consumer(broker, 0)
    kinds = [("-" if line.value is None else "") + line.kind for line in broker.read_batches()[-1]]
    before = broker.call_coordinator(ConsumerGroupDescribeRequest(("g",)), 1).groups[0]
    broker.move_coordinator()

    assert kinds[0] == "-GroupMetadata"
    assert broker.call_coordinator(ConsumerGroupDescribeRequest(("g",)), 1).groups[0] == before
    assert sorted(row.member_type for row in before.members) == [0, 1]
    assert rejoin(broker, member).generation_id == 2
    consumer(broker, -1)
    assert group_type(broker) == "classic"
    broker.move_coordinator()
    assert group_type(broker) == "classic"
    assert rejoin(broker, member).member_id == member
