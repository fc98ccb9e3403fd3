"""Invalid lengths, and frames that are shorter than their headers, have the rows of the pipeline."""

from __future__ import annotations

import struct

import pytest

from kwire.capture.index.scan.spans import SPAN_SIZE
from kwire.capture.kafka.frame_gaps import INVALID_LENGTHS_MAX
from tests.support.captures.capture_files import CapturedConnection, build_pcap, collect_issue_kinds
from tests.support.captures.index_captures import (
    assert_rows_of_pipeline,
    connection_with_exchanges,
    count_flows,
    request_bytes,
    response_bytes,
    split_segment,
)

pytestmark = pytest.mark.slow

LENGTHS = [b"\xff\xff\xff\xff", b"\x7f\0\0\0", b"\x80\0\0\0", b"\x16\x03\x03\0"]


def exchange_more(connection: CapturedConnection, count: int) -> CapturedConnection:
    for number in range(500, 500 + count):
        connection.exchange(request_bytes(number), response_bytes(number))
    return connection


@pytest.mark.parametrize("span_size", [SPAN_SIZE, 4_096], indirect=True)
@pytest.mark.parametrize("size", [1, 3, 7, 100])
@pytest.mark.parametrize("rest", [b"", b"\1\2\3", bytes(30)])
@pytest.mark.parametrize("length", LENGTHS)
def test_behind_an_invalid_length_the_next_frame_is_searched_for(
    length: bytes, rest: bytes, size: int, span_size: int
) -> None:
    for from_client in (True, False):
        connection = connection_with_exchanges(20)
        send = connection.send_client_bytes if from_client else connection.send_server_bytes
        send(length + rest)
        packets = exchange_more(connection, 20).packets
        capture = build_pcap(piece for each in packets for piece in split_segment(each, size))

        assert count_flows(capture) == 1
        rows = assert_rows_of_pipeline(capture)
        assert collect_issue_kinds(rows) & {"bad_length", "tls"}


def test_a_side_with_many_invalid_lengths_is_not_searched_any_more() -> None:
    connection = connection_with_exchanges(5)
    for number in range(INVALID_LENGTHS_MAX + 10):
        connection.send_client_bytes(b"\xff\xff\xff\xff").exchange(
            request_bytes(600 + number), response_bytes(600 + number)
        )
    capture = build_pcap(exchange_more(connection, 5).packets)

    assert count_flows(capture) == 1
    rows = assert_rows_of_pipeline(capture)
    assert sum(row["status"] == "no_request" for row in rows) > 10


@pytest.mark.parametrize("span_size", [SPAN_SIZE, 4_096], indirect=True)
def test_a_search_at_the_end_of_a_span_keeps_the_frames_before_it(span_size: int) -> None:
    for count in range(30, 60):
        connection = connection_with_exchanges(count).send_client_bytes(b"\xff\xff\xff\xff").send_client_bytes(bytes(5))
        capture = build_pcap(exchange_more(connection, 10).packets)

        rows = assert_rows_of_pipeline(capture)
        assert sum(row["status"] == "ok" for row in rows) == count + 10


@pytest.mark.parametrize("size", range(13))
def test_frames_shorter_than_their_headers_are_undecodable(size: int) -> None:
    short = struct.pack(">hhih", 18, 0, 77, -1)[:size] + bytes(max(size - 10, 0))
    requests = exchange_more(connection_with_exchanges(5).send_requests(short), 5)
    responses = exchange_more(connection_with_exchanges(5).send_responses(short[4:]), 5)

    for connection in (requests, responses):
        capture = build_pcap(connection.packets)
        assert count_flows(capture) == 1
        assert_rows_of_pipeline(capture)
