"""Truncated, damaged and random bytes raise a WireError with an offset, and no other exception."""

from __future__ import annotations

import random
from collections.abc import Iterable

import msgspec
import pytest

from kwire import WireError, decode, decode_lenient, encode, schema_codec, to_json
from kwire.errors import Truncated, UnexpectedNull
from kwire.primitives import FAILURES
from kwire.registry import codec_of_name
from tests.support.memory import memory_below
from tests.support.messages.golden_vectors import Vector, all_vectors, own_vectors
from tools.oracle.kafka_decoder import damage_bytes

pytestmark = pytest.mark.slow

#: Mutations of each vector: 23,000 in all, which take some 8 seconds.
MUTATIONS = 5
#: Of most vectors one prefix in so many is decoded; versions of a message have most of their bytes in common.
_PREFIX_STEP = 5


@pytest.mark.parametrize("part", range(2))
def test_every_prefix_of_a_message_is_truncated_with_path_and_offset(part: int) -> None:
    longest = {vector.message: vector for vector in sorted(own_vectors(), key=lambda vector: len(vector.raw))}
    wrong = [
        (vector.label, size, repr(error))
        for number, vector in enumerate(own_vectors()[part::2])
        for size in _prefix_sizes(vector, None if vector is longest[vector.message] else number)
        if not _says_where(error := _error_of(vector, size), vector, size)
    ]

    assert wrong == []


def _prefix_sizes(vector: Vector, number: int | None) -> Iterable[int]:
    """The sizes of the prefixes of a vector that are decoded. number: decides where they begin; None: all of them."""
    sizes = (*range(min(len(vector.raw), 200)), *range(200, len(vector.raw), 7))
    return sizes if number is None else sizes[number % _PREFIX_STEP :: _PREFIX_STEP]


def _error_of(vector: Vector, size: int) -> Exception | None:
    """The error of a strict decode of the first `size` bytes; without `pytest.raises`, for speed."""
    try:
        decode(vector.message, vector.version, vector.raw[:size], edition=vector.edition)
    except Exception as error:
        return error
    return None


def _says_where(error: Exception | None, vector: Vector, size: int) -> bool:
    return (
        isinstance(error, Truncated)
        and error.path.startswith(vector.message)
        and error.at is not None
        and 0 <= error.at <= size
        and error.need > error.have >= 0
    )


@pytest.mark.parametrize("part", range(4))
def test_generated_and_schema_driven_codec_agree_on_damaged_bytes(part: int) -> None:
    chance = random.Random(part)
    for vector in all_vectors()[part::4]:
        for _ in range(MUTATIONS):
            raw = damage_bytes(vector.raw, chance)
            strict = _strict(vector, raw)
            fast = _fast(vector, raw)
            if fast is not None:
                codec = codec_of_name(vector.message, vector.edition)
                reference = schema_codec.read_message(codec, vector.version, raw, 0)

                assert strict is not None, (vector.label, raw.hex())
                assert _same(fast, reference, vector.version), (vector.label, raw.hex())
            _lenient_agrees(vector, raw, strict)


def _same(one: msgspec.Struct, other: msgspec.Struct, version: int) -> bool:
    """Equal, or equal as JSON: a NaN is not equal to itself."""
    return one == other or to_json(one, version) == to_json(other, version)


def _strict(vector: Vector, raw: bytes) -> msgspec.Struct | None:
    codec = codec_of_name(vector.message, vector.edition)
    try:
        decoded = decode(vector.message, vector.version, raw, edition=vector.edition)
    except WireError:
        with pytest.raises(WireError):
            schema_codec.read_message(codec, vector.version, raw, 0)
        return None
    again = encode(decoded, vector.version)
    assert _same(decode(vector.message, vector.version, again, edition=vector.edition), decoded, vector.version)
    assert schema_codec.write_message(codec, vector.version, decoded) == again
    return decoded


def _fast(vector: Vector, raw: bytes) -> msgspec.Struct | None:
    try:
        found: msgspec.Struct
        found, end = codec_of_name(vector.message, vector.edition).readers[vector.version](raw, 0)
    except FAILURES:
        return None
    return found if end == len(raw) else None


def _lenient_agrees(vector: Vector, raw: bytes, strict: msgspec.Struct | None) -> None:
    try:
        lenient = decode_lenient(vector.message, vector.version, raw, edition=vector.edition)
    except WireError:
        assert strict is None, (vector.label, raw.hex())
        return
    # A lenient decode has warnings exactly where a strict one fails.
    assert bool(lenient.warnings) == (strict is None), (vector.label, raw.hex())
    assert all(0 <= warning.at <= len(raw) for warning in lenient.warnings)


def test_random_bytes_raise_wire_errors_only() -> None:
    chance = random.Random(11)
    for vector in all_vectors()[::3]:
        for size in (1, 3, 9, 40, 200):
            raw = chance.randbytes(size)
            _lenient_agrees(vector, raw, _strict(vector, raw))


@pytest.mark.parametrize(
    ("name", "version", "raw"),
    [
        ("MetadataRequest", 1, "7fffffff"),
        ("MetadataRequest", 12, "ffffffff0f"),
        ("OffsetDeleteRequest", 0, "00017f7fffffff"),
        ("ListGroupsRequest", 5, "ffffffff0f"),
        ("FetchResponse", 4, "000000007fffffff"),
        ("JoinGroupResponse", 6, "00000000000000000001010101ffffffff0f"),
        ("ShareFetchResponse", 1, "0000000000000100000000ffffffff0f"),
        ("ApiVersionsResponse", 3, "0000ffffffff0f"),
        ("ApiVersionsResponse", 3, "0000010000000001ffffffff0fffffffff0f"),
    ],
)
def test_a_hostile_length_allocates_nothing(name: str, version: int, raw: str) -> None:
    with pytest.raises(WireError):  # Imports what reports the error.
        decode(name, version, bytes.fromhex(raw))
    with memory_below(100_000), pytest.raises(WireError):
        decode(name, version, bytes.fromhex(raw))


def test_many_unknown_tags_are_read_in_linear_time() -> None:
    count = 30_000
    tags = b"".join(tag.to_bytes(1, "big") + b"\0" for tag in range(128))
    raw = b"\x80\x01" + tags
    assert len(decode("ListTransactionsRequest", 0, b"\1\1" + raw).unknown_tagged_fields) == 128  # type: ignore[attr-defined]

    # A repeated tag is rejected at its second occurrence, for any count.
    with pytest.raises(WireError, match="tag 0 comes after tag 0"):
        decode("ListTransactionsRequest", 0, b"\1\1\xff\xff\x01" + b"\0\0" * count)


def test_more_elements_than_bytes_are_rejected_before_the_first() -> None:
    with pytest.raises(Truncated) as caught:
        decode("MetadataRequest", 1, bytes.fromhex("0000000a0001"))

    error = caught.value
    assert (error.path, error.at, error.need, error.have) == ("MetadataRequest.topics", 0, 10, 2)


def test_an_invalid_null_is_reported_with_its_path() -> None:
    with pytest.raises(UnexpectedNull) as caught:
        decode("MetadataRequest", 0, b"\xff\xff\xff\xff")

    assert (caught.value.path, caught.value.at) == ("MetadataRequest.topics", 0)
