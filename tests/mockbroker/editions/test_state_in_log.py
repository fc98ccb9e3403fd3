"""State in the topic's own log (revision r2): the leader serves it, by the requests of later revisions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import kwire
from kwire.error_codes import ErrorCode
from kwire.messages.metadata import MetadataRequest
from tests.support.brokers.control_records import describe_control_records
from tests.support.brokers.edition_cluster import EditionCluster

EDITION = "kip932-r2"
ACCEPT = 0


@pytest.fixture
def stage() -> Iterator[EditionCluster]:
    with EditionCluster(EDITION) as running:
        running.join(1)
        running.open_session(1)
        running.produce(3)
        assert running.fetch(1) == [(1, 3, 1)]
        assert running.acknowledge(1, 2, 2, ACCEPT) == 0
        yield running


def test_the_leader_returns_what_its_log_has_recorded(stage: EditionCluster) -> None:
    read = stage.call_state_api("ReadShareGroupState")

    assert (read["errorCode"], read["startOffset"]) == (0, 1)
    assert [tuple(batch.values()) for batch in read["stateBatches"]] == [(1, 1, 0, 0), (2, 2, 2, 1)]
    assert (stage.read_summary()["errorCode"], stage.read_summary()["startOffset"]) == (0, 1)


def test_of_a_group_that_nothing_is_recorded_of_the_start_is_open(stage: EditionCluster) -> None:
    topics = [{"topicId": stage.topic_id(), "partitions": [{"partition": 0}]}]
    [topic] = stage.call("ReadShareGroupState", {"groupId": "nobody", "topics": topics})["results"]

    assert topic["partitions"] == [
        {"partition": 0, "errorCode": 0, "errorMessage": None, "stateEpoch": 0, "startOffset": -1, "stateBatches": []}
    ]
    assert len(describe_control_records(stage.cluster, "t")) == 2


def test_what_is_written_becomes_a_delta_and_an_alteration_a_checkpoint(stage: EditionCluster) -> None:
    batch = {"baseOffset": 1, "lastOffset": 1, "state": 2, "deliveryCount": 1}
    written = stage.call_state_api("WriteShareGroupState", stateEpoch=0, startOffset=-1, stateBatches=[batch])
    begun = stage.call_state_api("InitializeShareGroupState", stateEpoch=7, startOffset=3)
    late = stage.call_state_api("WriteShareGroupState", stateEpoch=6, startOffset=-1, stateBatches=[batch])
    deleted = stage.call_state_api("DeleteShareGroupState")

    assert [row["errorCode"] for row in (written, begun, deleted)] == [0, 0, 0]
    assert late["errorCode"] == ErrorCode.FENCED_STATE_EPOCH
    stored = ["5 delta 1 <4 1-1 2/1", "6 checkpoint 2 3-3", "7 checkpoint 3 -1--1"]
    assert describe_control_records(stage.cluster, "t")[2:] == stored
    assert stage.read_summary()["startOffset"] == -1


def test_a_start_that_a_delta_cannot_contain_is_written_by_a_checkpoint(stage: EditionCluster) -> None:
    written = stage.call_state_api("WriteShareGroupState", stateEpoch=0, startOffset=2, stateBatches=[])

    assert written["errorCode"] == 0
    assert describe_control_records(stage.cluster, "t")[2:] == ["5 checkpoint 2 3-3"]


def test_the_first_write_of_a_group_becomes_a_checkpoint() -> None:
    with EditionCluster(EDITION) as stage:
        stage.produce(2)
        batch = {"baseOffset": 0, "lastOffset": 0, "state": 0, "deliveryCount": 1}
        written = stage.call_state_api("WriteShareGroupState", stateEpoch=0, startOffset=0, stateBatches=[batch])

        assert written["errorCode"] == 0
        assert describe_control_records(stage.cluster, "t") == ["2 checkpoint 1 0-1 0-0 0/1"]


def test_states_without_a_start_are_no_state(stage: EditionCluster) -> None:
    batch = {"baseOffset": 1, "lastOffset": 1, "state": 2, "deliveryCount": 1}
    assert stage.call_state_api("DeleteShareGroupState")["errorCode"] == 0
    before = describe_control_records(stage.cluster, "t")

    written = stage.call_state_api("WriteShareGroupState", stateEpoch=-1, startOffset=-1, stateBatches=[batch])
    assert written["errorCode"] == ErrorCode.INVALID_REQUEST
    assert describe_control_records(stage.cluster, "t") == before


def test_there_is_no_coordinator_beside_the_leader() -> None:
    with EditionCluster(EDITION, nodes=2) as stage:
        stage.produce(1)
        leader = stage.find_leader("t")
        keys = [f"G1:{stage.topic_id()}:0", f"G1:{stage.topic_id()}:1", f"G1:{'A' * 22}:0"]
        rows = stage.call("FindCoordinator", {"keyType": 2, "coordinatorKeys": keys}, version=5)["coordinators"]

        missing = (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)
        assert [(row["errorCode"], row["nodeId"]) for row in rows] == [(0, leader), missing, missing]
        assert stage.call_state_api("ReadShareGroupState", node=leader)["errorCode"] == 0
        assert stage.call_state_api("ReadShareGroupState", node=1 - leader)["errorCode"] == ErrorCode.NOT_COORDINATOR
        assert stage.read_summary(node=1 - leader)["errorCode"] == ErrorCode.NOT_COORDINATOR
        names = [topic.name for topic in stage.client().send(MetadataRequest(topics=None)).topics]
        assert "__share_group_state" not in names


def test_the_answer_to_a_write_waits_for_the_replicas_and_not_for_ever() -> None:
    with EditionCluster(EDITION, nodes=2, default_replication_factor="2", broker_session_timeout_ms="60000") as stage:
        stage.produce(1)
        leader = stage.find_leader("t")
        begun = stage.call_state_api("InitializeShareGroupState", node=leader, stateEpoch=1, startOffset=0)
        assert begun["errorCode"] == 0
        stage.cluster.kill_node(1 - leader)
        written = {"partition": 0, "stateEpoch": -1, "startOffset": 1, "stateBatches": []}
        tree = {"groupId": "G1", "topics": [{"topicId": stage.topic_id(), "partitions": [written]}]}
        asked = kwire.from_json("WriteShareGroupStateRequest", 0, tree, edition=EDITION)
        waiting = stage.client(leader, line="writing").submit(asked, 0)

        stage.cluster.clock.advance(4_999)
        assert not waiting.done
        stage.cluster.clock.advance(1)
        row = waiting.result(10).results[0].partitions[0]
        assert row.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
