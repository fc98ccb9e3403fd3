"""Requests that a fault holds until the test releases them, whatever the clock does."""

from __future__ import annotations

import asyncio

import pytest

from kwire import Client
from kwire.messages.list_groups import ListGroupsRequest
from mockbroker import Cluster, WaitTimeout
from mockbroker.faults import FaultError
from tests.support.brokers.faulty_broker import FaultyBroker
from tests.support.brokers.producer import produce, record_batch


def _send(broker: FaultyBroker, *connections: str) -> None:
    for connection in connections:
        broker.send(ListGroupsRequest(), 5, connection=connection)


def _answered(broker: FaultyBroker, *connections: str) -> str:
    broker.advance(0)
    return "".join(connection for connection in connections if broker.take_response(connection) is not None)


def test_a_request_waits_until_it_is_released_and_is_then_handled() -> None:
    broker = FaultyBroker()
    fault = broker.add("Produce", hold=True)
    broker.send(produce(broker.topic("A"), record_batch()), 13)
    broker.advance(3_600_000)
    before = broker.take_response(), broker.leader_log("A").end_offset, fault.held, fault.hits
    released = fault.release()
    broker.advance(0)

    assert before == (None, 0, 1, 1)
    assert (released, fault.held) == (1, 0)
    assert broker.take_response().responses[0].partition_responses[0].error_code == 0
    assert broker.leader_log("A").end_offset == 1


def test_after_the_work_the_answer_is_held() -> None:
    broker = FaultyBroker()
    fault = broker.add("Produce", hold=True, after=True)
    broker.send(produce(broker.topic("A"), record_batch()), 13)
    before = broker.take_response(), broker.leader_log("A").end_offset, fault.held
    fault.release()
    broker.advance(0)

    assert before == (None, 1, 1)
    assert broker.take_response() is not None


def test_requests_are_released_in_their_order_and_later_ones_are_held_on() -> None:
    broker = FaultyBroker()
    fault = broker.add("ListGroups", hold=True)
    _send(broker, "a", "b", "c")
    first = fault.release(2), _answered(broker, "a", "b", "c")
    _send(broker, "a")
    held = fault.held
    rest = fault.release(), _answered(broker, "a", "b", "c")
    _send(broker, "b")

    assert first == (2, "ab")
    assert held == 2
    assert rest == (2, "ac")
    assert _answered(broker, "b") == "b"


def test_a_fault_can_hold_again() -> None:
    broker = FaultyBroker()
    fault = broker.add("ListGroups", error="COORDINATOR_LOAD_IN_PROGRESS")
    assert broker.call(ListGroupsRequest(), 5).error_code == 14
    fault.hold()
    _send(broker, "a")
    assert (_answered(broker, "a"), fault.held) == ("", 1)
    fault.release()
    broker.advance(0)

    assert broker.take_response().error_code == 14
    assert broker.call(ListGroupsRequest(), 5).error_code == 14


@pytest.mark.parametrize("end", ["remove", "clear", "with"])
def test_the_end_of_a_fault_releases_what_it_holds(end: str) -> None:
    broker = FaultyBroker()
    with broker.add("ListGroups", hold=True) as fault:
        _send(broker, "a")
        if end == "remove":
            fault.remove()
        elif end == "clear":
            broker.faults.clear()

    assert _answered(broker, "a") == "a"


def test_two_faults_hold_one_after_the_other() -> None:
    broker = FaultyBroker()
    first, second = broker.add("ListGroups", hold=True), broker.add("ListGroups", hold=True, delay_ms=5)
    _send(broker, "a")
    assert (first.held, second.held) == (0, 0)
    broker.advance(5)
    assert (first.held, second.held) == (1, 0)
    first.release()
    broker.advance(0)
    assert (first.held, second.held) == (0, 1)
    second.release()

    assert _answered(broker, "a") == "a"


def test_a_request_whose_connection_ends_is_not_held_any_more() -> None:
    broker = FaultyBroker()
    fault = broker.add("ListGroups", hold=True)
    _send(broker, "a", "b")
    broker.disconnect("a")

    assert fault.held == 1
    assert fault.release(5) == 1
    assert _answered(broker, "b") == "b"


def test_only_requests_are_held() -> None:
    broker = FaultyBroker()
    connections = broker.add(on="connection", drop=True, optional=True)
    nodes = broker.faults.schedule("expire-sessions", optional=True)
    for fault in (connections, nodes):
        with pytest.raises(FaultError, match="only faults of requests hold them"):
            fault.hold()
    with pytest.raises(FaultError, match="count: 0 is not a whole number from 1 on"):
        broker.add("ListGroups", hold=True).release(0)


def test_a_test_waits_until_a_request_is_held_and_releases_it() -> None:
    with Cluster() as cluster, Client(cluster.bootstrap_servers) as client:
        with cluster.faults.add("ListGroups", hold=True) as fault:
            pending = client.submit(ListGroupsRequest())
            assert cluster.wait_for_held(fault) == 1
            assert not pending.done
            fault.release()
            assert pending.result(10).error_code == 0
            with pytest.raises(
                WaitTimeout, match=r"waited 0 s for 2 requests held by .*; seen instead: 0, and it does"
            ):
                cluster.wait_for_held(fault, 2, timeout_s=0)
        with pytest.raises(ValueError, match="count=0"):
            cluster.wait_for_held(fault, 0)


def test_a_coroutine_waits_until_a_request_is_held_while_the_clock_stands_still() -> None:
    async def check(cluster: Cluster, client: Client) -> None:
        with cluster.faults.add("ListGroups", hold=True) as fault:
            pending = client.submit(ListGroupsRequest())
            assert await cluster.aio.wait_for_held(fault) == 1
            assert fault.release() == 1
            assert pending.result(10).error_code == 0

    with Cluster() as cluster, Client(cluster.bootstrap_servers) as client:
        cluster.clock.freeze()
        asyncio.run(check(cluster, client))


def test_a_cluster_stops_while_a_request_is_held() -> None:
    with Cluster() as cluster, Client(cluster.bootstrap_servers) as client:
        fault = cluster.faults.add("ListGroups", hold=True)
        client.submit(ListGroupsRequest())
        cluster.wait_for_held(fault)

    assert fault.hits == 1
