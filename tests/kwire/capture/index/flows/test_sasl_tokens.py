"""SASL tokens without headers, after a SaslHandshake of version 0, are found and paired by columns."""

from __future__ import annotations

import pytest

from kwire.capture.model import Row
from kwire.capture.options import Options
from kwire.headers import encode_request, encode_response
from kwire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.support.captures.capture_files import CapturedConnection, build_pcap
from tests.support.captures.index_captures import (
    assert_rows_of_pipeline,
    count_flows,
    request_bytes,
    response_bytes,
    split_segment,
)

SPAN_SIZE = 24 * 1024 * 1024
FIRST, CHALLENGE = b"n,,n=alice,r=nonce", b"r=nonce-more,s=c2FsdA==,i=4096"
PROOF, VERIFIER = b"c=biws,r=nonce-more,p=cHJvb2Y=", b"v=dmVyaWZpZXI="
# Each span has few packets, or all are in one.
pytestmark = pytest.mark.parametrize("span_size", [SPAN_SIZE, 400], indirect=True)


def handshake(connection: CapturedConnection, number: int, version: int = 0, mechanism: str = "SCRAM-SHA-256") -> None:
    asked = encode_request(SaslHandshakeRequest(mechanism), version, number, "me")
    connection.exchange(asked, encode_response(SaslHandshakeResponse(0, (mechanism,)), version, number))


def read_rows_of_one_flow(connection: CapturedConnection) -> list[Row]:
    """The rows of both readers, by their times."""
    capture = build_pcap(connection.packets)
    assert count_flows(capture) == 1
    assert_rows_of_pipeline(capture, "partitions", Options(sessions=False))
    return sorted(assert_rows_of_pipeline(capture, options=Options()), key=lambda row: str(row["req_ts"]))


def outcomes(rows: list[Row]) -> list[tuple[object, object]]:
    return [(row["api_name"], row["status"]) for row in rows]


def test_tokens_are_paired_in_their_order(span_size: int) -> None:
    connection = CapturedConnection().open()
    handshake(connection, 0)
    connection.exchange(FIRST, CHALLENGE).send_requests(PROOF).send_requests(b"").send_responses(VERIFIER, b"")
    connection.exchange(request_bytes(1, "me"), response_bytes(1))

    rows = read_rows_of_one_flow(connection)

    assert outcomes(rows) == [("SaslHandshake", "ok"), *[("SaslToken", "ok")] * 3, ("ListGroups", "ok")]
    assert [row["in_flight"] for row in rows] == [0, 0, 0, 1, 0]
    assert [row["principal"] for row in rows] == [None, *["alice"] * 4]
    assert ["SCRAM-SHA-256 token" in str(row["issues"]) for row in rows] == [False, True, True, True, False]


def test_a_response_belongs_to_an_earlier_request_of_its_id_before_a_token(span_size: int) -> None:
    connection = CapturedConnection().open()
    handshake(connection, 0)
    connection.send_requests(request_bytes(1, "me"))
    asked = encode_request(SaslHandshakeRequest("PLAIN"), 0, 2, "me")
    connection.send_requests(asked).send_requests(b"\0bob\0secret").send_requests(request_bytes(1, "me"))
    connection.send_responses(response_bytes(1), response_bytes(2), b"", response_bytes(1)).close()

    rows = read_rows_of_one_flow(connection)

    assert outcomes(rows[1:]) == [
        ("ListGroups", "ok"),
        ("SaslHandshake", "ok"),
        ("SaslToken", "ok"),
        ("ListGroups", "ok"),
    ]
    assert [row["principal"] for row in rows] == [None, *["bob"] * 4]


def test_tokens_without_responses_end_with_their_connection(span_size: int) -> None:
    connection = CapturedConnection().open()
    handshake(connection, 0, mechanism="GSSAPI")
    connection.send_requests(b"\x60token" * 300).send_requests(b"\x60more").close()

    rows = read_rows_of_one_flow(connection)

    assert outcomes(rows[1:]) == [("SaslToken", "no_response")] * 2
    assert "the connection was closed before an answer" in str(rows[1]["issues"])


def test_version_1_is_followed_by_requests(span_size: int) -> None:
    connection = CapturedConnection().open()
    handshake(connection, 0, version=1)
    connection.send_requests(b"\x60token").exchange(request_bytes(1, "me"), response_bytes(1))

    rows = read_rows_of_one_flow(connection)

    assert [row["api_name"] for row in rows] == ["SaslHandshake", None, "ListGroups"]


def test_tokens_may_be_in_several_segments_or_lost(span_size: int) -> None:
    connection = CapturedConnection().open()
    handshake(connection, 0)
    connection.exchange(FIRST, CHALLENGE).exchange(PROOF, VERIFIER)
    for number in range(1, 40):
        connection.exchange(request_bytes(number, "me"), response_bytes(number))
    connection.packets = [part for packet in connection.packets for part in split_segment(packet, 11)]
    begin = next(place for place, packet in enumerate(connection.packets) if b"n,,n" in packet.data)
    for lost in range(begin, begin + 12, 2):
        packets = [packet for place, packet in enumerate(connection.packets) if place != lost]
        assert count_flows(build_pcap(packets)) == 1
        assert_rows_of_pipeline(build_pcap(packets))
