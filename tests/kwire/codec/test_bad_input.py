"""Bytes that are cut, changed or made up: a WireError that says where, and never anything else."""

from __future__ import annotations

import random
import tracemalloc

import msgspec
import pytest

from kwire import WireError, careful, decode, decode_lenient, encode, to_json
from kwire.errors import Truncated, UnexpectedNull
from kwire.primitives import FAILURES
from kwire.registry import codec_of_name
from tests.kwire.codec.golden import FILES, Vector, all_vectors, vectors
from tools.oracle.judge import changed

#: Mutations of each vector; all of them take some 15 seconds.
MUTATIONS = 15


@pytest.mark.parametrize("edition", FILES)
def test_every_prefix_of_a_message_is_truncated_and_says_where(edition: str) -> None:
    wrong = [
        (vector.label, size, repr(error))
        for vector in vectors(edition)
        for size in range(len(vector.raw))
        if not _says_where(error := _error_of(vector, size), vector, size)
    ]

    assert wrong == []


def _error_of(vector: Vector, size: int) -> Exception | None:
    """What a strict decode of the first `size` bytes fails with; half a million times, so without `pytest.raises`."""
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
def test_the_two_passes_judge_changed_bytes_alike(part: int) -> None:
    chance = random.Random(part)
    for vector in all_vectors()[part::4]:
        for _ in range(MUTATIONS):
            raw = changed(vector.raw, chance)
            strict = _strict(vector, raw)
            fast = _fast(vector, raw)
            if fast is not None:
                careful_one = careful.read(codec_of_name(vector.message, vector.edition), vector.version, raw, 0)

                assert strict is not None, (vector.label, raw.hex())
                assert _same(fast, careful_one, vector.version), (vector.label, raw.hex())
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
            careful.read(codec, vector.version, raw, 0)
        return None
    again = encode(decoded, vector.version)
    assert _same(decode(vector.message, vector.version, again, edition=vector.edition), decoded, vector.version)
    assert careful.write(codec, vector.version, decoded) == again
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
    # What a strict decode takes is not odd, and what it refuses is.
    assert bool(lenient.oddities) == (strict is None), (vector.label, raw.hex())
    assert all(0 <= oddity.at <= len(raw) for oddity in lenient.oddities)


def test_random_bytes_are_refused_politely() -> None:
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
    with pytest.raises(WireError):
        decode(name, version, bytes.fromhex(raw))
    tracemalloc.start()
    try:
        with pytest.raises(WireError):
            decode(name, version, bytes.fromhex(raw))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 100_000


def test_many_unknown_tags_are_read_in_linear_time() -> None:
    count = 30_000
    tags = b"".join(tag.to_bytes(1, "big") + b"\0" for tag in range(128))
    raw = b"\x80\x01" + tags
    assert len(decode("ListTransactionsRequest", 0, b"\1\1" + raw).unknown_tagged_fields) == 128  # type: ignore[attr-defined]

    # The same tag over and over is refused at the second one, however many are claimed.
    with pytest.raises(WireError, match="tag 0 comes after tag 0"):
        decode("ListTransactionsRequest", 0, b"\1\1\xff\xff\x01" + b"\0\0" * count)


def test_more_elements_than_bytes_are_refused_before_the_first() -> None:
    with pytest.raises(Truncated) as caught:
        decode("MetadataRequest", 1, bytes.fromhex("0000000a0001"))

    error = caught.value
    assert (error.path, error.at, error.need, error.have) == ("MetadataRequest.topics", 0, 10, 2)


def test_a_null_that_a_version_does_not_allow_is_named() -> None:
    with pytest.raises(UnexpectedNull) as caught:
        decode("MetadataRequest", 0, bytes.fromhex("ffffffff"))

    assert (caught.value.path, caught.value.at) == ("MetadataRequest.topics", 0)
