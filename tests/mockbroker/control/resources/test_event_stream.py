"""The stream of events: what is in it, readers that come back, that are slow, and that are many."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from kwire import Client, uuids
from kwire.messages.list_groups import ListGroupsRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from kwire.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from mockbroker import Cluster
from mockbroker.control.events.event_hub import EventHub
from mockbroker.control.events.event_ring import Event, EventRing
from mockbroker.control.events.state_scan import ClockView
from mockbroker.control.resources.event_stream import EventQuestion, send_events
from tests.support.brokers.control_client import ControlClient, StreamedEvent


@pytest.fixture
def kafka() -> Iterator[Cluster]:
    with Cluster(control=0, topics=["orders"], profile="quick") as cluster:
        yield cluster


@pytest.fixture
def client(kafka: Cluster) -> ControlClient:
    return ControlClient(kafka.control_url)


def _take(events: Iterator[StreamedEvent], *kinds: str) -> list[StreamedEvent]:
    """The next events, which must be of these kinds."""
    taken = [next(events) for _ in kinds]
    assert [event.kind for event in taken] == list(kinds)
    return taken


def _find(events: Iterator[StreamedEvent], kind: str) -> StreamedEvent:
    """The next event of a kind."""
    return next(event for event in events if event.kind == kind)


def test_requests_are_in_the_stream_when_they_come_and_when_they_are_answered(
    kafka: Cluster, client: ControlClient
) -> None:
    with (
        client.events("?kinds=request,exchange&api=ListGroups") as events,
        Client(kafka.bootstrap_servers, client_id="a") as sender,
    ):
        (start,) = _take(events, "start")
        sender.send(ListGroupsRequest())
        (answered, arrived) = sorted(next(events) for _ in range(2))

    assert start.body == {"kinds": ["request", "exchange"]}
    assert (arrived.body["api"], arrived.body["clientId"]) == ("ListGroups", "a")
    assert (answered.body["number"], answered.body["errors"]) == (arrived.body["number"], [])


def test_filters_choose_requests_and_bodies_are_sent_if_they_are_asked_for(
    kafka: Cluster, client: ControlClient
) -> None:
    kafka.faults.add("Metadata", error="LEADER_NOT_AVAILABLE", name="f")
    query = "?kinds=exchange&api=Metadata&clientId=b&bodies=true"
    with client.events(query) as events, Client(kafka.bootstrap_servers, client_id="b") as sender:
        _take(events, "start")
        sender.send(ListGroupsRequest())
        sender.send(MetadataRequest(topics=None))
        (exchange,) = _take(events, "exchange")

    assert (exchange.body["api"], exchange.body["faults"]) == ("Metadata", ["f"])
    assert exchange.body["errors"] == ["LEADER_NOT_AVAILABLE"]
    assert (exchange.body["request"]["topics"], exchange.body["response"]["topics"]) == (None, [])


def test_changes_of_the_cluster_are_in_the_stream(kafka: Cluster, client: ControlClient) -> None:
    with client.events("?kinds=group,topic,node,fault,chaos,clock,reset") as events:
        _take(events, "start")
        with Client(kafka.bootstrap_servers) as sender:
            sender.send(ShareGroupHeartbeatRequest("g", "m", 0, subscribed_topic_names=("orders",)))
        group = _find(events, "group")
        client.ask("POST", "/v1/clock/advance", {"durationMs": 60_000})
        moved = _find(events, "clock")
        client.ask("POST", "/v1/clock/freeze")
        clock = _find(events, "clock")
        client.ask("POST", "/v1/faults", {"when": {"api": "Fetch"}, "then": {"drop": "close"}}, status=201)
        fault = _find(events, "fault")
        started = client.ask("POST", "/v1/chaos", {"profile": "slow-network", "seed": 7}, status=201)
        chaos = _find(events, "chaos")
        client.ask("POST", "/v1/cluster/reset", status=204)
        _find(events, "reset")
        gone = _find(events, "group")

    assert (group.body["groupId"], group.body["kind"]) == ("g", "share")
    assert (moved.body["mode"], clock.body["mode"]) == ("running", "frozen")
    assert 0 <= clock.body["nowMs"] - moved.body["nowMs"] < 60_000
    assert chaos.body == started
    assert (fault.body["number"], fault.body["hits"]) == (1, 0)
    assert gone.body == {"removed": True, "key": ["g"]}


def test_a_share_partition_is_in_the_stream_with_its_records_in_flight(kafka: Cluster, client: ControlClient) -> None:
    member = uuids.to_text(bytes(range(16)))
    topic_id = uuids.from_text(kafka.describe_topic("orders").topic_id)
    topics = [FetchTopic(topic_id, [FetchPartition(partition_index=0)])]
    with client.events("?kinds=share-partition") as events, Client(kafka.bootstrap_servers) as sender:
        _take(events, "start")
        joined = sender.send(ShareGroupHeartbeatRequest("g", member, 0, subscribed_topic_names=("orders",)))
        sender.send(ShareGroupHeartbeatRequest("g", member, joined.member_epoch))
        kafka.wait_for_share_members("g", 1, is_active=False)
        sender.send(ShareFetchRequest("g", member, 0, max_records=10, topics=topics))
        kafka.produce("orders", "x")
        sender.send(ShareFetchRequest("g", member, 1, max_wait_ms=30_000, min_bytes=1, max_records=10, batch_size=10))
        in_flight = next(event.body for event in events if event.body["inFlight"])

    (run,) = in_flight["inFlight"]
    assert (in_flight["groupId"], in_flight["topic"], in_flight["partition"]) == ("g", "orders", 0)
    assert (run["state"], run["memberId"], run["deliveryCount"]) == ("ACQUIRED", member, 1)
    assert 0 < run["lockRemainingMs"] <= 30_000


def test_a_reader_that_comes_back_goes_on_behind_its_last_event(kafka: Cluster, client: ControlClient) -> None:
    with Client(kafka.bootstrap_servers) as sender:
        with client.events("?kinds=exchange") as events:
            _take(events, "start")
            sender.send(ListGroupsRequest())
            (first,) = _take(events, "exchange")
        sender.send(MetadataRequest(topics=None))
        assert first.event_id is not None
        with client.events("?kinds=exchange", {"Last-Event-ID": first.event_id}) as events:
            _, missed = _take(events, "start", "exchange")
        with client.events("?kinds=exchange&lastEventId=other-7") as events:
            _, lost = _take(events, "start", "lost")

    assert (first.body["api"], missed.body["api"]) == ("ListGroups", "Metadata")
    assert lost.body == {"count": None}


def test_a_slow_reader_loses_the_oldest_events_and_is_sent_their_number(kafka: Cluster) -> None:
    async def read_slowly() -> list[bytes]:
        hub = EventHub(kafka, ring=EventRing(events_max=8))
        reader = await hub.add_reader(frozenset({"clock"}))
        stream = send_events(hub, reader, EventQuestion(("clock",), None, (), has_bodies=False), {})
        parts = [await anext(stream)]
        for time_ms in range(20):
            hub.ring.put(Event("clock", time_ms, ClockView("frozen", time_ms, 0), 100))
        parts += [await anext(stream), await anext(stream)]
        await stream.aclose()
        assert hub.reader_count == 0
        hub.stop()
        return parts

    start, lost, newest = asyncio.run(read_slowly())

    assert b"event: start" in start
    assert lost == b'event: lost\ndata: {"count":12}\n\n'
    assert newest.count(b"event: clock") == 8


def test_a_hundred_readers_get_every_event_and_leave_nothing_behind(kafka: Cluster, client: ControlClient) -> None:
    with ExitStack() as stack, Client(kafka.bootstrap_servers) as sender:
        streams = [stack.enter_context(client.events("?kinds=exchange&api=ListGroups")) for _ in range(100)]
        for events in streams:
            _take(events, "start")
        for _ in range(20):
            sender.send(ListGroupsRequest())
        numbers = {tuple(event.body["number"] for event in _take(events, *["exchange"] * 20)) for events in streams}

    assert numbers == {tuple(range(2, 22))}
    assert kafka._control is not None
    assert kafka._control.server is not None
    hub = kafka._control.server.hub
    kafka.wait_until(lambda: hub.reader_count == 0, timeout_s=30)


def test_without_readers_nothing_is_recorded() -> None:
    with Cluster(control=0) as cluster:
        assert cluster.run(lambda server: len(server.require_started().watchers)) == 0
        assert cluster.journal.on_answer == []


def test_the_stream_ends_with_the_cluster() -> None:
    with Cluster(control=0) as cluster:
        stack = ExitStack()
        events = stack.enter_context(ControlClient(cluster.control_url).events())
        _take(events, "start")
    with stack:
        assert list(events) == []
