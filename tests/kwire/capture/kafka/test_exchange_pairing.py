"""Requests are paired with responses in any order; the client and its user are known after they were named."""

from __future__ import annotations

import pytest

from kwire.headers import encode_request, encode_response
from kwire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kwire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tests.support.captures.capture_files import CapturedConnection, collect_issue_kinds
from tests.support.captures.conversations import identified, metadata_exchange, produce_request, summarize_rows

PLAIN = b"\0alice\0s3cr3t-word"


def test_a_produce_without_acks_has_no_response() -> None:
    connection = identified().send_requests(produce_request(2, acks=0)).exchange(*metadata_exchange(3))

    rows = connection.read_rows()
    assert summarize_rows(rows) == [("ApiVersions", 1, "ok"), ("Produce", 2, "ok"), ("Metadata", 3, "ok")]
    assert [row["in_flight"] for row in rows] == [0, 0, 0]
    assert [row["records"] for row in connection.read_rows("partitions")] == [1]
    assert [row["offset"] for row in connection.read_rows("records")] == [None]


def test_a_produce_with_acks_and_no_response_is_reported() -> None:
    rows = CapturedConnection().open().send_requests(produce_request(2)).close().read_rows()

    assert summarize_rows(rows) == [("Produce", 2, "no_response")]
    assert "closed before an answer" in str(rows[0]["issues"])


def test_rows_after_api_versions_have_the_client_software() -> None:
    rows = identified().exchange(*metadata_exchange(2)).read_rows()

    assert {(row["software_name"], row["software_version"]) for row in rows} == {("kwire", "1.0")}


def test_a_response_without_a_request_is_reported() -> None:
    rows = identified().send_responses(metadata_exchange(77)[1]).read_rows()

    assert summarize_rows(rows) == [("ApiVersions", 1, "ok"), (None, 77, "no_request")]


def test_responses_out_of_order_are_marked() -> None:
    (ask2, answer2), (ask3, answer3) = metadata_exchange(2), metadata_exchange(3)
    rows = CapturedConnection().open().send_requests(ask2, ask3).send_responses(answer3, answer2).read_rows()

    assert [(row["correlation_id"], row["order_ok"], row["in_flight"]) for row in rows] == [(2, False, 0), (3, True, 1)]


def test_a_reused_pending_correlation_id_is_marked_and_matched_in_order() -> None:
    request, response = metadata_exchange(2)
    rows = CapturedConnection().open().send_requests(request, request).send_responses(response, response).read_rows()

    assert summarize_rows(rows) == [("Metadata", 2, "ok")] * 2
    assert collect_issue_kinds(rows) == {"duplicate_correlation"}


def test_sasl_tokens_after_handshake_version_0_do_not_break_the_stream() -> None:
    handshake = encode_request(SaslHandshakeRequest("PLAIN"), 0, 2, "me")
    agreed = encode_response(SaslHandshakeResponse(0, ("PLAIN",)), 0, 2)
    connection = identified().exchange(handshake, agreed)
    connection.send_requests(PLAIN).send_responses(b"").exchange(*metadata_exchange(3))

    rows = connection.read_rows()
    names = [("ApiVersions", 1), ("SaslHandshake", 2), ("SaslToken", None), ("Metadata", 3)]
    assert summarize_rows(rows) == [(*name, "ok") for name in names]
    assert collect_issue_kinds(rows) == {"sasl_token"}
    assert rows[-1]["principal"] == "alice"
    assert "s3cr3t" not in str(rows)
    assert "s3cr3t" not in str(connection.read_rows(payload=True))


@pytest.mark.parametrize(
    ("mechanism", "token", "user"),
    [
        ("PLAIN", PLAIN, "alice"),
        ("SCRAM-SHA-256", b"n,,n=al=2Cice=3D,r=nonce", "al,ice="),
        ("SCRAM-SHA-512", b"c=biws,r=nonce,p=proof", None),
        ("OAUTHBEARER", b"n,,\x01auth=Bearer x\x01\x01", None),
        ("PLAIN", b"nonsense", None),
    ],
)
def test_rows_after_authentication_have_the_principal(mechanism: str, token: bytes, user: str | None) -> None:
    for error in (0, 58):
        handshake = encode_request(SaslHandshakeRequest(mechanism), 1, 1, "me")
        agreed = encode_response(SaslHandshakeResponse(0, (mechanism,)), 1, 1)
        connection = CapturedConnection().open().exchange(handshake, agreed)
        authenticate = encode_request(SaslAuthenticateRequest(token), 2, 2, "me")

        rows = connection.exchange(authenticate, encode_response(SaslAuthenticateResponse(error), 2, 2)).read_rows()
        assert [row["principal"] for row in rows] == [None, None if error else user]
        assert rows[1]["body_request"] == '{"authBytes":"***"}'


def test_show_secrets_shows_them() -> None:
    connection = CapturedConnection().open().send_requests(encode_request(SaslAuthenticateRequest(PLAIN), 2, 2, "me"))

    assert "***" not in str(connection.read_rows(show_secrets=True))
    assert "***" in str(connection.read_rows())
