"""The limits of connections: how many of one address there may be, and how long they may be idle."""

from __future__ import annotations

from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.brokers.broker import Broker

_ALL = "max.connections"
_PER_ADDRESS = "max.connections.per.ip"
_IDLE = "connections.max.idle.ms"


def _ask(broker: Broker, name: str, *, node: int = 0) -> bool:
    """Whether a request on a connection is answered."""
    return broker.call(ApiVersionsRequest(), 0, connection=name, node=node) is not None


def test_a_connection_over_the_limit_of_its_address_is_closed_at_once() -> None:
    broker = Broker(config={_PER_ADDRESS: "2"})

    assert [_ask(broker, name) for name in ("a", "b", "c")] == [True, True, False]
    assert broker.closed == {"c": "more connections of 127.0.0.1 than max.connections.per.ip=2"}


def test_a_connection_that_has_ended_and_one_that_was_refused_do_not_count() -> None:
    broker = Broker(config={_PER_ADDRESS: "2"})
    asked = [_ask(broker, name) for name in ("a", "b", "c", "d")]
    broker.disconnect("a")

    assert asked == [True, True, False, False]
    assert [_ask(broker, name) for name in ("e", "f")] == [True, False]


def test_each_node_has_the_limit_for_itself() -> None:
    broker = Broker(nodes=2, config={_PER_ADDRESS: "1"})

    assert _ask(broker, "a", node=0)
    assert _ask(broker, "b", node=1)
    assert not _ask(broker, "c", node=1)


def test_the_limit_can_be_set_while_the_broker_runs() -> None:
    broker = Broker()
    _ask(broker, "a")
    change = AlterConfigsResource(4, "", [AlterableConfig(_PER_ADDRESS, 0, "1")])
    broker.call(IncrementalAlterConfigsRequest([change]), 1, connection="a")

    assert not _ask(broker, "b")
    assert _ask(broker, "a")


def test_connections_over_the_limit_of_the_node_wait_in_their_order_until_others_have_ended() -> None:
    broker = Broker(config={_ALL: "2"})
    asked = [_ask(broker, name) for name in ("a", "b", "c", "d")]
    broker.disconnect("a")
    broker.advance(99)
    before = broker.take_response("c")
    broker.advance(1)

    assert asked == [True, True, False, False]
    assert before is None
    assert broker.take_response("c") is not None
    assert broker.take_response("d") is None
    assert broker.closed == {}


def test_a_connection_that_ends_while_it_waits_is_passed_over() -> None:
    broker = Broker(config={_ALL: "1"})
    asked = [_ask(broker, name) for name in ("a", "b", "c")]
    broker.disconnect("b")
    broker.disconnect("a")
    broker.advance(100)

    assert asked == [True, False, False]
    assert broker.take_response("c") is not None


def test_waiting_connections_are_accepted_when_the_limit_is_raised() -> None:
    broker = Broker(config={_ALL: "1"})
    asked = [_ask(broker, name) for name in ("a", "b", "c")]
    change = AlterConfigsResource(4, "", [AlterableConfig(_ALL, 0, "3")])
    broker.call(IncrementalAlterConfigsRequest([change]), 1, connection="a")
    broker.advance(100)

    assert asked == [True, False, False]
    assert broker.take_response("b") is not None
    assert broker.take_response("c") is not None
    assert not _ask(broker, "d")


def test_connections_to_another_node_do_not_wait() -> None:
    broker = Broker(nodes=2, config={_ALL: "1"})

    assert [_ask(broker, "a"), _ask(broker, "b"), _ask(broker, "c", node=1)] == [True, False, True]


def test_a_node_that_restarts_while_connections_wait_accepts_new_ones() -> None:
    broker = Broker(nodes=2, config={_ALL: "1"})
    asked = [_ask(broker, name) for name in ("a", "b")]
    broker.kill_node(0)
    broker.advance(200)
    broker.start_node(0)

    assert asked == [True, False]
    assert _ask(broker, "c")


def test_a_connection_is_closed_when_it_was_idle_for_the_time() -> None:
    broker = Broker(config={_IDLE: "1000"})
    _ask(broker, "a")
    broker.advance(900)
    _ask(broker, "a")
    broker.advance(999)
    before = dict(broker.closed)
    broker.advance(1)

    assert before == {}
    assert broker.closed == {"a": "idle for 1000 ms, connections.max.idle.ms is 1000"}


def test_the_time_begins_with_the_answer_to_a_request_that_waited() -> None:
    broker = Broker(topics={"t": 1}, config={_IDLE: "1000"})
    wanted = FetchTopic(topic="t", partitions=[FetchPartition(partition=0, partition_max_bytes=1)])
    broker.send(FetchRequest(max_wait_ms=800, min_bytes=1, topics=[wanted]), 4)
    broker.advance(1_799)
    before = dict(broker.closed)
    broker.advance(1)

    assert broker.take_response() is not None
    assert before == {}
    assert list(broker.closed) == ["a"]


def test_a_connection_that_has_ended_is_not_closed_again() -> None:
    broker = Broker(config={_IDLE: "1000"})
    _ask(broker, "a")
    broker.disconnect("a")
    broker.advance(2_000)

    assert broker.closed == {}


def test_idle_connections_stay_open_if_the_time_is_not_set() -> None:
    broker = Broker()
    _ask(broker, "a")
    broker.advance(24 * 3_600_000)

    assert broker.closed == {}
    assert _ask(broker, "a")
