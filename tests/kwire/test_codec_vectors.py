"""Kafka's bytes and Kafka's JSON in both directions, byte for byte."""

from __future__ import annotations

import msgspec
import pytest

from kwire import UnsupportedVersion, decode, decode_lenient, encode, from_json, schema_codec, to_json
from kwire.registry import codec_of_name, message_class
from kwire.schema import RELEASES, load_schema, message_names, own_message_names
from tests.support.messages.golden_vectors import FILES, WITHOUT_VECTORS, Vector, all_vectors, vectors

#: How many vectors there are, and how many of them for each message and version.
COUNTS = {"4.4": (2094, 3), "4.3": (2049, 3), "4.0-early-access": (108, 6), "before-4.0": (333, 3)}


def _decoded(vector: Vector) -> msgspec.Struct:
    return decode(vector.message, vector.version, vector.raw, edition=vector.edition)


@pytest.mark.parametrize("edition", FILES)
def test_the_golden_file_has_vectors_for_every_message_and_version(edition: str) -> None:
    names = message_names(edition) if edition in RELEASES else own_message_names(edition)
    schemas = [load_schema(name, edition) for name in names]
    wanted = {(schema.name, version) for schema in schemas for version in schema.versions.to_range()}
    wanted -= WITHOUT_VECTORS[edition]
    covered = {(vector.message, vector.version) for vector in vectors(edition)}
    total, by_version = COUNTS[edition]

    hint = "add messages without vectors to WITHOUT_VECTORS in tests/support/messages/golden_vectors.py"
    assert (wanted - covered, covered - wanted) == (set(), set()), hint
    assert len(vectors(edition)) == total == by_version * len(wanted)


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
    wrong = [v.label for v in vectors(edition) if _encoded_json(v, v.json) != _without_records(v)]

    assert wrong == []


def _encoded_json(vector: Vector, tree: object) -> bytes:
    """The bytes of a JSON form, with the unknown tags of the vector, which JSON does not have."""
    message = from_json(vector.message, vector.version, tree, edition=vector.edition)
    if vector.tags:
        message.unknown_tagged_fields = vector.tags  # type: ignore[attr-defined]
    return encode(message, vector.version)


def _without_records(vector: Vector) -> bytes:
    """The golden bytes; without record batches, which are empty in Kafka's JSON."""
    message = _decoded(vector)
    if to_json(message, vector.version) == vector.json:
        return vector.raw
    return _encoded_json(vector, to_json(message, vector.version, records=False))


@pytest.mark.parametrize("edition", FILES)
def test_json_loses_only_unknown_tags(edition: str) -> None:
    wrong = [v.label for v in vectors(edition) if _encoded_json(v, to_json(_decoded(v), v.version)) != v.raw]

    assert wrong == []


@pytest.mark.parametrize("edition", FILES)
def test_unknown_tagged_fields_are_kept(edition: str) -> None:
    with_tags = [vector for vector in vectors(edition) if vector.tags]

    assert with_tags
    assert [v.label for v in with_tags if _decoded(v).unknown_tagged_fields != v.tags] == []  # type: ignore[attr-defined]


def test_generated_and_schema_driven_codec_agree_on_every_vector() -> None:
    for vector in all_vectors():
        codec = codec_of_name(vector.message, vector.edition)
        message, end = codec.readers[vector.version](vector.raw, 0)

        assert end == len(vector.raw), vector.label
        assert schema_codec.read_message(codec, vector.version, vector.raw, 0) == message, vector.label
        assert schema_codec.write_message(codec, vector.version, message) == vector.raw, vector.label
        assert b"".join(codec.writers[vector.version](message)) == vector.raw, vector.label


def test_a_lenient_decode_of_valid_bytes_has_no_warnings() -> None:
    for vector in all_vectors():
        lenient = decode_lenient(vector.message, vector.version, vector.raw, edition=vector.edition)

        assert lenient.warnings == (), vector.label
        assert lenient.size == len(vector.raw), vector.label


def test_a_version_that_is_no_whole_number_is_refused_also_after_it_was_decoded() -> None:
    vector = all_vectors()[0]
    for decode_again in (decode, decode_lenient):
        decode_again(vector.message, vector.version, vector.raw, edition=vector.edition)

        with pytest.raises(UnsupportedVersion):
            decode_again(vector.message, float(vector.version), vector.raw, edition=vector.edition)  # type: ignore[call-overload]


def test_decoding_by_class_equals_decoding_by_name() -> None:
    for vector in all_vectors():
        made = message_class(vector.message, vector.edition)

        assert decode(made, vector.version, vector.raw) == _decoded(vector), vector.label


def test_a_body_can_be_at_any_offset_of_any_buffer() -> None:
    for vector in all_vectors()[::50]:
        behind = b"header" + vector.raw
        for buffer in (behind, bytearray(behind), memoryview(behind)):
            message = decode(vector.message, vector.version, buffer, edition=vector.edition, at=6)

            assert encode(message, vector.version) == vector.raw, vector.label
