"""Messages of the five revisions of KIP-932, byte by byte where a revision gives the bytes."""

from __future__ import annotations

import pytest

import kwire
from kwire import WireError, registry, schema
from kwire.headers import encode_response
from kwire.layout import describe_bytes, describe_response

TOPIC_ID = bytes(range(16))
TOPIC_ID_TEXT = "AAECAwQFBgcICQoLDA0ODw"


def test_the_delta_of_revision_r2_refers_to_the_one_before_and_has_no_tags() -> None:
    # Revision r2, the walk: SHARE_DELTA at offset 131.
    tree = {
        "groupId": "G1",
        "checkpointEpoch": 1,
        "backOffset": 130,
        "states": [{"baseOffset": 100, "lastOffset": 109, "state": 2, "deliveryCount": 1}],
    }
    delta = kwire.from_json("ShareDeltaValue", 0, tree, edition="kip932-r2")

    data = kwire.encode(delta, 0, edition="kip932-r2")

    assert data.hex() == (
        "00024731" "0001" "0000000000000082" "00000001" "0000000000000064" "000000000000006d" "02" "0001"
    )  # fmt: skip
    assert kwire.to_json(kwire.decode("ShareDeltaValue", 0, data, edition="kip932-r2"), 0) == tree


def test_a_checkpoint_epoch_is_an_unsigned_16_bit_number() -> None:
    tree: dict[str, object] = {"groupId": "G1", "checkpointEpoch": 65535, "startOffset": 100, "endOffset": 100}
    value = kwire.from_json("ShareCheckpointValue", 0, tree, edition="kip932-r2")

    assert kwire.encode(value, 0)[4:6] == b"\xff\xff"
    with pytest.raises(WireError, match=r"ShareCheckpointValue.checkpoint_epoch.*uint16"):
        kwire.from_json("ShareCheckpointValue", 0, tree | {"checkpointEpoch": 65536}, edition="kip932-r2")


def test_the_delta_index_of_revision_r3_is_an_unsigned_byte() -> None:
    tree = {"groupId": "G1", "topicId": TOPIC_ID_TEXT, "partition": 3, "deltaIndex": 255}
    key = kwire.from_json("ShareDeltaKey", 0, tree, edition="kip932-r3")

    data = kwire.encode(key, 0)

    assert data.hex() == "00024731" + TOPIC_ID.hex() + "00000003" + "ff"
    assert kwire.to_json(kwire.decode("ShareDeltaKey", 0, data, edition="kip932-r3"), 0) == tree
    assert describe_bytes("ShareDeltaKey", 0, data, edition="kip932-r3").root.children[-1].value == 255


def test_the_type_of_a_group_is_a_string_in_revision_r3_and_a_number_in_r4() -> None:
    word = kwire.from_json("ConsumerGroupMetadataValue", 1, {"epoch": 5, "type": "share"}, edition="kip932-r3")
    number = kwire.from_json("ConsumerGroupMetadataValue", 1, {"epoch": 5, "type": 3}, edition="kip932-r4")

    assert kwire.encode(word, 1).hex() == "0000000506" + b"share".hex() + "00"
    assert kwire.encode(number, 1).hex() == "000000050300"
    assert kwire.encode(number.__class__(5), 0).hex() == "0000000500"


def test_state_requests_of_revision_r3_are_for_one_partition_and_responses_have_no_tags() -> None:
    request = kwire.from_json(
        "WriteShareGroupStateRequest",
        0,
        {"groupId": "G1", "topicId": TOPIC_ID_TEXT, "partition": 0, "stateEpoch": 1, "startOffset": 110},
        edition="kip932-r3",
    )

    assert kwire.encode(request, 0).hex() == (
        "034731" + TOPIC_ID.hex() + "00000000" "00000001" "000000000000006e" "01" "00"
    )  # fmt: skip
    assert registry.header_versions(85, 0, "kip932-r3") == (2, 0)
    assert registry.header_versions(85, 0, "kip932-r4") == (2, 1)
    frame = encode_response(kwire.from_json("WriteShareGroupStateResponse", 0, {}, edition="kip932-r3"), 0, 7)
    assert frame.hex() == "000000070000"
    tree = describe_response(frame, 85, 0, edition="kip932-r3")
    assert [node.name for node in tree.root.walk() if node.kind.name == "LEAF"][-1] == "error_code"


def test_key_87_has_another_name_in_revision_r4() -> None:
    assert registry.api_name(87) == "ReadShareGroupStateSummary"
    assert registry.api_name(87, "4.0-early-access") == "ReadShareGroupStateSummary"
    assert registry.api_name(87, "kip932-r4") == "ReadShareGroupOffsetsState"
    assert registry.request_class(87, "kip932-r1").__name__ == "ReadShareGroupOffsetsStateRequest"


def test_an_edition_inherits_messages_from_the_editions_that_it_extends() -> None:
    def owner(name: str, edition: str) -> str:
        return registry.codec_of_name(name, edition).edition

    assert owner("ShareFetchRequest", "kip932-r1") == "kip932-r4"
    assert owner("ShareFetchRequest", "kip932-r5") == "kip932-r4"
    assert owner("ShareGroupHeartbeatRequest", "kip932-r5") == "kip932-r5"
    assert owner("ShareGroupHeartbeatRequest", "kip932-r4") == "4.0-early-access"
    assert owner("ShareGroupHeartbeatResponse", "kip932-r5") == "4.0-early-access"
    assert owner("InitializeShareGroupStateRequest", "kip932-r4") == "4.0-early-access"
    assert owner("MetadataRequest", "kip932-r3") == "4.4"
    assert schema.own_message_names("kip932-r1") == []


def test_a_class_of_the_base_edition_is_used_where_an_edition_has_none() -> None:
    fetch = registry.message_class("ShareFetchRequest", "kip932-r4")

    assert kwire.encode(fetch(), 0, edition="kip932-r1") == kwire.encode(fetch(), 0)
    with pytest.raises(WireError, match=r"is a class of edition kip932-r4, not of 4\.0-early-access"):
        kwire.encode(fetch(), 0, edition="4.0-early-access")
