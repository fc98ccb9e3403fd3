"""The broker over real sockets: what it does with bytes that are no requests, and that the others never notice."""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
from collections.abc import Iterator

import pytest

import kwire
from kwire import Client, headers
from kwire.client import PendingResponse
from kwire.codec import decode
from kwire.error_codes import ErrorCode
from kwire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.messages.metadata import MetadataRequest
from mockbroker import Cluster
from mockbroker.server_options import Options


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(topics={"orders": 1}) as running:
        yield running


def _connect(cluster: Cluster) -> socket.socket:
    host, port = cluster.bootstrap_servers.rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=10)


def _submit_fetch(client: Client, max_wait_ms: int) -> PendingResponse:
    """A Fetch of a partition without records, which waits."""
    topic_id = client.send(MetadataRequest(topics=None)).topics[0].topic_id
    topic = FetchTopic(topic_id=topic_id, partitions=[FetchPartition(partition_max_bytes=1_000)])
    return client.submit(FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, topics=[topic]), 17)


def _frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def _read_frame(sock: socket.socket) -> bytes:
    (size,) = struct.unpack(">i", _read(sock, 4))
    return _read(sock, size)


def _read(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        chunk = sock.recv(size - len(data))
        assert chunk, f"the broker closed the connection after {len(data)} of {size} bytes"
        data += chunk
    return data


BAD_FRAMES = {
    "a length below zero": (struct.pack(">i", -1), "a frame of -1 bytes"),
    "a length above the limit": (struct.pack(">i", 104_857_601), "socket.request.max.bytes is 104857600"),
    "TLS on a plain port": (bytes.fromhex("160301020001000200"), "the client sent TLS, and the listener has none"),
    "HTTP on a plain port": (
        b"GET / HTTP/1.1\r\n\r\n",
        "a frame of 1195725856 bytes; socket.request.max.bytes is 104857600; the client sent HTTP",
    ),
    "an unknown API key": (_frame(struct.pack(">hhih", 999, 0, 1, -1)), "API key 999 is not served"),
    "an unsupported version": (_frame(struct.pack(">hhih", 3, 99, 1, -1)), "Metadata version 99 is not served"),
    "an invalid body": (_frame(struct.pack(">hhihi", 3, 1, 1, -1, 7)), "Metadata version 1 does not decode"),
    "a frame without a header": (_frame(b"abc"), "a request of 3 bytes"),
}


@pytest.mark.parametrize(("sent", "why"), BAD_FRAMES.values(), ids=BAD_FRAMES.keys())
def test_bytes_that_are_no_request_end_their_connection_alone(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, sent: bytes, why: str
) -> None:
    with Client(cluster.bootstrap_servers) as bystander, _connect(cluster) as sock:
        bystander.send(MetadataRequest(topics=None))
        with caplog.at_level(logging.WARNING):
            sock.sendall(sent)
            left = sock.recv(1)

        assert left == b""
        assert [record.getMessage() for record in caplog.records if why in record.getMessage()]
        assert len(caplog.records) == 1
        assert bystander.send(MetadataRequest(topics=None)).brokers


def test_a_too_new_api_versions_is_answered_in_version_0_with_its_own_range(cluster: Cluster) -> None:
    with _connect(cluster) as sock:
        sock.sendall(_frame(struct.pack(">hhih", 18, 99, 7, -1) + b"whatever"))
        answer = _read_frame(sock)
        response = decode(ApiVersionsResponse, 0, answer[4:])

        assert answer[:4] == struct.pack(">i", 7)
        assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
        assert [(key.api_key, key.min_version, key.max_version) for key in response.api_keys] == [(18, 0, 5)]

        sock.sendall(_frame(headers.encode_request(ApiVersionsRequest(), 0, 8, "client")))
        assert decode(ApiVersionsResponse, 0, _read_frame(sock)[4:]).error_code == ErrorCode.NONE


def test_a_frame_may_come_byte_by_byte(cluster: Cluster) -> None:
    with _connect(cluster) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in _frame(headers.encode_request(ApiVersionsRequest(), 0, 5, None)):
            sock.sendall(bytes([byte]))

        assert _read_frame(sock)[:4] == struct.pack(">i", 5)


def test_answers_leave_in_request_order_though_the_first_has_to_wait(cluster: Cluster) -> None:
    with Client(cluster.bootstrap_servers) as client:
        parked = _submit_fetch(client, 400)
        behind = [client.submit(MetadataRequest(topics=None), 13) for _ in range(20)]

        was_parked = not parked.done
        assert behind[-1].result(10).brokers

    assert was_parked
    assert parked.done
    order = [exchange.api_name for exchange in cluster.exchanges() if exchange.correlation_id >= parked.correlation_id]
    assert order == ["Fetch", *["Metadata"] * 20]


def test_moving_the_clock_answers_what_waits_for_it(cluster: Cluster) -> None:
    cluster.clock.freeze()
    with Client(cluster.bootstrap_servers) as client:
        parked = _submit_fetch(client, 3_600_000)
        with Client(cluster.bootstrap_servers) as other:
            other.send(MetadataRequest(topics=None))  # By its answer the broker has read what was sent before.
        cluster.clock.advance(3_600_000)

        assert parked.result(10).error_code == ErrorCode.NONE


def test_every_node_listens_and_lists_the_others() -> None:
    with Cluster(nodes=3) as cluster:
        addresses = cluster.bootstrap_servers.split(",")
        for address in addresses:
            with Client(address) as client:
                brokers = client.send(MetadataRequest(topics=None)).brokers

            assert [f"{broker.host}:{broker.port}" for broker in brokers] == addresses


def test_a_taken_port_is_an_error_that_names_it() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        with pytest.raises(OSError, match=rf"cannot listen on 127\.0\.0\.1:{port}"):
            Cluster(port=port).start()


def test_a_cluster_stops_with_clients_connected_and_starts_again() -> None:
    cluster = Cluster()
    with cluster, Client(cluster.bootstrap_servers) as client:
        client.send(MetadataRequest(topics=None))
        cluster.stop()

    with cluster, Client(cluster.bootstrap_servers) as client:
        assert client.send(MetadataRequest(topics=None)).brokers


async def _topics_of_an_async_cluster() -> list[str]:
    async with Cluster(topics={"a": 1, "b": 1}) as cluster:
        with Client(cluster.bootstrap_servers) as client:
            return [topic.name for topic in client.send(MetadataRequest(topics=None)).topics]


def test_a_cluster_is_an_async_context_manager_too() -> None:
    assert sorted(asyncio.run(_topics_of_an_async_cluster())) == ["a", "b"]


@pytest.mark.kafka(nodes=2, topics={"orders": 4})
def test_the_fixture_takes_its_options_from_the_marker(kafka: Cluster) -> None:
    with Client(kafka.bootstrap_servers) as client:
        response = client.send(MetadataRequest(topics=None))

    assert len(response.brokers) == 2
    assert [len(topic.partitions) for topic in response.topics] == [4]


def test_the_journal_keeps_request_and_response_in_order(cluster: Cluster) -> None:
    with Client(cluster.bootstrap_servers, client_id="me") as client:
        client.send(CreateTopicsRequest([CreatableTopic("new", 1, 1)]))
        client.send(MetadataRequest(topics=None))

    exchanges = cluster.exchanges()
    assert [exchange.api_name for exchange in exchanges] == ["ApiVersions", "CreateTopics", "Metadata"]
    tree = exchanges[1].to_json()
    assert tree["request"]["topics"][0]["name"] == "new"
    assert tree["response"]["topics"][0]["errorCode"] == 0
    assert tree["clientId"] == "me"
    assert exchanges[1].departed_ns >= exchanges[1].arrived_ns > 0


def test_what_is_not_built_yet_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"share-edition: 'kip932' is not one of 4\.0-early-access"):
        Cluster(share_edition="kip932")


def test_the_package_names_its_clients_errors() -> None:
    assert issubclass(kwire.client.ConnectFailed, OSError)


def test_the_text_of_options_has_no_password() -> None:
    text = repr(Options(nodes=3, add_scram=("SCRAM-SHA-256=[name=alice,password=secret]",)))

    assert "nodes=3" in text
    assert "secret" not in text
