"""Nodes that are stopped, killed and started again, over real sockets."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from kwire import Client, headers
from kwire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.metadata import MetadataRequest
from mockbroker import Cluster


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    properties = {"default.replication.factor": 3, "broker.session.timeout.ms": 1_000}
    with Cluster(nodes=3, topics={"orders": 3}, properties=properties) as running:
        running.clock.freeze()
        yield running


def _address(cluster: Cluster, node_id: int) -> str:
    return cluster.bootstrap_servers.split(",")[node_id]


def _connect(cluster: Cluster, node_id: int) -> socket.socket:
    host, port = _address(cluster, node_id).rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=10)


def _brokers(cluster: Cluster, node_id: int) -> list[tuple[int, str]]:
    with Client(_address(cluster, node_id)) as client:
        response = client.send(MetadataRequest())
    return [(row.node_id, f"{row.host}:{row.port}") for row in response.brokers]


@pytest.mark.parametrize("how", ["stop_node", "kill_node"])
def test_a_node_that_ends_closes_its_connections_and_listeners(cluster: Cluster, how: str) -> None:
    with _connect(cluster, 1) as mine, _connect(cluster, 2) as other:
        getattr(cluster, how)(1)

        assert mine.recv(1) == b""
        with pytest.raises(ConnectionRefusedError):
            _connect(cluster, 1)
        other.setblocking(False)
        with pytest.raises(BlockingIOError):
            other.recv(1)


def test_a_node_restarts_at_its_address(cluster: Cluster) -> None:
    everybody = [(node_id, _address(cluster, node_id)) for node_id in range(3)]
    cluster.kill_node(1)
    assert _brokers(cluster, 0) == everybody
    cluster.clock.advance(1_000)
    assert _brokers(cluster, 0) == [everybody[0], everybody[2]]
    cluster.start_node(1)

    assert _brokers(cluster, 1) == everybody


def test_a_node_whose_address_is_in_use_stays_down(cluster: Cluster) -> None:
    host, port = _address(cluster, 1).rsplit(":", 1)
    cluster.stop_node(1)
    with socket.create_server((host, int(port))):
        with pytest.raises(OSError, match="cannot listen"):
            cluster.start_node(1)
        cluster.clock.advance(1_000)
        assert [node_id for node_id, _ in _brokers(cluster, 0)] == [0, 2]
    cluster.start_node(1)

    assert [node_id for node_id, _ in _brokers(cluster, 1)] == [0, 1, 2]


def test_move_leader_moves_a_leader(cluster: Cluster) -> None:
    with Client(_address(cluster, 0)) as client:
        row = client.send(MetadataRequest(topics=None)).topics[0].partitions[0]
        cluster.move_leader("orders", row.partition_index, to=row.replica_nodes[1])
        rows = {row.partition_index: row for row in client.send(MetadataRequest(topics=None)).topics[0].partitions}

    moved = rows[row.partition_index]
    assert (moved.leader_id, moved.leader_epoch) == (row.replica_nodes[1], 1)


def test_a_cluster_ends_while_a_client_connects_and_goes_away() -> None:
    """The connection may have its protocol already or not; in neither case does the end wait for it."""
    for _ in range(50):
        with Cluster() as ending:
            host, _, port = ending.bootstrap_servers.rpartition(":")
            socket.create_connection((host, int(port)), 10).close()


def test_a_deadline_comes_sooner_by_the_wall_clock_when_the_running_clock_is_advanced() -> None:
    with Cluster(topics={"orders": 1}) as cluster, Client(cluster.bootstrap_servers) as client:
        topic_id = client.send(MetadataRequest(topics=None)).topics[0].topic_id
        partitions = [FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000)]
        request = FetchRequest(
            max_wait_ms=60_000, min_bytes=1, topics=[FetchTopic(topic_id=topic_id, partitions=partitions)]
        )
        frame = headers.encode_request(request, 17, 1, "waits")
        with _connect(cluster, 0) as waits:
            waits.sendall(len(frame).to_bytes(4, "big") + frame)
            cluster.wait_for_request("Fetch")
            cluster.clock.advance(59_900)

            assert waits.recv(4)
