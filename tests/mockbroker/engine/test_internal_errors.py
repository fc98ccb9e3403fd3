"""Internal errors of a cluster with sockets: each ends only what caused it, is logged once, and leaves nothing."""

from __future__ import annotations

import copy
import logging
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from kwire import Client
from kwire.client import ClientError
from kwire.messages.describe_cluster import DescribeClusterRequest
from kwire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.metadata import MetadataRequest
from mockbroker import Cluster
from mockbroker.engine.internal_errors import InternalErrors, collect_internal_errors
from mockbroker.server import Server
from tests.support.stubborn_clients import stop_within_limit


class Defect(Exception):
    """What nobody expects."""


def _fail(*_: object, **__: object) -> None:
    raise Defect("broken")


@pytest.fixture
def cluster(caplog: pytest.LogCaptureFixture) -> Iterator[Cluster]:
    caplog.set_level(logging.ERROR, "mockbroker")
    with Cluster(nodes=2, topics=["orders"], stop_grace_ms=100) as running:
        yield running
        stop_within_limit(running)


@pytest.fixture
def other(cluster: Cluster) -> Iterator[Client]:
    """A client that has nothing to do with the errors: it is served before and afterwards."""
    with Client(cluster.bootstrap_servers) as client:
        client.send(MetadataRequest(topics=None))
        yield client
        assert client.send(MetadataRequest(topics=None)).topics[0].name == "orders"


def _take_one(found: list[str], caplog: pytest.LogCaptureFixture) -> str:
    """The only internal error, which is in the log with its traceback; it is taken from the list."""
    (line,) = found
    found.clear()
    records = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [record.getMessage() for record in records] == [line]
    assert records[0].exc_info is not None
    assert isinstance(records[0].exc_info[1], Defect)
    return line


def _connection_count(cluster: Cluster) -> int:
    """The connections that the sockets or the core still list."""
    return cluster.run(lambda server: len({*server.require_started()._connections, *server.core._connections}))


def test_an_error_of_an_action_between_nodes_reaches_neither_clients_nor_other_actions(
    cluster: Cluster, other: Client, internal_errors: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[int] = []

    def schedule(server: Server) -> None:
        channel = server.core.state.inter_broker
        for action in (ran.append, _fail, ran.append):
            channel.schedule(0, action, now_ms=server.core.now_ms, owner=1)

    cluster.run(schedule)

    assert len(ran) == 2
    line = _take_one(internal_errors, caplog)
    assert line.startswith("internal error in the deadline _fail of node 1 at ")
    assert line.endswith("ms: Defect('broken')")
    assert other is not None


def test_a_call_whose_handler_fails_is_answered_with_the_error_of_kafka(
    cluster: Cluster, other: Client, internal_errors: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    answers: list[Any] = []

    def call(server: Server) -> None:
        channel, now_ms = server.core.state.inter_broker, server.core.now_ms
        channel.call(to=1, handle=_fail, done=lambda answer, _: answers.append(answer), now_ms=now_ms)

    cluster.run(call)

    assert [answer.code.name for answer in answers] == ["UNKNOWN_SERVER_ERROR"]
    assert "a call from node None that node 1 handles" in _take_one(internal_errors, caplog)


def test_a_timer_that_fails_ends_alone_and_the_others_of_its_time_run(
    cluster: Cluster, other: Client, internal_errors: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[int] = []

    def set_timers(server: Server) -> None:
        timers, due_ms = server.core.state.nodes[0].groups.timers, server.core.now_ms + 1
        for name, action in (("a", ran.append), ("b", _fail), ("c", ran.append)):
            timers.set_timer((name, "g"), due_ms, action)

    cluster.run(set_timers)
    cluster.clock.advance(1_000)

    assert len(ran) == 2
    assert "a deadline of GroupLog of node 0 at " in _take_one(internal_errors, caplog)


def test_a_component_that_stays_due_is_tried_later_each_time(
    cluster: Cluster, other: Client, internal_errors: list[str]
) -> None:
    tries: list[int] = []

    class Broken:
        """Due at all times."""

        def next_deadline_ms(self) -> int:
            return 0

        def expire(self, *, now_ms: int) -> None:
            tries.append(now_ms)
            raise Defect("broken")

    cluster.clock.freeze()

    def add(server: Server) -> None:
        server.core.state.nodes[0].with_deadlines.append(Broken())
        server.core.state.earliest_deadline.ms = 0

    cluster.run(add)
    start_ms = cluster.clock.now_ms()
    cluster.clock.advance(7_000)

    assert [time_ms - start_ms for time_ms in dict.fromkeys(tries)] == [0, 1_000, 3_000, 7_000]
    assert len(internal_errors) == len(tries) == 5 * 4
    cluster.run(lambda server: server.core.state.nodes[0].with_deadlines.clear())
    internal_errors.clear()


def test_a_watcher_that_fails_is_not_called_again(
    cluster: Cluster, other: Client, internal_errors: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    cluster.run(lambda server: server.require_started().watchers.add(_fail))
    cluster.clock.advance(1)

    assert "after an event, which is not called again" in _take_one(internal_errors, caplog)


def test_a_connection_whose_start_fails_is_closed_and_leaves_nothing(
    cluster: Cluster, other: Client, internal_errors: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    host, port = cluster.bootstrap_servers.split(",")[0].split(":")
    cluster.run(lambda server: setattr(server.core.requests, "admit", _fail))
    with socket.create_connection((host, int(port)), timeout=30) as refused, suppress(ConnectionResetError):
        assert refused.recv(1) == b""
    cluster.run(lambda server: delattr(server.core.requests, "admit"))
    cluster.wait_until(lambda: _connection_count(cluster) == 1)

    assert "the admission of connection 2 (127.0.0.1:" in _take_one(internal_errors, caplog)


def test_a_connection_whose_end_fails_leaves_nothing(
    cluster: Cluster, other: Client, internal_errors: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    cluster.run(lambda server: [node.share_sessions for node in server.core.state.nodes.values()])
    close_share_session = cluster.run(lambda server: server.core._close_share_session)
    cluster.run(lambda server: setattr(server.core, "_close_share_session", _fail))
    with Client(cluster.bootstrap_servers) as client:
        client.send(MetadataRequest(topics=None))
    cluster.wait_until(lambda: internal_errors)

    assert "the end of connection 2 at node 0" in _take_one(internal_errors, caplog)
    cluster.run(lambda server: setattr(server.core, "_close_share_session", close_share_session))
    cluster.wait_until(lambda: _connection_count(cluster) == 1)


def test_a_request_that_fails_ends_its_connection_alone(
    cluster: Cluster, other: Client, internal_errors: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    def break_route(server: Server) -> None:
        routes = dict(server.core.routes)
        broken = routes[60] = copy.copy(routes[60])
        broken.__dict__["handler"] = _fail
        server.core.routes = routes

    cluster.run(break_route)
    with Client(cluster.bootstrap_servers) as client, pytest.raises(ClientError):
        client.send(DescribeClusterRequest())
    cluster.wait_until(lambda: _connection_count(cluster) == 1)

    assert "DescribeCluster v2 of connection 2 (127.0.0.1:" in _take_one(internal_errors, caplog)


def test_a_request_that_fails_when_another_client_wakes_it_ends_its_own_connection(
    cluster: Cluster, other: Client, internal_errors: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    def break_parked(server: Server) -> None:
        core = server.core
        for key in core.requests.purgatory.all_keys():
            for delayed in core.requests.purgatory.requests_waiting_for(key):
                delayed.park = msgspec.structs.replace(delayed.park, resume=_fail)

    topic_id = other.send(MetadataRequest(topics=None)).topics[0].topic_id
    leader = cluster.describe_topic("orders").partitions[0].leader
    with Client(cluster.bootstrap_servers.split(",")[leader]) as waiting:
        topic = FetchTopic(topic_id=topic_id, partitions=[FetchPartition(partition_max_bytes=1_000)])
        pending = waiting.submit(FetchRequest(max_wait_ms=60_000, min_bytes=1, topics=[topic]), 17)
        cluster.wait_until(lambda: cluster.run(lambda server: server.core.parked_count) == 1)
        cluster.run(break_parked)
        cluster.produce("orders", b"v")
        with pytest.raises(ClientError):
            pending.result()
    cluster.wait_until(lambda: _connection_count(cluster) == 1)

    assert "Fetch v17 of connection 2 (127.0.0.1:" in _take_one(internal_errors, caplog)


def test_without_sockets_an_internal_error_is_raised_and_collected(internal_errors: list[str]) -> None:
    with collect_internal_errors() as found, pytest.raises(Defect):
        InternalErrors().report("a test", Defect("broken"))

    assert found == internal_errors == ["internal error in a test: Defect('broken')"]
    internal_errors.clear()
