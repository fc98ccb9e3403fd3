"""Requests and responses are paired by columns where not only their correlation ids decide."""

from __future__ import annotations

import re
import struct

import pytest

from kwire.capture.index.flows import flow_pairing, pairing, pending_requests, waiting_limits
from kwire.capture.model import Row
from kwire.capture.options import Options
from kwire.capture.reader import read_batches
from tests.support.capture_model import exchange_pairing as model_pairing
from tests.support.captures.capture_files import CapturedConnection, build_pcap
from tests.support.captures.index_captures import (
    assert_rows_of_pipeline,
    batch_rows,
    connection_with_exchanges,
    count_flows,
    request_bytes,
    response_bytes,
)

SPAN_SIZE = 24 * 1024 * 1024
# Each is a span of one or two packets, or all are in one.
both_span_sizes = pytest.mark.parametrize("span_size", [SPAN_SIZE, 100], indirect=True)


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three open requests and two early responses of a connection may wait."""
    for module in (model_pairing, flow_pairing, pending_requests, waiting_limits):
        monkeypatch.setattr(module, "PENDING_REQUESTS_MAX", 3)
        monkeypatch.setattr(module, "ORPHANS_MAX", 2)


def read_rows_of_one_flow(connection: CapturedConnection) -> list[Row]:
    """The rows of both readers."""
    capture = build_pcap(connection.packets)
    assert count_flows(capture) == 1
    assert_rows_of_pipeline(capture, options=Options(sessions=False))
    return sorted(assert_rows_of_pipeline(capture), key=lambda row: str(row["req_ts"]))


def api_versions(number: int, name: bytes) -> bytes:
    """An ApiVersions request with the name of the client's software."""
    return struct.pack(">hhih", 18, 3, number, -1) + b"\0" + bytes([len(name) + 1]) + name + b"\x021\0"


@both_span_sizes
def test_open_requests_of_one_id_are_answered_in_their_order(span_size: int) -> None:
    connection = connection_with_exchanges(1)
    for number in (5, 5, 6):
        connection.send_requests(request_bytes(number))
    connection.send_responses(*map(response_bytes, (5, 6))).send_requests(request_bytes(5))
    connection.send_responses(*map(response_bytes, (5, 5, 5)))

    rows = read_rows_of_one_flow(connection)

    found = [(row["correlation_id"], row["status"], row["in_flight"], row["order_ok"]) for row in rows]
    assert found[1:4] == [(5, "ok", 0, True), (5, "ok", 1, False), (6, "ok", 2, True)]
    assert found[4:] == [(5, "ok", 1, True), (5, "no_request", None, None)]
    is_duplicate = ["duplicate_correlation" in str(row["issues"]) for row in rows]
    assert is_duplicate == [False, False, True, False, True, False]


@both_span_sizes
def test_the_oldest_of_many_open_requests_are_dropped(span_size: int, limits: None) -> None:
    connection = connection_with_exchanges(1).send_requests(*map(request_bytes, (1, 2, 1, 3)))
    connection.send_requests(*map(request_bytes, (4, 5))).send_responses(*map(response_bytes, (2, 3, 4, 5)))

    rows = read_rows_of_one_flow(connection)

    by_id = {row["correlation_id"]: row["status"] for row in rows if row["req_packet"] is not None}
    assert by_id == {0: "ok", 1: "no_response", 2: "no_response", 3: "ok", 4: "ok", 5: "ok"}
    assert [row["in_flight"] for row in rows if row["req_packet"] is not None] == [0, 0, 1, 2, 3, 3, 3]
    assert "was dropped" in str([row["issues"] for row in rows if row["correlation_id"] == 1])


@both_span_sizes
def test_the_oldest_of_many_early_responses_wait_no_more_for_their_requests(span_size: int, limits: None) -> None:
    connection = connection_with_exchanges(1).send_responses(*map(response_bytes, (1, 2, 1, 3)))
    connection.send_requests(*map(request_bytes, (1, 2, 3)))

    rows = read_rows_of_one_flow(connection)

    by_id = {row["correlation_id"]: row["status"] for row in rows if row["req_packet"] is not None}
    assert by_id == {0: "ok", 1: "ok", 2: "no_response", 3: "ok"}
    assert [row["status"] for row in rows].count("no_request") == 2


@both_span_sizes
def test_a_dropped_request_has_the_client_that_was_known_then(span_size: int, limits: None) -> None:
    connection = CapturedConnection().open().send_requests(api_versions(0, b"one"))
    connection.send_requests(*map(request_bytes, range(1, 5)))
    # The third of these drops request 2, after it has named another software.
    connection.send_requests(request_bytes(5), api_versions(6, b"two"), request_bytes(7))

    rows = read_rows_of_one_flow(connection)

    names = {row["correlation_id"]: row["software_name"] for row in rows}
    assert (names[0], names[1], names[2], names[3], names[7]) == ("one", "one", "one", "two", "two")


@pytest.mark.parametrize("span_size", [100], indirect=True)
def test_of_all_flows_the_oldest_messages_wait_no_more(span_size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (pairing, waiting_limits):
        monkeypatch.setattr(module, "WAITING_MAX", 4)
    first, second = CapturedConnection(("127.0.0.1", 40_001)).open(), connection_with_exchanges(1)
    first.send_requests(*map(request_bytes, range(1, 4)))
    second.send_requests(*map(request_bytes, range(11, 14))).send_responses(response_bytes(12))
    second.send_requests(*map(request_bytes, range(21, 23)))
    packets = sorted([*first.packets, *second.packets], key=lambda packet: packet.ts)

    rows = batch_rows(read_batches(build_pcap(packets)))

    dropped = [row["correlation_id"] for row in rows if "was dropped" in str(row["issues"])]
    assert dropped == [1, 2, 3]
    assert {row["in_flight"] for row in rows if row["correlation_id"] in (21, 22)} == {2, 3}


def test_a_late_response_without_an_id_has_its_place_behind_the_requests_of_its_packet() -> None:
    connection, frame = connection_with_exchanges(1), struct.pack(">i", 100) + response_bytes(99).ljust(100)
    connection.send_server_bytes(frame[:40]).send_server_bytes(frame[40:80])
    lost = len(connection.packets) - 1
    connection.send_server_bytes(frame[80:] + b"\0\0\0\x02ab")
    # The last of these packets shows that the gap will not be filled.
    for number in range(1, 70):
        connection.send_requests(api_versions(number, b"n%d" % number))
    del connection.packets[lost]

    rows = read_rows_of_one_flow(connection)

    (found,) = (row for row in rows if "too few for a response header" in str(row["issues"]))
    assert re.fullmatch(r"n6\d", str(found["software_name"]))
