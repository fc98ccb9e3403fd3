"""New connections over a limit: accepted later, in their order, or closed later; on the cluster's clock."""

from __future__ import annotations

from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.support.brokers.broker import Broker
from tests.support.client_quotas import set_quota

_RATE = "max.connection.creation.rate"
_ADDRESS = {"ip": "127.0.0.1"}


def _connect(broker: Broker, count: int, *, prefix: str = "c", listener: str = "PLAINTEXT") -> list[str]:
    """Connections that send a request each. Returns: their names."""
    names = [f"{prefix}{number}" for number in range(count)]
    for name in names:
        broker.connect(name, listener=listener)
        broker.send(ApiVersionsRequest(), 0, connection=name)
    return names


def _answered(broker: Broker, names: list[str]) -> list[bool]:
    return [broker.take_response(name) is not None for name in names]


def test_connections_over_the_rate_of_the_broker_are_accepted_one_after_another() -> None:
    broker = Broker(config={_RATE: "2"})
    names = _connect(broker, 23)
    at_once = _answered(broker, names)
    broker.advance(499)
    before = _answered(broker, names)
    broker.advance(1)
    second = _answered(broker, names)
    broker.advance(500)
    third = _answered(broker, names)
    broker.advance(1_000)

    # 21 connections in 10 seconds are at their limit again half a second later, 22 in 10.5 seconds as well; 23 in 11
    # windows, of which one is over, have to wait for more than the longest time.
    assert at_once == [True] * 20 + [False] * 3
    assert not any(before)
    assert second == [False] * 20 + [True, False, False]
    assert third == [False] * 21 + [True, False]
    assert _answered(broker, names) == [False] * 22 + [True]


def test_a_limit_of_one_listener_is_not_for_another_one() -> None:
    config = {
        "listeners": "A://127.0.0.1:0,B://127.0.0.1:0",
        "listener.security.protocol.map": "A:PLAINTEXT,B:PLAINTEXT",
    }
    broker = Broker(config={**config, f"listener.name.a.{_RATE}": "1"})
    limited = _connect(broker, 12, prefix="a", listener="A")
    free = _connect(broker, 12, prefix="b", listener="B")

    assert _answered(broker, limited) == [True] * 10 + [False] * 2
    assert _answered(broker, free) == [True] * 12


def test_a_limit_can_be_set_while_the_broker_runs_and_counts_earlier_connections() -> None:
    broker = Broker()
    early = _connect(broker, 9, prefix="early")
    change = AlterConfigsResource(4, "", [AlterableConfig(_RATE, 0, "1")])
    broker.call(IncrementalAlterConfigsRequest([change]), 1, connection="early0")
    late = _connect(broker, 2, prefix="late")

    assert _answered(broker, early) == [True] * 9
    assert _answered(broker, late) == [True, False]


def test_connections_over_the_quota_of_their_address_are_closed_after_the_time_and_never_answered() -> None:
    broker = Broker()
    set_quota(broker, _ADDRESS, "connection_creation_rate", 1)
    names = _connect(broker, 12)
    broker.advance(999)
    before = dict(broker.closed)
    broker.advance(1)

    assert before == {}
    assert sorted(broker.closed) == ["c10", "c11"]
    assert "connection_creation_rate" in broker.closed["c10"]
    assert _answered(broker, names) == [True] * 10 + [False] * 2


def test_an_address_may_connect_again_when_the_windows_have_passed() -> None:
    broker = Broker()
    set_quota(broker, _ADDRESS, "connection_creation_rate", 1)
    _connect(broker, 11)
    broker.advance(12_000)
    names = _connect(broker, 1, prefix="later")

    assert _answered(broker, names) == [True]


def test_a_client_that_ends_before_it_is_accepted_is_passed_over() -> None:
    broker = Broker(config={_RATE: "1"})
    names = _connect(broker, 12)
    broker.disconnect("c10")
    broker.advance(2_000)

    assert _answered(broker, ["c11"]) == [True]
    assert len(names) == 12


def test_a_client_that_ends_before_it_is_closed_is_passed_over() -> None:
    broker = Broker()
    set_quota(broker, _ADDRESS, "connection_creation_rate", 1)
    _connect(broker, 11)
    broker.disconnect("c10")
    broker.advance(2_000)

    assert broker.closed == {}


def test_a_restarted_node_counts_from_the_beginning() -> None:
    broker = Broker(nodes=2, config={_RATE: "1"})
    _connect(broker, 12)
    broker.kill_node(0)
    broker.advance(0)
    broker.start_node(0)
    names = _connect(broker, 10, prefix="again")

    assert _answered(broker, names) == [True] * 10


def test_the_clock_jumps_to_the_time_at_which_a_waiting_client_is_accepted() -> None:
    broker = Broker(config={_RATE: "2"})
    _connect(broker, 21)

    assert broker.core.next_awaited_ms() == broker.now_ms + 500
