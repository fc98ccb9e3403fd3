"""Kafka's own bytes and Kafka's own JSON, both directions, byte for byte."""

from __future__ import annotations

import msgspec
import pytest

from kwire import careful, decode, decode_lenient, encode, from_json, to_json
from kwire.registry import codec_of_name, message_class
from kwire.schema import load, names
from tests.kwire.codec.golden import FILES, WITHOUT_VECTORS, Vector, all_vectors, vectors

#: How many vectors there are, and how many of them for each message and version.
COUNTS = {"4.3": (2049, 3), "4.0-early-access": (108, 6)}


def _decoded(vector: Vector) -> msgspec.Struct:
    return decode(vector.message, vector.version, vector.raw, edition=vector.edition)


@pytest.mark.parametrize("edition", FILES)
def test_the_golden_file_has_vectors_for_every_message_and_version(edition: str) -> None:
    wanted = {(name, version) for name in names(edition) for version in load(name, edition).versions.each()}
    wanted -= WITHOUT_VECTORS[edition]
    total, each = COUNTS[edition]

    assert len(vectors(edition)) == total == each * len(wanted)
    assert {(vector.message, vector.version) for vector in vectors(edition)} == wanted


@pytest.mark.parametrize("edition", FILES)
def test_decoding_and_encoding_gives_the_same_bytes(edition: str) -> None:
    wrong = [v.label for v in vectors(edition) if encode(_decoded(v), v.version) != v.raw]

    assert wrong == []


@pytest.mark.parametrize("edition", FILES)
def test_decoding_gives_the_json_of_kafka(edition: str) -> None:
    wrong = [v.label for v in vectors(edition) if to_json(_decoded(v), v.version, records=False) != v.json]

    assert wrong == []


@pytest.mark.parametrize("edition", FILES)
def test_the_json_of_kafka_gives_the_same_bytes(edition: str) -> None:
    wrong = []
    for vector in vectors(edition):
        message = from_json(vector.message, vector.version, vector.json, edition=edition)
        if vector.tags:
            message.unknown_tagged_fields = vector.tags  # type: ignore[attr-defined]
        if encode(message, vector.version) != _without_records(vector):
            wrong.append(vector.label)

    assert wrong == []


def _without_records(vector: Vector) -> bytes:
    """The golden bytes; where they hold record batches, which Kafka's JSON leaves empty, the same without them."""
    message = _decoded(vector)
    whole = to_json(message, vector.version)
    if whole == vector.json:
        return vector.raw
    tree = to_json(message, vector.version, records=False)
    emptied = from_json(vector.message, vector.version, tree, edition=vector.edition)
    if vector.tags:
        emptied.unknown_tagged_fields = vector.tags  # type: ignore[attr-defined]
    return encode(emptied, vector.version)


@pytest.mark.parametrize("edition", FILES)
def test_our_json_loses_nothing_but_unknown_tags(edition: str) -> None:
    wrong = []
    for vector in vectors(edition):
        tree = to_json(_decoded(vector), vector.version)
        message = from_json(vector.message, vector.version, tree, edition=edition)
        if vector.tags:
            message.unknown_tagged_fields = vector.tags  # type: ignore[attr-defined]
        if encode(message, vector.version) != vector.raw:
            wrong.append(vector.label)

    assert wrong == []


@pytest.mark.parametrize("edition", FILES)
def test_unknown_tagged_fields_are_kept(edition: str) -> None:
    with_tags = [vector for vector in vectors(edition) if vector.tags]

    assert with_tags
    assert [v.label for v in with_tags if _decoded(v).unknown_tagged_fields != v.tags] == []  # type: ignore[attr-defined]


def test_the_fast_and_the_careful_pass_agree_on_every_vector() -> None:
    for vector in all_vectors():
        codec = codec_of_name(vector.message, vector.edition)
        message, end = codec.readers[vector.version](vector.raw, 0)

        assert end == len(vector.raw), vector.label
        assert careful.read(codec, vector.version, vector.raw, 0) == message, vector.label
        assert careful.write(codec, vector.version, message) == vector.raw, vector.label
        assert b"".join(codec.writers[vector.version](message)) == vector.raw, vector.label


def test_a_lenient_decode_finds_nothing_odd_in_good_bytes() -> None:
    for vector in all_vectors():
        lenient = decode_lenient(vector.message, vector.version, vector.raw, edition=vector.edition)

        assert lenient.oddities == (), vector.label
        assert lenient.size == len(vector.raw), vector.label


def test_a_class_decodes_as_its_name_does() -> None:
    for vector in all_vectors():
        made = message_class(vector.message, vector.edition)

        assert decode(made, vector.version, vector.raw) == _decoded(vector), vector.label


def test_a_body_can_begin_behind_a_header_and_lie_in_any_buffer() -> None:
    for vector in all_vectors()[::50]:
        behind = b"header" + vector.raw
        for buffer in (behind, bytearray(behind), memoryview(behind)):
            found = decode(vector.message, vector.version, buffer, edition=vector.edition, at=6)

            assert encode(found, vector.version) == vector.raw, vector.label
