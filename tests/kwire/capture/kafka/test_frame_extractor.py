"""Frames in many segments, cut frames, and invalid lengths."""

from __future__ import annotations

import struct

from tests.support.captures.capture_files import CapturedConnection, collect_issue_kinds
from tests.support.captures.conversations import (
    VERSIONS,
    VERSIONS_RESPONSE,
    identified,
    metadata_exchange,
    summarize_rows,
)


def test_a_frame_longer_than_the_limit_is_named_and_the_next_request_is_found() -> None:
    connection = identified().send_client_bytes(struct.pack(">i", 0x7F000000))

    rows = connection.exchange(*metadata_exchange(2)).read_rows()
    assert summarize_rows(rows) == [("ApiVersions", 1, "ok"), (None, None, "undecodable"), ("Metadata", 2, "ok")]
    assert collect_issue_kinds(rows) == {"bad_length"}


def test_a_negative_length_is_named_too() -> None:
    rows = identified().send_client_bytes(b"\xff" * 8).close().read_rows()

    assert summarize_rows(rows) == [("ApiVersions", 1, "ok"), (None, None, "undecodable")]


def test_a_frame_cut_by_the_end_of_its_connection_is_truncated() -> None:
    connection = CapturedConnection().open().send_requests(VERSIONS)
    rows = connection.send_server_bytes(struct.pack(">i", 99) + VERSIONS_RESPONSE[:9]).close().read_rows()
    cut_length = identified().send_client_bytes(b"\0\0").close().read_rows()

    assert summarize_rows(rows) == [("ApiVersions", 1, "truncated")]
    assert rows[0]["resp_bytes"] == 103
    assert summarize_rows(cut_length) == [("ApiVersions", 1, "ok"), (None, None, "truncated")]
    assert collect_issue_kinds(cut_length) == {"cut_length"}


def test_segmented_requests_and_responses_are_reassembled() -> None:
    request, response = metadata_exchange(2)
    connection = CapturedConnection().open()
    for byte in struct.pack(">i", len(request)) + request:
        connection.send_client_bytes(bytes([byte]))
    for byte in struct.pack(">i", len(response)) + response:
        connection.send_server_bytes(bytes([byte]))

    rows = connection.read_rows()
    assert summarize_rows(rows) == [("Metadata", 2, "ok")]
    assert rows[0]["transfer_us"] == (len(response) + 3) * 1000
    assert rows[0]["latency_us"] == 1000
