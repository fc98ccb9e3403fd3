"""A lenient decode reads what Kafka reads, and says what was odd."""

from __future__ import annotations

from typing import Any

import pytest

from kwire import WireError, decode, decode_lenient
from kwire.errors import InvalidLength, InvalidTag, Truncated, UnexpectedNull


def _lenient(name: str, version: int, raw: str) -> tuple[Any, list[tuple[str, int]]]:
    found = decode_lenient(name, version, bytes.fromhex(raw))
    with pytest.raises(WireError):
        decode(name, version, bytes.fromhex(raw))
    return found.message, [(oddity.path, oddity.at) for oddity in found.oddities]


def test_any_byte_but_zero_is_true() -> None:
    message, odd = _lenient("MetadataRequest", 4, "00000000" + "07")

    assert message.allow_auto_topic_creation is True
    assert odd == [("MetadataRequest.allow_auto_topic_creation", 4)]


def test_malformed_utf8_becomes_the_replacement_character() -> None:
    message, odd = _lenient("FindCoordinatorRequest", 0, "0003" + "61ff62")

    assert message.key == "a\ufffdb"
    assert odd == [("FindCoordinatorRequest.key", 3)]


def test_bytes_behind_the_end_are_ignored_and_the_size_is_known() -> None:
    found = decode_lenient("FindCoordinatorRequest", 0, bytes.fromhex("00016b" + "ffff"))

    assert (found.message.key, found.size) == ("k", 3)  # type: ignore[attr-defined]
    assert [oddity.what for oddity in found.oddities] == ["2 bytes behind the end are ignored"]


def test_any_negative_length_is_null() -> None:
    message, odd = _lenient("MetadataRequest", 1, "fffffffb")

    assert message.topics is None
    assert odd == [("MetadataRequest.topics", 0)]


def test_a_varint_length_that_wraps_below_zero_is_null() -> None:
    # 0xffffffff is -1 for Kafka, one less is -2.
    message, odd = _lenient("MetadataRequest", 12, "ffffffff0f" + "0000" + "00")

    assert message.topics is None
    assert odd == [("MetadataRequest.topics", 0)]


def test_the_upper_bits_of_a_long_varint_are_lost() -> None:
    message, odd = _lenient("FindCoordinatorRequest", 3, "82808080" + "10" + "6b" + "00" + "00")

    assert message.key == "k"
    assert odd == [("FindCoordinatorRequest.key", 0)]


def test_of_a_repeated_tag_the_last_one_counts() -> None:
    epoch = "0108" + "00" * 7
    message, odd = _lenient("ApiVersionsResponse", 3, "0000" + "01" + "00000000" + "02" + epoch + "05" + epoch + "06")

    assert message.finalized_features_epoch == 6
    assert odd == [("ApiVersionsResponse.tagged_fields", 18)]


def test_the_claimed_size_of_a_known_tag_is_ignored() -> None:
    message, odd = _lenient("ApiVersionsResponse", 3, "0000" + "01" + "00000000" + "01" + "0163" + "00" * 7 + "09")

    assert message.finalized_features_epoch == 9
    assert odd == [("ApiVersionsResponse.finalized_features_epoch", 8)]


def test_the_byte_before_a_struct_is_only_looked_at_for_its_sign() -> None:
    head = "00000000" + "0000" + "00" + "00" + "00000000" + "00000000"
    null, odd = _lenient("ConsumerGroupHeartbeatResponse", 0, head + "80" + "00")
    present, also_odd = _lenient("ConsumerGroupHeartbeatResponse", 0, head + "02" + "01" + "00" + "00")

    assert null.assignment is None
    assert present.assignment.topic_partitions == []
    assert odd == also_odd == [("ConsumerGroupHeartbeatResponse.assignment", 16)]


@pytest.mark.parametrize(("name", "version", "raw", "kind"), [
    ("FindCoordinatorRequest", 0, "0005" + "61", Truncated),
    ("FindCoordinatorRequest", 0, "fffd", UnexpectedNull),
    ("MetadataRequest", 1, "00000064" + "0000", Truncated),
    ("SaslAuthenticateResponse", 2, "0000" + "818002" + "61" * 32768, InvalidLength),
    ("FetchResponse", 12, "00000000" + "0000" + "00000000" + "01" + "01" + "0001" + "01", InvalidTag),
])  # fmt: skip
def test_where_kafka_fails_a_lenient_decode_fails(name: str, version: int, raw: str, kind: type[WireError]) -> None:
    with pytest.raises(kind):
        decode_lenient(name, version, bytes.fromhex(raw))


def test_not_strict_is_the_message_of_a_lenient_decode() -> None:
    assert decode("FindCoordinatorRequest", 0, bytes.fromhex("00016bff"), strict=False).key == "k"  # type: ignore[attr-defined]
