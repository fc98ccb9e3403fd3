"""Clients that request many records, and read their responses slowly, in part, or not at all.

What waits for them is bounded, and other clients are answered meanwhile.
"""

from __future__ import annotations

import random
import socket
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kwire import Client, headers
from kwire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.metadata import MetadataRequest
from mockbroker import Cluster
from mockbroker.config.limits import QUEUED_BYTES
from tests.support.brokers.producer import produce, record_batch

if TYPE_CHECKING:
    from mockbroker.server import Server

_LIMIT, _BATCH_BYTES = 2 << 20, 3 << 20
_FETCH, _PRODUCE = 11, 13
_CLIENTS_MAX = 24
#: Seconds after which an answer counts as missing, however slow the machine is.
_HANG_S = 30.0


def attack(rng: random.Random, *, seconds: float) -> Iterator[str]:
    """Yield how much waits for clients where it is too much, and answers that do not come."""
    end = time.monotonic() + seconds
    properties = {QUEUED_BYTES: _LIMIT, "message.max.bytes": 2 * _BATCH_BYTES}
    with Cluster(topics={"t": 1}, properties=properties) as cluster:
        topic = cluster.run(lambda server: server.core.state.metadata.topic("t"))
        assert topic is not None
        with Client(cluster.bootstrap_servers, timeout_s=_HANG_S) as client:
            client.send(produce(topic, record_batch(1, _BATCH_BYTES)), _PRODUCE)
            clients: list[socket.socket] = []
            try:
                while time.monotonic() < end:
                    _act(rng, cluster, clients)
                    yield from _check(cluster, client)
            finally:
                for sock in clients:
                    sock.close()
                if clients:
                    client.send(MetadataRequest())


def _act(rng: random.Random, cluster: Cluster, clients: list[socket.socket]) -> None:
    """Let a client connect, request, read or end."""
    action = rng.random()
    if not clients or (action < 0.4 and len(clients) < _CLIENTS_MAX):
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 << 10)
        host, port = cluster.bootstrap_servers.rsplit(":", 1)
        sock.connect((host, int(port)))
        sock.setblocking(False)
        clients.append(sock)
        return
    sock = rng.choice(clients)
    try:
        if action < 0.7:
            sock.send(_fetch(waits=rng.random() < 0.3) * rng.choice((1, 1, 3)))
        elif action < 0.9:
            sock.recv(rng.choice((1, 4096, 1 << 20)))
        else:
            clients.remove(sock)
            sock.close()
    except BlockingIOError:
        return
    except OSError:  # The cluster has closed it.
        clients.remove(sock)
        sock.close()


def _fetch(*, waits: bool) -> bytes:
    partition = FetchPartition(partition=0, fetch_offset=int(waits), partition_max_bytes=1 << 30)
    topics = [FetchTopic(topic="t", partitions=[partition])]
    request = FetchRequest(max_wait_ms=500 * waits, min_bytes=1, max_bytes=1 << 30, topics=topics)
    frame = headers.encode_request(request, _FETCH, 1, "slow")
    return len(frame).to_bytes(4, "big") + frame


def _check(cluster: Cluster, client: Client) -> Iterator[str]:
    began = time.monotonic()
    client.send(MetadataRequest())
    if time.monotonic() - began > _HANG_S:
        yield f"Metadata was answered after {time.monotonic() - began:.0f} s"
    unsent = cluster.run(_measure_unsent)
    # One response may begin below the limit, and end above it.
    if unsent > _LIMIT + _BATCH_BYTES + (1 << 20):
        yield f"{unsent:,} bytes wait for clients, the limit is {_LIMIT:,} and a response has {_BATCH_BYTES:,}"


def _measure_unsent(server: Server) -> int:
    return sum(connection.unsent_bytes for connection in server.require_started()._connections.values())
