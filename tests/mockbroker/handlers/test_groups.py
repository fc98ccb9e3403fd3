"""Group requests through the whole broker: over several nodes, parked, woken and forgotten."""

from __future__ import annotations

from typing import Any

import pytest

from kwire.codec import encode
from kwire.error_codes import ErrorCode
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.messages.consumer_protocol_subscription import ConsumerProtocolSubscription
from kwire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.messages.delete_groups import DeleteGroupsRequest
from kwire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.messages.describe_groups import DescribeGroupsRequest
from kwire.messages.find_coordinator import FindCoordinatorRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kwire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic
from kwire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kwire.messages.share_group_describe import ShareGroupDescribeRequest
from kwire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kwire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from mockbroker.state.share_coordinator import ShareKey
from tests.mockbroker.broker import Broker


def coordinator_of(broker: Broker, group_id: str) -> int:
    row = broker.ask(FindCoordinatorRequest(coordinator_keys=(group_id,)), 6).coordinators[0]
    node_id = row.node_id
    assert isinstance(node_id, int)
    return node_id


def join(member_id: str = "", *, group_id: str = "g", rebalance_ms: int = 20_000) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=rebalance_ms,
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol("range", b"r")],
    )


def commit(offset: int, *, group_id: str = "g", topic: str = "T") -> OffsetCommitRequest:
    row = OffsetCommitRequestTopic(name=topic, partitions=[OffsetCommitRequestPartition(0, offset)])
    return OffsetCommitRequest(group_id=group_id, topics=[row])


def committed(broker: Broker, *, group_id: str = "g", topic: str = "T") -> int:
    asked = OffsetFetchRequestGroup(group_id=group_id, topics=[OffsetFetchRequestTopics(topic, bytes(16), (0,))])
    answer = broker.ask(OffsetFetchRequest(groups=[asked]), 9)
    offset = answer.groups[0].topics[0].partitions[0].committed_offset
    assert isinstance(offset, int)
    return offset


@pytest.mark.parametrize(
    ("request_", "version"),
    [
        (HeartbeatRequest(group_id="g"), 4),
        (SyncGroupRequest(group_id="g", protocol_type="consumer", protocol_name="range"), 5),
        (LeaveGroupRequest(group_id="g", members=[MemberIdentity("m")]), 5),
        (ShareGroupHeartbeatRequest("g", "m", 0, None, ("T",)), 1),
        (ConsumerGroupHeartbeatRequest("g", "m", 0, rebalance_timeout_ms=1, topic_partitions=[]), 1),
        (join(), 9),
    ],
)
def test_only_the_coordinator_answers_for_a_group(request_: Any, version: int) -> None:
    broker = Broker(nodes=3, topics={"T": 1})
    other = (coordinator_of(broker, "g") + 1) % 3
    if isinstance(request_, ConsumerGroupHeartbeatRequest):
        request_.subscribed_topic_names = ("T",)

    answer = broker.ask(request_, version, connection="other", node=other)

    assert answer.error_code == ErrorCode.NOT_COORDINATOR


def test_rows_of_a_describe_say_which_groups_are_coordinated_elsewhere() -> None:
    broker = Broker(nodes=3)
    node = coordinator_of(broker, "g")
    other = next(f"o{index}" for index in range(50) if coordinator_of(broker, f"o{index}") != node)

    rows = broker.ask(DescribeGroupsRequest(groups=("g", other)), 6, connection="c", node=node).groups

    assert [row.error_code for row in rows] == [ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.NOT_COORDINATOR]


def test_a_join_waits_for_the_initial_delay_and_the_clock_alone_ends_it() -> None:
    broker = Broker(config={"group.initial.rebalance.delay.ms": "3000"})
    member_id = broker.ask(join(), 9).member_id

    assert broker.ask(join(member_id), 9) is None
    broker.advance(2_999)
    assert broker.answer() is None
    broker.advance(1)

    answer = broker.answer()
    assert (answer.error_code, answer.generation_id, answer.leader) == (0, 1, member_id)


def test_a_parked_join_and_a_parked_sync_that_are_woken_a_hundred_times_have_one_effect() -> None:
    broker = Broker(config={"group.initial.rebalance.delay.ms": "0"})
    first = broker.ask(join(), 9).member_id
    broker.ask(join(first), 9)
    second = broker.ask(join(), 9, connection="b").member_id
    assert broker.ask(join(second), 9, connection="b") is None

    for _ in range(100):
        broker.core.state.wake(("group", "g"))
        broker.advance(0)
    assert broker.answer("b") is None
    assert broker.ask(join(first), 9).generation_id == 2
    assert broker.answer("b").generation_id == 2

    sync = SyncGroupRequest("g", 2, second, None, "consumer", "range")
    assert broker.ask(sync, 5, connection="b") is None
    for _ in range(100):
        broker.core.state.wake(("group", "g"))
        broker.advance(0)
    rows = [SyncGroupRequestAssignment(first, b"1"), SyncGroupRequestAssignment(second, b"2")]
    broker.ask(SyncGroupRequest("g", 2, first, None, "consumer", "range", rows), 5)

    assert broker.answer("b").assignment == b"2"
    assert broker.answer("b") is None


def test_a_member_whose_connection_is_gone_is_removed_by_its_session_timeout() -> None:
    broker = Broker(config={"group.initial.rebalance.delay.ms": "0"})
    member = broker.ask(join(), 9, connection="b").member_id
    broker.ask(join(member), 9, connection="b")
    broker.ask(SyncGroupRequest("g", 1, member, None, "consumer", "range"), 5, connection="b")
    broker.disconnect("b")

    broker.advance(9_999)
    assert broker.ask(DescribeGroupsRequest(groups=("g",)), 6).groups[0].group_state == "Stable"
    broker.advance(1)
    assert broker.ask(DescribeGroupsRequest(groups=("g",)), 6).groups[0].group_state == "Empty"


def test_offsets_of_a_deleted_topic_are_gone_even_when_its_name_comes_back() -> None:
    broker = Broker(topics={"T": 1})
    broker.ask(commit(7), 9)
    assert committed(broker) == 7

    broker.ask(DeleteTopicsRequest(topics=[DeleteTopicState(name="T")], timeout_ms=1_000), 6)
    assert committed(broker) == -1
    broker.ask(CreateTopicsRequest([CreatableTopic("T", 1, 1)], 1_000), 7)

    assert committed(broker) == -1


def test_offsets_stay_when_an_empty_group_changes_its_protocol_and_go_with_the_group() -> None:
    broker = Broker(topics={"T": 1})
    broker.ask(commit(7), 9)
    beat = ConsumerGroupHeartbeatRequest(
        "g", "c1", 0, rebalance_timeout_ms=10_000, subscribed_topic_names=("T",), topic_partitions=[]
    )
    assert broker.ask(beat, 1).member_epoch == 2
    assert committed(broker) == 7
    assert broker.ask(commit(8), 9).topics[0].partitions[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID

    assert broker.ask(DeleteGroupsRequest(("g",)), 2).results[0].error_code == ErrorCode.NON_EMPTY_GROUP
    broker.ask(ConsumerGroupHeartbeatRequest("g", "c1", -1), 1)
    assert broker.ask(DeleteGroupsRequest(("g",)), 2).results[0].error_code == ErrorCode.NONE

    assert committed(broker) == -1


def test_a_stale_epoch_is_told_from_a_stranger_when_offsets_are_read() -> None:
    broker = Broker(topics={"T": 1})
    beat = ConsumerGroupHeartbeatRequest(
        "g", "c1", 0, rebalance_timeout_ms=10_000, subscribed_topic_names=("T",), topic_partitions=[]
    )
    broker.ask(beat, 1)

    def code(member_id: str | None, epoch: int) -> int:
        asked = OffsetFetchRequestGroup(group_id="g", member_id=member_id, member_epoch=epoch, topics=None)
        answer = broker.ask(OffsetFetchRequest(groups=[asked]), 9)
        value = answer.groups[0].error_code
        assert isinstance(value, int)
        return value

    assert code("c1", 2) == code(None, -1) == ErrorCode.NONE
    assert code("c1", 1) == ErrorCode.STALE_MEMBER_EPOCH
    assert code("zz", 2) == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_old_offset_fetch_has_its_errors_in_the_rows() -> None:
    broker = Broker(nodes=3, topics={"T": 1})
    other = (coordinator_of(broker, "g") + 1) % 3
    asked = OffsetFetchRequest(group_id="g", topics=[OffsetFetchRequestTopic("T", (0,))])

    old = broker.ask(asked, 1, connection="other", node=other)
    newer = broker.ask(asked, 5, connection="other", node=other)

    assert old.topics[0].partitions[0].error_code == ErrorCode.NOT_COORDINATOR
    assert (newer.error_code, newer.topics) == (ErrorCode.NOT_COORDINATOR, [])


def test_a_share_group_gets_its_partitions_from_state_that_lies_on_other_nodes() -> None:
    broker = Broker(nodes=3, topics={"T": 6})
    node = coordinator_of(broker, "g")

    def beat(epoch: int, topics: tuple[str, ...] | None = None) -> Any:
        request = ShareGroupHeartbeatRequest("g", "m", epoch, None, topics)
        return broker.ask(request, 1, connection="c", node=node)

    topic = broker.core.state.metadata.topic("T")
    assert topic is not None

    def stored(index: int) -> object:
        key = ShareKey("g", topic.topic_id, index)
        return next((one for one in broker.core.state.nodes.values() if one.share_coordinator.stored(key)), None)

    first = beat(0, ("T",))
    assert (first.member_epoch, first.assignment.topic_partitions) == (2, [])
    broker.advance(5_000)
    second = beat(2)
    assert second.assignment.topic_partitions[0].partitions == (0, 1, 2, 3, 4, 5)

    assert len({stored(index) for index in range(6)} - {None}) > 1

    beat(-1)
    deleted = broker.ask(DeleteGroupsRequest(("g",)), 2, connection="c", node=node)
    assert deleted.results[0].error_code == ErrorCode.NONE
    row = broker.ask(ShareGroupDescribeRequest(("g",)), 1, connection="c", node=node).groups[0]
    assert row.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    for index in range(6):
        assert stored(index) is None


def test_the_same_seed_gives_the_same_member_ids() -> None:
    first, second = (Broker().ask(join(), 9).member_id for _ in range(2))

    assert first == second
    assert first.startswith("client-a-")


def test_offsets_of_topics_that_a_classic_consumer_reads_cannot_be_deleted() -> None:
    broker = Broker(topics={"T": 1, "U": 1}, config={"group.initial.rebalance.delay.ms": "0"})
    subscription = b"\x00\x03" + encode(ConsumerProtocolSubscription(topics=("T",)), 3)
    request = join()
    request.protocols = [JoinGroupRequestProtocol("range", subscription)]
    request.member_id = broker.ask(request, 9).member_id
    broker.ask(request, 9)
    rows = [OffsetDeleteRequestTopic(name, [OffsetDeleteRequestPartition(0)]) for name in ("T", "U", "none")]

    answer = broker.ask(OffsetDeleteRequest("g", rows), 0)

    assert [row.partitions[0].error_code for row in answer.topics] == [
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]
