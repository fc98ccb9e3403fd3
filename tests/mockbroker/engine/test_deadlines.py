"""The deadlines of a cluster run at their own times, and at one time in a fixed order."""

from __future__ import annotations

from kwire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from mockbroker.state.metadata.configs import Resource, ResourceKind
from mockbroker.state.timers import UNKNOWN_MS
from tests.support.brokers.broker import Broker


def _broker() -> Broker:
    broker = Broker(config={"group.initial.rebalance.delay.ms": "0"})
    broker.metadata.create_topic("t")
    return broker


def _park_fetch(broker: Broker, wait_ms: int) -> None:
    topic = FetchTopic(topic_id=broker.topic("t").topic_id, partitions=[FetchPartition(partition_max_bytes=1_000)])
    assert broker.call(FetchRequest(max_wait_ms=wait_ms, min_bytes=1, topics=[topic]), 17, connection="fetch") is None


def _add_member(broker: Broker, session_ms: int) -> None:
    protocols = [JoinGroupRequestProtocol("range", b"")]
    request = JoinGroupRequest("g", session_ms, session_ms, "", protocol_type="consumer", protocols=protocols)
    assert broker.call(request, 3, connection="member").error_code == 0


def test_a_call_between_nodes_of_the_same_time_comes_before_a_request_that_waits() -> None:
    broker = _broker()
    _park_fetch(broker, 100)
    events: list[tuple[int, int]] = []
    due_ms = broker.now_ms + 100
    broker.core.state.inter_broker.schedule(
        100, lambda at_ms: events.append((at_ms, broker.core.parked_count)), now_ms=broker.now_ms
    )

    assert broker.core.next_deadline_ms() == due_ms
    broker.advance(5_000)

    assert events == [(due_ms, 1)]
    assert broker.take_response("fetch").responses[0].partitions[0].error_code == 0


def test_the_next_deadline_is_that_of_the_request_once_the_session_of_a_member_is_over() -> None:
    broker = _broker()
    _park_fetch(broker, 7_000)
    _add_member(broker, 6_000)
    due_ms = broker.now_ms + 7_000

    before_ms = broker.core.next_deadline_ms()
    broker.advance(6_500)

    assert before_ms is not None
    assert before_ms < due_ms
    assert broker.core.next_deadline_ms() == due_ms
    assert broker.core.parked_count == 1


def test_a_request_leaves_the_earliest_deadline_known() -> None:
    broker = _broker()
    _park_fetch(broker, 7_000)
    broker.advance(0)
    due_ms = broker.now_ms + 7_000

    assert broker.core.state.earliest_deadline.ms == due_ms
    broker.advance(1_000)
    assert broker.core.advance(broker.now_ms) == due_ms


def test_a_call_between_nodes_that_comes_first_is_the_next_deadline_although_others_are_not_known_exactly() -> None:
    broker = _broker()
    _park_fetch(broker, 7_000)
    due_ms = broker.now_ms + 7_000
    broker.disconnect("fetch")
    broker.core.state.inter_broker.schedule(5_000, lambda _at_ms: None, now_ms=broker.now_ms)

    assert broker.core.next_deadline_ms(until_ms=due_ms) == due_ms - 2_000
    assert broker.core.next_deadline_ms(until_ms=due_ms) == broker.core.next_deadline_ms()


def test_the_core_returns_a_time_that_is_no_deadline_any_more_until_that_time_comes() -> None:
    broker = _broker()
    _park_fetch(broker, 7_000)
    due_ms = broker.now_ms + 7_000
    broker.disconnect("fetch")

    assert broker.core.next_deadline_ms() is None
    assert broker.core.advance(due_ms - 1) == due_ms
    assert broker.core.advance(due_ms) is None


def test_the_earliest_deadline_is_unknown_after_a_change_of_configuration() -> None:
    broker = _broker()
    _park_fetch(broker, 7_000)
    broker.advance(0)

    broker.core.state.configs.set_overrides(Resource(ResourceKind.TOPIC, "t"), {"retention.ms": "1000"})

    assert broker.core.state.earliest_deadline.ms == UNKNOWN_MS


def test_the_deadlines_of_a_paused_node_count_again_when_it_goes_on() -> None:
    broker = _broker()
    _add_member(broker, 6_000)
    due_ms = broker.core.next_deadline_ms()
    broker.core.pause_node(0, broker.now_ms)
    broker.advance(1_000)
    broker.core.resume_node(0, broker.now_ms)
    broker.advance(0)

    assert due_ms is not None
    assert broker.core.state.earliest_deadline.ms <= due_ms
    assert broker.core.next_deadline_ms() == due_ms
