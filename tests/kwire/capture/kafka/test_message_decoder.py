"""Unknown APIs and versions, and bodies that are too long or too short."""

from __future__ import annotations

import struct

import pytest

from kwire.codec import encode
from kwire.headers import encode_request, encode_response
from kwire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kwire.messages.early_access import share_fetch as early
from kwire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tests.support.captures.capture_files import CapturedConnection, collect_issue_kinds
from tests.support.captures.conversations import VERSIONS, identified, metadata_exchange, summarize_rows


def test_an_unsupported_api_versions_request_gets_a_version_0_response() -> None:
    refusal = struct.pack(">i", 1) + encode(ApiVersionsResponse(error_code=35, api_keys=[ApiVersion(18, 0, 4)]), 0)
    newer = VERSIONS[:2] + struct.pack(">h", 7) + VERSIONS[4:]

    rows = CapturedConnection().open().exchange(newer, refusal).read_rows()
    assert summarize_rows(rows) == [("ApiVersions", 1, "ok")]
    assert (rows[0]["api_version"], rows[0]["error_name"]) == (7, "UNSUPPORTED_VERSION")
    assert collect_issue_kinds(rows) == {"newer_version", "version_fallback"}
    assert rows[0]["software_name"] == "kwire"


def test_fields_of_a_newer_version_are_an_issue_with_their_bytes() -> None:
    fields = ApiVersionsRequest("kwire", "1.0", cluster_id="c" * 100, node_id=7)
    response = encode_response(ApiVersionsResponse(api_keys=[ApiVersion(18, 0, 5)]), 5, 1)
    connection = CapturedConnection().open().exchange(encode_request(fields, 5, 1, "me"), response)

    rows = connection.read_rows(edition="4.3")
    assert summarize_rows(rows) == [("ApiVersions", 1, "ok")]
    assert (rows[0]["api_version"], rows[0]["software_name"], rows[0]["software_version"]) == (5, "kwire", "1.0")
    issues = rows[0]["issues"]
    assert isinstance(issues, list)
    assert [(issue["kind"], issue["side"], issue["at"]) for issue in issues] == [
        ("newer_version", "request", None),
        ("newer_version", "request", 23),
    ]
    assert f"106 bytes of fields that version 4 does not have are not decoded: 65{'63' * 63}" in str(issues)
    assert collect_issue_kinds(connection.read_rows()) == set()


@pytest.mark.parametrize("size", [0, 1, 7, 30])
def test_a_newer_version_is_read_as_far_as_the_newest_known_one_goes(size: int) -> None:
    request, response = metadata_exchange(2)
    newer = request[:2] + struct.pack(">h", 99) + request[4:]

    rows = identified().exchange(newer + b"\xff" * size, response + b"\xff" * size).read_rows()
    assert summarize_rows(rows) == [("ApiVersions", 1, "ok"), ("Metadata", 2, "ok")]
    assert "version 99 is newer than the schemas; read as version 13" in str(rows[1]["issues"])


def test_a_newer_version_without_a_known_field_is_read_without_fields() -> None:
    request, response = metadata_exchange(2)
    newer = request[:2] + struct.pack(">h", 99) + request[4:13]

    rows = identified().exchange(newer, response[:5]).read_rows()
    assert summarize_rows(rows)[1] == ("Metadata", 2, "ok")
    assert collect_issue_kinds(rows) == {"newer_version"}


def test_an_unknown_api_key_is_undecodable_and_the_next_request_is_read() -> None:
    request, response = metadata_exchange(3)
    unknown = struct.pack(">hhih", 999, 0, 2, -1)

    rows = identified().send_requests(unknown, request).send_responses(response).read_rows()
    assert summarize_rows(rows) == [("ApiVersions", 1, "ok"), (None, 2, "undecodable"), ("Metadata", 3, "ok")]
    assert "API key 999 is not known" in str(rows[1]["issues"])


def test_bytes_after_a_body_are_a_warning_and_not_an_error() -> None:
    request, response = metadata_exchange(1)
    rows = CapturedConnection().open().exchange(request + b"more", response).read_rows()

    assert summarize_rows(rows) == [("Metadata", 1, "ok")]
    assert collect_issue_kinds(rows) == {"protocol_violation"}


def test_a_body_that_ends_early_is_undecodable_with_path_and_offset() -> None:
    heartbeat = encode_request(HeartbeatRequest("g", 5, "m"), 3, 2, "me")
    rows = identified().exchange(heartbeat[:-6], encode_response(HeartbeatResponse(), 3, 2)).read_rows()

    issues = rows[1]["issues"]
    assert summarize_rows(rows)[1] == ("Heartbeat", 2, "undecodable")
    assert isinstance(issues, list)
    assert issues[0]["path"].startswith("HeartbeatRequest.")
    assert 0 < issues[0]["at"] < len(heartbeat)


def test_early_access_share_requests_are_read_in_their_edition_and_named_in_another() -> None:
    request = encode_request(early.ShareFetchRequest("g", "m", 0, topics=[]), 0, 2, "me")
    response = struct.pack(">ib", 2, 0) + encode(early.ShareFetchResponse(), 0)
    connection = CapturedConnection().open().exchange(request, response)

    assert summarize_rows(connection.read_rows(edition="4.0-early-access")) == [("ShareFetch", 2, "ok")]
    assert summarize_rows(connection.read_rows()) == [("ShareFetch", 2, "undecodable")]
    assert "version 0 is outside 1 to 2 of edition 4.4" in str(connection.read_rows()[0]["issues"])
