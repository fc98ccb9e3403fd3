"""Classic groups in a whole broker: members that are parked, woken and removed."""

from __future__ import annotations

from kwire.messages.describe_groups import DescribeGroupsRequest
from tests.support.brokers.broker import Broker
from tests.support.brokers.group_requests import join, sync


def test_a_join_waits_for_the_initial_delay_which_only_the_clock_ends() -> None:
    broker = Broker(config={"group.initial.rebalance.delay.ms": "3000"})
    member_id = broker.call(join(), 9).member_id

    assert broker.call(join(member_id), 9) is None
    broker.advance(2_999)
    assert broker.take_response() is None
    broker.advance(1)

    answer = broker.take_response()
    assert (answer.error_code, answer.generation_id, answer.leader) == (0, 1, member_id)


def test_a_parked_join_and_a_parked_sync_that_are_woken_a_hundred_times_have_one_effect() -> None:
    broker = Broker(config={"group.initial.rebalance.delay.ms": "0"})
    first = broker.call(join(), 9).member_id
    broker.call(join(first), 9)
    second = broker.call(join(), 9, connection="b").member_id
    assert broker.call(join(second), 9, connection="b") is None

    for _ in range(100):
        broker.core.state.wake(("group", "g"))
        broker.advance(0)
    assert broker.take_response("b") is None
    assert broker.call(join(first), 9).generation_id == 2
    assert broker.take_response("b").generation_id == 2

    assert broker.call(sync(second, 2), 5, connection="b") is None
    for _ in range(100):
        broker.core.state.wake(("group", "g"))
        broker.advance(0)
    broker.call(sync(first, 2, assigned={first: b"1", second: b"2"}), 5)

    assert broker.take_response("b").assignment == b"2"
    assert broker.take_response("b") is None


def test_a_member_with_a_closed_connection_is_removed_by_its_session_timeout() -> None:
    broker = Broker(config={"group.initial.rebalance.delay.ms": "0"})
    member = broker.call(join(), 9, connection="b").member_id
    broker.call(join(member), 9, connection="b")
    broker.call(sync(member), 5, connection="b")
    broker.disconnect("b")

    broker.advance(9_999)
    assert broker.call(DescribeGroupsRequest(groups=("g",)), 6).groups[0].group_state == "Stable"
    broker.advance(1)
    assert broker.call(DescribeGroupsRequest(groups=("g",)), 6).groups[0].group_state == "Empty"


def test_the_same_seed_gives_the_same_member_ids() -> None:
    first, second = (Broker().call(join(), 9).member_id for _ in range(2))

    assert first == second
    assert first.startswith("client-a-")
