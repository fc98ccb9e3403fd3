"""Groups whose coordinator moves in the middle of their life: the next one goes on from the records of the first."""

from __future__ import annotations

from typing import Any

import pytest

from kwire.error_codes import ErrorCode
from kwire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from kwire.messages.delete_groups import DeleteGroupsRequest
from kwire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from kwire.messages.describe_groups import DescribeGroupsRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.list_groups import ListGroupsRequest
from kwire.messages.share_group_describe import ShareGroupDescribeRequest
from kwire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from kwire.uuids import to_text
from mockbroker.state.metadata.topics import CoordinatorKind
from mockbroker.state.share_coordinator.share_coordinator import ShareKey
from tests.support.brokers.group_broker import GroupBroker
from tests.support.brokers.group_requests import commit, fetch_offset, join, share, sync

RETRY_MS = 30_000


@pytest.fixture
def broker() -> GroupBroker:
    return GroupBroker()


def beat(broker: GroupBroker, epoch: int, *topics: str, member: str = "m", settle: bool = True) -> Any:
    return broker.call_coordinator(share(epoch, *topics, member=member), 1, settle=settle)


def consumer(broker: GroupBroker, member: str, epoch: int, owned: set[int] | None = None, **says: Any) -> Any:
    """A heartbeat of a consumer of T; owned: the partitions that it says it has."""
    rows = None if owned is None else [TopicPartitions(broker.topic_id("T"), tuple(owned))] if owned else []
    first = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ("T",), "topic_partitions": []}
    says = {**first, **says} if epoch == 0 else {"topic_partitions": rows, **says}
    return broker.call_coordinator(ConsumerGroupHeartbeatRequest("g", member, epoch, **says), 1, who=member)


def indexes(answer: Any) -> set[int] | None:
    """The partitions of an answered assignment, None when it says nothing of it."""
    if answer.assignment is None:
        return None
    return {index for row in answer.assignment.topic_partitions for index in row.partitions}


def join_classic(broker: GroupBroker) -> str:
    member_id = str(broker.call_coordinator(join(), 9).member_id)
    generation = broker.call_coordinator(join(member_id), 9).generation_id
    broker.call_coordinator(sync(member_id, generation, assigned={member_id: b"part"}), 5)
    return member_id


def committed(broker: GroupBroker) -> tuple[int, int, str]:
    row = broker.call_coordinator(fetch_offset(), 9).groups[0].topics[0].partitions[0]
    return row.committed_offset, row.committed_leader_epoch, row.metadata


def described(broker: GroupBroker, request: Any, version: int) -> Any:
    return broker.call_coordinator(request, version).groups[0]


def stored(broker: GroupBroker, topic: str, index: int) -> Any:
    """What the share coordinator has of a share-partition."""
    key = ShareKey("g", broker.topic_id(topic), index)
    node_id = broker.metadata.coordinator_id(CoordinatorKind.SHARE, str(key))
    return broker.core.state.nodes[node_id].share_coordinator.find_state(key)


def test_a_share_group_looks_the_same_at_the_next_coordinator(broker: GroupBroker) -> None:
    beat(broker, 0, "T", "U")
    broker.advance(5_000)
    beat(broker, 0, "T", member="n")
    beat(broker, 2)
    before = described(broker, ShareGroupDescribeRequest(("g",)), 1)
    old = broker.coordinator
    new = broker.move_coordinator()

    assert new != old
    assert described(broker, ShareGroupDescribeRequest(("g",)), 1) == before
    assert before.group_state == "Stable"
    assert len(before.members) == 2
    answer = beat(broker, before.members[0].member_epoch)
    assert (answer.error_code, answer.assignment) == (0, None)


def test_the_former_coordinator_knows_nothing_any_more(broker: GroupBroker) -> None:
    beat(broker, 0, "T")
    old = broker.coordinator
    broker.move_coordinator()
    rows = broker.call(ListGroupsRequest(), 5, connection="list", node=old).groups
    answer = broker.call(ShareGroupHeartbeatRequest("g", "m", 2), 1, connection="late", node=old)

    assert rows == []
    assert answer.error_code == ErrorCode.NOT_COORDINATOR


def test_a_group_that_moves_there_and_back_is_still_the_same(broker: GroupBroker) -> None:
    beat(broker, 0, "T")
    old = broker.coordinator
    for _ in range(3):
        broker.move_coordinator()

    assert broker.coordinator == old
    assert beat(broker, 2).error_code == 0
    assert described(broker, ShareGroupDescribeRequest(("g",)), 1).members[0].member_id == "m"


def test_a_deleted_group_does_not_come_back(broker: GroupBroker) -> None:
    broker.call_coordinator(commit(7), 9)
    broker.call_coordinator(DeleteGroupsRequest(("g",)), 2)
    new = broker.move_coordinator()

    assert broker.call(ListGroupsRequest(), 5, connection="list", node=new).groups == []
    assert committed(broker) == (-1, -1, "")


def test_a_consumer_that_gives_partitions_up_goes_on_doing_so(broker: GroupBroker) -> None:
    assert indexes(consumer(broker, "c1", 0)) == {0, 1}
    broker.advance(1_000)
    consumer(broker, "c2", 0)
    kept = indexes(consumer(broker, "c1", 2, {0, 1}))
    assert kept is not None
    before = described(broker, ConsumerGroupDescribeRequest(("g",)), 1)
    broker.move_coordinator()
    assert described(broker, ConsumerGroupDescribeRequest(("g",)), 1) == before
    assert before.group_state == "Reconciling"
    waiting = consumer(broker, "c2", 3)
    done = consumer(broker, "c1", 2, kept)
    given = consumer(broker, "c2", 3)

    assert (waiting.error_code, waiting.assignment) == (0, None)
    assert (done.error_code, done.member_epoch) == (0, 3)
    assert indexes(given) == {0, 1} - kept


def test_the_time_to_revoke_partitions_restarts(broker: GroupBroker) -> None:
    consumer(broker, "c1", 0, rebalance_timeout_ms=20_000)
    broker.advance(1_000)
    consumer(broker, "c2", 0)
    consumer(broker, "c1", 2, {0, 1})
    broker.advance(19_000)
    broker.move_coordinator()
    broker.advance(19_999)
    assert consumer(broker, "c1", 2, {0, 1}).error_code == 0
    broker.advance(1)

    assert consumer(broker, "c1", 2, {0, 1}).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_left_for_a_while_has_its_place_kept(broker: GroupBroker) -> None:
    consumer(broker, "c1", 0, instance_id="i1")
    consumer(broker, "c1", -2, instance_id="i1")
    broker.move_coordinator()
    back = consumer(broker, "c9", 0, instance_id="i1")

    assert (back.error_code, back.member_epoch, indexes(back)) == (0, 2, {0, 1})


def test_resolved_expressions_are_there(broker: GroupBroker) -> None:
    joined = consumer(broker, "c1", 0, subscribed_topic_names=None, subscribed_topic_regex="T|U")
    broker.advance(1_000)
    consumer(broker, "c1", joined.member_epoch, set())
    before = described(broker, ConsumerGroupDescribeRequest(("g",)), 1)
    broker.move_coordinator()

    assert described(broker, ConsumerGroupDescribeRequest(("g",)), 1) == before
    assert {row.topic_name for row in before.members[0].assignment.topic_partitions} == {"T", "U"}


def test_a_stable_classic_group_goes_on_without_a_rebalance(broker: GroupBroker) -> None:
    member_id = join_classic(broker)
    before = described(broker, DescribeGroupsRequest(("g",)), 5)
    broker.advance(9_000)
    broker.move_coordinator()
    assert described(broker, DescribeGroupsRequest(("g",)), 5) == before
    broker.advance(9_999)

    assert broker.call_coordinator(HeartbeatRequest("g", 1, member_id), 4).error_code == 0
    assert broker.call_coordinator(commit(7, member_id=member_id, epoch=1), 9).topics[0].partitions[0].error_code == 0
    broker.advance(10_000)
    assert broker.call_coordinator(HeartbeatRequest("g", 1, member_id), 4).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_classic_generation_that_was_not_assigned_never_was(broker: GroupBroker) -> None:
    member_id = join_classic(broker)
    assert broker.call_coordinator(join(member_id), 9).generation_id == 2
    broker.move_coordinator()

    assert broker.call_coordinator(sync(member_id, 2), 5).error_code == ErrorCode.ILLEGAL_GENERATION
    assert broker.call_coordinator(HeartbeatRequest("g", 1, member_id), 4).error_code == 0


def test_who_was_joining_a_classic_group_is_not_in_it_at_the_next_coordinator(broker: GroupBroker) -> None:
    first = join_classic(broker)
    second = broker.call_coordinator(join(), 9, who="second").member_id
    assert broker.call_coordinator(join(second), 9, who="second") is None
    old = broker.coordinator
    broker.move_coordinator()

    assert broker.take_response(f"second@{old}").error_code == ErrorCode.NOT_COORDINATOR
    row = described(broker, DescribeGroupsRequest(("g",)), 5)
    assert [member.member_id for member in row.members] == [first]
    assert row.group_state == "Stable"


def test_committed_offsets_are_there(broker: GroupBroker) -> None:
    broker.call_coordinator(commit(7), 9)
    broker.call_coordinator(commit(9), 9)
    broker.move_coordinator()

    assert committed(broker) == (9, 5, "note")
    rows = broker.call_coordinator(ListGroupsRequest(), 5).groups
    assert [(row.group_id, row.group_state, row.group_type) for row in rows] == [("g", "Empty", "classic")]


def test_a_topic_that_was_made_again_has_no_offsets_at_the_next_coordinator_either(broker: GroupBroker) -> None:
    broker.call_coordinator(commit(7), 9)
    broker.metadata.delete_topic(broker.topic("T"))
    broker.metadata.create_topic("T", partition_count=2)
    broker.move_coordinator()

    assert committed(broker) == (-1, -1, "")


@pytest.mark.parametrize("how", ["stop_node", "kill_node"])
def test_a_group_survives_the_only_node_that_has_its_records(how: str) -> None:
    broker = GroupBroker(**{"offsets.topic.replication.factor": "1"})
    old = broker.coordinator
    beat(broker, 0, "T")
    broker.advance(5_000)
    beat(broker, 2)
    getattr(broker, how)(old)
    broker.advance(9_000)
    broker.start_node(old)
    broker.forget_connection(f"@{old}")

    assert broker.coordinator == old
    answer = beat(broker, 3)
    assert (answer.error_code, answer.member_epoch) == (0, 3)
    assert described(broker, ShareGroupDescribeRequest(("g",)), 1).members[0].member_id == "m"


def die(broker: GroupBroker) -> None:
    """Kill the coordinator, with all that it is waiting for, and let the cluster notice."""
    broker.kill_node(broker.coordinator)
    broker.advance(9_000)


def test_the_next_coordinator_completes_an_initialisation_once_the_first_had_its_time(broker: GroupBroker) -> None:
    beat(broker, 0, "T", settle=False)
    (begun,) = (line.value for line in broker.read_batches()[-1] if line.kind == "ShareGroupStatePartitionMetadata")
    assert begun is not None
    assert [row["topicName"] for row in begun["initializingTopics"]] == ["T"]
    die(broker)
    broker.advance(RETRY_MS - 1)
    assert beat(broker, 2).error_code == 0
    batches = len(broker.read_batches())
    broker.advance(1)
    beat(broker, 2)
    asked, done = (batch[-1].value for batch in broker.read_batches()[batches:])
    broker.advance(1_000)

    assert asked == begun
    assert done == {"initializingTopics": [], "initializedTopics": begun["initializingTopics"], "deletingTopics": []}
    assert indexes(beat(broker, 2)) == {0, 1}
    assert stored(broker, "T", 0).state_epoch == 2


def test_an_answer_to_the_former_coordinator_completes_nothing(broker: GroupBroker) -> None:
    beat(broker, 0, "T", settle=False)
    broker.move_coordinator()
    broker.advance(RETRY_MS - 1)
    beat(broker, 2)
    states = [
        line.value for batch in broker.read_batches() for line in batch if line.kind.endswith("PartitionMetadata")
    ]

    assert stored(broker, "T", 0) is not None
    assert [len(value["initializingTopics"]) for value in states if value is not None] == [1]


def initialised_and_empty(broker: GroupBroker) -> None:
    beat(broker, 0, "T")
    beat(broker, -1)
    assert stored(broker, "T", 1) is not None


def deleting(broker: GroupBroker) -> list[str]:
    """The topics that the last record about share-partitions says are being deleted."""
    lines = [
        line for batch in broker.read_batches() for line in batch if line.kind == "ShareGroupStatePartitionMetadata"
    ]
    assert lines[-1].value is not None
    return [row["topicName"] for row in lines[-1].value["deletingTopics"]]


def test_the_next_coordinator_completes_the_deletion_of_a_share_group(broker: GroupBroker) -> None:
    initialised_and_empty(broker)
    assert broker.call_coordinator(DeleteGroupsRequest(("g",)), 2, who="admin", settle=False) is None
    assert deleting(broker) == ["T"]
    die(broker)
    assert deleting(broker) == ["T"]
    answer = broker.call_coordinator(DeleteGroupsRequest(("g",)), 2, who="admin")

    assert [row.error_code for row in answer.results] == [0]
    assert (stored(broker, "T", 0), stored(broker, "T", 1)) == (None, None)
    assert broker.call_coordinator(ListGroupsRequest(), 5).groups == []


def test_a_deletion_that_a_move_interrupts_is_answered_so_and_completed_next_time(broker: GroupBroker) -> None:
    initialised_and_empty(broker)
    old = broker.coordinator
    broker.call_coordinator(DeleteGroupsRequest(("g",)), 2, who="admin", settle=False)
    broker.move_coordinator()
    assert broker.take_response(f"admin@{old}").results[0].error_code == ErrorCode.NOT_COORDINATOR
    assert deleting(broker) == ["T"]

    assert broker.call_coordinator(DeleteGroupsRequest(("g",)), 2, who="admin").results[0].error_code == 0


def test_the_next_coordinator_completes_the_deletion_of_share_offsets(broker: GroupBroker) -> None:
    initialised_and_empty(broker)
    request = DeleteShareGroupOffsetsRequest("g", [DeleteShareGroupOffsetsRequestTopic("T")])
    assert broker.call_coordinator(request, 0, who="admin", settle=False) is None
    die(broker)
    assert deleting(broker) == ["T"]
    answer = broker.call_coordinator(request, 0, who="admin")

    assert [(row.error_code, to_text(row.topic_id)) for row in answer.responses] == [(0, to_text(broker.topic_id("T")))]
    assert deleting(broker) == []
    assert stored(broker, "T", 0) is None


def test_a_topic_whose_deletion_was_cut_short_is_initialised_again_for_who_subscribes(broker: GroupBroker) -> None:
    initialised_and_empty(broker)
    request = DeleteShareGroupOffsetsRequest("g", [DeleteShareGroupOffsetsRequestTopic("T")])
    broker.call_coordinator(request, 0, who="admin", settle=False)
    die(broker)
    beat(broker, 0, "T")
    broker.advance(1_000)

    assert deleting(broker) == []
    assert indexes(beat(broker, 4)) == {0, 1}
