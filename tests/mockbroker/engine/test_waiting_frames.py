"""What has arrived is in the journal before it is read, and also where its connection ends before."""

from __future__ import annotations

import pytest

from kwire import headers
from kwire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.list_groups import ListGroupsRequest
from kwire.messages.metadata import MetadataRequest
from mockbroker.journal import Exchange
from tests.support.brokers.faulty_broker import FaultyBroker
from tests.support.brokers.share_members import ShareBroker


def _throttled(throttle_ms: int = 5_000) -> FaultyBroker:
    """A cluster with a muted connection "a"."""
    broker = FaultyBroker()
    broker.add("ListGroups", throttle_ms=throttle_ms, times=1)
    broker.call(ListGroupsRequest(), 5)
    return broker


def _exchanges(broker: FaultyBroker) -> list[Exchange]:
    """What has arrived on the connections "a" and "b"."""
    names = ("client-a", "client-b")
    return [each for each in broker.core.journal if each.client_id in names or each.client_id is None]


def _states(broker: FaultyBroker | ShareBroker, api: str) -> list[tuple[bool, bool]]:
    """Of each exchange whether it is unread, and whether it is answered."""
    return [(each.is_unread, each.answered_ms is not None) for each in broker.core.journal.exchanges(api)]


def test_a_request_on_a_muted_connection_is_in_the_journal_when_it_arrives() -> None:
    broker = _throttled()
    broker.send(MetadataRequest(topics=[]), 12)
    unread = _states(broker, "Metadata")
    broker.advance(5_000)
    [exchange] = broker.core.journal.exchanges("Metadata")

    assert unread == [(True, False)]
    assert (exchange.is_unread, exchange.answered_ms, exchange.arrived_ms) == (False, broker.now_ms, 1_000_000)
    assert broker.take_response() is not None


def test_a_request_that_is_never_read_stays_marked() -> None:
    broker = _throttled()
    broker.send(MetadataRequest(topics=[]), 12)
    broker.send(ListGroupsRequest(), 5)
    broker.disconnect("a")
    broker.advance(60_000)
    exchanges = _exchanges(broker)

    assert [(each.api_name, each.is_unread) for each in exchanges] == [
        ("ListGroups", False),
        ("Metadata", True),
        ("ListGroups", True),
    ]
    assert repr(exchanges[1]).endswith("to node 0, not read>")
    assert exchanges[1].to_json()["unread"] is True
    assert exchanges[1].request == MetadataRequest(topics=[])


def test_requests_behind_one_that_waits_are_unread_until_it_is_answered() -> None:
    broker = ShareBroker()
    topic = FetchTopic(topic_id=broker.topic_id("A"), partitions=[FetchPartition(partition_max_bytes=1_000)])
    assert broker.call(FetchRequest(max_wait_ms=500, min_bytes=1, topics=[topic]), 17) is None
    broker.send(MetadataRequest(topics=[]), 12)
    before = _states(broker, "Metadata")
    broker.advance(500)

    assert before == [(True, False)]
    assert _states(broker, "Metadata") == [(False, True)]
    assert [each.api_name for each in broker.core.journal][-2:] == ["Fetch", "Metadata"]


def test_a_request_on_a_connection_that_stops_with_its_node_stays_unread() -> None:
    broker = FaultyBroker(nodes=2)
    broker.add("ListGroups", throttle_ms=5_000)
    broker.call(ListGroupsRequest(), 5)
    broker.send(MetadataRequest(topics=[]), 12)
    broker.kill_node(0)

    assert _states(broker, "Metadata") == [(True, False)]


def test_an_unread_frame_that_does_not_decode_closes_the_connection_when_it_is_read() -> None:
    broker = _throttled()
    number = broker.connect("a")
    frame = headers.encode_request(ListGroupsRequest(), 5, 9, "x")
    broker.core.submit(number, frame[:3] + b"\x63" + frame[4:], broker.now_ms)
    *others, exchange = _exchanges(broker)
    before = exchange.is_unread, exchange.closed
    broker.advance(5_000)

    assert before == (True, None)
    assert not exchange.is_unread
    assert exchange.closed == broker.closed["a"]
    assert _exchanges(broker) == [*others, exchange]


def test_what_arrives_on_a_connection_that_is_being_closed_is_no_request() -> None:
    broker = FaultyBroker()
    broker.add("ListGroups", drop=True)
    broker.send(ListGroupsRequest(), 5)
    broker.send(MetadataRequest(topics=[]), 12)

    assert broker.core.journal.exchanges("Metadata") == []


@pytest.mark.parametrize("count", [1, 3])
def test_unread_requests_are_numbered_by_arrival(count: int) -> None:
    broker = _throttled()
    for _ in range(count):
        broker.send(MetadataRequest(topics=[]), 12)
    broker.call(ListGroupsRequest(), 5, connection="b")
    broker.advance(5_000)
    exchanges = _exchanges(broker)
    first = exchanges[0].number

    assert [each.number for each in exchanges] == list(range(first, first + count + 2))
    assert [each.client_id for each in exchanges] == [*["client-a"] * (count + 1), "client-b"]
    assert not any(each.is_unread for each in exchanges)
