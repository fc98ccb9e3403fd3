"""KIP-932 revision r5 over sockets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.brokers.edition_cluster import OFFSETS, STATES, EditionCluster, Json, encode_member_id

NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID = 68, 69, 25
HOUR_MS = 3_600_000
Records = list[tuple[str, Json | None]]


@pytest.fixture
def stage() -> Iterator[EditionCluster]:
    with EditionCluster("kip932-r5") as running:
        yield running


def _after(stage: EditionCluster, count: int, topic: str = OFFSETS, *, node: int | None = None) -> Records:
    return [(name, value) for name, _, value in stage.read_records(topic, node=node)[count:]]


def test_r5_a_group_is_made_and_lists_its_share_partitions_once_they_are_initialised(stage: EditionCluster) -> None:
    topic = stage.topic_id()

    first = stage.heartbeat(1, 0, "t")
    assert (first["errorCode"], first["memberEpoch"]) == (0, 1)
    assert first["assignment"] == {"topicPartitions": []}
    stage.wait_until(lambda: len(stage.read_records(OFFSETS)) == 3)
    group, member, states = stage.read_records(OFFSETS)
    assert (group[0], group[1]) == ("ShareGroupMetadata", {"groupId": "G1"})
    assert group[2] is not None
    assert group[2]["epoch"] == 1
    assert member[:2] == ("ShareGroupMemberMetadata", {"groupId": "G1", "memberId": encode_member_id(1)})
    done = {"topicId": topic, "numPartitions": 1}
    assert states[0] == "ShareGroupPartitionMetadata"
    assert states[2] == {"epoch": 1, "initializedTopics": [done], "initializingTopics": [], "deletingTopics": []}
    [(name, snapshot)] = _after(stage, 0, STATES)
    assert snapshot is not None
    assert (name, snapshot["stateEpoch"], snapshot["startOffset"]) == ("ShareSnapshot", 1, -1)
    assert stage.heartbeat(1, 1)["assignment"] == {"topicPartitions": [{"topicId": topic, "partitions": [0]}]}


def test_r5_partitions_that_come_later_are_initialised_before_they_are_assigned(stage: EditionCluster) -> None:
    stage.join(1)
    count = len(stage.read_records(OFFSETS))
    stage.add_partitions("t", 3)

    answer = stage.heartbeat(1, 2)
    stage.wait_until(lambda: any(name == "ShareGroupPartitionMetadata" for name, _ in _after(stage, count)))
    [listed] = [value for name, value in _after(stage, count) if name == "ShareGroupPartitionMetadata"]
    assert listed is not None
    assert listed["initializedTopics"] == [{"topicId": stage.topic_id(), "numPartitions": 3}]
    answer = stage.heartbeat(1, answer["memberEpoch"])
    assert answer["assignment"]["topicPartitions"][0]["partitions"] == [0, 1, 2]


def test_r5_altering_offsets_raises_the_epoch_of_group_and_state(stage: EditionCluster) -> None:
    stage.join(1)
    assert stage.alter_offsets({0: 5}) == [NON_EMPTY_GROUP]
    stage.heartbeat(1, -1)
    count, states = len(stage.read_records(OFFSETS)), len(stage.read_records(STATES))
    epoch = stage.describe_group()["groupEpoch"]

    assert stage.alter_offsets({0: 5}) == [0]

    [(name, value)] = _after(stage, count)
    assert value is not None
    assert (name, value["epoch"]) == ("ShareGroupMetadata", epoch + 1)
    [(name, snapshot)] = _after(stage, states, STATES)
    assert snapshot is not None
    assert (name, snapshot["stateEpoch"], snapshot["startOffset"]) == ("ShareSnapshot", epoch + 1, 5)
    assert stage.describe_offsets(0) == [(0, 5)]


def test_r5_altering_what_was_not_initialised_lists_it() -> None:
    with EditionCluster("kip932-r5", topics={"t": 3, "u": 1}) as stage:
        stage.join(1, "u")
        stage.heartbeat(1, -1)
        count = len(stage.read_records(OFFSETS))

        assert stage.alter_offsets({1: 7}) == [0]

        (bumped, _), (listed, value) = _after(stage, count)
        assert (bumped, listed) == ("ShareGroupMetadata", "ShareGroupPartitionMetadata")
        assert value is not None
        assert {"topicId": stage.topic_id("t"), "numPartitions": 2} in value["initializedTopics"]
        # Partition 0, without which partition 1 cannot be listed, has no start yet; partition 2 has no state at all.
        assert stage.describe_offsets(0, 1, 2) == [(0, -1), (0, 7), (0, -1)]


def test_r5_offsets_are_deleted_in_two_stages(stage: EditionCluster) -> None:
    topic = stage.topic_id()
    stage.join(1)
    stage.heartbeat(1, -1)
    count, states = len(stage.read_records(OFFSETS)), len(stage.read_records(STATES))

    assert stage.delete_offsets(0) == [0]

    (first, before), (second, after) = _after(stage, count)
    assert first == second == "ShareGroupPartitionMetadata"
    assert before is not None
    assert after is not None
    assert before["deletingTopics"] == [{"topicId": topic, "numPartitions": 1}]
    assert before["initializedTopics"] == after["initializedTopics"] == after["deletingTopics"] == []
    assert _after(stage, states, STATES) == [("ShareSnapshot", None)]


def test_r5_a_group_is_deleted_after_its_state(stage: EditionCluster) -> None:
    stage.join(1)
    stage.heartbeat(1, -1)
    count, states = len(stage.read_records(OFFSETS)), len(stage.read_records(STATES))

    assert stage.delete_group() == 0

    (first, before), *ends = _after(stage, count)
    assert first == "ShareGroupPartitionMetadata"
    assert before is not None
    assert before["deletingTopics"] == [{"topicId": stage.topic_id(), "numPartitions": 1}]
    assert ends == [("ShareGroupPartitionMetadata", None), ("ShareGroupMetadata", None)]
    assert _after(stage, states, STATES) == [("ShareSnapshot", None)]
    row = stage.describe_group()
    assert (row["errorCode"], row["groupState"]) == (GROUP_ID_NOT_FOUND, "DEAD")


def test_r5_a_group_without_topics_is_deleted_without_a_list_of_them(stage: EditionCluster) -> None:
    stage.join(1)
    stage.heartbeat(1, -1)
    assert stage.delete_offsets(0) == [0]
    count = len(stage.read_records(OFFSETS))

    assert stage.delete_group() == 0

    assert _after(stage, count) == [("ShareGroupPartitionMetadata", None), ("ShareGroupMetadata", None)]


def test_r5_a_deletion_that_was_interrupted_is_completed_by_the_next_coordinator() -> None:
    settings = {"offsets_topic_replication_factor": "3"}
    settings |= {f"share_coordinator_state_topic_{name}": "1" for name in ("replication_factor", "min_isr")}
    with EditionCluster("kip932-r5", nodes=3, topics={"t": 1}, **settings) as stage:
        topic, home = stage.topic_id(), stage.find_coordinator()
        stage.join(1, node=home)
        stage.heartbeat(1, -1, node=home)
        keeper = stage.find_leader(STATES)
        if keeper == home:
            home = next(node for node in range(3) if node != keeper)
            stage.cluster.move_leader(OFFSETS, 0, to=home)
            assert stage.heartbeat_when_loaded(1, -1, node=home)["errorCode"] == UNKNOWN_MEMBER_ID
        states, count = len(stage.read_records(STATES)), len(stage.read_records(OFFSETS))
        # The node with the state is stopped, and the requesting node stops before it is started again.
        stage.cluster.stop_node(keeper)
        tree = {"groupId": "G1", "topics": [{"topicName": "t", "partitions": [0]}]}
        stage.submit("DeleteShareGroupOffsets", tree, node=home)
        heir = next(node for node in range(3) if node not in (home, keeper))
        stage.wait_until(lambda: len(stage.read_records(OFFSETS, node=heir)) > count)
        stage.cluster.kill_node(home)
        stage.start_node(keeper)
        stage.cluster.clock.thaw()
        stage.cluster.clock.advance(10_000)

        stage.wait_until(lambda: len(stage.read_records(STATES, node=heir)) > states)
        assert _after(stage, states, STATES, node=heir) == [("ShareSnapshot", None)]

        def lists() -> list[Json]:
            found = [value for name, value in _after(stage, 0, node=heir) if name == "ShareGroupPartitionMetadata"]
            return [value for value in found if value is not None]

        stage.wait_until(lambda: lists()[-1]["deletingTopics"] == [])
        assert lists()[-2]["deletingTopics"] == [{"topicId": topic, "numPartitions": 1}]
        assert lists()[-1]["initializedTopics"] == []


def test_r5_the_coordinator_describes_offsets_of_share_partitions_that_no_leader_has_in_memory(
    stage: EditionCluster,
) -> None:
    stage.join(1)
    assert stage.describe_offsets(0) == [(0, -1)]
    stage.produce(10)
    stage.open_session(1)
    assert stage.describe_offsets(0) == [(0, 10)]
    stage.heartbeat(1, -1)
    stage.cluster.clock.advance(10)
    assert stage.describe_offsets(0) == [(0, 10)]


def test_r3_a_group_that_stays_empty_and_has_no_state_is_dead(stage: EditionCluster) -> None:
    stage.join(1)
    stage.heartbeat(1, -1)
    assert stage.describe_group()["groupState"] == "EMPTY"
    week_ms = 7 * 24 * HOUR_MS
    stage.cluster.clock.advance(week_ms + HOUR_MS)
    assert stage.describe_group()["groupState"] == "EMPTY"  # It has persistent state.

    assert stage.delete_offsets(0) == [0]
    stage.cluster.clock.advance(HOUR_MS)

    row = stage.describe_group()
    assert (row["errorCode"], row["groupState"]) == (GROUP_ID_NOT_FOUND, "DEAD")
    assert _after(stage, -2) == [("ShareGroupPartitionMetadata", None), ("ShareGroupMetadata", None)]


def test_r5_a_heartbeat_may_list_the_partitions_of_a_member(stage: EditionCluster) -> None:
    """The coordinator ignores them; the assignment of a member follows from its subscription."""
    answer = stage.join(1)
    owned = [{"topicId": stage.topic_id(), "partitions": [0]}]
    beat = {"groupId": "G1", "memberId": encode_member_id(1), "memberEpoch": answer["memberEpoch"], "rackId": None}

    response = stage.call("ShareGroupHeartbeat", beat | {"subscribedTopicNames": None, "topicPartitions": owned})

    assert (response["errorCode"], response["memberEpoch"], response["assignment"]) == (0, answer["memberEpoch"], None)
