"""Clients that do not let a broker end their connections: each is a function that opens one, and returns its socket."""

from __future__ import annotations

import socket
import ssl
import struct
import time
from collections.abc import Callable
from urllib.parse import urlsplit

from kwire import headers
from kwire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from mockbroker import Cluster

#: The topic whose records do not fit into the buffers of the system.
LARGE_TOPIC = "large"
_RECORD_SIZE, _RECORD_COUNT = 900_000, 12
_TIMEOUT_S = 10.0
#: How long a stop may take beyond the grace of tests; it took 20 s and more. A limit of hanging, not of speed.
_STOP_LIMIT_S = 6.0

OpenClient = Callable[[Cluster], socket.socket]


def fill_large_topic(cluster: Cluster) -> None:
    """Produce what `leave_answer_unread` fetches."""
    for _ in range(_RECORD_COUNT):
        cluster.produce(LARGE_TOPIC, bytes(_RECORD_SIZE))


def stop_within_limit(cluster: Cluster) -> None:
    """Stop a cluster. Fails if it takes too long."""
    started_s = time.monotonic()
    cluster.stop()

    assert time.monotonic() - started_s < _STOP_LIMIT_S


def _connect(address: str, *, receives_little: bool = True) -> socket.socket:
    host, port = address.rsplit(":", 1)
    sock = socket.socket()
    if receives_little:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.settimeout(_TIMEOUT_S)
    sock.connect((host, int(port)))
    return sock


def _connect_with_tls(cluster: Cluster) -> socket.socket:
    context = ssl.create_default_context(cafile=str(cluster.client_settings()["ssl.ca.location"]))
    return context.wrap_socket(_connect(_first_address(cluster)), server_hostname="127.0.0.1")


def _first_address(cluster: Cluster) -> str:
    return cluster.bootstrap_servers.split(",")[0]


def _topic_id(cluster: Cluster) -> bytes:
    topic = cluster.run(lambda server: server.core.state.metadata.topic(LARGE_TOPIC))
    assert topic is not None
    return topic.topic_id


def _fetch_frame(topic_id: bytes) -> bytes:
    partition = FetchPartition(partition_max_bytes=50 << 20)
    request = FetchRequest(
        max_wait_ms=0, min_bytes=1, max_bytes=50 << 20, topics=[FetchTopic(topic_id=topic_id, partitions=[partition])]
    )
    frame = headers.encode_request(request, 17, 1, "stubborn")
    return struct.pack(">i", len(frame)) + frame


def leave_answer_unread(cluster: Cluster, *, receives_little: bool = True) -> socket.socket:
    """Ask for ten megabytes, and read nothing. receives_little: until it is read, the system takes little of it."""
    sock = leave_answer_unread_at(_first_address(cluster), _topic_id(cluster), receives_little=receives_little)
    cluster.wait_for_request("Fetch", answered=True)
    return sock


def leave_answer_unread_at(address: str, topic_id: bytes, *, receives_little: bool = True) -> socket.socket:
    """Ask for all records of the large topic at HOST:PORT, and read nothing."""
    sock = _connect(address, receives_little=receives_little)
    sock.sendall(_fetch_frame(topic_id))
    return sock


def leave_answer_unread_with_tls(cluster: Cluster) -> socket.socket:
    """Ask for ten megabytes over TLS, and read nothing."""
    sock = _connect_with_tls(cluster)
    sock.sendall(_fetch_frame(_topic_id(cluster)))
    cluster.wait_for_request("Fetch", answered=True)
    return sock


def stay_silent(cluster: Cluster) -> socket.socket:
    """Connect, and send nothing."""
    return _connect(_first_address(cluster))


def stay_silent_with_tls(cluster: Cluster) -> socket.socket:
    """Connect over TLS, and never answer the end of the session."""
    return _connect_with_tls(cluster)


def stop_within_handshake(cluster: Cluster) -> socket.socket:
    """Begin a TLS handshake that never ends."""
    sock = _connect(_first_address(cluster))
    sock.sendall(bytes.fromhex("1603010200010001fc0303"))
    return sock


def stop_within_frame(cluster: Cluster) -> socket.socket:
    """Send a part of a request."""
    sock = _connect(_first_address(cluster))
    sock.sendall(_fetch_frame(_topic_id(cluster))[:20])
    return sock


def _connect_to_control(cluster: Cluster) -> socket.socket:
    parts = urlsplit(cluster.control_url)
    return _connect(f"{parts.hostname}:{parts.port}")


def leave_events_unread(cluster: Cluster) -> socket.socket:
    """Ask the control for its events, and read none of them."""
    sock = _connect_to_control(cluster)
    sock.sendall(b"GET /v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    return sock


def leave_history_unread(cluster: Cluster) -> socket.socket:
    """Ask the control for its description over and over, and read nothing."""
    sock = _connect_to_control(cluster)
    sock.setblocking(False)
    try:
        for _ in range(2_000):
            sock.send(b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    except BlockingIOError:  # The control reads no more requests before it has sent its answers.
        return sock
    return sock


def stop_within_head(cluster: Cluster) -> socket.socket:
    """Send the control a part of a head."""
    sock = _connect_to_control(cluster)
    sock.sendall(b"GET /v1/cluster HTTP/1.1\r\nHost:")
    return sock


def wait_for_what_never_comes(cluster: Cluster) -> socket.socket:
    """Wait over HTTP for a request that no client sends."""
    sock = _connect_to_control(cluster)
    body = b'{"api": "DeleteAcls", "timeoutMs": 60000}'
    head = f"POST /v1/waits/request HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n"
    sock.sendall(head.encode() + b"Content-Type: application/json\r\n\r\n" + body)
    return sock


#: Clients by what the cluster must have.
PLAIN: tuple[OpenClient, ...] = (leave_answer_unread, stay_silent, stop_within_frame)
WITH_TLS: tuple[OpenClient, ...] = (leave_answer_unread_with_tls, stay_silent_with_tls, stop_within_handshake)
OF_CONTROL: tuple[OpenClient, ...] = (
    leave_events_unread,
    leave_history_unread,
    stop_within_head,
    wait_for_what_never_comes,
)
