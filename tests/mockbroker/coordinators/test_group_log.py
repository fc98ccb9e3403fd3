"""The records of `__consumer_offsets`: which there are, in what order, and how many at once (share-semantics 5.8)."""

from __future__ import annotations

from typing import Any

import pytest

from kwire import uuids
from kwire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kwire.messages.delete_groups import DeleteGroupsRequest
from kwire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from kwire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kwire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from kwire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kwire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from tests.mockbroker.group_broker import GroupBroker


@pytest.fixture
def broker() -> GroupBroker:
    return GroupBroker()


def kinds(batch: list[Any]) -> list[str]:
    """The kinds of a batch's records; those that strike something out with a minus."""
    return [("-" if line.value is None else "") + line.kind for line in batch]


def share(epoch: int, *topics: str, member: str = "m") -> ShareGroupHeartbeatRequest:
    return ShareGroupHeartbeatRequest("g", member, epoch, None, topics or None)


def consumer(epoch: int, *topics: str, owned: TopicPartitions | None = None) -> ConsumerGroupHeartbeatRequest:
    if epoch:
        return ConsumerGroupHeartbeatRequest("g", "m", epoch, topic_partitions=[owned] if owned else None)
    return ConsumerGroupHeartbeatRequest(
        "g", "m", 0, rebalance_timeout_ms=60_000, subscribed_topic_names=topics, topic_partitions=[]
    )


def join(member_id: str = "") -> JoinGroupRequest:
    protocols = [JoinGroupRequestProtocol("range", b"subscription")]
    return JoinGroupRequest("g", 10_000, 60_000, member_id, None, "consumer", protocols)


def sync(member_id: str, generation_id: int) -> SyncGroupRequest:
    parts = [SyncGroupRequestAssignment(member_id, b"part")]
    return SyncGroupRequest("g", generation_id, member_id, None, "consumer", "range", parts)


def commit(*offsets: int) -> OffsetCommitRequest:
    rows = [OffsetCommitRequestPartition(index, offset, 5, "note") for index, offset in enumerate(offsets)]
    return OffsetCommitRequest("g", topics=[OffsetCommitRequestTopic(name="T", partitions=rows)])


def join_classic(broker: GroupBroker) -> str:
    member_id = broker.beat(join(), 9).member_id
    generation_id = broker.beat(join(member_id), 9).generation_id
    broker.beat(sync(member_id, generation_id), 5)
    assert isinstance(member_id, str)
    return member_id


def test_a_share_groups_first_heartbeats_are_written_in_kafkas_order(broker: GroupBroker) -> None:
    broker.beat(share(0, "T"), 1)
    first, initialised = broker.batches()
    topic = {"topicId": uuids.to_text(broker.topic_id("T")), "topicName": "T", "partitions": [0, 1]}

    assert kinds(first) == [
        "ShareGroupMemberMetadata",
        "ShareGroupMetadata",
        "ShareGroupTargetAssignmentMember",
        "ShareGroupTargetAssignmentMetadata",
        "ShareGroupCurrentMemberAssignment",
        "ShareGroupStatePartitionMetadata",
    ]
    assert first[0].key == {"groupId": "g", "memberId": "m"}
    assert first[0].value == {
        "rackId": None,
        "clientId": f"client-@{broker.coordinator}",
        "clientHost": "/127.0.0.1",
        "subscribedTopicNames": ["T"],
    }
    assert first[1].value is not None
    assert first[1].value["epoch"] == 2
    assert first[3].value == {"assignmentEpoch": 2, "assignmentTimestamp": broker.now_ms}
    assert first[4].value == {"memberEpoch": 2, "previousMemberEpoch": 0, "state": 0, "assignedPartitions": []}
    assert first[5].value == {"initializingTopics": [topic], "initializedTopics": [], "deletingTopics": []}
    assert [line.value for line in initialised] == [
        {"initializingTopics": [], "initializedTopics": [topic], "deletingTopics": []}
    ]


def test_a_share_group_is_written_until_it_is_struck_out(broker: GroupBroker) -> None:
    broker.beat(share(0, "T"), 1)
    broker.advance(5_000)
    broker.beat(share(2), 1)
    broker.beat(share(-1), 1)
    broker.beat(DeleteGroupsRequest(("g",)), 2)
    _, _, second, left, deleting, gone = broker.batches()

    assert kinds(second) == [
        "ShareGroupMetadata",
        "ShareGroupTargetAssignmentMember",
        "ShareGroupTargetAssignmentMetadata",
        "ShareGroupCurrentMemberAssignment",
    ]
    assert [line.timestamp for line in second] == [broker.now_ms] * 4
    assert kinds(left) == [
        "-ShareGroupCurrentMemberAssignment",
        "-ShareGroupTargetAssignmentMember",
        "-ShareGroupMemberMetadata",
        "ShareGroupMetadata",
    ]
    assert deleting[0].value == {
        "initializingTopics": [],
        "initializedTopics": [],
        "deletingTopics": [{"topicId": uuids.to_text(broker.topic_id("T")), "topicName": "T"}],
    }
    assert kinds(gone) == [
        "-ShareGroupTargetAssignmentMetadata",
        "-ShareGroupStatePartitionMetadata",
        "-ShareGroupMetadata",
    ]


def test_a_heartbeat_that_changes_nothing_writes_nothing(broker: GroupBroker) -> None:
    broker.beat(share(0, "T"), 1)
    broker.advance(5_000)
    broker.beat(share(2), 1)
    before = len(broker.batches())
    broker.advance(5_000)
    broker.beat(share(3), 1)

    assert len(broker.batches()) == before


def test_a_member_that_falls_silent_is_struck_out_at_that_moment(broker: GroupBroker) -> None:
    broker.beat(share(0, "T"), 1)
    broker.advance(45_000)
    left = broker.batches()[-1]

    assert kinds(left)[0] == "-ShareGroupCurrentMemberAssignment"
    assert left[0].timestamp == broker.now_ms


def test_altered_and_deleted_share_offsets_are_two_records_each(broker: GroupBroker) -> None:
    rows = [AlterShareGroupOffsetsRequestPartition(0, 0)]
    broker.beat(AlterShareGroupOffsetsRequest("g", [AlterShareGroupOffsetsRequestTopic("T", rows)]), 0)
    broker.beat(DeleteShareGroupOffsetsRequest("g", [DeleteShareGroupOffsetsRequestTopic("T")]), 0)
    batches = broker.batches()
    values = [line.value for batch in batches for line in batch if line.value is not None]

    assert [kinds(batch) for batch in batches] == [["ShareGroupStatePartitionMetadata"]] * 4
    lists = ("initializingTopics", "initializedTopics", "deletingTopics")
    shown = [tuple(len(value[name]) for name in lists) for value in values]
    assert shown == [(1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, 0)]


def test_a_consumer_groups_member_is_written_with_the_epochs_of_its_partitions(broker: GroupBroker) -> None:
    broker.beat(consumer(0, "T"), 1)
    (first,) = broker.batches()
    topic_id = uuids.to_text(broker.topic_id("T"))

    assert kinds(first) == [
        "ConsumerGroupMemberMetadata",
        "ConsumerGroupMetadata",
        "ConsumerGroupTargetAssignmentMember",
        "ConsumerGroupTargetAssignmentMetadata",
        "ConsumerGroupCurrentMemberAssignment",
    ]
    assert first[2].value == {"topicPartitions": [{"topicId": topic_id, "partitions": [0, 1]}]}
    assert first[4].value == {
        "memberEpoch": 2,
        "previousMemberEpoch": 0,
        "state": 0,
        "assignedPartitions": [{"topicId": topic_id, "partitions": [0, 1], "assignmentEpochs": [2, 2]}],
        "partitionsPendingRevocation": [],
    }


def test_expressions_are_written_when_they_are_resolved(broker: GroupBroker) -> None:
    request = ConsumerGroupHeartbeatRequest(
        "g", "m", 0, rebalance_timeout_ms=1_000, subscribed_topic_regex="T|U", topic_partitions=[]
    )
    broker.beat(request, 1)
    first, resolved = broker.batches()

    assert kinds(first) == ["ConsumerGroupMemberMetadata", "ConsumerGroupCurrentMemberAssignment"]
    assert kinds(resolved) == ["ConsumerGroupRegularExpression", "ConsumerGroupMetadata"]
    assert resolved[0].key == {"groupId": "g", "regularExpression": "T|U"}
    assert resolved[0].value is not None
    assert (resolved[0].value["topics"], resolved[0].value["timestamp"]) == (["T", "U"], broker.now_ms)


def test_a_classic_group_is_written_when_new_when_synced_and_when_left(broker: GroupBroker) -> None:
    member_id = join_classic(broker)
    joined_at_ms = broker.now_ms
    broker.advance(1_000)
    broker.beat(LeaveGroupRequest("g", members=[MemberIdentity(member_id)]), 5)
    new, synced, left = (batch[0].value for batch in broker.batches())

    empty = {"protocolType": "", "generation": 0, "protocol": None, "leader": None, "members": []}
    assert new == {**empty, "currentStateTimestamp": joined_at_ms}
    assert synced == {
        "protocolType": "consumer",
        "generation": 1,
        "protocol": "range",
        "leader": member_id,
        "currentStateTimestamp": joined_at_ms,
        "members": [
            {
                "memberId": member_id,
                "groupInstanceId": None,
                "clientId": f"client-@{broker.coordinator}",
                "clientHost": "/127.0.0.1",
                "rebalanceTimeout": 60_000,
                "sessionTimeout": 10_000,
                "subscription": "c3Vic2NyaXB0aW9u",
                "assignment": "cGFydA==",
            }
        ],
    }
    assert left is not None
    assert (left["generation"], left["protocol"], left["members"]) == (2, None, [])


def test_the_offsets_of_one_request_are_one_batch(broker: GroupBroker) -> None:
    broker.beat(commit(7, 8), 9)
    (batch,) = broker.batches()

    assert [line.key for line in batch] == [{"group": "g", "topic": "T", "partition": index} for index in (0, 1)]
    assert batch[0].value == {
        "offset": 7,
        "leaderEpoch": 5,
        "metadata": "note",
        "commitTimestamp": broker.now_ms,
        "topicId": uuids.to_text(broker.topic_id("T")),
    }


def test_only_offsets_that_were_there_are_struck_out(broker: GroupBroker) -> None:
    broker.beat(commit(7), 9)
    rows = [OffsetDeleteRequestPartition(0), OffsetDeleteRequestPartition(1)]
    broker.beat(OffsetDeleteRequest("g", [OffsetDeleteRequestTopic("T", rows)]), 0)
    deleted = broker.batches()[1]

    assert kinds(deleted) == ["-OffsetCommit"]
    assert deleted[0].key["partition"] == 0


def test_deleting_a_group_strikes_out_its_offsets_first(broker: GroupBroker) -> None:
    broker.beat(commit(7, 8), 9)
    broker.beat(DeleteGroupsRequest(("g",)), 2)

    assert [kinds(batch) for batch in broker.batches()[1:]] == [["-OffsetCommit", "-OffsetCommit", "-GroupMetadata"]]


def test_a_group_that_takes_an_empty_ones_name_strikes_it_out_at_once(broker: GroupBroker) -> None:
    member_id = join_classic(broker)
    broker.beat(LeaveGroupRequest("g", members=[MemberIdentity(member_id)]), 5)
    broker.beat(consumer(0, "T"), 1)
    broker.beat(consumer(-1), 1)
    broker.beat(join(), 9)
    became_consumer, became_classic = broker.batches()[3], broker.batches()[5]

    assert kinds(became_consumer)[:2] == ["-GroupMetadata", "ConsumerGroupMemberMetadata"]
    assert kinds(became_classic) == [
        "-ConsumerGroupTargetAssignmentMetadata",
        "-ConsumerGroupPartitionMetadata",
        "-ConsumerGroupMetadata",
        "GroupMetadata",
    ]
