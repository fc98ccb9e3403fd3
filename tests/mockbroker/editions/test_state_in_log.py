"""Who is asked for state that lies in the topic's own log (page 000): the leader, by the requests of later pages."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import kwire
from kwire.error_codes import ErrorCode
from kwire.messages.metadata import MetadataRequest
from tests.mockbroker.editions.control_kit import told
from tests.mockbroker.editions.stage import Json, Stage

EDITION = "kip932-r2"
ACCEPT = 0


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage(EDITION) as running:
        running.join(1)
        running.open(1)
        running.produce(3)
        assert running.fetch(1) == [(1, 3, 1)]
        assert running.acknowledge(1, 2, 2, ACCEPT) == 0
        yield running


def _ask(stage: Stage, api: str, *, node: int | None = None, **row: object) -> Json:
    """The one row of an answer about partition 0 of the group."""
    topics = [{"topicId": stage.topic_id(), "partitions": [{"partition": 0} | row]}]
    [topic] = stage.ask(api, {"groupId": "G1", "topics": topics}, node=node)["results"]
    [found] = topic["partitions"]
    assert isinstance(found, dict)
    return found


def _summary(stage: Stage, *, node: int | None = None) -> Json:
    asked = {"groupId": "G1", "topicId": stage.topic_id(), "partition": 0}
    return stage.ask("ReadShareGroupOffsetsState", asked, node=node)


def test_the_leader_tells_what_its_log_has_recorded(stage: Stage) -> None:
    read = _ask(stage, "ReadShareGroupState")

    assert (read["errorCode"], read["startOffset"]) == (0, 1)
    assert [tuple(batch.values()) for batch in read["stateBatches"]] == [(1, 1, 0, 0), (2, 2, 2, 1)]
    assert (_summary(stage)["errorCode"], _summary(stage)["startOffset"]) == (0, 1)


def test_of_a_group_that_nothing_is_recorded_of_the_start_is_open(stage: Stage) -> None:
    topics = [{"topicId": stage.topic_id(), "partitions": [{"partition": 0}]}]
    [topic] = stage.ask("ReadShareGroupState", {"groupId": "nobody", "topics": topics})["results"]

    assert topic["partitions"] == [
        {"partition": 0, "errorCode": 0, "errorMessage": None, "stateEpoch": 0, "startOffset": -1, "stateBatches": []}
    ]
    assert len(told(stage.cluster, "t")) == 2


def test_what_is_written_becomes_a_delta_and_an_alteration_a_checkpoint(stage: Stage) -> None:
    batch = {"baseOffset": 1, "lastOffset": 1, "state": 2, "deliveryCount": 1}
    written = _ask(stage, "WriteShareGroupState", stateEpoch=0, startOffset=-1, stateBatches=[batch])
    begun = _ask(stage, "InitializeShareGroupState", stateEpoch=7, startOffset=3)
    late = _ask(stage, "WriteShareGroupState", stateEpoch=6, startOffset=-1, stateBatches=[batch])
    deleted = _ask(stage, "DeleteShareGroupState")

    assert [row["errorCode"] for row in (written, begun, deleted)] == [0, 0, 0]
    assert late["errorCode"] == ErrorCode.FENCED_STATE_EPOCH
    assert told(stage.cluster, "t")[2:] == [
        "5 delta 1 <4 1-1 2/1",
        "6 checkpoint 2 3-3",
        "7 checkpoint 3 -1--1",
    ]
    assert _summary(stage)["startOffset"] == -1


def test_a_start_that_no_delta_can_tell_is_told_by_a_checkpoint(stage: Stage) -> None:
    written = _ask(stage, "WriteShareGroupState", stateEpoch=0, startOffset=2, stateBatches=[])

    assert written["errorCode"] == 0
    assert told(stage.cluster, "t")[2:] == ["5 checkpoint 2 3-3"]


def test_the_first_write_of_a_group_becomes_a_checkpoint() -> None:
    with Stage(EDITION) as stage:
        stage.produce(2)
        batch = {"baseOffset": 0, "lastOffset": 0, "state": 0, "deliveryCount": 1}
        written = _ask(stage, "WriteShareGroupState", stateEpoch=0, startOffset=0, stateBatches=[batch])

        assert written["errorCode"] == 0
        assert told(stage.cluster, "t") == ["2 checkpoint 1 0-1 0-0 0/1"]


def test_states_without_a_start_are_no_state(stage: Stage) -> None:
    batch = {"baseOffset": 1, "lastOffset": 1, "state": 2, "deliveryCount": 1}
    assert _ask(stage, "DeleteShareGroupState")["errorCode"] == 0
    before = told(stage.cluster, "t")

    written = _ask(stage, "WriteShareGroupState", stateEpoch=-1, startOffset=-1, stateBatches=[batch])
    assert written["errorCode"] == ErrorCode.INVALID_REQUEST
    assert told(stage.cluster, "t") == before


def test_there_is_no_coordinator_beside_the_leader() -> None:
    with Stage(EDITION, nodes=2) as stage:
        stage.produce(1)
        leader = stage.leader("t")
        keys = [f"G1:{stage.topic_id()}:0", f"G1:{stage.topic_id()}:1", f"G1:{'A' * 22}:0"]
        rows = stage.ask("FindCoordinator", {"keyType": 2, "coordinatorKeys": keys}, version=5)["coordinators"]

        assert [(row["errorCode"], row["nodeId"]) for row in rows] == [
            (0, leader),
            (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1),
            (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1),
        ]
        assert _ask(stage, "ReadShareGroupState", node=leader)["errorCode"] == 0
        assert _ask(stage, "ReadShareGroupState", node=1 - leader)["errorCode"] == ErrorCode.NOT_COORDINATOR
        assert _summary(stage, node=1 - leader)["errorCode"] == ErrorCode.NOT_COORDINATOR
        names = [topic.name for topic in stage.client().send(MetadataRequest(topics=None)).topics]
        assert "__share_group_state" not in names


def test_the_answer_to_a_write_waits_for_the_replicas_and_not_for_ever() -> None:
    with Stage(EDITION, nodes=2, default_replication_factor="2", broker_session_timeout_ms="60000") as stage:
        stage.produce(1)
        leader = stage.leader("t")
        assert _ask(stage, "InitializeShareGroupState", node=leader, stateEpoch=1, startOffset=0)["errorCode"] == 0
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
