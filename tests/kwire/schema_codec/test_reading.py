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
    return found.message, [(warning.path, warning.at) for warning in found.warnings]


EPOCH = "0108" + "00" * 7


@pytest.mark.parametrize(("field", "version", "raw", "value", "at"), [
    # Any byte but zero is true.
    ("MetadataRequest.allow_auto_topic_creation", 4, "00000000" "07", True, 4),
    # Malformed UTF-8 becomes the replacement character.
    ("FindCoordinatorRequest.key", 0, "0003" "61ff62", "a\ufffdb", 3),
    # Any negative length is null, also a varint that wraps below zero: 0xffffffff is -1 for Kafka, one less is -2.
    ("MetadataRequest.topics", 1, "fffffffb", None, 0),
    ("MetadataRequest.topics", 12, "ffffffff0f" "0000" "00", None, 0),
    # The upper bits of a long varint are lost.
    ("FindCoordinatorRequest.key", 3, "82808080" "10" "6b" "00" "00", "k", 0),
    # The claimed size of a known tag is ignored.
    ("ApiVersionsResponse.finalized_features_epoch", 3, "0000" "01" "00000000" "01" "0163" + "00" * 7 + "09", 9, 8),
])  # fmt: skip
def test_an_invalid_field_has_the_value_that_kafka_reads(
    field: str, version: int, raw: str, value: object, at: int
) -> None:
    name, _, attribute = field.partition(".")
    message, odd = _lenient(name, version, raw)

    assert getattr(message, attribute) == value
    assert odd == [(field, at)]


def test_bytes_behind_the_end_are_ignored_and_the_size_is_known() -> None:
    found = decode_lenient("FindCoordinatorRequest", 0, bytes.fromhex("00016b" + "ffff"))

    assert (found.message.key, found.size) == ("k", 3)  # type: ignore[attr-defined]
    assert [warning.what for warning in found.warnings] == ["2 bytes behind the end are ignored"]


def test_of_a_repeated_tag_the_last_one_counts() -> None:
    message, odd = _lenient("ApiVersionsResponse", 3, "0000" + "01" + "00000000" + "02" + EPOCH + "05" + EPOCH + "06")

    assert message.finalized_features_epoch == 6
    assert odd == [("ApiVersionsResponse.tagged_fields", 18)]


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
