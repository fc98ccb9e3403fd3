"""Which connections are Kafka, and which side is the client."""

from __future__ import annotations

import struct

import pytest

from kwire.capture.reader import read_rows
from kwire.headers import encode_request, encode_response
from kwire.messages.fetch import (
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from kwire.records import Record, write_batch
from tests.support.captures.capture_files import (
    SHARE,
    CapturedConnection,
    build_pcap,
    collect_issue_kinds,
    comparable_exchanges,
    read_capture_rows,
)
from tests.support.captures.conversations import produce_request, summarize_rows


@pytest.mark.parametrize("hello", [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"\x15\x03\x03\x00\x02\x02\x28"])
def test_tls_on_a_plain_port_is_named(hello: bytes) -> None:
    rows = CapturedConnection().open().send_client_bytes(hello).close().read_rows()

    assert [(row["tls"], row["status"]) for row in rows] == [(True, "undecodable")]
    assert collect_issue_kinds(rows) == {"tls"}


def test_on_a_broker_port_an_unknown_first_request_is_a_row() -> None:
    connection = CapturedConnection().open().send_requests(struct.pack(">hhih", 999, 0, 2, -1)).close()
    rows = connection.read_rows(ports=frozenset({9092}))

    assert connection.read_rows() == []
    assert summarize_rows(rows) == [(None, 2, "undecodable")]
    assert collect_issue_kinds(rows) >= {"unknown_api"}


def test_requests_inside_fetched_records_do_not_make_the_broker_a_client() -> None:
    requests = produce_request(1, bytes(90)), produce_request(2, bytes(90))
    inner = b"".join(struct.pack(">i", len(each)) + each for each in requests) * 20
    data = FetchableTopicResponse("t", partitions=[PartitionData(0, records=write_batch([Record(0, 5, b"k", inner)]))])
    connection, fetch = CapturedConnection(), FetchRequest(topics=[FetchTopic("t", partitions=[FetchPartition(0)])])
    for number in range(5):
        connection.send_responses(encode_response(FetchResponse(responses=[data]), 12, number))
        # The first request is in two packets, so that none begins with it.
        request = encode_request(fetch, 12, number + 1, "me")
        framed = struct.pack(">i", len(request)) + request
        connection.send_client_bytes(framed[:9]).send_client_bytes(framed[9:])

    rows = read_capture_rows(build_pcap(connection.packets))
    assert {row["broker_port"] for row in rows} == {9092}
    assert [row["api_name"] for row in rows if row["api_name"]] == ["Fetch"] * 5


def test_a_wrong_broker_port_excludes_everything() -> None:
    assert read_capture_rows(SHARE.read_bytes(), ports=frozenset({9092})) == []
    rows = read_capture_rows(SHARE.read_bytes(), ports=frozenset({21092}))
    assert comparable_exchanges(rows) == comparable_exchanges(list(read_rows(SHARE)))


def test_a_non_kafka_connection_is_a_row_only_on_a_broker_port() -> None:
    connection = CapturedConnection().open().send_client_bytes(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    connection.send_server_bytes(b"HTTP/1.1 200 OK\r\n")

    assert connection.read_rows() == []
    assert [row["status"] for row in connection.read_rows(ports=frozenset({9092}))] == ["undecodable"]
    assert collect_issue_kinds(connection.read_rows(ports=frozenset({9092}))) == {"not_kafka"}


@pytest.mark.parametrize(
    "opening",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        struct.pack(">iI", 196, 0x00030000) + b"user\0postgres\0" + b"database\0" * 20,
        struct.pack(">iiqiqi", 44, 0, 0, 30_000, 0, 16) + bytes(17),
        struct.pack("<iiii", 58, 1, 0, 2004) + bytes(42),
    ],
    ids=["ssh", "http2", "postgres", "zookeeper", "mongodb"],
)
def test_other_protocols_are_not_detected_as_kafka(opening: bytes) -> None:
    answer = b"\0\0\0\x14" + bytes(20)
    connection = CapturedConnection().open().send_client_bytes(opening).send_server_bytes(answer)

    assert connection.read_rows() == []
    assert read_capture_rows(build_pcap(connection.packets[1:])) == []
    assert CapturedConnection().send_client_bytes(opening).send_server_bytes(answer).read_rows() == []
