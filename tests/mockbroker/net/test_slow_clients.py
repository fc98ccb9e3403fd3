"""Clients that do not read their responses hold a limited amount of memory together, and do not stop the others."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, Iterator

import pytest

from kwire import Client, headers
from kwire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.metadata import MetadataRequest
from mockbroker import Cluster
from tests.support.brokers.producer import produce, record_batch

LIMIT = 1 << 20
RESPONSE_BYTES = 8 << 20
_FETCH, _PRODUCE = 11, 13


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    properties = {"mockbroker.queued.response.bytes": LIMIT, "message.max.bytes": 2 * RESPONSE_BYTES}
    with Cluster(topics={"t": 1}, properties=properties) as running:
        topic = running.run(lambda server: server.core.state.metadata.topic("t"))
        assert topic is not None
        with Client(running.bootstrap_servers) as client:
            client.send(produce(topic, record_batch(1, RESPONSE_BYTES)), _PRODUCE)
        yield running


def _fetch(*, wait_ms: int = 0, offset: int = 0) -> bytes:
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 30)
    request = FetchRequest(
        max_wait_ms=wait_ms, min_bytes=1, max_bytes=1 << 30, topics=[FetchTopic(topic="t", partitions=[partition])]
    )
    frame = headers.encode_request(request, _FETCH, 1, "slow")
    return len(frame).to_bytes(4, "big") + frame


def _connect(cluster: Cluster) -> socket.socket:
    host, port = cluster.bootstrap_servers.rsplit(":", 1)
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 << 10)
    sock.settimeout(20)
    sock.connect((host, int(port)))
    return sock


def _read_response(sock: socket.socket) -> int:
    """Read a whole response; its size, 0 when the connection ends before."""
    size = int.from_bytes(sock.recv(4, socket.MSG_WAITALL), "big")
    left = size
    while left:
        try:
            data = sock.recv(min(left, 1 << 20))
        except ConnectionResetError:
            return 0
        if not data:
            return 0
        left -= len(data)
    return size


def _wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def _unsent(cluster: Cluster) -> list[int]:
    """The unsent bytes of all connections that have some."""

    def measure(server: object) -> list[int]:
        network = server.require_started()  # type: ignore[attr-defined]
        return [size for each in network._connections.values() if (size := each.unsent_bytes)]

    return cluster.run(measure)


def _set_stall(cluster: Cluster, seconds: float) -> None:
    cluster.run(lambda server: setattr(server.require_started().slow_clients, "_stall_s", seconds))


def test_requests_for_records_wait_while_clients_do_not_read_theirs(cluster: Cluster) -> None:
    slow = [_connect(cluster) for _ in range(6)]
    try:
        slow[0].sendall(_fetch())
        _wait_until(lambda: bool(_unsent(cluster)))
        for sock in slow[1:]:
            sock.sendall(_fetch())
        with Client(cluster.bootstrap_servers) as client:
            for _ in range(3):
                client.send(MetadataRequest())  # Other requests are answered.

        assert len(_unsent(cluster)) == 1
        assert sum(_unsent(cluster)) < RESPONSE_BYTES + LIMIT
        # When a client has read, the next one gets its response.
        assert all(_read_response(sock) > RESPONSE_BYTES for sock in slow)
    finally:
        for sock in slow:
            sock.close()


def test_a_client_that_ends_lets_the_next_one_go_on(cluster: Cluster) -> None:
    with _connect(cluster) as slow, _connect(cluster) as waiting:
        slow.sendall(_fetch())
        _wait_until(lambda: bool(_unsent(cluster)))
        waiting.sendall(_fetch() + _fetch())
        slow.close()

        assert [_read_response(waiting) > RESPONSE_BYTES for _ in range(2)] == [True, True]


def test_a_client_that_reads_nothing_is_closed_while_others_wait(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    _set_stall(cluster, 0.05)
    with caplog.at_level(logging.WARNING), _connect(cluster) as slow, _connect(cluster) as waiting:
        slow.sendall(_fetch())
        _wait_until(lambda: bool(_unsent(cluster)))
        waiting.sendall(_fetch())

        assert _read_response(waiting) > RESPONSE_BYTES
        assert _read_response(slow) == 0
    assert "mockbroker.queued.response.bytes, 1,048,576: this client has read nothing of" in caplog.text


def test_a_client_that_reads_nothing_stays_while_nobody_waits(cluster: Cluster) -> None:
    _set_stall(cluster, 0.0)
    with _connect(cluster) as slow:
        slow.sendall(_fetch())
        _wait_until(lambda: bool(_unsent(cluster)))

        assert _read_response(slow) > RESPONSE_BYTES


def test_responses_to_requests_that_waited_for_records_are_limited_too(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    slow = [_connect(cluster) for _ in range(5)]
    try:
        for sock in slow:
            sock.sendall(_fetch(wait_ms=60_000, offset=1))
        _wait_until(lambda: len(cluster.exchanges("Fetch")) == 5)
        topic = cluster.run(lambda server: server.core.state.metadata.topic("t"))
        assert topic is not None
        with caplog.at_level(logging.WARNING), Client(cluster.bootstrap_servers) as client:
            client.send(produce(topic, record_batch(1, RESPONSE_BYTES)), _PRODUCE)
            client.send(MetadataRequest())

        assert len(_unsent(cluster)) == 1
        assert "another response of" in caplog.text
    finally:
        for sock in slow:
            sock.close()
