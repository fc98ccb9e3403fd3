"""Conformance notes about the journal of a running cluster."""

from __future__ import annotations

import asyncio
import time

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kwire.client import Client
from kwire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.messages.heartbeat import HeartbeatRequest
from kwire.messages.list_groups import ListGroupsRequest
from kwire.messages.metadata import MetadataRequest
from mockbroker import Cluster


def heartbeat_twice(cluster: Cluster, client_id: str) -> None:
    with Client(cluster.bootstrap_servers, client_id=client_id) as client:
        for _ in range(2):
            client.send(HeartbeatRequest(group_id="g", member_id="unknown", generation_id=1))


def test_notes_name_client_connection_node_and_exchanges() -> None:
    with Cluster() as cluster:
        heartbeat_twice(cluster, "a")
        [note] = cluster.conformance_notes()
        beats = cluster.exchanges("Heartbeat")

    assert (note.rule, note.client_id, note.node) == ("retry-after-fatal-error", "a", "node 0")
    assert (note.connection, note.client) == (beats[0].connection_id, beats[0].client)
    assert note.exchanges == (beats[0].number, beats[1].number)
    assert cluster.conformance_notes() == [note]


def test_coroutines_of_the_cluster_have_the_same_notes() -> None:
    async def check(cluster: Cluster) -> None:
        assert await cluster.aio.conformance_notes() == cluster.conformance_notes() != []
        assert await cluster.aio.conformance_notes(client_id="b") == []
        await cluster.aio.assert_conformant(ignore=["retry-after-fatal-error"])
        with pytest.raises(AssertionError, match="1 conformance note"):
            await cluster.aio.assert_conformant()

    with Cluster() as cluster:
        heartbeat_twice(cluster, "a")
        asyncio.run(check(cluster))


def test_an_assertion_lists_the_notes_that_are_not_ignored() -> None:
    with Cluster() as cluster:
        heartbeat_twice(cluster, "a")

        with pytest.raises(AssertionError) as failure:
            cluster.assert_conformant()
        cluster.assert_conformant(ignore=["retry-after-fatal-error"])
        cluster.assert_conformant(client_id="b")
        with pytest.raises(ValueError, match="no conformance rule"):
            cluster.assert_conformant(ignore=["retry"])
        cluster.reset()
        cluster.assert_conformant()

    lines = str(failure.value).splitlines()
    assert lines[0] == "1 conformance note (docs/conformance.md):"
    text = "sent Heartbeat again unchanged after UNKNOWN_MEMBER_ID"
    assert lines[1].startswith(f"  warning retry-after-fatal-error: {text} [client 'a' (127.0.0.1:")


def test_a_member_that_does_not_leave_is_a_note_once_its_client_has_closed() -> None:
    join = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", rebalance_timeout_ms=1000, subscribed_topic_names=("t",), topic_partitions=[]
    )
    with Cluster(topics=["t"]) as cluster:
        with Client(cluster.bootstrap_servers, client_id="a") as client:
            client.send(join)
            assert cluster.conformance_notes() == []
        cluster.wait_until(cluster.conformance_notes)
        with Client(cluster.bootstrap_servers, client_id="a") as client:
            client.send(MetadataRequest())
            assert cluster.conformance_notes() == []
        cluster.wait_until(cluster.conformance_notes)

    assert [note.rule for note in cluster.conformance_notes()] == ["group-left-without-leave"]


def test_librdkafka_sends_a_few_bytes_too_many() -> None:
    """Source: AdminClient.list_topics of librdkafka 2.15 has bytes behind the end of its Metadata request."""
    with Cluster() as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
        admin.create_topics([NewTopic("t", 1)])["t"].result(10)
        admin.list_topics(timeout=10)
        notes = cluster.conformance_notes()

    assert {note.rule for note in notes} == {"malformed-request"}
    text = "sent Metadata v13, which is not as its schema says: MetadataRequest: 3 bytes behind the end are ignored"
    assert notes[0].text == text


def test_there_are_no_notes_about_librdkafka() -> None:
    with Cluster(topics=["t"], profile="quick") as cluster:
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True})
        producer.produce("t", b"v")
        assert producer.flush(10) == 0
        consumer = Consumer(
            {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
        )
        consumer.subscribe(["t"])
        message = consumer.poll(10)
        consumer.close()
        cluster.assert_conformant()

    assert message is not None
    assert message.value() == b"v"


def test_a_throttled_client_that_sends_at_once_and_closes_is_noticed() -> None:
    with Cluster() as cluster:
        cluster.faults.add("ListGroups", throttle_ms=60_000)
        with Client(cluster.bootstrap_servers, client_id="hasty") as client:
            client.send(ListGroupsRequest())
            later = time.monotonic() + 0.03  # Within 20 ms the client may not know the response.
            cluster.wait_until(lambda: time.monotonic() > later)
            client.submit(MetadataRequest(topics=[]), 12)
            cluster.wait_for_request("Metadata")
        [note] = cluster.conformance_notes()
        [exchange] = cluster.exchanges("Metadata")
        cluster.requests("Metadata").assert_count(1)

    assert (note.rule, note.client_id, note.exchanges[-1]) == ("throttle-ignored", "hasty", exchange.number)
    assert (exchange.is_unread, exchange.answered_ms) == (True, None)
