"""`Cluster` pauses, resumes and adds nodes; what their clients see at the sockets."""

from __future__ import annotations

import asyncio
import socket

import pytest

from kwire import Client, headers
from kwire.messages import alter_partition_reassignments as reassignments
from kwire.messages.describe_cluster import DescribeClusterRequest
from kwire.messages.list_groups import ListGroupsRequest
from kwire.messages.metadata import MetadataRequest
from mockbroker import Cluster, ConfigError, KafkaError

_LIMIT_S = 10.0


def _connect(cluster: Cluster, node: int = 0) -> socket.socket:
    host, port = cluster.bootstrap_servers.split(",")[node].split(":")
    return socket.create_connection((host, int(port)), _LIMIT_S)


def _send(connection: socket.socket, number: int) -> None:
    frame = headers.encode_request(ListGroupsRequest(), 5, number, "c")
    connection.sendall(len(frame).to_bytes(4, "big") + frame)


def _receive(connection: socket.socket) -> int:
    """The correlation id of the next response."""
    size = int.from_bytes(_read(connection, 4), "big")
    return int.from_bytes(_read(connection, size)[:4], "big")


def _read(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        assert part, "the connection was closed"
        data += part
    return data


def test_connections_to_a_paused_node_stay_and_nothing_is_read_until_it_goes_on() -> None:
    with Cluster(nodes=2) as cluster, _connect(cluster, 1) as old:
        cluster.clock.freeze()
        _send(old, 1)
        _receive(old)
        cluster.pause_node(1)
        _send(old, 2)
        with _connect(cluster, 1) as new, _connect(cluster, 0) as other:
            _send(new, 3)
            _send(other, 4)
            answered = _receive(other)
            cluster.clock.advance(5_000)
            cluster.resume_node(1)

            assert [answered, _receive(old), _receive(new)] == [4, 2, 3]
        start, arrived = cluster.exchanges("ListGroups")[0].arrived_ms, cluster.exchanges("ListGroups")
        assert [(exchange.node_id, exchange.arrived_ms - start) for exchange in arrived] == [
            *((1, 0), (0, 0), (1, 5_000), (1, 5_000)),
        ]


def test_a_reset_ends_a_pause_and_removes_added_nodes() -> None:
    with Cluster() as cluster:
        before = cluster.bootstrap_servers
        cluster.add_node()
        cluster.pause_node(0)
        added = cluster.bootstrap_servers.split(",")[1].split(":")
        cluster.reset()

        assert cluster.bootstrap_servers == before
        with _connect(cluster) as connection:
            _send(connection, 1)
            assert _receive(connection) == 1
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((added[0], int(added[1])), _LIMIT_S)


def test_an_added_node_is_listed_takes_new_topics_and_moved_partitions() -> None:
    with Cluster(topics={"old": 1}, properties={"node.id": 5}) as cluster:
        added = cluster.add_node()
        cluster.create_topic("new", 2)
        with Client(cluster.bootstrap_servers) as client:
            listed = client.send(MetadataRequest(topics=None))
            described = client.send(DescribeClusterRequest())
            target = reassignments.ReassignablePartition(partition_index=0, replicas=(added,))
            client.send(
                reassignments.AlterPartitionReassignmentsRequest(
                    topics=[reassignments.ReassignableTopic(name="old", partitions=[target])]
                )
            )
            moved = client.send(MetadataRequest(topics=None))
        addresses = [f"{broker.host}:{broker.port}" for broker in listed.brokers]
        leaders = {topic.name: sorted(row.leader_id for row in topic.partitions) for topic in moved.topics}

        assert added == 6
        assert [broker.node_id for broker in listed.brokers] == [broker.broker_id for broker in described.brokers]
        assert ",".join(addresses) == cluster.bootstrap_servers
        assert leaders == {"old": [6], "new": [5, 6]}
        with _connect(cluster, 1) as connection:
            _send(connection, 1)
            assert _receive(connection) == 1
        assert cluster.exchanges("ListGroups")[0].node_id == added


def _neighbouring_ports() -> tuple[socket.socket, int]:
    """A bound socket, and a port below its own that is free."""
    for _ in range(20):
        taken = socket.socket()
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1] - 1
        with socket.socket() as lower:
            try:
                lower.bind(("127.0.0.1", port))
                return taken, port
            except OSError:
                taken.close()
    raise AssertionError("no two neighbouring ports are free")


def test_a_node_is_added_at_the_next_port_or_nothing_changes() -> None:
    taken, port = _neighbouring_ports()
    with taken, Cluster(port=port) as cluster:
        with pytest.raises(OSError, match=f"cannot listen on 127.0.0.1:{port + 1}"):
            cluster.add_node()
        assert cluster.bootstrap_servers == f"127.0.0.1:{port}"
        taken.close()
        cluster.add_node()

        assert cluster.bootstrap_servers == f"127.0.0.1:{port},127.0.0.1:{port + 1}"


def test_a_cluster_has_at_most_a_hundred_nodes() -> None:
    with Cluster(nodes=100) as cluster, pytest.raises(ConfigError, match="a cluster has 1 to 100 nodes"):
        cluster.add_node()


def test_a_record_for_a_paused_leader_is_refused() -> None:
    with Cluster(topics={"orders": 1}) as cluster:
        cluster.pause_node(0)
        with pytest.raises(KafkaError, match="node 0, the leader of orders-0, is paused"):
            cluster.produce("orders", "v")


def test_nodes_have_coroutines() -> None:
    async def run() -> list[int]:
        async with Cluster(topics={"orders": 1}, properties={"default.replication.factor": 1}) as cluster:
            seen = [await cluster.aio.add_node()]
            await cluster.aio.pause_node(1)
            await cluster.aio.resume_node(1)
            await cluster.aio.stop_node(1)
            await cluster.aio.start_node(1)
            await cluster.aio.kill_node(1)
            with pytest.raises(KafkaError, match="node 1 is not running"):
                await cluster.aio.pause_node(1)
            with pytest.raises(KafkaError, match="node 0 leads orders-0 already"):
                await cluster.aio.move_leader("orders", 0, to=0)
            with pytest.raises(KafkaError, match="leads __consumer_offsets"):
                await cluster.aio.move_coordinator("g", to=cluster.coordinator("g"))
            return seen

    assert asyncio.run(run()) == [1]
