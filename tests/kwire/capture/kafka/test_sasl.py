"""SASL tokens with and without Kafka headers are paired, and are shown only on request."""

from __future__ import annotations

import json
import ssl
import struct
from pathlib import Path

import pytest

from kwire.capture.model import Row
from kwire.cli.main import main
from kwire.headers import encode_request, encode_response
from kwire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.messages.metadata import MetadataRequest, MetadataResponse
from kwire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kwire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.support.captures.capture_files import CapturedConnection, build_pcap, collect_issue_kinds, read_capture_rows
from tests.support.captures.tls_captures import TlsConnection

FIRST, CHALLENGE = b"n,,n=alice,r=nonce-s3cr3t", b"r=nonce-s3cr3t-more,s=c2FsdA==,i=4096"
PROOF, VERIFIER = b"c=biws,r=nonce-s3cr3t-more,p=cHJvb2Y=", b"v=dmVyaWZpZXI="
TOKENS = (FIRST, CHALLENGE, PROOF, VERIFIER)


def handshake(mechanism: str, version: int, error: int = 0) -> CapturedConnection:
    versions = encode_request(ApiVersionsRequest("me", "1"), 0, 1, "me"), encode_response(ApiVersionsResponse(), 0, 1)
    asked = encode_request(SaslHandshakeRequest(mechanism), version, 2, "me")
    answered = encode_response(SaslHandshakeResponse(error, (mechanism,)), version, 2)
    return CapturedConnection().open().exchange(*versions).exchange(asked, answered)


def metadata(connection: CapturedConnection, correlation_id: int) -> CapturedConnection:
    asked = encode_request(MetadataRequest(topics=None), 12, correlation_id, "me")
    return connection.exchange(asked, encode_response(MetadataResponse(), 12, correlation_id))


def authenticate(connection: CapturedConnection, correlation_id: int) -> None:
    """Two rounds of SCRAM, with Kafka headers."""
    for number, (asked, answered) in enumerate(((FIRST, CHALLENGE), (PROOF, VERIFIER)), correlation_id):
        request = encode_request(SaslAuthenticateRequest(asked), 2, number, "me")
        connection.exchange(request, encode_response(SaslAuthenticateResponse(auth_bytes=answered), 2, number))


def outcomes(rows: list[Row]) -> list[tuple[object, object]]:
    return [(row["api_name"], row["status"]) for row in rows]


def raw_scram() -> CapturedConnection:
    connection = handshake("SCRAM-SHA-256", 0)
    return metadata(metadata(connection.exchange(FIRST, CHALLENGE).exchange(PROOF, VERIFIER), 3), 4)


def test_all_rounds_of_scram_without_kafka_headers_are_paired() -> None:
    found = raw_scram().read_rows()

    names = ["ApiVersions", "SaslHandshake", *["SaslToken"] * 2, *["Metadata"] * 2]
    assert [row["api_name"] for row in found] == names
    assert {row["status"] for row in found} == {"ok"}
    assert collect_issue_kinds(found) == {"sasl_token"}
    assert [row["principal"] for row in found[2:]] == ["alice"] * 4


def test_tokens_may_be_segmented_or_empty() -> None:
    connection = handshake("PLAIN", 0)
    token = b"\0alice\0" + b"x" * 300
    framed = struct.pack(">i", len(token)) + token
    for at in range(0, len(framed), 7):
        connection.send_client_bytes(framed[at : at + 7])
    metadata(connection.send_responses(b""), 3)

    assert outcomes(connection.read_rows()[2:]) == [("SaslToken", "ok"), ("Metadata", "ok")]


def test_a_rejected_token_has_no_response() -> None:
    connection = handshake("PLAIN", 0).send_requests(b"\0alice\0wrong").close()

    assert outcomes(connection.read_rows()[2:]) == [("SaslToken", "no_response")]


def test_requests_after_a_rejected_mechanism_are_read() -> None:
    connection = metadata(handshake("GSSAPI", 0, error=33), 3)

    assert outcomes(connection.read_rows()[1:]) == [("SaslHandshake", "ok"), ("Metadata", "ok")]


def test_reauthentication_keeps_the_order() -> None:
    connection = handshake("SCRAM-SHA-512", 1)
    for correlation_id in (3, 6):
        authenticate(connection, correlation_id)
        metadata(connection, correlation_id + 2)

    found = connection.read_rows()
    assert {row["status"] for row in found} == {"ok"}
    assert {row["principal"] for row in found[4:]} == {"alice"}


@pytest.mark.parametrize("form", ["table", "jsonl", "tree"])
@pytest.mark.parametrize("is_raw", [True, False])
def test_no_token_is_shown_in_any_format(
    form: str, is_raw: bool, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    connection = raw_scram()
    if not is_raw:
        connection = handshake("SCRAM-SHA-256", 1)
        authenticate(connection, 3)
    path = tmp_path / "sasl.pcap"
    path.write_bytes(build_pcap(connection.packets))

    assert main(["decode", str(path), "--format", form]) == 0
    shown = capsys.readouterr().out
    for token in TOKENS:
        for part in (token.decode(), token.hex(), token.hex(" "), token[-8:].decode(), token[-8:].hex(" ")):
            assert part not in shown
    if form == "jsonl":
        assert "***" in str([json.loads(line)["body_request"] for line in shown.splitlines()])


def test_a_token_without_a_captured_handshake_is_not_shown() -> None:
    connection = handshake("PLAIN", 0)
    lost = len(connection.packets) - 2
    metadata(connection.send_requests(b"\0ALICE\0hunter2-s3cr3t").send_responses(b""), 3)
    captured_packets = [each for index, each in enumerate(connection.packets) if index != lost]

    found = read_capture_rows(build_pcap(captured_packets))
    assert "s3cr3t" not in str(found)
    assert [row["api_name"] for row in found if row["status"] == "ok"][-1] == "Metadata"


def test_sasl_inside_tls_is_read() -> None:
    connection = TlsConnection(ssl.TLSVersion.TLSv1_3)
    agreed = encode_response(SaslHandshakeResponse(0, ("PLAIN",)), 1, 1)
    connection.exchange(encode_request(SaslHandshakeRequest("PLAIN"), 1, 1, "me"), agreed)
    asked = encode_request(SaslAuthenticateRequest(b"\0alice\0hunter2-s3cr3t"), 2, 2, "me")
    connection.exchange(asked, encode_response(SaslAuthenticateResponse(), 2, 2))

    found = read_capture_rows(build_pcap(connection.capture.packets), tls_keylog=connection.key_log)
    assert [row["api_name"] for row in found] == ["SaslHandshake", "SaslAuthenticate"]
    assert [row["principal"] for row in found] == [None, "alice"]
    assert "s3cr3t" not in str(found)
