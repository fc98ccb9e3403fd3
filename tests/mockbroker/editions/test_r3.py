"""KIP-932 as page 003 drew it, over sockets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.mockbroker.editions.stage import OFFSETS, STATES, Json, Stage

# The numbers of the acknowledgements before gaps had one.
ACCEPT, RELEASE = 0, 1
AVAILABLE, ACKNOWLEDGED = 0, 2
NOT_LEADER_OR_FOLLOWER, NOT_COORDINATOR, UNKNOWN_MEMBER_ID = 6, 16, 25
NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND = 68, 69
HOUR_MS = 3_600_000


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage("kip932-r3") as running:
        yield running


def _flat(stage: Stage, name: str, *, node: int | None = None, **fields: object) -> Json:
    """One of the state RPCs, which are about one share-partition each."""
    return stage.ask(name, {"groupId": "G1", "topicId": stage.topic_id(), "partition": 0, **fields}, node=node)


def _write(stage: Stage, first: int, last: int, state: int, *, start: int = -1, epoch: int = 1) -> Json:
    batch = {"baseOffset": first, "lastOffset": last, "state": state, "deliveryCount": 1}
    batches = [batch] if last >= first else []
    return _flat(stage, "WriteShareGroupState", stateEpoch=epoch, startOffset=start, stateBatches=batches)


def _offsets(stage: Stage, name: str, rows: list[Json] | list[int], *, node: int, topic: str = "t") -> list[Json]:
    tree = {"groupId": "G1", "topics": [{"topicName": topic, "partitions": rows}]}
    [answer] = stage.ask(name, tree, node=node)["responses"]
    partitions = answer["partitions"]
    assert isinstance(partitions, list)
    return partitions


def _lists(stage: Stage, since: int = 0) -> list[Json | None]:
    return [value for name, _, value in stage.records(OFFSETS)[since:] if name == "ShareGroupPartitionMetadata"]


def test_page_003_a_group_has_a_record_that_reserves_its_name_and_one_of_its_share_partitions(stage: Stage) -> None:
    topic = stage.topic_id()
    stage.join(1)
    stage.join(2)

    rows = stage.records(OFFSETS)
    started = {"topicId": topic, "startPartitionIndex": 0, "endPartitionIndex": 0}
    lists: Json = {"topics": [], "initializingTopics": [], "deletingTopics": []}
    assert rows == [
        ("ConsumerGroupMetadata", {"groupId": "G1"}, {"epoch": 1, "type": "share"}),
        ("ShareGroupPartitionMetadata", {"groupId": "G1"}, {"epoch": 1, **lists, "initializingTopics": [started]}),
        (
            "ShareGroupPartitionMetadata",
            {"groupId": "G1"},
            {"epoch": 1, **lists, "topics": [{"topicId": topic, "numPartitions": 1}]},
        ),
    ]


def test_page_003_members_rejoin_after_their_coordinator_has_failed_over() -> None:
    with Stage("kip932-r3", nodes=2) as stage:
        home = stage.leader_of_group()
        epoch = stage.join(1, node=home)["memberEpoch"]
        stage.cluster.move_leader(OFFSETS, 0, to=1 - home)

        assert stage.heartbeat_when_loaded(1, epoch, node=1 - home)["errorCode"] == UNKNOWN_MEMBER_ID
        assert stage.describe(node=1 - home)["groupState"] == "EMPTY"
        answer = stage.heartbeat(1, 0, "t", node=1 - home)
        # The group knows its share-partitions, so that nothing is initialised again.
        assert answer["assignment"]["topicPartitions"] == [{"topicId": stage.topic_id(), "partitions": [0]}]
        assert answer["memberEpoch"] > 1
        assert len(stage.records(STATES)) == 1


def test_page_003_a_group_of_consumers_is_still_one_after_a_failover() -> None:
    with Stage("kip932-r3", nodes=2) as stage:
        home = stage.leader_of_group()
        tree: Json = {"groupId": "C1", "memberId": "", "memberEpoch": 0, "rebalanceTimeoutMs": 1000}
        joined = stage.ask(
            "ConsumerGroupHeartbeat", tree | {"subscribedTopicNames": ["t"], "topicPartitions": []}, node=home
        )
        assert joined["errorCode"] == 0
        stage.cluster.move_leader(OFFSETS, 0, to=1 - home)
        stage.heartbeat_when_loaded(1, 0, "t", node=1 - home)

        listed = stage.ask("ListGroups", {"statesFilter": [], "typesFilter": []}, version=5, node=1 - home)["groups"]
        assert sorted((row["groupId"], row["groupType"]) for row in listed) == [("C1", "consumer"), ("G1", "share")]


def test_page_003_deltas_follow_a_checkpoint_and_a_checkpoint_is_preferred_where_it_is_small(stage: Stage) -> None:
    assert _flat(stage, "InitializeShareGroupState", stateEpoch=1, startOffset=100) == {"errorCode": 0}
    assert _write(stage, 110, 110, AVAILABLE) == {"errorCode": 0}
    assert _write(stage, 100, 109, ACKNOWLEDGED) == {"errorCode": 0}
    assert _write(stage, 1, 0, 0, start=120) == {"errorCode": 0}

    key = {"groupId": "G1", "topicId": stage.topic_id(), "partition": 0}
    released = {"baseOffset": 110, "lastOffset": 110, "state": AVAILABLE, "deliveryCount": 1}
    done = {"baseOffset": 100, "lastOffset": 109, "state": ACKNOWLEDGED, "deliveryCount": 1}
    checkpoint: Json = {"stateEpoch": 1, "checkpointEpoch": 0, "startOffset": 100, "states": []}
    assert stage.records(STATES) == [
        ("ShareCheckpoint", key, checkpoint),
        ("ShareDelta", {**key, "deltaIndex": 0}, {**checkpoint, "startOffset": -1, "states": [released]}),
        ("ShareDelta", {**key, "deltaIndex": 1}, {**checkpoint, "startOffset": -1, "states": [done]}),
        ("ShareCheckpoint", key, {**checkpoint, "checkpointEpoch": 1, "startOffset": 120}),
    ]
    read = _flat(stage, "ReadShareGroupState")
    assert read == {"errorCode": 0, "stateEpoch": 1, "startOffset": 120, "stateBatches": []}


def test_page_003_the_index_of_deltas_comes_round_behind_a_checkpoint(stage: Stage) -> None:
    _flat(stage, "InitializeShareGroupState", stateEpoch=1, startOffset=0)
    for number in range(300):
        assert _write(stage, 2 * number + 1, 2 * number + 1, ACKNOWLEDGED) == {"errorCode": 0}

    names = [name for name, _, _ in stage.records(STATES)]
    indexes = [key["deltaIndex"] for name, key, _ in stage.records(STATES) if name == "ShareDelta"]
    assert names[:258] == ["ShareCheckpoint", *["ShareDelta"] * 256, "ShareCheckpoint"]
    assert indexes == [*range(256), *range(43)]


def test_page_003_the_state_topic_is_compacted(stage: Stage) -> None:
    stage.join(1)
    tree = {"resources": [{"resourceType": 2, "resourceName": STATES, "configurationKeys": ["cleanup.policy"]}]}
    [row] = stage.ask("DescribeConfigs", tree, version=4)["results"]
    assert [config["value"] for config in row["configs"]] == ["compact"]


def test_page_003_deleted_state_leaves_nothing_for_a_coordinator_that_takes_over() -> None:
    with Stage("kip932-r3", nodes=2) as stage:
        stage.leader_of_group()
        stage.join(1, node=stage.leader(OFFSETS))
        home = stage.leader(STATES)
        ask = {"stateEpoch": 1, "startOffset": 0}
        assert _flat(stage, "InitializeShareGroupState", node=home, **ask) == {"errorCode": 0}
        batch = {"baseOffset": 4, "lastOffset": 4, "state": AVAILABLE, "deliveryCount": 1}
        write = {"stateEpoch": 1, "startOffset": -1, "stateBatches": [batch]}
        assert _flat(stage, "WriteShareGroupState", node=home, **write) == {"errorCode": 0}
        assert _flat(stage, "DeleteShareGroupState", node=home) == {"errorCode": 0}
        ends = [(name, key.get("deltaIndex")) for name, key, value in stage.records(STATES) if value is None]
        assert ends == [("ShareDelta", 0), ("ShareCheckpoint", None)]
        stage.cluster.move_leader(STATES, 0, to=1 - home)

        stage.wait_until(lambda: _flat(stage, "ReadShareGroupState", node=1 - home)["errorCode"] not in (14, 15, 16))
        assert _flat(stage, "ReadShareGroupState", node=1 - home)["errorCode"] == 3


def test_page_003_state_is_loaded_by_the_coordinator_that_takes_over() -> None:
    with Stage("kip932-r3", nodes=2) as stage:
        stage.leader_of_group()
        stage.join(1, node=stage.leader(OFFSETS))
        stage.produce(10)
        stage.open(1)
        stage.produce(10)
        assert stage.fetch(1) == [(10, 19, 1)]
        assert stage.acknowledge(1, 12, 14, ACCEPT) == 0
        home = stage.leader(STATES)
        stage.cluster.move_leader(STATES, 0, to=1 - home)

        stage.wait_until(lambda: _flat(stage, "ReadShareGroupState", node=1 - home)["errorCode"] == 0)
        read = _flat(stage, "ReadShareGroupState", node=1 - home)
        rows = [
            (row["baseOffset"], row["lastOffset"], row["state"], row["deliveryCount"]) for row in read["stateBatches"]
        ]
        assert (read["startOffset"], rows) == (10, [(10, 11, AVAILABLE, 0), (12, 14, ACKNOWLEDGED, 1)])


def test_page_003_offsets_are_told_altered_and_deleted_by_the_leaders_of_share_partitions() -> None:
    with Stage("kip932-r3", nodes=2, topics={"t": 2}) as stage:
        home = stage.leader_of_group()
        stage.join(1, node=home)
        leader = stage.leader("t", 0)
        other = stage.leader("t", 1)
        assert leader != other
        alteration: list[Json] = [{"partitionIndex": 0, "startOffset": 5}, {"partitionIndex": 1, "startOffset": 6}]

        def codes(rows: list[Json]) -> list[int]:
            return [row["errorCode"] for row in rows]

        busy = _offsets(stage, "AlterShareGroupOffsets", alteration, node=leader)
        assert codes(busy) == [NON_EMPTY_GROUP, NOT_LEADER_OR_FOLLOWER]
        stage.heartbeat(1, -1, node=home)
        assert codes(_offsets(stage, "AlterShareGroupOffsets", alteration, node=leader)) == [0, NOT_LEADER_OR_FOLLOWER]
        assert codes(_offsets(stage, "AlterShareGroupOffsets", alteration, node=other)) == [NOT_LEADER_OR_FOLLOWER, 0]

        told = [_offsets(stage, "DescribeShareGroupOffsets", [0, 1], node=node) for node in (leader, other)]
        # The page does not list NOT_LEADER_OR_FOLLOWER here.
        assert [[(row["errorCode"], row["startOffset"]) for row in rows] for rows in told] == [
            [(0, 5), (NOT_COORDINATOR, -1)],
            [(NOT_COORDINATOR, -1), (0, 6)],
        ]

        since = len(stage.records(OFFSETS))
        assert codes(_offsets(stage, "DeleteShareGroupOffsets", [0, 1], node=leader)) == [0, NOT_LEADER_OR_FOLLOWER]
        # The topic is on its way out until the other leader has been asked as well.
        [pending] = _lists(stage, since)[-1:]
        assert pending is not None
        assert pending["deletingTopics"] == [{"topicId": stage.topic_id(), "numPartitions": 2}]
        assert codes(_offsets(stage, "DeleteShareGroupOffsets", [0, 1], node=other)) == [NOT_LEADER_OR_FOLLOWER, 0]
        [ended] = _lists(stage, since)[-1:]
        assert ended is not None
        assert ended["deletingTopics"] == ended["topics"] == []


def test_page_003_offsets_of_a_group_that_is_not_there_cannot_be_told(stage: Stage) -> None:
    assert [row["errorCode"] for row in _offsets(stage, "DescribeShareGroupOffsets", [0], node=0)] == [
        GROUP_ID_NOT_FOUND
    ]


def test_page_003_an_alteration_gives_the_state_the_epoch_of_the_group(stage: Stage) -> None:
    stage.join(1)
    stage.heartbeat(1, -1)
    epoch = stage.describe()["groupEpoch"]
    assert (
        _offsets(stage, "AlterShareGroupOffsets", [{"partitionIndex": 0, "startOffset": 7}], node=0)[0]["errorCode"]
        == 0
    )

    name, _, checkpoint = stage.records(STATES)[-1]
    assert (name, checkpoint) == (
        "ShareCheckpoint",
        {"stateEpoch": epoch, "checkpointEpoch": 1, "startOffset": 7, "states": []},
    )
    assert _write(stage, 8, 8, ACKNOWLEDGED, epoch=epoch - 1)["errorCode"] == 124


def test_page_003_a_group_is_empty_stable_and_dead(stage: Stage) -> None:
    stage.heartbeat(1, 0, "no-such-topic")
    assert stage.describe()["groupState"] == "STABLE"
    stage.heartbeat(1, -1)
    assert stage.describe()["groupState"] == "EMPTY"
    stage.cluster.clock.advance(6 * 24 * HOUR_MS)
    assert stage.describe()["groupState"] == "EMPTY"
    stage.cluster.clock.advance(25 * HOUR_MS)
    row = stage.describe()
    assert (row["errorCode"], row["groupState"]) == (GROUP_ID_NOT_FOUND, "DEAD")
    assert stage.records(OFFSETS)[-1] == ("ConsumerGroupMetadata", {"groupId": "G1"}, None)


def test_page_003_compaction_leaves_what_a_coordinator_needs() -> None:
    with Stage("kip932-r3", nodes=2) as stage:
        stage.leader_of_group()
        stage.join(1, node=stage.leader(OFFSETS))
        home = stage.leader(STATES)

        def write(number: int) -> None:
            batch = {"baseOffset": 2 * number + 1, "lastOffset": 2 * number + 1, "state": 2, "deliveryCount": 1}
            asked = {"stateEpoch": 1, "startOffset": -1, "stateBatches": [batch]}
            assert _flat(stage, "WriteShareGroupState", node=home, **asked) == {"errorCode": 0}

        _flat(stage, "InitializeShareGroupState", node=home, stateEpoch=1, startOffset=0)
        for number in range(300):
            write(number)
        # A segment ends after a week, and what is in it is cleaned.
        stage.cluster.clock.advance(8 * 24 * HOUR_MS)
        write(300)
        stage.cluster.clock.advance(HOUR_MS)
        before = _flat(stage, "ReadShareGroupState", node=home)
        rows = stage.records(STATES)
        keys = [(name, key.get("deltaIndex")) for name, key, _ in rows]
        # The newest of each index, and the newest checkpoint; what came in the last hour is not cleaned yet.
        assert len(rows) < 270
        assert len(set(keys)) >= len(keys) - 2
        stage.cluster.move_leader(STATES, 0, to=1 - home)

        stage.wait_until(lambda: _flat(stage, "ReadShareGroupState", node=1 - home)["errorCode"] == 0)
        assert _flat(stage, "ReadShareGroupState", node=1 - home) == before
        assert len(before["stateBatches"]) == 301


def test_page_003_a_group_is_deleted_after_its_state(stage: Stage) -> None:
    topic = stage.topic_id()
    stage.join(1)
    assert stage.delete_group() == NON_EMPTY_GROUP
    stage.heartbeat(1, -1)
    since, states = len(stage.records(OFFSETS)), len(stage.records(STATES))

    assert stage.delete_group() == 0

    (first, _, pending), *ends = stage.records(OFFSETS)[since:]
    assert first == "ShareGroupPartitionMetadata"
    assert pending is not None
    assert pending["deletingTopics"] == [{"topicId": topic, "numPartitions": 1}]
    assert ends == [
        ("ShareGroupPartitionMetadata", {"groupId": "G1"}, None),
        ("ConsumerGroupMetadata", {"groupId": "G1"}, None),
    ]
    assert [(name, value) for name, _, value in stage.records(STATES)[states:]] == [("ShareCheckpoint", None)]
