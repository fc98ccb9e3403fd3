"""Committed offsets that are forgotten: with their topic, by their time, and the groups that have nothing left."""

from __future__ import annotations

from typing import Any

import pytest

from kwire.codec import encode
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kwire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kwire.messages.list_groups import ListGroupsRequest
from kwire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kwire.messages.sync_group import SyncGroupRequest
from tests.support.brokers.group_broker import GroupBroker
from tests.support.brokers.group_requests import commit, join

MINUTE_MS = 60_000
SESSION_MS = 30_000


@pytest.fixture
def broker() -> GroupBroker:
    """Offsets are kept for ten minutes, and looked at every minute."""
    settings = {"offsets.retention.minutes": "10", "offsets.retention.check.interval.ms": str(MINUTE_MS)}
    return GroupBroker(**settings)


def commit_offset(broker: GroupBroker, topic: str = "T", member: str = "", epoch: int = -1, **says: Any) -> None:
    request = commit(7, topic=topic, member_id=member, epoch=epoch, **says)
    answer = broker.call_coordinator(request, 4 if says else 9)
    assert answer.topics[0].partitions[0].error_code == 0


def committed(broker: GroupBroker) -> list[str]:
    answer = broker.call_coordinator(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)]), 9)
    return [row.name for row in answer.groups[0].topics]


def groups(broker: GroupBroker) -> list[str]:
    return [row.group_id for row in broker.call_coordinator(ListGroupsRequest(), 5).groups]


def last_kinds(broker: GroupBroker) -> list[str]:
    return [("-" if line.value is None else "") + line.kind for line in broker.read_batches()[-1]]


def join_group(broker: GroupBroker, *topics: str, protocol_type: str = "consumer") -> tuple[str, int]:
    metadata = bytes(2) + encode(ConsumerProtocolSubscription(topics=topics), 0)
    request = join("", metadata, session_ms=SESSION_MS, protocol_type=protocol_type)
    answer = broker.call_coordinator(request, 3)
    broker.call_coordinator(SyncGroupRequest("g", answer.generation_id, answer.member_id), 3)
    return answer.member_id, answer.generation_id


def live(broker: GroupBroker, member: str, generation: int, minutes: int) -> None:
    """Let time pass while a member of a classic group stays in it."""
    for _ in range(minutes * 3):
        broker.advance(MINUTE_MS // 3)
        assert broker.call_coordinator(HeartbeatRequest("g", generation, member), 4).error_code == 0


def test_offsets_without_a_group_go_by_their_own_time_and_the_group_with_them(broker: GroupBroker) -> None:
    commit_offset(broker)
    broker.advance(5 * MINUTE_MS)
    commit_offset(broker, "U")
    broker.advance(5 * MINUTE_MS - 1)
    assert committed(broker) == ["T", "U"]
    broker.advance(MINUTE_MS)
    assert (committed(broker), groups(broker)) == (["U"], ["g"])
    broker.advance(5 * MINUTE_MS)

    assert (committed(broker), groups(broker)) == ([], [])
    assert last_kinds(broker) == ["-OffsetCommit", "-GroupMetadata"]


def test_a_commit_can_say_how_long_it_is_to_be_kept(broker: GroupBroker) -> None:
    commit_offset(broker, retention_time_ms=2 * MINUTE_MS)
    assert broker.read_batches()[-1][0].version == 1
    broker.advance(MINUTE_MS)
    broker.move_coordinator()
    assert committed(broker) == ["T"]
    broker.advance(2 * MINUTE_MS)

    assert committed(broker) == []


def test_what_a_stable_classic_group_reads_is_kept_and_what_it_does_not_is_not(broker: GroupBroker) -> None:
    member, generation = join_group(broker, "T")
    commit_offset(broker, "T", member, generation)
    commit_offset(broker, "U", member, generation)
    live(broker, member, generation, 11)

    assert committed(broker) == ["T"]


def test_a_classic_group_that_is_no_consumer_keeps_everything_while_it_has_members(broker: GroupBroker) -> None:
    member, generation = join_group(broker, protocol_type="connect")
    commit_offset(broker, "T", member, generation)
    live(broker, member, generation, 11)
    assert committed(broker) == ["T"]
    broker.call_coordinator(LeaveGroupRequest("g", members=[MemberIdentity(member)]), 5)
    broker.advance(9 * MINUTE_MS)
    assert committed(broker) == ["T"]  # The time of an empty group counts from when it became so.
    broker.advance(2 * MINUTE_MS)

    assert (committed(broker), groups(broker)) == ([], [])


def test_a_consumer_group_keeps_what_it_reads_and_stays_while_it_has_members(broker: GroupBroker) -> None:
    says: dict[str, Any] = {"rebalance_timeout_ms": MINUTE_MS, "subscribed_topic_names": ("T",)}
    answer = broker.call_coordinator(ConsumerGroupHeartbeatRequest("g", "m", 0, topic_partitions=[], **says), 1)
    commit_offset(broker, "T", "m", answer.member_epoch)
    commit_offset(broker, "U", "m", answer.member_epoch)
    for _ in range(33):
        broker.advance(MINUTE_MS // 3)
        broker.call_coordinator(ConsumerGroupHeartbeatRequest("g", "m", answer.member_epoch), 1)

    assert (committed(broker), groups(broker)) == (["T"], ["g"])


def test_offsets_of_a_deleted_topic_are_struck_out(broker: GroupBroker) -> None:
    commit_offset(broker, "T")
    commit_offset(broker, "U")
    broker.call_coordinator(DeleteTopicsRequest(topics=[DeleteTopicState(name="T")], timeout_ms=1_000), 6)
    broker.advance(0)

    (line,) = broker.read_batches()[-1]
    assert (line.kind, line.key["topic"], line.value) == ("OffsetCommit", "T", None)
    assert committed(broker) == ["U"]


def test_a_classic_group_above_a_maximum_that_was_lowered_rejoins_after_a_load(broker: GroupBroker) -> None:
    member, generation = join_group(broker, "T")
    broker.core.state.config._values["group.max.size"] = 0
    broker.move_coordinator()

    assert broker.call_coordinator(HeartbeatRequest("g", generation, member), 4).error_code == 27
