"""KIP-932 revision r4 over sockets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.brokers.edition_cluster import OFFSETS, STATES, EditionCluster, Json, encode_member_id

ACCEPT, RELEASE, REJECT = 1, 2, 3
AVAILABLE, ACKNOWLEDGED = 0, 2
StateRecords = list[tuple[str, int, list[tuple[int, int, int, int]]]]


@pytest.fixture
def stage() -> Iterator[EditionCluster]:
    with EditionCluster("kip932-r4", group_share_session_timeout_ms="60000") as running:
        yield running


def _read_state_records(stage: EditionCluster, written: int) -> StateRecords:
    """Records written since: start, and the states by first, last, state and count."""
    found = []
    for name, _, value in stage.read_records(STATES)[written:]:
        assert value is not None
        rows = [(row["baseOffset"], row["lastOffset"], row["state"], row["deliveryCount"]) for row in value["states"]]
        found.append((name, value["startOffset"], rows))
    return found


def test_r4_the_requests_that_store_the_walk_from_offset_100_to_120(stage: EditionCluster) -> None:
    stage.produce(100)
    for member in (1, 2, 3):
        stage.join(member)
        stage.open_session(member)
    written = 1

    def stored() -> StateRecords:
        nonlocal written
        found = _read_state_records(stage, written)
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
    stage.cluster.clock.advance(20_001)  # The locks of 111 and 112 end; the write is sent a millisecond later.
    stage.wait_until(lambda: len(_read_state_records(stage, written)) == 1)
    assert stored() == [("ShareDelta", -1, [(111, 112, AVAILABLE, 1)])]
    assert stage.acknowledge(2, 113, 118, ACCEPT) == 0
    assert stored() == [("ShareDelta", -1, [(113, 118, ACKNOWLEDGED, 1)])]
    assert stage.fetch(3) == [(111, 112, 2)]
    assert stored() == []
    assert stage.acknowledge(1, 110, 110, ACCEPT) == 0
    assert stored() == [("ShareDelta", -1, [(110, 110, ACKNOWLEDGED, 2)])]
    assert _read_start(stage) == 111
    assert stage.acknowledge(3, 111, 112, ACCEPT) == 0
    assert stored() == [("ShareCheckpoint", 120, [])]
    assert _read_start(stage) == 120


def _read_start(stage: EditionCluster) -> int:
    """The stored start, which is also the leader's."""
    view = stage.cluster.share_partition("G1", "t", 0)
    assert view is not None
    assert view.start_offset == stage.read_summary()["startOffset"]
    return view.start_offset


def test_r4_a_group_is_made_in_two_stages(stage: EditionCluster) -> None:
    topic = stage.topic_id()

    first = stage.heartbeat(1, 0, "t")
    # a) The group, its member, and what is about to be initialised are written; there is nothing to assign yet.
    assert (first["errorCode"], first["memberEpoch"]) == (0, 1)
    assert first["assignment"] == {"topicPartitions": []}
    stage.wait_until(lambda: len(stage.read_records(OFFSETS)) == 4)
    group, member, before, after = stage.read_records(OFFSETS)
    assert group == ("ConsumerGroupMetadata", {"groupId": "G1"}, {"epoch": 1, "type": 3})
    assert member[:2] == ("ShareGroupMemberMetadata", {"groupId": "G1", "memberId": encode_member_id(1)})
    assert member[2] is not None
    assert member[2]["subscribedTopicNames"] == ["t"]
    started = {"topicId": topic, "startPartitionIndex": 0, "endPartitionIndex": 0}
    assert before[0] == "ShareGroupPartitionMetadata"
    assert before[2] == {"epoch": 1, "initializedTopics": [], "initializingTopics": [started], "deletingTopics": []}
    # b) and c) The start is not known yet, and the group's epoch is that of the state.
    key = {"groupId": "G1", "topicId": topic, "partition": 0}
    checkpoint = {"stateEpoch": 1, "checkpointEpoch": 0, "startOffset": -1, "states": []}
    assert stage.read_records(STATES) == [("ShareCheckpoint", key, checkpoint)]
    # d) What is initialised is written, and can be assigned.
    done = {"topicId": topic, "numPartitions": 1}
    assert after[2] == {"epoch": 1, "initializedTopics": [done], "initializingTopics": [], "deletingTopics": []}
    second = stage.heartbeat(1, 1)
    assert second["memberEpoch"] == 2
    assert second["assignment"] == {"topicPartitions": [{"topicId": topic, "partitions": [0]}]}
    assert stage.describe_group()["groupState"] == "STABLE"


def test_r4_assignments_are_balanced_and_shared_where_there_are_more_members_than_partitions() -> None:
    with EditionCluster("kip932-r4", topics={"t": 2}) as stage:
        for member in (1, 2, 3):
            stage.join(member)
        stage.heartbeat(1, 2)
        rows = stage.describe_group()["members"]
        held = [part["partitions"] for row in rows for part in row["assignment"]["topicPartitions"]]

    assert sorted(held) in ([[0], [0], [1]], [[0], [1], [1]])


def test_r4_a_share_partition_without_state_is_not_part_of_the_group(stage: EditionCluster) -> None:
    unknown = 3

    assert stage.call_state_api("ReadShareGroupState")["errorCode"] == unknown
    assert stage.read_summary()["errorCode"] == unknown
    topics = [{"topicId": stage.topic_id(), "partitions": [{"partitionIndex": 0, "partitionMaxBytes": 1000}]}]
    tree = {"groupId": "G1", "memberId": encode_member_id(1), "maxWaitMs": 100, "minBytes": 1, "topics": topics}
    stage.cluster.clock.thaw()
    answer = stage.call("ShareFetch", tree)
    assert answer["responses"][0]["partitions"][0]["errorCode"] == unknown


def test_r4_state_is_read_without_an_epoch_of_the_leader(stage: EditionCluster) -> None:
    stage.join(1)
    stage.open_session(1)

    read = stage.call_state_api("ReadShareGroupState")
    assert (read["errorCode"], read["stateEpoch"], read["startOffset"], read["stateBatches"]) == (0, 1, 0, [])
    assert stage.read_summary() == {"errorCode": 0, "stateEpoch": 1, "startOffset": 0}


def test_r4_the_coordinator_of_a_share_partition_is_found_by_its_key(stage: EditionCluster) -> None:
    key = f"G1:{stage.topic_id()}:0"
    tree = {"keyType": 2, "coordinatorKeys": [key]}
    [row] = stage.call("FindCoordinator", tree, version=5)["coordinators"]
    assert (row["key"], row["nodeId"], row["errorCode"]) == (key, 0, 0)


def test_r4_members_continue_with_another_coordinator_and_are_assigned_again() -> None:
    with EditionCluster("kip932-r4", nodes=2) as stage:
        home = stage.find_coordinator()
        stage.join(1, node=home)
        epoch = stage.heartbeat(1, 2, node=home)["memberEpoch"]
        stage.cluster.move_leader(OFFSETS, 0, to=1 - home)

        answer = stage.heartbeat_when_loaded(1, epoch, node=1 - home)

        assert answer["errorCode"] == 0
        assert answer["memberEpoch"] > epoch
        assert answer["assignment"]["topicPartitions"] == [{"topicId": stage.topic_id(), "partitions": [0]}]
        rows = [name for name, _, _ in stage.read_records(OFFSETS)]
        assert rows.count("ConsumerGroupMetadata") == 1


def test_r4_altering_needs_a_group_that_is_empty(stage: EditionCluster) -> None:
    assert stage.alter_offsets({0: 5}) == [69]
    stage.join(1)
    assert stage.alter_offsets({0: 5}) == [68]
    stage.heartbeat(1, -1)
    assert stage.alter_offsets({0: 5}) == [0]
    assert stage.call_state_api("ReadShareGroupState")["startOffset"] == 5


def test_states_written_before_an_alteration_do_not_prevent_it(stage: EditionCluster) -> None:
    config = {"name": "group.share.auto.offset.reset", "configOperation": 0, "value": "earliest"}
    resource = {"resourceType": 32, "resourceName": "G1", "configs": [config]}
    [altered] = stage.call("IncrementalAlterConfigs", {"resources": [resource]}, version=1)["responses"]
    assert altered["errorCode"] == 0
    stage.join(1)
    stage.produce(20)
    topics = [{"name": "t", "partitions": [{"partitionIndex": 0, "offset": 9}]}]
    assert stage.call("DeleteRecords", {"topics": topics, "timeoutMs": 1000}, version=2)["topics"][0]["partitions"]
    # A leader that has not loaded the new start writes no start, as one is stored.
    batch = {"baseOffset": 0, "lastOffset": 10, "state": AVAILABLE, "deliveryCount": 1}
    written: Json = {"stateEpoch": 1, "startOffset": -1, "stateBatches": [batch]}
    assert stage.call_state_api("WriteShareGroupState", **written)["errorCode"] == 0

    assert stage.fetch(1, wait_ms=0) == []
    stage.wait_until(lambda: stage.cluster.share_partition("G1", "t", 0) is not None)
    assert stage.fetch(1) == [(9, 10, 2), (11, 19, 1)]


def _write_states(stage: EditionCluster, epoch: int, *batches: tuple[int, int, list[int]], member: int = 1) -> Json:
    rows = [{"baseOffset": first, "lastOffset": last, "acknowledgeTypes": types} for first, last, types in batches]
    partition = {"partitionIndex": 0, "acknowledgementBatches": rows}
    topics = [{"topicId": stage.topic_id(), "partitions": [partition]}]
    tree = {"groupId": "G1", "memberId": encode_member_id(member), "shareSessionEpoch": epoch, "topics": topics}
    return stage.call("ShareAcknowledge", tree)


def test_r4_a_batch_has_one_type_for_all_of_it_or_one_for_each_offset(stage: EditionCluster) -> None:
    gap, invalid_request = 0, 42
    stage.join(1)
    stage.open_session(1)
    stage.produce(10)
    assert stage.fetch(1) == [(0, 9, 1)]

    def code(epoch: int, *batches: tuple[int, int, list[int]]) -> int:
        return int(_write_states(stage, epoch, *batches)["responses"][0]["partitions"][0]["errorCode"])

    assert code(2, (0, 1, [ACCEPT]), (2, 5, [gap, ACCEPT, RELEASE, REJECT])) == 0
    view = stage.cluster.share_partition("G1", "t", 0)
    assert view is not None
    states = [view.state_of(offset).name for offset in range(7)]
    assert states == ["ARCHIVED"] * 4 + ["AVAILABLE", "ARCHIVED", "ACQUIRED"]
    # Offsets rise, batches do not overlap, and there are as many types as offsets.
    assert code(3, (8, 9, [ACCEPT]), (6, 7, [ACCEPT])) == invalid_request
    assert code(4, (6, 8, [ACCEPT]), (7, 9, [ACCEPT])) == invalid_request
    assert code(5, (6, 9, [ACCEPT, ACCEPT])) == invalid_request


def test_r4_a_share_session_is_opened_by_epoch_0_and_closed_by_minus_1(stage: EditionCluster) -> None:
    not_found, wrong_epoch = 122, 123
    stage.join(1)
    assert _write_states(stage, 1)["errorCode"] == not_found
    stage.open_session(1)
    stage.produce(3)
    assert _write_states(stage, 2)["errorCode"] == wrong_epoch
    assert stage.fetch(1) == [(0, 2, 1)]
    assert _write_states(stage, 1)["errorCode"] == wrong_epoch

    assert _write_states(stage, -1)["errorCode"] == 0

    assert _write_states(stage, 2)["errorCode"] == not_found
    stage.join(2)
    assert stage.fetch(2) == [(0, 2, 2)]


def test_r4_an_api_answers_with_the_codes_that_are_listed_for_it(stage: EditionCluster) -> None:
    """AlterShareGroupOffsets lists none for a missing topic, where 4.3 returns UNKNOWN_TOPIC_OR_PARTITION."""
    listed = {16, 69, 68, 56, 42, -1}
    stage.join(1)
    stage.heartbeat(1, -1)

    assert listed.issuperset(stage.alter_offsets({0: 5}, topic="u"))
