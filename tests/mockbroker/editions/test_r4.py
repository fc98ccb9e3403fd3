"""KIP-932 as page 002 drew it, over sockets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.mockbroker.editions.stage import OFFSETS, STATES, Json, Stage, member_id

ACCEPT, RELEASE, REJECT = 1, 2, 3
AVAILABLE, ACKNOWLEDGED = 0, 2
FOREVER = "3600000"


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage("kip932-r4", group_share_session_timeout_ms="60000") as running:
        yield running


def _states(stage: Stage, written: int) -> list[tuple[str, int, list[tuple[int, int, int, int]]]]:
    """What the share coordinator has written since: start, and the states by first, last, state and count."""
    found = []
    for name, _, value in stage.records(STATES)[written:]:
        assert value is not None
        rows = [(row["baseOffset"], row["lastOffset"], row["state"], row["deliveryCount"]) for row in value["states"]]
        found.append((name, value["startOffset"], rows))
    return found


def test_page_002_the_requests_that_store_the_walk_from_offset_100_to_120(stage: Stage) -> None:
    stage.produce(100)
    for member in (1, 2, 3):
        stage.join(member)
        stage.open(member)
    written = 1

    def stored() -> list[tuple[str, int, list[tuple[int, int, int, int]]]]:
        nonlocal written
        found = _states(stage, written)
        written += len(found)
        return found

    assert stored() == [("ShareCheckpoint", 100, [])]

    stage.produce(10)
    assert stage.fetch(1) == [(100, 109, 1)]
    assert stored() == []
    assert stage.acknowledge(1, 100, 109, ACCEPT) == 0
    assert stored() == [("ShareCheckpoint", 110, [])]

    stage.produce(3)
    assert stage.fetch(1) == [(110, 112, 1)]
    stage.cluster.clock.advance(10_000)
    stage.produce(6)
    assert stage.fetch(2) == [(113, 118, 1)]
    stage.produce(1)
    assert stage.fetch(3) == [(119, 119, 1)]
    assert stored() == []
    assert stage.acknowledge(1, 110, 110, RELEASE) == 0
    assert stored() == [("ShareDelta", -1, [(110, 110, AVAILABLE, 1)])]
    assert stage.acknowledge(3, 119, 119, ACCEPT) == 0
    assert stored() == [("ShareDelta", -1, [(111, 118, AVAILABLE, 0), (119, 119, ACKNOWLEDGED, 1)])]

    stage.produce(1)
    assert stage.fetch(1) == [(110, 110, 2), (120, 120, 1)]
    assert stored() == []
    stage.cluster.clock.advance(20_001)  # The locks of 111 and 112 end, and a millisecond later that is on its way.
    stage.wait_until(lambda: len(_states(stage, written)) == 1)
    assert stored() == [("ShareDelta", -1, [(111, 112, AVAILABLE, 1)])]
    assert stage.acknowledge(2, 113, 118, ACCEPT) == 0
    assert stored() == [("ShareDelta", -1, [(113, 118, ACKNOWLEDGED, 1)])]
    assert stage.fetch(3) == [(111, 112, 2)]
    assert stored() == []
    assert stage.acknowledge(1, 110, 110, ACCEPT) == 0
    assert stored() == [("ShareDelta", -1, [(110, 110, ACKNOWLEDGED, 2)])]
    assert _start(stage) == 111
    assert stage.acknowledge(3, 111, 112, ACCEPT) == 0
    assert stored() == [("ShareCheckpoint", 120, [])]
    assert _start(stage) == 120


def _start(stage: Stage) -> int:
    """The start that the share coordinator has, which is the leader's."""
    asked = {"groupId": "G1", "topicId": stage.topic_id(), "partition": 0}
    answer = stage.ask("ReadShareGroupOffsetsState", asked)
    view = stage.cluster.share_partition("G1", "t", 0)
    assert view is not None
    assert view.start_offset == answer["startOffset"]
    return view.start_offset


def test_page_002_a_group_is_made_in_two_stages(stage: Stage) -> None:
    topic = stage.topic_id()

    first = stage.heartbeat(1, 0, "t")
    # a) The group, its member, and what is about to be initialised are written; there is nothing to assign yet.
    assert (first["errorCode"], first["memberEpoch"]) == (0, 1)
    assert first["assignment"] == {"topicPartitions": []}
    stage.wait_until(lambda: len(stage.records(OFFSETS)) == 4)
    group, member, before, after = stage.records(OFFSETS)
    assert group == ("ConsumerGroupMetadata", {"groupId": "G1"}, {"epoch": 1, "type": 3})
    assert member[:2] == ("ShareGroupMemberMetadata", {"groupId": "G1", "memberId": member_id(1)})
    assert member[2] is not None
    assert member[2]["subscribedTopicNames"] == ["t"]
    started = {"topicId": topic, "startPartitionIndex": 0, "endPartitionIndex": 0}
    assert before[0] == "ShareGroupPartitionMetadata"
    assert before[2] == {"epoch": 1, "initializedTopics": [], "initializingTopics": [started], "deletingTopics": []}
    # b) and c) The start is not known yet, and the group's epoch is that of the state.
    key = {"groupId": "G1", "topicId": topic, "partition": 0}
    checkpoint = {"stateEpoch": 1, "checkpointEpoch": 0, "startOffset": -1, "states": []}
    assert stage.records(STATES) == [("ShareCheckpoint", key, checkpoint)]
    # d) What is initialised is written, and can be assigned.
    done = {"topicId": topic, "numPartitions": 1}
    assert after[2] == {"epoch": 1, "initializedTopics": [done], "initializingTopics": [], "deletingTopics": []}
    second = stage.heartbeat(1, 1)
    assert (second["memberEpoch"], second["assignment"]) == (
        2,
        {"topicPartitions": [{"topicId": topic, "partitions": [0]}]},
    )
    assert stage.describe()["groupState"] == "STABLE"


def test_page_002_assignments_are_balanced_and_shared_where_there_are_more_members_than_partitions() -> None:
    with Stage("kip932-r4", topics={"t": 2}) as stage:
        for member in (1, 2, 3):
            stage.join(member)
        stage.heartbeat(1, 2)
        rows = stage.describe()["members"]
        counts = [len(part["partitions"]) for row in rows for part in row["assignment"]["topicPartitions"]]
        held = sorted(
            index for row in rows for part in row["assignment"]["topicPartitions"] for index in part["partitions"]
        )

    assert counts == [1, 1, 1]
    assert set(held) == {0, 1}


def _state(stage: Stage, name: str, group: str = "G1", partition: int = 0, **fields: Json) -> Json:
    row = {"partition": partition, **fields}
    tree = {"groupId": group, "topics": [{"topicId": stage.topic_id(), "partitions": [row]}]}
    answer = stage.ask(name, tree)["results"][0]["partitions"][0]
    assert isinstance(answer, dict)
    return answer


def test_page_002_a_share_partition_without_state_is_not_part_of_the_group(stage: Stage) -> None:
    unknown = 3
    asked = {"groupId": "G1", "topicId": stage.topic_id(), "partition": 0}

    assert _state(stage, "ReadShareGroupState")["errorCode"] == unknown
    assert stage.ask("ReadShareGroupOffsetsState", asked)["errorCode"] == unknown
    fetch = {"partitionIndex": 0, "partitionMaxBytes": 1000}
    tree = {"groupId": "G1", "memberId": member_id(1), "topics": [{"topicId": stage.topic_id(), "partitions": [fetch]}]}
    stage.cluster.clock.thaw()
    answer = stage.ask("ShareFetch", tree | {"maxWaitMs": 100, "minBytes": 1})
    assert answer["responses"][0]["partitions"][0]["errorCode"] == unknown


def test_page_002_state_is_read_without_an_epoch_of_the_leader(stage: Stage) -> None:
    stage.join(1)
    stage.open(1)

    read = _state(stage, "ReadShareGroupState")
    assert (read["errorCode"], read["stateEpoch"], read["startOffset"], read["stateBatches"]) == (0, 1, 0, [])
    asked = {"groupId": "G1", "topicId": stage.topic_id(), "partition": 0}
    assert stage.ask("ReadShareGroupOffsetsState", asked) == {"errorCode": 0, "stateEpoch": 1, "startOffset": 0}


def test_page_002_the_coordinator_of_a_share_partition_is_found_by_its_key(stage: Stage) -> None:
    key = f"G1:{stage.topic_id()}:0"
    tree = {"keyType": 2, "coordinatorKeys": [key]}
    [row] = stage.ask("FindCoordinator", tree, version=5)["coordinators"]
    assert (row["key"], row["nodeId"], row["errorCode"]) == (key, 0, 0)


def test_page_002_members_go_on_with_another_coordinator_and_are_assigned_anew() -> None:
    with Stage("kip932-r4", nodes=2) as stage:
        home = stage.leader_of_group()
        stage.join(1, node=home)
        epoch = stage.heartbeat(1, 2, node=home)["memberEpoch"]
        stage.cluster.move_leader(OFFSETS, 0, to=1 - home)

        answer = stage.heartbeat_when_loaded(1, epoch, node=1 - home)

        assert answer["errorCode"] == 0
        assert answer["memberEpoch"] > epoch
        assert answer["assignment"]["topicPartitions"] == [{"topicId": stage.topic_id(), "partitions": [0]}]
        rows = [name for name, _, _ in stage.records(OFFSETS)]
        assert rows.count("ConsumerGroupMetadata") == 1


def test_page_002_altering_needs_a_group_that_is_empty(stage: Stage) -> None:
    tree = {"groupId": "G1", "topics": [{"topicName": "t", "partitions": [{"partitionIndex": 0, "startOffset": 5}]}]}

    def code() -> int:
        return int(stage.ask("AlterShareGroupOffsets", tree)["responses"][0]["partitions"][0]["errorCode"])

    assert code() == 69
    stage.join(1)
    assert code() == 68
    stage.heartbeat(1, -1)
    assert code() == 0
    assert _state(stage, "ReadShareGroupState")["startOffset"] == 5


def test_states_that_were_written_before_a_new_beginning_do_not_hinder_it(stage: Stage) -> None:
    config = {"name": "group.share.auto.offset.reset", "configOperation": 0, "value": "earliest"}
    resource = {"resourceType": 32, "resourceName": "G1", "configs": [config]}
    [altered] = stage.ask("IncrementalAlterConfigs", {"resources": [resource]}, version=1)["responses"]
    assert altered["errorCode"] == 0
    stage.join(1)
    stage.produce(20)
    topics = [{"name": "t", "partitions": [{"partitionIndex": 0, "offset": 9}]}]
    assert stage.ask("DeleteRecords", {"topics": topics, "timeoutMs": 1000}, version=2)["topics"][0]["partitions"]
    # A leader that has heard of no new beginning writes no start, as it knows of one that is stored.
    batch = {"baseOffset": 0, "lastOffset": 10, "state": AVAILABLE, "deliveryCount": 1}
    written: Json = {"stateEpoch": 1, "startOffset": -1, "stateBatches": [batch]}
    assert _state(stage, "WriteShareGroupState", **written)["errorCode"] == 0

    assert stage.fetch(1, wait_ms=0) == []
    stage.wait_until(lambda: stage.cluster.share_partition("G1", "t", 0) is not None)
    assert stage.fetch(1) == [(9, 10, 2), (11, 19, 1)]


def _settle(stage: Stage, epoch: int, *batches: tuple[int, int, list[int]], member: int = 1) -> Json:
    rows = [{"baseOffset": first, "lastOffset": last, "acknowledgeTypes": types} for first, last, types in batches]
    partition = {"partitionIndex": 0, "acknowledgementBatches": rows}
    topics = [{"topicId": stage.topic_id(), "partitions": [partition]}]
    return stage.ask(
        "ShareAcknowledge",
        {"groupId": "G1", "memberId": member_id(member), "shareSessionEpoch": epoch, "topics": topics},
    )


def test_page_002_a_batch_has_one_type_for_all_of_it_or_one_for_each_offset(stage: Stage) -> None:
    gap, invalid_request = 0, 42
    stage.join(1)
    stage.open(1)
    stage.produce(10)
    assert stage.fetch(1) == [(0, 9, 1)]

    def code(epoch: int, *batches: tuple[int, int, list[int]]) -> int:
        return int(_settle(stage, epoch, *batches)["responses"][0]["partitions"][0]["errorCode"])

    assert code(2, (0, 1, [ACCEPT]), (2, 5, [gap, ACCEPT, RELEASE, REJECT])) == 0
    view = stage.cluster.share_partition("G1", "t", 0)
    assert view is not None
    states = [view.state_of(offset).name for offset in range(7)]
    assert states == ["ARCHIVED"] * 4 + ["AVAILABLE", "ARCHIVED", "ACQUIRED"]
    # Offsets rise, batches do not overlap, and there are as many types as offsets.
    assert code(3, (8, 9, [ACCEPT]), (6, 7, [ACCEPT])) == invalid_request
    assert code(4, (6, 8, [ACCEPT]), (7, 9, [ACCEPT])) == invalid_request
    assert code(5, (6, 9, [ACCEPT, ACCEPT])) == invalid_request


def test_page_002_a_share_session_is_opened_by_epoch_0_and_closed_by_minus_1(stage: Stage) -> None:
    not_found, wrong_epoch = 122, 123
    stage.join(1)
    assert _settle(stage, 1)["errorCode"] == not_found
    stage.open(1)
    stage.produce(3)
    assert _settle(stage, 2)["errorCode"] == wrong_epoch
    assert stage.fetch(1) == [(0, 2, 1)]
    assert _settle(stage, 1)["errorCode"] == wrong_epoch

    assert _settle(stage, -1)["errorCode"] == 0

    assert _settle(stage, 2)["errorCode"] == not_found
    stage.join(2)
    assert stage.fetch(2) == [(0, 2, 2)]


def test_page_002_an_api_answers_with_the_codes_that_are_listed_for_it(stage: Stage) -> None:
    """AlterShareGroupOffsets lists none for a topic that there is not, where 4.3 says UNKNOWN_TOPIC_OR_PARTITION."""
    listed = {16, 69, 68, 56, 42, -1}
    stage.join(1)
    stage.heartbeat(1, -1)
    rows = [{"partitionIndex": 0, "startOffset": 5}]

    answer = stage.ask("AlterShareGroupOffsets", {"groupId": "G1", "topics": [{"topicName": "u", "partitions": rows}]})

    assert answer["responses"][0]["partitions"][0]["errorCode"] in listed
