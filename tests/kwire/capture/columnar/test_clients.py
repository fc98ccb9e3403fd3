"""The client of an exchange is known from the request on that identifies it."""

from __future__ import annotations

import pytest

from kwire.capture.options import Options
from kwire.headers import encode_request, encode_response
from kwire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tests.support.captures.capture_files import CapturedConnection, build_pcap
from tests.support.captures.index_captures import (
    HEADERS_ONLY,
    assert_rows_of_pipeline,
    request_bytes,
    response_bytes,
    unclean_reasons,
)


@pytest.mark.parametrize("options", [HEADERS_ONLY, Options()])
def test_a_lost_packet_before_the_identifying_request_does_not_hide_the_client(options: Options) -> None:
    connection = CapturedConnection().open()
    # The request is larger than its response, so the next request has a larger offset than its own response.
    connection.exchange(request_bytes(0, "x" * 300), response_bytes(0))
    request = encode_request(ApiVersionsRequest("tests", "1"), 3, 1, "me")
    connection.exchange(request, encode_response(ApiVersionsResponse(), 3, 1))
    for number in range(2, 60):
        connection.exchange(request_bytes(number), response_bytes(number))
    capture = build_pcap([*connection.packets[:3], *connection.packets[4:]])

    assert unclean_reasons(capture) == ["clean"]
    rows = assert_rows_of_pipeline(capture, options=options)
    assert [row["software_name"] for row in rows if row["correlation_id"] == 1] == ["tests"]
