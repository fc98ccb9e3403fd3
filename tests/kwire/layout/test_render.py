"""Tree and annotated hex: byte ranges, escaping, and no secrets or payloads unless requested."""

from __future__ import annotations

import kwire
from kwire.layout import describe_bytes, describe_request, describe_response, render_hex, render_tree
from kwire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kwire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.records import write_batch
from kwire.records.record import Record

EVIL = "a\x1b[2Jb\n\u202ec\\"


def metadata(name: str) -> bytes:
    return kwire.encode(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 1)


def produce() -> bytes:
    batch = write_batch([Record(0, 1000, b"my-key", b"my-value", ())])
    topic = b"\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x01\x00\x00\x00\x00"
    return b"\xff\xff\xff\xff\x00\x00\x75\x30" + topic + len(batch).to_bytes(4) + batch


def test_a_tree_has_a_line_with_the_bytes_of_every_field() -> None:
    tree = describe_bytes("MetadataRequest", 4, bytes.fromhex("000000020001610002626201"))

    assert render_tree(tree).splitlines() == [
        " 0-12  MetadataRequest v4",
        " 0-11    topics: []MetadataRequestTopic (2)",
        " 4-7       [0]: MetadataRequestTopic",
        ' 4-7         name: string = "a"',
        " 7-11      [1]: MetadataRequestTopic",
        ' 7-11        name: string = "bb"',
        "11-12    allow_auto_topic_creation: bool = true",
    ]


def test_hex_shows_every_byte_with_its_meaning() -> None:
    tree = describe_bytes("MetadataRequest", 4, bytes.fromhex("000000010012" + "61" * 18 + "01"))

    assert render_hex(tree).splitlines() == [
        "00  00 00 00 01                                      MetadataRequest.topics.(count) = 1",
        '04  00 12 61 61 61 61 61 61 61 61 61 61 61 61 61 61  MetadataRequest.topics[0].name = "aaaaaaaaaaaaaaaaaa"',
        "14  61 61 61 61",
        "18  01                                               MetadataRequest.allow_auto_topic_creation = true",
    ]


def test_null_uuid_error_code_and_unknown_tags_are_rendered_as_text() -> None:
    assert "topics: []MetadataRequestTopic = null" in render_tree(describe_bytes("MetadataRequest", 1, b"\xff" * 4))
    tree = describe_bytes("MetadataRequest", 12, bytes.fromhex("02" + "00" * 15 + "01" + "0000" + "010101ff0f02cafe"))
    shown = render_tree(tree)
    assert "topic_id: uuid = AAAAAAAAAAAAAAAAAAAAAQ" in shown
    assert "(tag 2047): unknown tagged field = cafe" in shown
    assert "api_key: int16 = 78 (ShareFetch)" in render_tree(
        describe_bytes("ApiVersionsResponse", 0, bytes.fromhex("000000000001004e00010002"))
    )
    assert "error_code: int16 = 25 (UNKNOWN_MEMBER_ID)" in render_tree(
        describe_bytes("HeartbeatResponse", 0, b"\0\x19")
    )


def test_damage_is_a_separate_line_in_both_renderings() -> None:
    tree = describe_bytes("MetadataRequest", 1, bytes.fromhex("00000001000561"))

    assert render_tree(tree).splitlines()[-1].strip() == "4-7          !! needs 5 bytes, but 1 are left (at byte 6)"
    assert (
        render_hex(tree)
        .splitlines()[-1]
        .endswith("MetadataRequest.topics[0].name !! needs 5 bytes, but 1 are left (at byte 6)")
    )


def test_text_from_the_wire_is_escaped() -> None:
    tree = describe_bytes("MetadataRequest", 1, metadata(EVIL))

    for shown in (render_tree(tree), render_hex(tree)):
        assert '"a\\x1b[2Jb\\n\\u202ec\\\\"' in shown
        assert all(line.isprintable() for line in shown.splitlines())


def test_long_texts_bytes_and_arrays_are_truncated_with_their_length() -> None:
    assert '... (50 more characters)"' in render_tree(describe_bytes("MetadataRequest", 1, metadata("x" * 250)))
    request = kwire.encode(SaslAuthenticateRequest(auth_bytes=bytes(40)), 0)
    shown = render_tree(describe_bytes("SaslAuthenticateRequest", 0, request), show_secrets=True)
    assert f"auth_bytes: bytes = {'00' * 32} ... 40 bytes" in shown
    partitions = bytes.fromhex("00000001000174000000010000000100000064") + bytes(405)
    assert "[0, 0, " in render_tree(describe_bytes("CreatePartitionsRequest", 0, partitions))
    assert ", ... 100 in all]" in render_tree(describe_bytes("CreatePartitionsRequest", 0, partitions))


def test_a_secret_is_hidden_in_both_renderings_unless_requested() -> None:
    data = kwire.encode(SaslAuthenticateRequest(auth_bytes=b"\0alice\0hunter2"), 2)
    tree = describe_bytes("SaslAuthenticateRequest", 2, data)

    for shown in (render_tree(tree), render_hex(tree)):
        assert "auth_bytes" in shown
        assert "***" in shown
        assert b"hunter2".hex() not in shown.replace(" ", "")
    assert b"hunter2".hex() in render_tree(tree, show_secrets=True)
    assert b"hunter2".hex() in render_hex(tree, show_secrets=True).replace(" ", "")


def test_a_sensitive_configuration_is_hidden_and_the_next_one_is_not() -> None:
    configs = [
        CreatableTopicConfig(name="ssl.keystore.password", value="hunter2"),
        CreatableTopicConfig(name="retention.ms", value="1000"),
    ]
    data = kwire.encode(CreateTopicsRequest(topics=[CreatableTopic(name="t", configs=configs)]), 5)

    shown = render_tree(describe_bytes("CreateTopicsRequest", 5, data))

    assert "hunter2" not in shown
    assert 'value: string = "1000"' in shown


def test_damaged_bytes_of_a_message_with_secrets_stay_hidden() -> None:
    data = kwire.encode(SaslAuthenticateRequest(auth_bytes=b"\0alice\0hunter2"), 0)[:-1]
    tree = describe_bytes("SaslAuthenticateRequest", 0, data)

    assert b"hunter".hex() not in render_hex(tree).replace(" ", "")
    assert "needs 14 bytes, but 13 are left" in render_hex(tree)


def test_keys_and_values_of_records_are_sizes_unless_requested() -> None:
    tree = describe_bytes("ProduceRequest", 3, produce())

    for shown in (render_tree(tree), render_hex(tree)):
        assert b"my-value".hex() not in shown.replace(" ", "")
        assert b"my-key".hex() not in shown.replace(" ", "")
        assert "= 8 bytes" in shown
    assert f"value: bytes = {b'my-value'.hex()}" in render_tree(tree, payload=True)
    assert b"my-value".hex() in render_hex(tree, payload=True).replace(" ", "")


def test_a_request_frame_is_header_and_body() -> None:
    frame = bytes.fromhex("000300010000000700026d65") + metadata("a")

    tree = describe_request(frame)

    assert tree.errors == []
    assert tree.find("RequestHeader.client_id").value == "me"
    assert tree.find("MetadataRequest.topics[0].name").value == "a"
    assert render_tree(tree).splitlines()[:2] == [" 0-19  frame", " 0-12    RequestHeader v1"]


def test_a_flexible_request_has_a_flexible_header() -> None:
    tree = describe_request(bytes.fromhex("0012000300000007ffff000261026200"))

    assert tree.errors == []
    assert [node.type for node in tree.root.children] == ["RequestHeader v2", "ApiVersionsRequest v3"]


def test_the_api_versions_response_keeps_the_old_header() -> None:
    body = "0000010000000000"

    tree = describe_response(bytes.fromhex("00000007" + body), 18, 3)

    assert tree.errors == []
    assert [node.type for node in tree.root.children] == ["ResponseHeader v0", "ApiVersionsResponse v3"]
    flexible = describe_response(bytes.fromhex("000000070000000000000000"), 12, 4)
    assert [node.type for node in flexible.root.children] == ["ResponseHeader v1", "HeartbeatResponse v4"]


def test_a_frame_that_ends_in_its_header_is_a_tree_with_damage() -> None:
    tree = describe_request(b"\x00\x12\x00")

    assert tree.damage is not None
    assert tree.damage.path == "RequestHeader.request_api_version"


def test_secrets_in_a_whole_frame_are_hidden_too() -> None:
    body = kwire.encode(SaslAuthenticateRequest(auth_bytes=b"\0alice\0hunter2"), 0)

    shown = render_hex(describe_request(bytes.fromhex("0024000000000007ffff") + body))

    assert b"hunter2".hex() not in shown.replace(" ", "")
