"""Records of the metadata log: those of a real Kafka 4.4.0 byte for byte, round trips, and invalid frames.

The files are the log and the bootstrap checkpoint of a broker that created topics, wrote to them and was stopped.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kwire import decode, encode
from kwire.errors import InvalidVarint, TrailingBytes, Truncated, UnsupportedVersion, WireError
from kwire.messages.index import METADATA_RECORDS
from kwire.messages.metadata import MetadataRequest
from kwire.metadata_record import decode_metadata_record, encode_metadata_record
from kwire.records import read_batches
from kwire.records.metadata.feature_level_record import FeatureLevelRecord
from kwire.records.metadata.topic_record import TopicRecord
from kwire.records.metadata.user_scram_credential_record import UserScramCredentialRecord
from kwire.redact import redacted_json
from kwire.registry import codec_of_name
from tests.support.messages.golden_vectors import GOLDEN

LOG, CHECKPOINT = GOLDEN / "cluster-metadata-4.4.log", GOLDEN / "cluster-metadata-4.4.checkpoint"

#: A record of a topic: frame version 1, API key 2, version 0, name, id, no tagged fields.
TOPIC = bytes.fromhex("0102000274") + bytes(range(16)) + b"\0"


def values_of(path: Path) -> list[bytes]:
    """The values of all records but control records."""
    batches = [batch for batch in read_batches(path.read_bytes()) if not batch.is_control]
    return [bytes(record.value or b"") for batch in batches for record in batch.records()]


VALUES = values_of(LOG) + values_of(CHECKPOINT)


def test_records_of_a_real_log_are_written_as_they_were_read() -> None:
    records = [decode_metadata_record(value) for value in VALUES]

    assert [encode_metadata_record(record.message, record.version) for record in records] == VALUES
    assert Counter(f"{type(record.message).__name__} {record.version}" for record in records) == {
        "BeginTransactionRecord 0": 1,
        "BrokerRegistrationChangeRecord 0": 2,
        "BrokerRegistrationChangeRecord 1": 1,
        "BrokerRegistrationChangeRecord 3": 1,
        "ClearElrRecord 0": 1,
        "ConfigRecord 0": 15,
        "EndTransactionRecord 0": 1,
        "FeatureLevelRecord 0": 12,
        "NoOpRecord 0": 71,
        "PartitionChangeRecord 2": 13,
        "PartitionRecord 2": 13,
        "ProducerIdsRecord 0": 1,
        "RegisterBrokerRecord 4": 1,
        "RegisterControllerRecord 0": 1,
        "TopicRecord 0": 10,
    }


def test_the_bootstrap_checkpoint_has_the_feature_levels_of_the_release() -> None:
    messages = [decode_metadata_record(value).message for value in values_of(CHECKPOINT)]

    assert {message.name: message.feature_level for message in messages if isinstance(message, FeatureLevelRecord)} == {
        "metadata.version": 33,
        "eligible.leader.replicas.version": 1,
        "group.version": 1,
        "share.version": 2,
        "streams.version": 1,
        "transaction.version": 2,
    }


@pytest.mark.parametrize(("api_key", "name"), METADATA_RECORDS.items())
def test_every_version_of_every_record_is_read_back(api_key: int, name: str) -> None:
    codec = codec_of_name(name)
    message = codec.message()

    for version in codec.readers:
        value = encode_metadata_record(message, version)

        assert value[:3] == bytes((1, api_key, version))
        assert value[3:] == encode(message, version)
        assert decode_metadata_record(value) == (decode(name, version, value[3:]), version)


@given(name=st.text(max_size=30), topic_id=st.binary(min_size=16, max_size=16))
def test_any_topic_record_is_read_back(name: str, topic_id: bytes) -> None:
    message = TopicRecord(name=name, topic_id=topic_id)

    assert decode_metadata_record(memoryview(encode_metadata_record(message, 0))) == (message, 0)


@given(value=st.sampled_from(VALUES), at=st.integers(0, 1000), byte=st.integers(0, 255), cut=st.integers(0, 40))
@example(value=TOPIC, at=0, byte=1, cut=0)
def test_a_changed_record_is_read_back_or_refused(value: bytes, at: int, byte: int, cut: int) -> None:
    changed = bytearray(value[: len(value) - cut])
    if changed:
        changed[at % len(changed)] = byte
    try:
        message, version = decode_metadata_record(changed)
    except WireError:
        return

    again = encode_metadata_record(message, version)

    # A varint may be written with more bytes than it needs, so the bytes can differ once, but not the message.
    assert decode_metadata_record(again) == (message, version)


@pytest.mark.parametrize(
    ("value", "error", "text"),
    [
        (b"", Truncated, "frame_version"),
        (b"\x01", Truncated, "api_key"),
        (b"\x01\x02", Truncated, "version"),
        (b"\x01\x82", Truncated, "api_key"),
        (b"\x01\xff\xff\xff\xff\x7f", InvalidVarint, "more than 32 bits"),
        (b"\x00" + TOPIC[1:], UnsupportedVersion, "frame_version: is 0, not 1"),
        (b"\x02" + TOPIC[1:], UnsupportedVersion, "frame_version: is 2, not 1"),
        (b"\x01\x06" + TOPIC[2:], UnsupportedVersion, "no metadata record has the key 6"),
        (b"\x01\x02\x01" + TOPIC[3:], UnsupportedVersion, "TopicRecord: version 1 is outside 0 to 0"),
        (TOPIC + b"\0", TrailingBytes, "1 bytes behind the end"),
        (TOPIC[:-5], Truncated, "TopicRecord"),
    ],
)
def test_an_invalid_record_is_refused_with_its_place(value: bytes, error: type[WireError], text: str) -> None:
    with pytest.raises(error, match=text):
        decode_metadata_record(value)


@pytest.mark.parametrize("message", [MetadataRequest(), codec_of_name("ShareSnapshotKey").message()])
def test_a_message_of_another_kind_is_not_written(message: msgspec.Struct) -> None:
    with pytest.raises(UnsupportedVersion, match="is not a record of the metadata log"):
        encode_metadata_record(message, 0)


def test_the_keys_of_a_credential_are_redacted() -> None:
    record = UserScramCredentialRecord("alice", 1, b"salt", b"stored", b"server", 4096)

    shown = redacted_json(record, 0)

    assert (shown["salt"], shown["storedKey"], shown["serverKey"]) == ("***", "***", "***")
    assert (shown["name"], shown["iterations"]) == ("alice", 4096)
