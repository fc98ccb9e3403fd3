"""KIP-932 revision r3 over sockets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.brokers.edition_cluster import OFFSETS, STATES, EditionCluster, Json

# Acknowledge types before gaps had one.
ACCEPT, RELEASE = 0, 1
AVAILABLE, ACKNOWLEDGED = 0, 2
NOT_LEADER_OR_FOLLOWER, NOT_COORDINATOR, UNKNOWN_MEMBER_ID = 6, 16, 25
NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND = 68, 69
HOUR_MS = 3_600_000


@pytest.fixture
def stage() -> Iterator[EditionCluster]:
    with EditionCluster("kip932-r3") as running:
        yield running


def _write_state(
    stage: EditionCluster, first: int, last: int, state: int, *, start: int = -1, epoch: int = 1, node: int = 0
) -> Json:
    batch = {"baseOffset": first, "lastOffset": last, "state": state, "deliveryCount": 1}
    fields = {"stateEpoch": epoch, "startOffset": start, "stateBatches": [batch] if last >= first else []}
    return stage.call_state_api("WriteShareGroupState", node=node, **fields)


def _read_lists(stage: EditionCluster, since: int = 0) -> list[Json | None]:
    return [value for name, _, value in stage.read_records(OFFSETS)[since:] if name == "ShareGroupPartitionMetadata"]


def test_r3_a_group_has_a_record_that_reserves_its_name_and_one_of_its_share_partitions(stage: EditionCluster) -> None:
    topic = stage.topic_id()
    stage.join(1)
    stage.join(2)

    rows = stage.read_records(OFFSETS)
    started = {"topicId": topic, "startPartitionIndex": 0, "endPartitionIndex": 0}
    listed = {"topicId": topic, "numPartitions": 1}
    lists: Json = {"epoch": 1, "topics": [], "initializingTopics": [], "deletingTopics": []}
    assert rows == [
        ("ConsumerGroupMetadata", {"groupId": "G1"}, {"epoch": 1, "type": "share"}),
        ("ShareGroupPartitionMetadata", {"groupId": "G1"}, {**lists, "initializingTopics": [started]}),
        ("ShareGroupPartitionMetadata", {"groupId": "G1"}, {**lists, "topics": [listed]}),
    ]


def test_r3_members_rejoin_after_their_coordinator_has_failed_over() -> None:
    with EditionCluster("kip932-r3", nodes=2) as stage:
        home = stage.find_coordinator()
        epoch = stage.join(1, node=home)["memberEpoch"]
        stage.cluster.move_leader(OFFSETS, 0, to=1 - home)

        assert stage.heartbeat_when_loaded(1, epoch, node=1 - home)["errorCode"] == UNKNOWN_MEMBER_ID
        assert stage.describe_group(node=1 - home)["groupState"] == "EMPTY"
        answer = stage.heartbeat(1, 0, "t", node=1 - home)
        # The group has its list of share partitions, so that nothing is initialized again.
        assert answer["assignment"]["topicPartitions"] == [{"topicId": stage.topic_id(), "partitions": [0]}]
        assert answer["memberEpoch"] > 1
        assert len(stage.read_records(STATES)) == 1


def test_r3_a_group_of_consumers_is_still_one_after_a_failover() -> None:
    with EditionCluster("kip932-r3", nodes=2) as stage:
        home = stage.find_coordinator()
        tree: Json = {"groupId": "C1", "memberId": "", "memberEpoch": 0, "rebalanceTimeoutMs": 1000}
        tree |= {"subscribedTopicNames": ["t"], "topicPartitions": []}
        joined = stage.call("ConsumerGroupHeartbeat", tree, node=home)
        assert joined["errorCode"] == 0
        stage.cluster.move_leader(OFFSETS, 0, to=1 - home)
        stage.heartbeat_when_loaded(1, 0, "t", node=1 - home)

        listed = stage.call("ListGroups", {"statesFilter": [], "typesFilter": []}, version=5, node=1 - home)["groups"]
        assert sorted((row["groupId"], row["groupType"]) for row in listed) == [("C1", "consumer"), ("G1", "share")]


def test_r3_deltas_follow_a_checkpoint_and_a_checkpoint_is_preferred_where_it_is_small(stage: EditionCluster) -> None:
    assert stage.call_state_api("InitializeShareGroupState", stateEpoch=1, startOffset=100) == {"errorCode": 0}
    assert _write_state(stage, 110, 110, AVAILABLE) == {"errorCode": 0}
    assert _write_state(stage, 100, 109, ACKNOWLEDGED) == {"errorCode": 0}
    assert _write_state(stage, 1, 0, 0, start=120) == {"errorCode": 0}

    key = {"groupId": "G1", "topicId": stage.topic_id(), "partition": 0}
    released = {"baseOffset": 110, "lastOffset": 110, "state": AVAILABLE, "deliveryCount": 1}
    done = {"baseOffset": 100, "lastOffset": 109, "state": ACKNOWLEDGED, "deliveryCount": 1}
    checkpoint: Json = {"stateEpoch": 1, "checkpointEpoch": 0, "startOffset": 100, "states": []}
    assert stage.read_records(STATES) == [
        ("ShareCheckpoint", key, checkpoint),
        ("ShareDelta", {**key, "deltaIndex": 0}, {**checkpoint, "startOffset": -1, "states": [released]}),
        ("ShareDelta", {**key, "deltaIndex": 1}, {**checkpoint, "startOffset": -1, "states": [done]}),
        ("ShareCheckpoint", key, {**checkpoint, "checkpointEpoch": 1, "startOffset": 120}),
    ]
    read = stage.call_state_api("ReadShareGroupState")
    assert read == {"errorCode": 0, "stateEpoch": 1, "startOffset": 120, "stateBatches": []}


def test_r3_the_index_of_deltas_comes_round_behind_a_checkpoint(stage: EditionCluster) -> None:
    stage.call_state_api("InitializeShareGroupState", stateEpoch=1, startOffset=0)
    for offset in range(1, 601, 2):
        assert _write_state(stage, offset, offset, ACKNOWLEDGED) == {"errorCode": 0}

    names = [name for name, _, _ in stage.read_records(STATES)]
    indexes = [key["deltaIndex"] for name, key, _ in stage.read_records(STATES) if name == "ShareDelta"]
    assert names[:258] == ["ShareCheckpoint", *["ShareDelta"] * 256, "ShareCheckpoint"]
    assert indexes == [*range(256), *range(43)]


def test_r3_the_state_topic_is_compacted(stage: EditionCluster) -> None:
    stage.join(1)
    tree = {"resources": [{"resourceType": 2, "resourceName": STATES, "configurationKeys": ["cleanup.policy"]}]}
    [row] = stage.call("DescribeConfigs", tree, version=4)["results"]
    assert [config["value"] for config in row["configs"]] == ["compact"]


def test_r3_deleted_state_leaves_nothing_for_a_coordinator_that_takes_over() -> None:
    with EditionCluster("kip932-r3", nodes=2) as stage:
        stage.find_coordinator()
        stage.join(1, node=stage.find_leader(OFFSETS))
        home = stage.find_leader(STATES)
        ask = {"stateEpoch": 1, "startOffset": 0}
        assert stage.call_state_api("InitializeShareGroupState", node=home, **ask) == {"errorCode": 0}
        assert _write_state(stage, 4, 4, AVAILABLE, node=home) == {"errorCode": 0}
        assert stage.call_state_api("DeleteShareGroupState", node=home) == {"errorCode": 0}
        ends = [(name, key.get("deltaIndex")) for name, key, value in stage.read_records(STATES) if value is None]
        assert ends == [("ShareDelta", 0), ("ShareCheckpoint", None)]
        stage.cluster.move_leader(STATES, 0, to=1 - home)

        def read() -> int:
            return int(stage.call_state_api("ReadShareGroupState", node=1 - home)["errorCode"])

        stage.wait_until(lambda: read() not in (14, 15, 16))
        assert read() == 3


def test_r3_state_is_loaded_by_the_coordinator_that_takes_over() -> None:
    with EditionCluster("kip932-r3", nodes=2) as stage:
        stage.find_coordinator()
        stage.join(1, node=stage.find_leader(OFFSETS))
        stage.produce(10)
        stage.open_session(1)
        stage.produce(10)
        assert stage.fetch(1) == [(10, 19, 1)]
        assert stage.acknowledge(1, 12, 14, ACCEPT) == 0
        home = stage.find_leader(STATES)
        stage.cluster.move_leader(STATES, 0, to=1 - home)

        stage.wait_until(lambda: stage.call_state_api("ReadShareGroupState", node=1 - home)["errorCode"] == 0)
        read = stage.call_state_api("ReadShareGroupState", node=1 - home)
        rows = [tuple(row.values()) for row in read["stateBatches"]]
        assert (read["startOffset"], rows) == (10, [(10, 11, AVAILABLE, 0), (12, 14, ACKNOWLEDGED, 1)])


def test_r3_offsets_are_described_altered_and_deleted_by_the_leaders_of_share_partitions() -> None:
    with EditionCluster("kip932-r3", nodes=2, topics={"t": 2}) as stage:
        home = stage.find_coordinator()
        stage.join(1, node=home)
        leader, other = stage.find_leader("t", 0), stage.find_leader("t", 1)
        assert leader != other
        starts = {0: 5, 1: 6}

        assert stage.alter_offsets(starts, node=leader) == [NON_EMPTY_GROUP, NOT_LEADER_OR_FOLLOWER]
        stage.heartbeat(1, -1, node=home)
        assert stage.alter_offsets(starts, node=leader) == [0, NOT_LEADER_OR_FOLLOWER]
        assert stage.alter_offsets(starts, node=other) == [NOT_LEADER_OR_FOLLOWER, 0]

        # The page does not list NOT_LEADER_OR_FOLLOWER here.
        assert stage.describe_offsets(0, 1, node=leader) == [(0, 5), (NOT_COORDINATOR, -1)]
        assert stage.describe_offsets(0, 1, node=other) == [(NOT_COORDINATOR, -1), (0, 6)]

        since = len(stage.read_records(OFFSETS))
        assert stage.delete_offsets(0, 1, node=leader) == [0, NOT_LEADER_OR_FOLLOWER]
        # The topic is being deleted until the other leader has handled its request as well.
        [pending] = _read_lists(stage, since)[-1:]
        assert pending is not None
        assert pending["deletingTopics"] == [{"topicId": stage.topic_id(), "numPartitions": 2}]
        assert stage.delete_offsets(0, 1, node=other) == [NOT_LEADER_OR_FOLLOWER, 0]
        [ended] = _read_lists(stage, since)[-1:]
        assert ended is not None
        assert ended["deletingTopics"] == ended["topics"] == []


def test_r3_offsets_of_a_missing_group_cannot_be_described(stage: EditionCluster) -> None:
    assert [code for code, _ in stage.describe_offsets(0)] == [GROUP_ID_NOT_FOUND]


def test_r3_an_alteration_gives_the_state_the_epoch_of_the_group(stage: EditionCluster) -> None:
    stage.join(1)
    stage.heartbeat(1, -1)
    epoch = stage.describe_group()["groupEpoch"]
    assert stage.alter_offsets({0: 7}) == [0]

    name, _, checkpoint = stage.read_records(STATES)[-1]
    assert name == "ShareCheckpoint"
    assert checkpoint == {"stateEpoch": epoch, "checkpointEpoch": 1, "startOffset": 7, "states": []}
    assert _write_state(stage, 8, 8, ACKNOWLEDGED, epoch=epoch - 1)["errorCode"] == 124


def test_r3_a_group_is_empty_stable_and_dead(stage: EditionCluster) -> None:
    stage.heartbeat(1, 0, "no-such-topic")
    assert stage.describe_group()["groupState"] == "STABLE"
    stage.heartbeat(1, -1)
    assert stage.describe_group()["groupState"] == "EMPTY"
    stage.cluster.clock.advance(6 * 24 * HOUR_MS)
    assert stage.describe_group()["groupState"] == "EMPTY"
    stage.cluster.clock.advance(25 * HOUR_MS)
    row = stage.describe_group()
    assert (row["errorCode"], row["groupState"]) == (GROUP_ID_NOT_FOUND, "DEAD")
    assert stage.read_records(OFFSETS)[-1] == ("ConsumerGroupMetadata", {"groupId": "G1"}, None)


def test_r3_compaction_leaves_what_a_coordinator_needs() -> None:
    with EditionCluster("kip932-r3", nodes=2) as stage:
        stage.find_coordinator()
        stage.join(1, node=stage.find_leader(OFFSETS))
        home = stage.find_leader(STATES)
        stage.call_state_api("InitializeShareGroupState", node=home, stateEpoch=1, startOffset=0)
        for offset in range(1, 601, 2):
            assert _write_state(stage, offset, offset, ACKNOWLEDGED, node=home) == {"errorCode": 0}
        # A segment is rolled after a week, and then cleaned.
        stage.cluster.clock.advance(8 * 24 * HOUR_MS)
        assert _write_state(stage, 601, 601, ACKNOWLEDGED, node=home) == {"errorCode": 0}
        stage.cluster.clock.advance(HOUR_MS)
        before = stage.call_state_api("ReadShareGroupState", node=home)
        rows = stage.read_records(STATES)
        keys = [(name, key.get("deltaIndex")) for name, key, _ in rows]
        # The newest record of each index, and the newest checkpoint; records of the last hour are not cleaned yet.
        assert len(rows) < 270
        assert len(set(keys)) >= len(keys) - 2
        stage.cluster.move_leader(STATES, 0, to=1 - home)

        stage.wait_until(lambda: stage.call_state_api("ReadShareGroupState", node=1 - home)["errorCode"] == 0)
        assert stage.call_state_api("ReadShareGroupState", node=1 - home) == before
        assert len(before["stateBatches"]) == 301


def test_r3_a_group_is_deleted_after_its_state(stage: EditionCluster) -> None:
    topic = stage.topic_id()
    stage.join(1)
    assert stage.delete_group() == NON_EMPTY_GROUP
    stage.heartbeat(1, -1)
    since, states = len(stage.read_records(OFFSETS)), len(stage.read_records(STATES))

    assert stage.delete_group() == 0

    (first, _, pending), *ends = stage.read_records(OFFSETS)[since:]
    assert first == "ShareGroupPartitionMetadata"
    assert pending is not None
    assert pending["deletingTopics"] == [{"topicId": topic, "numPartitions": 1}]
    names = ["ShareGroupPartitionMetadata", "ConsumerGroupMetadata"]
    assert ends == [(name, {"groupId": "G1"}, None) for name in names]
    assert [(name, value) for name, _, value in stage.read_records(STATES)[states:]] == [("ShareCheckpoint", None)]
