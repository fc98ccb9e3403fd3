"""Each kind of invalid byte raises its error class, with the path of the field and the offset."""

from __future__ import annotations

import pytest

from kwire import WireError, decode, errors
from kwire.errors import InvalidLength, InvalidTag, Truncated, UnsupportedVersion

ZERO = "00" * 16


def _error(kind: type[WireError], name: str, version: int, raw: str) -> tuple[str, int | None, str]:
    with pytest.raises(WireError) as caught:
        decode(name, version, bytes.fromhex(raw))
    assert type(caught.value) is kind, caught.value
    return caught.value.path, caught.value.at, str(caught.value)


def test_a_truncated_nested_field_is_named_with_its_indexes() -> None:
    # One forgotten topic before the topics' third partition would hide a wrong index, so all counts differ.
    head = "0267 026d 00000001 00000000 00000000 00000000 00000000 00000000".replace(" ", "")
    topics = "04" + (ZERO + "01 00").replace(" ", "") * 2 + ZERO + "02" + "000000"

    path, at, text = _error(Truncated, "ShareFetchRequest", 1, head + topics)

    assert path == "ShareFetchRequest.topics[2].partitions[0].partition_index"
    assert at == len(bytes.fromhex(head + topics)) - 3
    assert text.endswith("needs 4 bytes, but 3 are left")


@pytest.mark.parametrize(("field", "version", "raw", "at", "error"), [
    ("ApiVersionsRequest", 0, "0000", 0, "TrailingBytes: 2 bytes behind the end of the message"),
    ("FindCoordinatorRequest.key", 0, "fffe", 0, "InvalidLength: length -2 is negative"),
    ("MetadataRequest.topics", 1, "fffffffe", 0, "InvalidLength: length -2 is negative"),
    ("SaslAuthenticateResponse.error_message", 2, "0000" "818002" + "61" * 32768, 2, "InvalidLength: not 32768"),
    ("FindCoordinatorRequest.key", 0, "ffff", 0, "UnexpectedNull: is null"),
    ("FindCoordinatorRequest.key", 3, "00", 0, "UnexpectedNull: is null"),
    ("OffsetDeleteRequest.topics", 0, "000167ffffffff", 3, "UnexpectedNull: is null"),
    ("SaslAuthenticateRequest.auth_bytes", 0, "ffffffff", 0, "UnexpectedNull: is null"),
    ("SaslAuthenticateRequest.auth_bytes", 2, "00", 0, "UnexpectedNull: is null"),
    ("ShareFetchRequest.topics", 1, "0101" + "00" * 24 + "00", 26, "UnexpectedNull: is null"),
    ("FindCoordinatorRequest.key", 3, "808080808001", 0, "InvalidVarint: goes on after five bytes"),
    ("FindCoordinatorRequest.key", 3, "ffffffff1f", 0, "InvalidVarint: more than 32 bits"),
    ("MetadataRequest.allow_auto_topic_creation", 4, "0000000002", 4, "InvalidBoolean: a boolean is 0 or 1, not 2"),
    ("FindCoordinatorRequest.key", 0, "000461c328c3", 3, "InvalidUtf8: is not UTF-8"),
    ("FindCoordinatorRequest.key", 0, "0003eda080", 2, "InvalidUtf8: is not UTF-8"),  # A lone surrogate.
    ("ListTransactionsRequest.tagged_fields", 0, "0101" "02" "0500" "0500", 5, "InvalidTag: tag 5 comes after tag 5"),
    ("ListTransactionsRequest.tagged_fields", 0, "0101" "02" "0500" "0400", 5, "InvalidTag: tag 4 comes after tag 5"),
])  # fmt: skip
def test_an_invalid_field_is_named_with_its_offset_and_the_reason(
    field: str, version: int, raw: str, at: int, error: str
) -> None:
    kind, _, reason = error.partition(": ")
    path, error_at, text = _error(getattr(errors, kind), field.partition(".")[0], version, raw)

    assert (path, error_at) == (field, at)
    assert text.startswith(f"{field} at byte {at}: ")
    assert reason in text


def test_a_tagged_field_must_have_its_declared_size() -> None:
    # ApiVersionsResponse v3: FinalizedFeaturesEpoch, tag 1, has 8 bytes; 9 are claimed.
    raw = "0000" + "01" + "00000000" + "01" + "0109" + "00" * 9
    path, at, text = _error(InvalidTag, "ApiVersionsResponse", 3, raw)

    assert (path, at) == ("ApiVersionsResponse.finalized_features_epoch", 8)
    assert text.endswith("tag 1 claims 9 bytes, but its field takes 8")


def test_a_tag_of_later_versions_is_rejected_as_in_kafka() -> None:
    # FetchResponse: NodeEndpoints is tag 0 from version 16 on.
    raw = "00000000" + "0000" + "00000000" + "01" + "01" + "0001" + "01"
    path, at, _ = _error(InvalidTag, "FetchResponse", 12, raw)

    assert (path, at) == ("FetchResponse.node_endpoints", 12)


def test_the_byte_before_a_struct_that_may_be_null_is_one_or_minus_one() -> None:
    raw = "00000000" + "0000" + "00" + "00" + "00000000" + "00000000" + "02"
    path, at, _ = _error(InvalidLength, "ConsumerGroupHeartbeatResponse", 0, raw)
    assert (path, at) == ("ConsumerGroupHeartbeatResponse.assignment", 16)


def test_a_version_or_message_or_edition_that_does_not_exist_is_named() -> None:
    for name, version, edition, words in [
        ("ShareFetchRequest", 0, "4.3", ("ShareFetchRequest", "version 0", "4.3")),
        ("ShareFetchRequest", 1, "4.0-early-access", ("ShareFetchRequest", "version 1", "4.0-early-access")),
        ("ShareFetchRequest", 0, "5.0", ("ShareFetchRequest", "5.0", "4.0-early-access")),
        ("NoSuchRequest", 0, "4.3", ("NoSuchRequest", "4.3")),
        ("StopReplicaRequest", 5, "4.3", ("StopReplicaRequest", "version 5")),
    ]:
        with pytest.raises(UnsupportedVersion) as caught:
            decode(name, version, b"", edition=edition)

        assert all(word in str(caught.value) for word in words), caught.value
