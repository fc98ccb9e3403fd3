"""What a conversation may hold: answers that never come, versions nobody knows, credentials, lengths that lie."""

from __future__ import annotations

import struct

import pytest

from kwire.capture.rows import Row
from kwire.capture.text import json_line
from kwire.codec import encode
from kwire.headers import encode_request, encode_response
from kwire.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from kwire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.messages.early_access import share_fetch as early
from kwire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.messages.metadata import MetadataRequest, MetadataResponse
from kwire.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData
from kwire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kwire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kwire.records import Record, write_batch
from tests.kwire.capture.wire import Talk, issue_kinds

VERSIONS = encode_request(ApiVersionsRequest("kwire", "1.0"), 3, 1, "me")
VERSIONS_ANSWER = encode_response(ApiVersionsResponse(api_keys=[ApiVersion(18, 0, 4)]), 3, 1)


def metadata(correlation_id: int) -> tuple[bytes, bytes]:
    return (
        encode_request(MetadataRequest(topics=None), 12, correlation_id, "me"),
        encode_response(MetadataResponse(cluster_id="c"), 12, correlation_id),
    )


def produce(acks: int, correlation_id: int) -> bytes:
    batch = write_batch([Record(0, 5, b"k", b"v")])
    topics = [TopicProduceData("t", partition_data=[PartitionProduceData(0, batch)])]
    return encode_request(ProduceRequest(acks=acks, timeout_ms=9, topic_data=topics), 9, correlation_id, "me")


def said(found: list[Row]) -> list[tuple[object, object, object]]:
    return [(row["api_name"], row["correlation_id"], row["status"]) for row in found]


def test_a_produce_without_acks_wants_no_answer() -> None:
    ask, answer = metadata(3)
    talk = Talk().open().asks(VERSIONS).answers(VERSIONS_ANSWER).asks(produce(0, 2)).asks(ask).answers(answer)

    found = talk.rows()
    assert said(found) == [("ApiVersions", 1, "ok"), ("Produce", 2, "ok"), ("Metadata", 3, "ok")]
    assert [row["in_flight"] for row in found] == [0, 0, 0]
    assert [row["records"] for row in talk.rows("partitions")] == [1]
    assert [row["offset"] for row in talk.rows("records")] == [None]


def test_a_produce_with_acks_that_nobody_answers_is_told() -> None:
    found = Talk().open().asks(produce(1, 2)).close().rows()

    assert said(found) == [("Produce", 2, "no_response")]
    assert "closed before an answer" in str(found[0]["issues"])


def test_an_api_versions_too_new_for_the_broker_is_answered_as_version_0() -> None:
    refusal = struct.pack(">i", 1) + encode(ApiVersionsResponse(error_code=35, api_keys=[ApiVersion(18, 0, 4)]), 0)
    newer = VERSIONS[:2] + struct.pack(">h", 7) + VERSIONS[4:]

    found = Talk().open().asks(newer).answers(refusal).rows()
    assert said(found) == [("ApiVersions", 1, "ok")]
    assert (found[0]["api_version"], found[0]["error_name"]) == (7, "UNSUPPORTED_VERSION")
    assert issue_kinds(found) == {"newer_version", "version_fallback"}
    assert found[0]["software_name"] == "kwire"


def test_the_clients_software_is_told_in_all_rows_behind_its_api_versions() -> None:
    ask, answer = metadata(2)
    found = Talk().open().asks(VERSIONS).answers(VERSIONS_ANSWER).asks(ask).answers(answer).rows()

    assert {(row["software_name"], row["software_version"]) for row in found} == {("kwire", "1.0")}


def test_a_version_that_the_schemas_do_not_have_is_undecodable_and_names_it() -> None:
    ask, answer = metadata(2)
    newer = ask[:2] + struct.pack(">h", 14) + ask[4:]

    found = Talk().open().asks(VERSIONS).answers(VERSIONS_ANSWER).asks(newer).answers(answer).rows()
    assert said(found) == [("ApiVersions", 1, "ok"), ("Metadata", 2, "undecodable")]
    assert "version 14 is outside 0 to 13" in str(found[1]["issues"])


def test_an_api_key_that_nobody_knows_is_undecodable_and_the_next_request_is_read() -> None:
    ask, answer = metadata(3)
    unknown = struct.pack(">hhih", 999, 0, 2, -1)

    found = Talk().open().asks(VERSIONS).answers(VERSIONS_ANSWER).asks(unknown, ask).answers(answer).rows()
    assert said(found) == [("ApiVersions", 1, "ok"), (None, 2, "undecodable"), ("Metadata", 3, "ok")]
    assert "API key 999 is not known" in str(found[1]["issues"])


def test_bytes_behind_a_body_are_an_oddity_and_not_an_error() -> None:
    ask, answer = metadata(1)
    found = Talk().open().asks(ask + b"more").answers(answer).rows()

    assert said(found) == [("Metadata", 1, "ok")]
    assert issue_kinds(found) == {"oddity"}


def test_a_body_that_ends_early_is_undecodable_with_path_and_offset() -> None:
    heartbeat = encode_request(HeartbeatRequest("g", 5, "m"), 3, 2, "me")
    found = (
        Talk().open().asks(VERSIONS).answers(VERSIONS_ANSWER).asks(heartbeat[:-6])
        .answers(encode_response(HeartbeatResponse(), 3, 2)).rows()
    )  # fmt: skip

    issues = found[1]["issues"]
    assert said(found)[1] == ("Heartbeat", 2, "undecodable")
    assert isinstance(issues, list)
    assert issues[0]["path"].startswith("HeartbeatRequest.")
    assert 0 < issues[0]["at"] < len(heartbeat)


def test_a_response_to_nothing_is_told() -> None:
    found = Talk().open().asks(VERSIONS).answers(VERSIONS_ANSWER, metadata(77)[1]).rows()

    assert said(found) == [("ApiVersions", 1, "ok"), (None, 77, "no_request")]


def test_responses_out_of_order_are_marked() -> None:
    (ask2, answer2), (ask3, answer3) = metadata(2), metadata(3)
    found = Talk().open().asks(ask2, ask3).answers(answer3, answer2).rows()

    assert [(row["correlation_id"], row["order_ok"], row["in_flight"]) for row in found] == [
        (2, False, 0),
        (3, True, 1),
    ]


def test_a_correlation_id_used_twice_at_once_is_marked_and_answered_in_turn() -> None:
    ask, answer = metadata(2)
    found = Talk().open().asks(ask, ask).answers(answer, answer).rows()

    assert said(found) == [("Metadata", 2, "ok")] * 2
    assert issue_kinds(found) == {"duplicate_correlation"}


PLAIN = b"\0alice\0s3cr3t-word"


def test_sasl_tokens_behind_handshake_version_0_do_not_break_the_stream() -> None:
    handshake = encode_request(SaslHandshakeRequest("PLAIN"), 0, 2, "me")
    agreed = encode_response(SaslHandshakeResponse(0, ("PLAIN",)), 0, 2)
    ask, answer = metadata(3)
    talk = Talk().open().asks(VERSIONS).answers(VERSIONS_ANSWER).asks(handshake).answers(agreed)
    talk.asks(PLAIN).answers(b"").asks(ask).answers(answer)

    found = talk.rows()
    assert said(found) == [
        ("ApiVersions", 1, "ok"), ("SaslHandshake", 2, "ok"), ("SaslToken", None, "ok"), ("Metadata", 3, "ok"),
    ]  # fmt: skip
    assert issue_kinds(found) == {"sasl_token"}
    assert found[-1]["principal"] == "alice"
    assert "s3cr3t" not in str(found)
    assert "s3cr3t" not in str(talk.rows(payload=True))


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
def test_the_user_is_told_once_authentication_succeeded(mechanism: str, token: bytes, user: str | None) -> None:
    for error in (0, 58):
        talk = Talk().open().asks(encode_request(SaslHandshakeRequest(mechanism), 1, 1, "me"))
        talk.answers(encode_response(SaslHandshakeResponse(0, (mechanism,)), 1, 1))
        talk.asks(encode_request(SaslAuthenticateRequest(token), 2, 2, "me"))
        talk.answers(encode_response(SaslAuthenticateResponse(error), 2, 2))

        found = talk.rows()
        assert [row["principal"] for row in found] == [None, None if error else user]
        assert found[1]["body_request"] == '{"authBytes":"***"}'


def test_show_secrets_shows_them() -> None:
    talk = Talk().open().asks(encode_request(SaslAuthenticateRequest(PLAIN), 2, 2, "me"))

    assert "***" not in str(talk.rows(show_secrets=True))
    assert "***" in str(talk.rows())


@pytest.mark.parametrize("hello", [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"\x15\x03\x03\x00\x02\x02\x28"])
def test_tls_on_a_plain_port_is_named(hello: bytes) -> None:
    found = Talk().open().client_bytes(hello).close().rows()

    assert [(row["tls"], row["status"]) for row in found] == [(True, "undecodable")]
    assert issue_kinds(found) == {"tls"}


def test_a_frame_longer_than_the_limit_is_named_and_the_next_request_is_found() -> None:
    ask, answer = metadata(2)
    talk = Talk().open().asks(VERSIONS).answers(VERSIONS_ANSWER)
    talk.client_bytes(struct.pack(">i", 0x7F000000)).asks(ask).answers(answer)

    found = talk.rows()
    assert said(found) == [("ApiVersions", 1, "ok"), (None, None, "undecodable"), ("Metadata", 2, "ok")]
    assert issue_kinds(found) == {"bad_length"}


def test_a_negative_length_is_named_too() -> None:
    found = Talk().open().asks(VERSIONS).answers(VERSIONS_ANSWER).client_bytes(b"\xff" * 8).close().rows()

    assert said(found) == [("ApiVersions", 1, "ok"), (None, None, "undecodable")]


def test_a_connection_that_closes_inside_a_frame_is_truncated() -> None:
    found = Talk().open().asks(VERSIONS).server_bytes(struct.pack(">i", 99) + VERSIONS_ANSWER[:9]).close().rows()
    cut_length = Talk().open().asks(VERSIONS).answers(VERSIONS_ANSWER).client_bytes(b"\0\0").close().rows()

    assert said(found) == [("ApiVersions", 1, "truncated")]
    assert found[0]["resp_bytes"] == 103
    assert said(cut_length) == [("ApiVersions", 1, "ok"), (None, None, "truncated")]
    assert issue_kinds(cut_length) == {"cut_length"}


def test_requests_and_responses_in_pieces_are_put_together() -> None:
    ask, answer = metadata(2)
    talk = Talk().open()
    for byte in struct.pack(">i", len(ask)) + ask:
        talk.client_bytes(bytes([byte]))
    for byte in struct.pack(">i", len(answer)) + answer:
        talk.server_bytes(bytes([byte]))

    found = talk.rows()
    assert said(found) == [("Metadata", 2, "ok")]
    assert found[0]["transfer_us"] == (len(answer) + 3) * 1000
    assert found[0]["latency_us"] == 1000


def test_apis_chosen_are_the_only_rows() -> None:
    ask, answer = metadata(2)
    talk = Talk().open().asks(VERSIONS).answers(VERSIONS_ANSWER).asks(ask).answers(answer).client_bytes(b"\xff" * 4)

    assert [row["api_name"] for row in talk.rows(apis=frozenset({"Metadata"}))] == ["Metadata"]
    assert len(talk.rows()) == 3


def test_early_access_share_requests_are_read_in_their_edition_and_named_in_another() -> None:
    ask = encode_request(early.ShareFetchRequest("g", "m", 0, topics=[]), 0, 2, "me")
    answer = struct.pack(">ib", 2, 0) + encode(early.ShareFetchResponse(), 0)
    talk = Talk().open().asks(ask).answers(answer)

    assert said(talk.rows(edition="4.0-early-access")) == [("ShareFetch", 2, "ok")]
    assert said(talk.rows()) == [("ShareFetch", 2, "undecodable")]
    assert "version 0 is outside 1 to 2 of edition 4.3" in str(talk.rows()[0]["issues"])


def test_partition_counts_that_fit_no_column_are_the_greatest_that_does() -> None:
    topics = [CreatableTopic("a", 2**31 - 1), CreatableTopic("b", 2**31 - 1)]
    found = Talk().open().asks(encode_request(CreateTopicsRequest(topics), 5, 2, "me")).rows()

    assert (found[0]["n_topics"], found[0]["n_partitions"]) == (2, 2**31 - 1)


def test_damaged_record_batches_are_an_issue_of_a_message_that_is_whole() -> None:
    request = bytearray(produce(1, 2))
    request[-8] ^= 1
    found = Talk().open().asks(bytes(request)).answers(encode_response(ProduceResponse(), 9, 2)).rows()

    assert said(found) == [("Produce", 2, "ok")]
    assert issue_kinds(found) == {"records"}
    assert "CRC" in str(found[0]["issues"])


def test_records_that_cannot_be_read_are_a_row_that_says_why() -> None:
    good, bad = produce(1, 2), bytearray(produce(1, 3))
    bad[bad.index(b"\x02k") - 1 :] = b"\x7f" * (len(bad) - bad.index(b"\x02k") + 1)
    broken = bad[:-3] + b"\0\0\0"
    found = Talk().open().asks(good, bytes(broken)).rows("records")

    assert [(row["correlation_id"], row["value_size"], row["issue"] is None) for row in found] == [
        (2, 1, True),
        (3, None, False),
    ]


@pytest.mark.parametrize(
    ("timestamp", "shown"),
    [
        (0, 0),
        (253_402_300_799_999, 253_402_300_799_999_000_000),
        (253_402_300_800_000, None),
        (2**63 - 1, None),
        (-1, None),
        (-(2**63), None),
    ],
)
def test_a_time_that_no_calendar_holds_is_null_and_never_another_time(timestamp: int, shown: int | None) -> None:
    batch = write_batch([Record(0, timestamp, b"k", b"v")])
    topics = [TopicProduceData("t", partition_data=[PartitionProduceData(0, batch)])]
    talk = Talk().open().asks(encode_request(ProduceRequest(acks=1, topic_data=topics), 9, 2, "me"))

    assert [row["timestamp"] for row in talk.rows("records")] == [shown]
    assert json_line(talk.rows("records")[0], "records")


def test_on_a_port_that_was_named_even_a_first_request_that_nobody_knows_is_a_row() -> None:
    talk = Talk().open().asks(struct.pack(">hhih", 999, 0, 2, -1)).close()

    assert talk.rows() == []
    assert said(talk.rows(ports=frozenset({9092}))) == [(None, 2, "undecodable")]
    assert issue_kinds(talk.rows(ports=frozenset({9092}))) >= {"unknown_api"}
