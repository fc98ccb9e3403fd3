"""SASL inside a stream: tokens with and without Kafka headers are followed, and never shown unless asked for."""

from __future__ import annotations

import json
import ssl
import struct
from pathlib import Path

import pytest

from kwire.cli.main import main
from kwire.headers import encode_request, encode_response
from kwire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kwire.messages.metadata import MetadataRequest, MetadataResponse
from kwire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kwire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.kwire.capture.tls_wire import Connection
from tests.kwire.capture.wire import Talk, issue_kinds, pcap, read

FIRST, CHALLENGE = b"n,,n=alice,r=nonce-s3cr3t", b"r=nonce-s3cr3t-more,s=c2FsdA==,i=4096"
PROOF, VERIFIER = b"c=biws,r=nonce-s3cr3t-more,p=cHJvb2Y=", b"v=dmVyaWZpZXI="
TOKENS = (FIRST, CHALLENGE, PROOF, VERIFIER)


def handshake(talk: Talk, mechanism: str, version: int, error: int = 0) -> Talk:
    talk.open().asks(encode_request(ApiVersionsRequest("me", "1"), 0, 1, "me"))
    talk.answers(encode_response(ApiVersionsResponse(), 0, 1))
    talk.asks(encode_request(SaslHandshakeRequest(mechanism), version, 2, "me"))
    return talk.answers(encode_response(SaslHandshakeResponse(error, (mechanism,)), version, 2))


def metadata(talk: Talk, correlation_id: int) -> Talk:
    talk.asks(encode_request(MetadataRequest(topics=None), 12, correlation_id, "me"))
    return talk.answers(encode_response(MetadataResponse(), 12, correlation_id))


def raw_scram() -> Talk:
    talk = handshake(Talk(), "SCRAM-SHA-256", 0)
    talk.asks(FIRST).answers(CHALLENGE).asks(PROOF).answers(VERIFIER)
    return metadata(metadata(talk, 3), 4)


def test_scram_without_kafka_headers_is_followed_through_its_rounds() -> None:
    found = raw_scram().rows()

    assert [row["api_name"] for row in found] == [
        "ApiVersions",
        "SaslHandshake",
        "SaslToken",
        "SaslToken",
        "Metadata",
        "Metadata",
    ]
    assert {row["status"] for row in found} == {"ok"}
    assert issue_kinds(found) == {"sasl_token"}
    assert [row["principal"] for row in found[2:]] == ["alice"] * 4


def test_tokens_may_come_in_pieces_and_be_empty() -> None:
    talk = handshake(Talk(), "PLAIN", 0)
    token = b"\0alice\0" + b"x" * 300
    framed = struct.pack(">i", len(token)) + token
    for at in range(0, len(framed), 7):
        talk.client_bytes(framed[at : at + 7])
    metadata(talk.answers(b""), 3)

    found = talk.rows()
    assert [(row["api_name"], row["status"]) for row in found[2:]] == [("SaslToken", "ok"), ("Metadata", "ok")]


def test_a_refused_token_is_one_without_an_answer() -> None:
    talk = handshake(Talk(), "PLAIN", 0).asks(b"\0alice\0wrong").close()

    assert [(row["api_name"], row["status"]) for row in talk.rows()[2:]] == [("SaslToken", "no_response")]


def test_requests_go_on_where_a_mechanism_was_refused() -> None:
    talk = metadata(handshake(Talk(), "GSSAPI", 0, error=33), 3)

    assert [(row["api_name"], row["status"]) for row in talk.rows()[1:]] == [
        ("SaslHandshake", "ok"),
        ("Metadata", "ok"),
    ]


def test_a_connection_that_authenticates_again_keeps_its_order() -> None:
    talk = handshake(Talk(), "SCRAM-SHA-512", 1)
    for correlation_id in (3, 6):
        for number, (asked, answered) in enumerate(((FIRST, CHALLENGE), (PROOF, VERIFIER))):
            talk.asks(encode_request(SaslAuthenticateRequest(asked), 2, correlation_id + number, "me"))
            talk.answers(encode_response(SaslAuthenticateResponse(auth_bytes=answered), 2, correlation_id + number))
        metadata(talk, correlation_id + 2)

    found = talk.rows()
    assert {row["status"] for row in found} == {"ok"}
    assert {row["principal"] for row in found[4:]} == {"alice"}


@pytest.mark.parametrize("form", ["table", "jsonl", "tree"])
@pytest.mark.parametrize("is_raw", [True, False])
def test_no_token_is_shown_in_any_format(
    form: str, is_raw: bool, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    talk = raw_scram()
    if not is_raw:
        talk = handshake(Talk(), "SCRAM-SHA-256", 1)
        for number, (asked, answered) in enumerate(((FIRST, CHALLENGE), (PROOF, VERIFIER))):
            talk.asks(encode_request(SaslAuthenticateRequest(asked), 2, 3 + number, "me"))
            talk.answers(encode_response(SaslAuthenticateResponse(auth_bytes=answered), 2, 3 + number))
    path = tmp_path / "sasl.pcap"
    path.write_bytes(pcap(talk.wires))

    assert main(["decode", str(path), "--format", form]) == 0
    shown = capsys.readouterr().out
    for token in TOKENS:
        for part in (token.decode(), token.hex(), token.hex(" "), token[-8:].decode(), token[-8:].hex(" ")):
            assert part not in shown
    if form == "jsonl":
        assert "***" in str([json.loads(line)["body_request"] for line in shown.splitlines()])


def test_a_token_whose_handshake_was_lost_is_not_shown_either() -> None:
    talk = handshake(Talk(), "PLAIN", 0)
    lost = len(talk.wires) - 2
    metadata(talk.asks(b"\0ALICE\0hunter2-s3cr3t").answers(b""), 3)
    wires = [each for index, each in enumerate(talk.wires) if index != lost]

    found = read(pcap(wires))
    assert "s3cr3t" not in str(found)
    assert [row["api_name"] for row in found if row["status"] == "ok"][-1] == "Metadata"


def test_sasl_inside_tls_is_followed() -> None:
    connection = Connection(ssl.TLSVersion.TLSv1_3)
    agreed = encode_response(SaslHandshakeResponse(0, ("PLAIN",)), 1, 1)
    connection.exchange(encode_request(SaslHandshakeRequest("PLAIN"), 1, 1, "me"), agreed)
    asked = encode_request(SaslAuthenticateRequest(b"\0alice\0hunter2-s3cr3t"), 2, 2, "me")
    connection.exchange(asked, encode_response(SaslAuthenticateResponse(), 2, 2))

    found = read(pcap(connection.talk.wires), tls_keylog=connection.keys)
    assert [(row["api_name"], row["principal"]) for row in found] == [
        ("SaslHandshake", None),
        ("SaslAuthenticate", "alice"),
    ]
    assert "s3cr3t" not in str(found)
