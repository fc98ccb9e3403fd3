"""Quotas over real sockets: muted connections are not read, the clock and the control over HTTP move them on."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping

import pytest

from kwire import Client, headers
from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from mockbroker import Cluster
from mockbroker.server import Server
from tests.support.brokers.producer import record_batch
from tests.support.client_quotas import quota_change

_TIMEOUT_S = 20
_PRODUCE_VERSION = 9
#: Bytes of a record that a quota of 10,000 by second throttles for two seconds.
_LARGE = 120_000


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(topics={"orders": 1}) as running:
        running.clock.freeze()
        yield running


def _limit(cluster: Cluster, key: str, value: float | None, entity: Mapping[str, str | None] | None = None) -> None:
    with Client(cluster.bootstrap_servers, client_id="admin") as client:
        change = quota_change(entity or {"client-id": "app"}, key, value)
        assert client.send(change).entries[0].error_code == 0


def _produce(size: int, *, acks: int = 1) -> ProduceRequest:
    row = TopicProduceData("orders", partition_data=[PartitionProduceData(0, record_batch(size=size))])
    return ProduceRequest(acks=acks, timeout_ms=1_000, topic_data=[row])


def _client(cluster: Cluster) -> Client:
    return Client(cluster.bootstrap_servers, client_id="app", negotiated=False, timeout_s=_TIMEOUT_S)


def _backlog(cluster: Cluster) -> int:
    """The frames that wait behind the requests of the newest connection."""
    return cluster.run(lambda server: server.core.backlog(server.core.connection_count))


def _is_reading(cluster: Cluster) -> bool:
    def read(server: Server) -> bool:
        assert server.network_server is not None
        return server.network_server._connections[server.core.connection_count].is_reading

    return cluster.run(read)


def _wait_until_paused(cluster: Cluster) -> None:
    cluster.wait_until(lambda: _backlog(cluster) == 2 and not _is_reading(cluster))


def test_requests_behind_a_muted_connection_stay_unread_until_the_clock_is_moved(cluster: Cluster) -> None:
    _limit(cluster, "producer_byte_rate", 10_000)
    with _client(cluster) as client:
        throttle_ms = client.send(_produce(_LARGE), _PRODUCE_VERSION).throttle_time_ms
        pending = [client.submit(MetadataRequest(topics=[]), 9) for _ in range(50)]
        _wait_until_paused(cluster)
        cluster.clock.advance(throttle_ms - 1)
        before = _backlog(cluster)
        cluster.clock.advance(1)
        responses = [each.result(_TIMEOUT_S) for each in pending]

    assert throttle_ms > 2_000
    assert before == 2
    assert len(responses) == 50


def test_a_connection_without_answers_is_read_again_after_its_throttle_time(cluster: Cluster) -> None:
    _limit(cluster, "producer_byte_rate", 10_000)
    with _client(cluster) as client:
        for _ in range(5):
            client.send(_produce(_LARGE, acks=0), _PRODUCE_VERSION)
        pending = client.submit(MetadataRequest(topics=[]), 9)
        _wait_until_paused(cluster)
        _limit(cluster, "producer_byte_rate", None)
        cluster.clock.advance(3_000)

        assert pending.result(_TIMEOUT_S).throttle_time_ms == 0


def test_the_control_over_http_moves_a_muted_connection_on() -> None:
    pytest.importorskip("starlette")
    from tests.support.brokers.control_client import ControlClient

    with Cluster(topics={"orders": 1}, control=0) as cluster:
        cluster.clock.freeze()
        _limit(cluster, "producer_byte_rate", 10_000)
        with _client(cluster) as client:
            throttle_ms = client.send(_produce(_LARGE), _PRODUCE_VERSION).throttle_time_ms
            pending = client.submit(MetadataRequest(topics=[]), 9)
            cluster.wait_until(lambda: _backlog(cluster) == 1)
            ControlClient(cluster.control_url).ask("POST", "/v1/clock/advance", {"durationMs": throttle_ms})

            assert pending.result(_TIMEOUT_S) is not None


def test_a_stopped_node_ends_its_muted_connections(cluster: Cluster) -> None:
    _limit(cluster, "producer_byte_rate", 10_000)
    with _client(cluster) as client:
        throttle_ms = client.send(_produce(_LARGE), _PRODUCE_VERSION).throttle_time_ms
        pending = client.submit(MetadataRequest(topics=[]), 9)
        cluster.wait_until(lambda: _backlog(cluster) == 1)
        cluster.kill_node(0)
        with pytest.raises(ConnectionError):
            pending.result(_TIMEOUT_S)
        cluster.start_node(0)
        cluster.clock.advance(throttle_ms)
    with _client(cluster) as again:
        assert again.send(MetadataRequest(topics=[]), 9).throttle_time_ms == 0


def _connect(cluster: Cluster) -> socket.socket:
    """A connection that has sent a request."""
    host, port = cluster.bootstrap_servers.rsplit(":", 1)
    sock = socket.create_connection((host, int(port)), timeout=_TIMEOUT_S)
    frame = headers.encode_request(ApiVersionsRequest(), 0, 1, "app")
    sock.sendall(len(frame).to_bytes(4, "big") + frame)
    return sock


def test_a_connection_over_the_quota_of_its_address_is_closed_when_the_time_has_passed(cluster: Cluster) -> None:
    _limit(cluster, "connection_creation_rate", 1, {"ip": "127.0.0.1"})
    sockets = [_connect(cluster) for _ in range(12)]
    cluster.wait_until(lambda: cluster.run(lambda server: server.core.connection_count) == 13)
    cluster.clock.advance(1_000)
    ends = [sock.recv(4) for sock in sockets]
    for sock in sockets:
        sock.close()

    assert [len(end) for end in ends] == [4] * 10 + [0] * 2


def test_a_connection_over_the_rate_of_the_broker_is_answered_later() -> None:
    with Cluster(properties={"max.connection.creation.rate": 1}) as cluster:
        cluster.clock.freeze()
        sockets = [_connect(cluster) for _ in range(11)]
        answers = [sock.recv(4) for sock in sockets[:10]]
        sockets[10].setblocking(False)
        with pytest.raises(BlockingIOError):
            sockets[10].recv(4)
        sockets[10].settimeout(_TIMEOUT_S)
        cluster.wait_until(lambda: cluster.run(lambda server: server.core.connection_count) == 11)
        cluster.clock.advance(1_000)
        late = sockets[10].recv(4)
        for sock in sockets:
            sock.close()

    assert all(len(answer) == 4 for answer in answers)
    assert len(late) == 4
