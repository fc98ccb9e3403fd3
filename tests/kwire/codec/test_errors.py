"""Each kind of wrong byte has its own error, with the field's path and the offset."""

from __future__ import annotations

import pytest

from kwire import WireError, decode
from kwire.errors import (
    InvalidBoolean,
    InvalidLength,
    InvalidTag,
    InvalidUtf8,
    InvalidVarint,
    TrailingBytes,
    Truncated,
    UnexpectedNull,
    UnsupportedVersion,
)

ZERO = "00" * 16


def _error(kind: type[WireError], name: str, version: int, raw: str) -> tuple[str, int | None, str]:
    with pytest.raises(WireError) as caught:
        decode(name, version, bytes.fromhex(raw))
    assert type(caught.value) is kind, caught.value
    return caught.value.path, caught.value.at, str(caught.value)


def test_a_cut_field_deep_inside_is_named_with_its_indexes() -> None:
    # One forgotten topic before the topics' third partition would hide a wrong index, so all counts differ.
    head = "0267 026d 00000001 00000000 00000000 00000000 00000000 00000000".replace(" ", "")
    topics = "04" + (ZERO + "01 00").replace(" ", "") * 2 + ZERO + "02" + "000000"

    path, at, text = _error(Truncated, "ShareFetchRequest", 1, head + topics)

    assert path == "ShareFetchRequest.topics[2].partitions[0].partition_index"
    assert at == len(bytes.fromhex(head + topics)) - 3
    assert text.endswith("needs 4 bytes, but 3 are left")


def test_trailing_bytes_are_counted() -> None:
    assert _error(TrailingBytes, "ApiVersionsRequest", 0, "0000") == (
        "ApiVersionsRequest",
        0,
        "ApiVersionsRequest at byte 0: 2 bytes behind the end of the message",
    )


def test_a_negative_length_is_refused() -> None:
    assert _error(InvalidLength, "FindCoordinatorRequest", 0, "fffe")[:2] == ("FindCoordinatorRequest.key", 0)
    assert _error(InvalidLength, "MetadataRequest", 1, "fffffffe")[:2] == ("MetadataRequest.topics", 0)


def test_a_string_beyond_32767_bytes_is_refused() -> None:
    raw = "808002" + "61" * 32768
    assert _error(InvalidLength, "SaslAuthenticateResponse", 2, "0000" + "818002" + raw[6:])[:2] == (
        "SaslAuthenticateResponse.error_message",
        2,
    )


@pytest.mark.parametrize(("name", "version", "raw", "path"), [
    ("FindCoordinatorRequest", 0, "ffff", "FindCoordinatorRequest.key"),
    ("FindCoordinatorRequest", 3, "00", "FindCoordinatorRequest.key"),
    ("OffsetDeleteRequest", 0, "000167ffffffff", "OffsetDeleteRequest.topics"),
    ("SaslAuthenticateRequest", 0, "ffffffff", "SaslAuthenticateRequest.auth_bytes"),
    ("SaslAuthenticateRequest", 2, "00", "SaslAuthenticateRequest.auth_bytes"),
    ("ShareFetchRequest", 1, "0101" + "00" * 24 + "00", "ShareFetchRequest.topics"),
])  # fmt: skip
def test_a_null_where_none_is_allowed_is_refused(name: str, version: int, raw: str, path: str) -> None:
    assert _error(UnexpectedNull, name, version, raw)[0] == path


def test_a_varint_of_more_than_five_bytes_is_refused() -> None:
    assert _error(InvalidVarint, "FindCoordinatorRequest", 3, "808080808001")[:2] == ("FindCoordinatorRequest.key", 0)


def test_a_varint_of_more_than_32_bits_is_refused() -> None:
    assert _error(InvalidVarint, "FindCoordinatorRequest", 3, "ffffffff1f")[:2] == ("FindCoordinatorRequest.key", 0)


def test_a_boolean_is_zero_or_one() -> None:
    assert _error(InvalidBoolean, "MetadataRequest", 4, "0000000002") == (
        "MetadataRequest.allow_auto_topic_creation",
        4,
        "MetadataRequest.allow_auto_topic_creation at byte 4: a boolean is 0 or 1, not 2",
    )


def test_malformed_utf8_is_named_to_the_byte() -> None:
    assert _error(InvalidUtf8, "FindCoordinatorRequest", 0, "000461c328c3")[:2] == ("FindCoordinatorRequest.key", 3)


def test_half_a_surrogate_pair_is_not_utf8() -> None:
    assert _error(InvalidUtf8, "FindCoordinatorRequest", 0, "0003eda080")[:2] == ("FindCoordinatorRequest.key", 2)


def test_a_repeated_or_unsorted_tag_is_refused() -> None:
    assert _error(InvalidTag, "ListTransactionsRequest", 0, "0101" + "02" + "0500" + "0500")[:2] == (
        "ListTransactionsRequest.tagged_fields",
        5,
    )
    assert _error(InvalidTag, "ListTransactionsRequest", 0, "0101" + "02" + "0500" + "0400")[1] == 5


def test_a_tagged_field_must_have_the_size_it_claims() -> None:
    # ApiVersionsResponse v3: FinalizedFeaturesEpoch, tag 1, has 8 bytes; 9 are claimed.
    raw = "0000" + "01" + "00000000" + "01" + "0109" + "00" * 9
    path, at, text = _error(InvalidTag, "ApiVersionsResponse", 3, raw)

    assert (path, at) == ("ApiVersionsResponse.finalized_features_epoch", 8)
    assert text.endswith("tag 1 claims 9 bytes, but its field takes 8")


def test_a_tag_that_only_later_versions_have_is_refused_as_kafka_does() -> None:
    # FetchResponse: NodeEndpoints is tag 0 from version 16 on.
    raw = "00000000" + "0000" + "00000000" + "01" + "01" + "0001" + "01"
    path, at, _ = _error(InvalidTag, "FetchResponse", 12, raw)

    assert (path, at) == ("FetchResponse.node_endpoints", 12)


def test_the_byte_before_a_struct_that_may_be_null_is_one_or_minus_one() -> None:
    raw = "00000000" + "0000" + "00" + "00" + "00000000" + "00000000" + "02"
    assert _error(InvalidLength, "ConsumerGroupHeartbeatResponse", 0, raw)[:2] == (
        "ConsumerGroupHeartbeatResponse.assignment",
        16,
    )


def test_a_version_or_message_or_edition_that_does_not_exist_is_named() -> None:
    for name, version, edition, words in [
        ("ShareFetchRequest", 0, "4.3", ("ShareFetchRequest", "version 0", "4.3")),
        ("ShareFetchRequest", 1, "4.0-early-access", ("ShareFetchRequest", "version 1", "4.0-early-access")),
        ("ShareFetchRequest", 0, "5.0", ("ShareFetchRequest", "5.0", "4.0-early-access")),
        ("NoSuchRequest", 0, "4.3", ("NoSuchRequest", "4.3")),
        ("StopReplicaRequest", 0, "4.3", ("StopReplicaRequest",)),
    ]:
        with pytest.raises(UnsupportedVersion) as caught:
            decode(name, version, b"", edition=edition)

        assert all(word in str(caught.value) for word in words), caught.value
