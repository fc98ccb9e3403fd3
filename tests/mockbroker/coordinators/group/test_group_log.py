"""When the records of `__consumer_offsets` are written, and with which times and clients (share-semantics 5.8).

Which records there are, and in what order, is compared with a real broker in `test_group_records.py`.
"""

from __future__ import annotations

import pytest

from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.support.brokers.group_broker import GroupBroker
from tests.support.brokers.group_requests import commit, join, share, sync


@pytest.fixture
def broker() -> GroupBroker:
    return GroupBroker()


def test_records_of_a_share_group_have_the_time_of_the_heartbeat_and_the_id_of_the_client(broker: GroupBroker) -> None:
    broker.call_coordinator(share(0, "T"), 1)
    first, _ = broker.read_batches()
    values = {line.kind: line.value for line in first if line.value is not None}
    assert values["ShareGroupMemberMetadata"]["clientId"] == f"client-@{broker.coordinator}"
    assert values["ShareGroupTargetAssignmentMetadata"]["assignmentTimestamp"] == broker.now_ms
    broker.advance(5_000)
    broker.call_coordinator(share(2), 1)

    assert [line.timestamp for line in broker.read_batches()[2]] == [broker.now_ms] * 4


def test_records_of_a_classic_group_have_the_time_of_its_last_change_of_state(broker: GroupBroker) -> None:
    member_id = broker.call_coordinator(join(), 9).member_id
    broker.call_coordinator(join(member_id), 9)
    broker.call_coordinator(sync(member_id), 5)
    joined_ms = broker.now_ms
    broker.advance(1_000)
    broker.call_coordinator(LeaveGroupRequest("g", members=[MemberIdentity(member_id)]), 5)
    values = [batch[0].value or {} for batch in broker.read_batches()]

    assert [value["currentStateTimestamp"] for value in values] == [joined_ms, joined_ms, broker.now_ms]
    assert values[1]["members"][0]["clientId"] == f"client-@{broker.coordinator}"


def test_records_of_offsets_and_expressions_have_the_time_of_their_request(broker: GroupBroker) -> None:
    broker.call_coordinator(commit(7), 9)
    request = ConsumerGroupHeartbeatRequest("g", "m", 0, rebalance_timeout_ms=1_000, topic_partitions=[])
    request.subscribed_topic_regex = "T|U"
    broker.call_coordinator(request, 1)
    values = {line.kind: line.value for batch in broker.read_batches() for line in batch if line.value is not None}

    assert values["OffsetCommit"]["commitTimestamp"] == broker.now_ms
    assert values["ConsumerGroupRegularExpression"]["timestamp"] == broker.now_ms


def test_a_heartbeat_that_changes_nothing_writes_nothing(broker: GroupBroker) -> None:
    broker.call_coordinator(share(0, "T"), 1)
    broker.advance(5_000)
    broker.call_coordinator(share(2), 1)
    before = len(broker.read_batches())
    broker.advance(5_000)
    broker.call_coordinator(share(3), 1)

    assert len(broker.read_batches()) == before


def test_a_member_that_falls_silent_is_struck_out_at_that_moment(broker: GroupBroker) -> None:
    broker.call_coordinator(share(0, "T"), 1)
    broker.advance(45_000)
    line = broker.read_batches()[-1][0]

    assert (line.kind, line.value, line.timestamp) == ("ShareGroupCurrentMemberAssignment", None, broker.now_ms)
