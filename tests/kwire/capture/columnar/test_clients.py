"""Rows show what is known of the client when their exchange is complete."""

from __future__ import annotations

import pytest

from kwire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.support.captures.capture_files import CapturedConnection, build_pcap
from tests.support.captures.index_captures import assert_rows_of_pipeline, request_bytes, response_bytes
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
