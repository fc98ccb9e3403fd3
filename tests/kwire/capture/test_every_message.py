"""The capture reader decodes every version of every request and response, as Kafka's classes encode them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kwire import registry
from kwire.capture.model import Row
from kwire.cli.main import main
from kwire.payload import RECORDS_FIELDS
from kwire.redact import CONFIG_MESSAGES, SECRET_FIELDS
from kwire.registry import DEFAULT_EDITION
from tests.support.captures.capture_files import CapturedConnection, build_pcap, collect_issue_kinds
from tests.support.messages.golden_vectors import Vector, vectors_by_message

pytestmark = pytest.mark.slow


def header(name: str, version: int, *fields: object) -> bytes:
    codec = registry.codec_of_name(name)
    return b"".join(codec.writers[version](codec.message(*fields)))


def conversation() -> tuple[CapturedConnection, list[tuple[Vector, Vector]]]:
    """One connection with every version of every API, each request vector with a response vector."""
    connection, rows, vectors = CapturedConnection().open(), [], vectors_by_message(DEFAULT_EDITION)
    first = vectors["ApiVersionsRequest", 0][0]
    rows.append((first, vectors["ApiVersionsResponse", 0][0]))
    for api_key in registry.API_KEYS:
        name, (low, high) = registry.api_name(api_key), registry.api_versions(api_key)
        for version in range(low, high + 1):
            pairs = zip(vectors[f"{name}Request", version], vectors[f"{name}Response", version], strict=True)
            rows += list(pairs)
    for number, (request, response) in enumerate(rows):
        api_key = registry.codec_of_name(request.message).api_key
        assert api_key is not None
        request_header, response_header = registry.header_versions(api_key, request.version)
        head = header("RequestHeader", request_header, api_key, request.version, number, "me")
        connection.send_requests(head + request.raw)
        if not is_silent(request):
            connection.send_responses(header("ResponseHeader", response_header, number) + response.raw)
    return connection, rows


def is_silent(request: Vector) -> bool:
    """Whether the request is a Produce without acks, which has no response."""
    return request.message == "ProduceRequest" and request.json["acks"] == 0


def rows_by_id(rows: list[Row]) -> dict[object, Row]:
    return {row["correlation_id"]: row for row in rows}


def is_changed(name: str) -> bool:
    """Whether rows change the JSON of the message (secrets, configurations, records)."""
    return name in SECRET_FIELDS or name in CONFIG_MESSAGES or name in RECORDS_FIELDS


def test_every_version_of_every_api_is_matched_and_decoded_to_its_golden_json() -> None:
    connection, rows = conversation()
    found = rows_by_id(connection.read_rows())

    assert len(rows) > 900
    assert len(found) == len(rows)
    for number, (request, response) in enumerate(rows):
        row = found[number]
        assert row["status"] == "ok", (request.message, request.version, row["issues"])
        assert f"{row['api_name']}Request" == request.message
        if not is_changed(request.message):
            assert json.loads(str(row["body_request"])) == request.json
        is_fallback = "version_fallback" in collect_issue_kinds([row])
        if row["body_response"] is not None and not is_fallback and not is_changed(response.message):
            assert json.loads(str(row["body_response"])) == response.json


@pytest.mark.parametrize("level", ["partitions", "share_acquired", "share_acks", "records"])
def test_every_level_can_be_built_from_every_message(level: str) -> None:
    connection, _ = conversation()

    assert connection.read_rows(level)


@pytest.mark.parametrize("form", ["table", "tree"])
def test_every_message_can_be_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str], form: str) -> None:
    connection, rows = conversation()
    path = tmp_path / "all.pcap"
    path.write_bytes(build_pcap(connection.packets))

    assert main(["decode", str(path), "--format", form]) == 0
    text = capsys.readouterr().out
    assert text.count("\n") > len(rows)
    # Records in the golden vectors are not batches; but every message must end with its frame.
    assert "behind the end of the message" not in text
