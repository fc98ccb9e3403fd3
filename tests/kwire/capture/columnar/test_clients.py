"""Rows show what is known of the client when their exchange is complete."""

from __future__ import annotations

import pytest

from kwire.capture.options import Options
from kwire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.support.captures.capture_files import CapturedConnection, build_pcap
from tests.support.captures.index_captures import (
    HEADERS_ONLY,
    assert_rows_of_pipeline,
    count_flows,
    request_bytes,
    response_bytes,
)
from tests.support.captures.message_captures import add_exchange


def name_client(connection: CapturedConnection, number: int, name: str) -> None:
    request = ApiVersionsRequest(client_software_name=name, client_software_version="1")
    add_exchange(connection, ("ApiVersions", 3), number, request, ApiVersionsResponse())


@pytest.mark.parametrize("count", [10, 80])
def test_a_request_behind_a_gap_names_the_client_of_its_own_exchange(count: int) -> None:
    connection = CapturedConnection().open()
    name_client(connection, 0, "first")
    lost = len(connection.packets)
    connection.exchange(request_bytes(1, "x" * 900), response_bytes(1))
    name_client(connection, 2, "second")
    for number in range(3, count):
        connection.exchange(request_bytes(number), response_bytes(number))

    rows = assert_rows_of_pipeline(build_pcap([*connection.packets[:lost], *connection.packets[lost + 1 :]]))
    named = {row["correlation_id"]: row["software_name"] for row in rows if row["api_name"] == "ApiVersions"}
    assert named == {0: "first", 2: "second"}


@pytest.mark.parametrize("options", [HEADERS_ONLY, Options()])
def test_a_lost_packet_before_the_identifying_request_does_not_hide_the_client(options: Options) -> None:
    connection = CapturedConnection().open()
    # The request is larger than its response, so the next request has a larger offset than its own response.
    connection.exchange(request_bytes(0, "x" * 300), response_bytes(0))
    name_client(connection, 1, "tests")
    for number in range(2, 60):
        connection.exchange(request_bytes(number), response_bytes(number))
    capture = build_pcap([*connection.packets[:3], *connection.packets[4:]])

    assert count_flows(capture) == 1
    rows = assert_rows_of_pipeline(capture, options=options)
    assert [row["software_name"] for row in rows if row["correlation_id"] == 1] == ["tests"]
