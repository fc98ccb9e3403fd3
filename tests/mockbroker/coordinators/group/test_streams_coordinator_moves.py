"""Streams groups whose coordinator moves in the middle of their life, and deadlines that only a clock can show."""

from __future__ import annotations

from typing import Any

import pytest

from kwire.error_codes import ErrorCode
from kwire.messages.delete_groups import DeleteGroupsRequest
from kwire.messages.streams_group_describe import StreamsGroupDescribeRequest
from kwire.messages.streams_group_heartbeat import StreamsGroupHeartbeatRequest, Subtopology, TopicInfo, Topology
from tests.support.brokers.group_broker import GroupBroker
from tests.support.brokers.streams_requests import COUNTING, Rows, beat

NOW = {"group.streams.initial.rebalance.delay.ms": "0", "group.streams.assignment.interval.ms": "0"}
SESSION_MS = 45_000


@pytest.fixture
def broker() -> GroupBroker:
    return GroupBroker(**NOW)


def say(broker: GroupBroker, request: StreamsGroupHeartbeatRequest) -> Any:
    return broker.call_coordinator(request, 0, who=request.member_id)


def described(broker: GroupBroker) -> Any:
    return broker.call_coordinator(StreamsGroupDescribeRequest(("g",)), 0).groups[0]


def active(answer: Any) -> dict[str, tuple[int, ...]] | None:
    """The active tasks of an answer, None when it says nothing of them."""
    if answer.active_tasks is None:
        return None
    return {row.subtopology_id: row.partitions for row in answer.active_tasks}


def member_ids(broker: GroupBroker) -> list[str]:
    return sorted(member.member_id for member in described(broker).members)


def test_a_new_coordinator_knows_members_tasks_and_topology(broker: GroupBroker) -> None:
    say(broker, beat("m1", 0, topology=COUNTING))
    say(broker, beat("m1", 2, {}))
    before = described(broker)
    for _ in range(3):
        broker.move_coordinator()  # Back to the first node, whose state is rebuilt; a client has one id per node.
    heard = say(broker, beat("m1", 3))

    assert (heard.error_code, heard.member_epoch, active(heard)) == (ErrorCode.NONE, 3, None)
    assert described(broker) == before
    assert before.group_state == "Stable"
    assert [topic.partitions for topic in before.topology.subtopologies[1].state_changelog_topics] == [2]


def test_until_its_first_heartbeat_a_new_coordinator_shows_the_topology_without_counts(broker: GroupBroker) -> None:
    say(broker, beat("m1", 0, topology=COUNTING))
    say(broker, beat("m1", 2, {}))
    broker.move_coordinator()

    assert [topic.partitions for topic in described(broker).topology.subtopologies[1].state_changelog_topics] == [0]


def test_what_a_member_gave_up_goes_to_the_other_after_a_move(broker: GroupBroker) -> None:
    everything: Rows = {"0": (0, 1)}
    say(broker, beat("m1", 0))
    say(broker, beat("m2", 0))
    assert active(say(broker, beat("m1", 2, everything))) == {"0": (0,)}
    broker.move_coordinator()

    assert active(say(broker, beat("m2", 3, {}))) is None
    assert active(say(broker, beat("m1", 2, {"0": (0,)}))) is None
    assert active(say(broker, beat("m2", 3, {}))) == {"0": (1,)}


def test_sessions_restart_with_a_new_coordinator(broker: GroupBroker) -> None:
    say(broker, beat("m1", 0))
    broker.advance(SESSION_MS - 1)
    broker.move_coordinator()
    broker.advance(SESSION_MS - 1)
    assert member_ids(broker) == ["m1"]
    broker.advance(1)

    assert member_ids(broker) == []


def test_the_time_to_revoke_tasks_restarts_with_a_new_coordinator(broker: GroupBroker) -> None:
    say(broker, beat("m1", 0, rebalance_timeout_ms=10_000))
    say(broker, beat("m2", 0))
    say(broker, beat("m1", 2, {"0": (0, 1)}))
    broker.advance(9_999)
    broker.move_coordinator()
    broker.advance(9_999)
    assert member_ids(broker) == ["m1", "m2"]
    broker.advance(1)

    assert member_ids(broker) == ["m2"]


def test_a_deleted_group_is_not_there_after_a_move(broker: GroupBroker) -> None:
    say(broker, beat("m1", 0))
    say(broker, beat("m1", -1))
    assert broker.call_coordinator(DeleteGroupsRequest(("g",)), 2).results[0].error_code == ErrorCode.NONE
    broker.move_coordinator()

    assert described(broker).error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_former_coordinator_says_so(broker: GroupBroker) -> None:
    say(broker, beat("m1", 0))
    former = broker.coordinator
    broker.move_coordinator()
    heard = broker.call(beat("m1", 2), 0, connection=f"m1@{former}", node=former)

    assert heard.error_code == ErrorCode.NOT_COORDINATOR


def test_the_session_of_a_member_ends_to_the_millisecond(broker: GroupBroker) -> None:
    say(broker, beat("m1", 0))
    broker.advance(1_000)
    say(broker, beat("m1", 2))
    broker.advance(SESSION_MS - 1)
    assert member_ids(broker) == ["m1"]
    broker.advance(1)

    assert member_ids(broker) == []


def test_the_first_assignment_comes_when_the_delay_is_over_and_somebody_was_heard_again() -> None:
    broker = GroupBroker(**{**NOW, "group.streams.initial.rebalance.delay.ms": "3000"})
    joined = say(broker, beat("m1", 0))
    assert (joined.member_epoch, [row.status_code for row in joined.status]) == (1, [5])
    say(broker, beat("m1", 1))
    broker.advance(2_999)
    assert described(broker).assignment_epoch == 1
    broker.advance(1)
    assert described(broker).assignment_epoch == 2

    assert active(say(broker, beat("m1", 1, {}))) == {"0": (0, 1)}


def test_without_a_second_heartbeat_the_end_of_the_delay_assigns_nothing() -> None:
    broker = GroupBroker(**{**NOW, "group.streams.initial.rebalance.delay.ms": "3000"})
    say(broker, beat("m1", 0))
    broker.advance(3_000)
    assert described(broker).assignment_epoch == 1

    assert active(say(broker, beat("m1", 1, {}))) == {"0": (0, 1)}


def test_a_topic_that_could_not_be_made_is_tried_again_after_two_heartbeat_intervals(broker: GroupBroker) -> None:
    logs = [TopicInfo("C", 0, 9)]
    say(broker, beat("m1", 0, topology=Topology(0, [Subtopology("0", ("T",), state_changelog_topics=logs)])))
    refused = say(broker, beat("m1", 2)).status[0].status_detail
    broker.advance(9_999)
    assert say(broker, beat("m1", 2)).status[0].status_detail == refused
    broker.advance(1)

    assert "(" in refused
    assert "(" not in say(broker, beat("m1", 2)).status[0].status_detail


def test_a_broker_whose_coordinator_does_not_speak_the_protocol_refuses_it() -> None:
    broker = GroupBroker(**{"group.coordinator.rebalance.protocols": "classic,consumer"})

    assert say(broker, beat("m1", 0)).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert described(broker).error_code == ErrorCode.UNSUPPORTED_VERSION
