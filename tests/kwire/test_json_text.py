"""JSON text that is made of bytes is that of the decoded message."""

from __future__ import annotations

import json
import random
import struct

import msgspec
import pytest

from kwire import registry
from kwire.accelerator import is_accelerated
from kwire.codec import decode, encode
from kwire.errors import WireError
from kwire.json_text import FAILURES, escape_text, json_texts_writer, json_writer
from kwire.messages.fetch import FetchResponse
from kwire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.payload import RECORDS_FIELDS
from kwire.records import Codec, Record, write_batch
from kwire.redact import CONFIG_MESSAGES, SECRET_FIELDS, redacted_json
from kwire.schema import load_schema
from tests.kwire.accelerator.mutations import mutated_bytes
from tests.support.cases import check_cases
from tests.support.messages.filled_messages import filled_vectors
from tests.support.messages.golden_vectors import vectors_by_message

VECTORS = vectors_by_message(registry.DEFAULT_EDITION)
NAMES = sorted({name for name, _ in VECTORS if name.endswith(("Request", "Response"))})
FLEXIBLE = {name: load_schema(name, registry.DEFAULT_EDITION).flexible_versions for name in NAMES}
# All their vectors have tagged fields.
ALWAYS_TAGGED = ("FetchSnapshotRequest", "UpdateRaftVoterResponse")
BEFORE, AFTER = b"\x7f\x01", b"\x02\x00\xff"


def decoded_text(name: str, version: int, data: bytes) -> str:
    return msgspec.json.encode(redacted_json(decode(name, version, data), version)).decode()


def test_text_of_every_message_and_version() -> None:
    check_cases(NAMES, check_texts)


def check_texts(name: str) -> None:
    vectors = [vector for (other, _), found in VECTORS.items() if other == name for vector in found]
    made = 0
    for vector in [*vectors, *filled_vectors(name, registry.DEFAULT_EDITION)]:
        for is_escaped in (False, True):
            write = json_writer(name, vector.version, is_escaped=is_escaped)
            if write is None:
                continue
            expected = decoded_text(name, vector.version, vector.raw)
            try:
                text = write(BEFORE + vector.raw + AFTER, len(BEFORE))
            except FAILURES:
                # It has a tagged field.
                assert vector.version in FLEXIBLE[name]
                continue
            made += 1
            assert text == (escape_text(expected) if is_escaped else expected)
            assert not is_escaped or json.loads(f'"{text}"') == expected

    assert made or name in {*SECRET_FIELDS, *CONFIG_MESSAGES, *ALWAYS_TAGGED}


@pytest.mark.parametrize("name", sorted({*SECRET_FIELDS, *CONFIG_MESSAGES}))
def test_messages_with_secrets_are_left_to_redaction(name: str) -> None:
    assert all(json_writer(name, version) is None for version in registry.codec_of_name(name).readers)


def test_a_version_that_does_not_exist_has_no_writer() -> None:
    assert json_writer("MetadataRequest", 99) is None


def test_tagged_fields_are_refused() -> None:
    data = encode(MetadataRequest(), 12)
    write = json_writer("MetadataRequest", 12)
    assert write is not None

    assert json.loads(write(data, 0)) == redacted_json(MetadataRequest(), 12)
    with pytest.raises(FAILURES):
        write(data[:-1] + b"\x01\x20\x01x", 0)


def fetch_response(records: bytes | None) -> bytes:
    """A response with these records in one partition, in version 4."""
    body = struct.pack(">iih1sii", 0, 1, 1, b"t", 1, 0) + struct.pack(">hqqi", 0, 9, 9, -1)
    return body + (struct.pack(">i", -1) if records is None else struct.pack(">i", len(records)) + records)


BATCH = write_batch([Record(offset=5, value=b"a"), Record(offset=6, value=b"b")])
PACKED = write_batch([Record(value=b"a" * 50)], codec=Codec.GZIP)
RECORDS = {
    "null": None,
    "empty": b"",
    "one batch": BATCH,
    "two batches": BATCH + BATCH,
    "compressed": PACKED,
    "two codecs": BATCH + PACKED,
    "cut in the header": BATCH + BATCH[:20],
    "cut in the records": BATCH + BATCH[:-3],
    "only a few bytes": b"\x00\x01",
    "old magic": BATCH[:16] + b"\x01" + BATCH[17:],
    "unknown magic": BATCH[:16] + b"\x07" + BATCH[17:],
    "unknown codec": BATCH[:22] + b"\x07" + BATCH[23:],
    "negative count": BATCH[:57] + b"\xff" + BATCH[58:],
    "negative length": BATCH + BATCH[:8] + b"\xff" + BATCH[9:],
    "largest offset": b"\x7f" + b"\xff" * 7 + BATCH[8:],
}


@pytest.mark.parametrize("kind", RECORDS)
def test_summaries_of_record_batches(kind: str) -> None:
    data = fetch_response(RECORDS[kind])
    for is_escaped in (False, True):
        write = json_writer("FetchResponse", 4, is_escaped=is_escaped)
        assert write is not None
        text = write(BEFORE + data + AFTER, len(BEFORE))
        expected = decoded_text("FetchResponse", 4, data)

        assert text == (escape_text(expected) if is_escaped else expected)
    assert isinstance(decode("FetchResponse", 4, data), FetchResponse)
    assert "FetchResponse" in RECORDS_FIELDS


def test_strings_are_escaped_as_in_json() -> None:
    for text in ("plain", 'quote " and \\', "line\nend\ttab", "\x00\x1f\x7f", "ä€😀", "x" * 300):
        data = encode(MetadataRequest(topics=[MetadataRequestTopic(name=text)]), 4)
        expected = decoded_text("MetadataRequest", 4, data)
        for is_escaped in (False, True):
            write = json_writer("MetadataRequest", 4, is_escaped=is_escaped)
            assert write is not None
            # Twice, since texts are stored.
            for _ in range(2):
                assert write(data, 0) == (escape_text(expected) if is_escaped else expected)
        assert escape_text(expected).isascii()
        assert escape_text(expected).isprintable()


@pytest.mark.parametrize("name", ["FetchRequest", "ProduceRequest", "ShareFetchResponse", "MetadataResponse"])
def test_damaged_bytes_never_give_the_text_of_another_message(name: str) -> None:
    chance = random.Random(7)
    for vector in filled_vectors(name, registry.DEFAULT_EDITION):
        write = json_writer(name, vector.version)
        assert write is not None
        for _ in range(20):
            data = bytearray(vector.raw)
            data[chance.randrange(len(data))] = chance.randrange(256)
            try:
                text = write(bytes(data), 0)
                expected = decoded_text(name, vector.version, bytes(data))
            except (WireError, *FAILURES):
                # One of both refuses; callers check that the bytes are valid.
                continue
            assert text == expected


@pytest.mark.parametrize("name", ["FetchResponse", "ProduceRequest", "MetadataResponse", "ShareFetchRequest"])
def test_damaged_bytes_have_the_text_of_their_message_or_are_refused(name: str) -> None:
    chance = random.Random(3)
    read = registry.codec_of_name(name).readers
    made = 0
    vectors = [vector for (other, _), found in VECTORS.items() if other == name for vector in found]
    for _ in range(600):
        vector = chance.choice(vectors)
        raw, write = mutated_bytes(vector.raw, chance), json_writer(name, vector.version)
        assert write is not None
        try:
            message, _ = read[vector.version](raw, 0)
            expected = msgspec.json.encode(redacted_json(message, vector.version)).decode()
        except (*FAILURES, WireError):
            expected = None
        try:
            text = write(raw, 0)
        except FAILURES:
            continue
        made += 1

        # Only valid bytes have a defined text.
        assert expected in {None, text}, raw.hex()
    assert made > 20


@pytest.mark.parametrize("name", ["FetchResponse", "MetadataRequest", "ApiVersionsResponse", "ListOffsetsResponse"])
def test_texts_of_many_messages_are_those_of_each(name: str) -> None:
    chance = random.Random(3)
    for vector in filled_vectors(name, registry.DEFAULT_EDITION):
        mutated = [vector.raw, *(mutated_bytes(vector.raw, chance) for _ in range(20))]
        offsets = tuple(sum(map(len, mutated[:index])) for index in range(len(mutated)))
        data = b"".join([*mutated, AFTER])
        write, write_each = json_writer(name, vector.version), json_texts_writer(name, vector.version)
        assert write is not None
        assert write_each is not None
        expected: list[str | None] = []
        for at in offsets:
            try:
                expected.append(write(data, at))
            except FAILURES:
                expected.append(None)

        assert write_each(data, offsets) == expected
        assert write_each(data, (-1, len(data) + 1)) == [None, None] or not is_accelerated()


def test_messages_without_a_writer_have_none_for_many() -> None:
    assert json_texts_writer("SaslAuthenticateRequest", 2) is None
