"""The extension reads and writes every message as the Python code does, and refuses what that refuses."""

from __future__ import annotations

import contextlib
import gc
import random
import sys

import pytest

from kwire import decode, encode
from kwire.accelerator import NATIVE, is_accelerated
from kwire.accelerator.plans import MessageDescriber
from kwire.codec_table import Codec
from kwire.error_codes import ErrorCode
from kwire.errors import WireError
from kwire.messages.heartbeat import HeartbeatResponse
from kwire.primitives import FAILURES, FastPathError
from kwire.registry import EDITIONS, codec_of_name
from kwire.schema import load_schema, own_message_names
from tests.kwire.accelerator.comparison import read_difference, write_difference
from tests.kwire.accelerator.differential import compare_mutation, corpus
from tests.kwire.accelerator.growth import CALLS, growth
from tests.kwire.accelerator.mutations import mutate_message
from tests.kwire.accelerator.record_mutations import record_difference

pytestmark = pytest.mark.skipif(not is_accelerated(), reason="the accelerator is not built, or KWIRE_PURE is set")


def _all_codecs() -> list[Codec]:
    return [
        codec_of_name(name, edition)
        for edition in EDITIONS
        for name in own_message_names(edition)
        if load_schema(name, edition).versions
    ]


def test_every_version_of_every_message_has_a_plan() -> None:
    without = [
        f"{codec.edition} {codec.name} v{version}"
        for codec in _all_codecs()
        for version, read in codec.readers.items()
        if not read.__self__.is_planned  # type: ignore[attr-defined]
    ]

    assert without == []


def test_both_read_and_write_every_golden_and_every_filled_message_alike() -> None:
    differences = {
        vector.label: difference for vector in corpus() if (difference := read_difference(vector, vector.raw))
    }

    assert differences == {}


def test_both_agree_on_mutated_messages() -> None:
    chance = random.Random(4)
    vectors = corpus()

    assert [compare_mutation(chance.choice(vectors), chance) for _ in range(4000)] == [None] * 4000


def test_both_agree_on_mutated_record_batches() -> None:
    chance = random.Random(6)

    assert [record_difference(chance) for _ in range(2000)] == [None] * 2000


def test_both_write_messages_with_wrong_values_alike() -> None:
    chance = random.Random(7)
    vectors = corpus()
    for _ in range(4000):
        vector = chance.choice(vectors)
        codec = codec_of_name(vector.message, vector.edition)
        message, _ = codec.pure_readers[vector.version](vector.raw, 0)
        mutate_message(message, chance)

        assert write_difference(codec, vector.version, message) is None, message


@pytest.mark.parametrize("topics", [(), [], None])
def test_a_tagged_struct_with_an_empty_tuple_is_not_its_default(topics: object) -> None:
    codec = codec_of_name("ConsumerGroupMemberMetadataValue")
    metadata = codec.structs["ClassicMemberMetadata"](supported_protocols=topics)

    assert write_difference(codec, 0, codec.message(classic_member_metadata=metadata)) is None


def test_members_of_an_enum_are_written_without_python_code() -> None:
    codec = codec_of_name("HeartbeatResponse")
    fields = MessageDescriber(codec.message, codec.structs, codec.tables, codec.flexible_versions, 4)
    native = NATIVE.MessageCodec(fields, codec.pure_readers[4], pytest.fail)  # type: ignore[union-attr]
    response = HeartbeatResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)

    assert native.encode(response) == b"".join(codec.pure_writers[4](response))


def test_a_message_cut_anywhere_is_refused_by_both() -> None:
    for vector in corpus()[::7]:
        assert [read_difference(vector, vector.raw[:end]) for end in range(min(len(vector.raw), 300))] == [None] * min(
            len(vector.raw), 300
        )


@pytest.mark.parametrize(
    ("name", "version", "raw"),
    [
        ("MetadataRequest", 1, "7fffffff"),
        ("MetadataRequest", 12, "ffffffff0f"),
        ("ShareFetchResponse", 1, "0000000000000100000000ffffffff0f"),
        ("ApiVersionsResponse", 3, "00000100000000" + "ffffffff0f" * 2),
    ],
)
def test_a_count_beyond_the_bytes_is_refused_before_memory_is_allocated(name: str, version: int, raw: str) -> None:
    read = codec_of_name(name).readers[version]
    data = bytes.fromhex(raw)
    gc.collect()
    blocks = sys.getallocatedblocks()

    with pytest.raises(FastPathError):
        read(data, 0)

    assert sys.getallocatedblocks() - blocks < 100
    with pytest.raises(WireError):
        decode(name, version, data)


def test_the_arguments_of_a_reader_are_checked() -> None:
    read = codec_of_name("MetadataRequest").readers[12]
    for arguments in ((b"",), (b"", 0, 0), (bytearray(b"\0"), 0), (b"\0", "0"), (b"\0", 1 << 70)):
        with pytest.raises(FAILURES):
            read(*arguments)
    for at in (-1, 2, 1 << 62):
        with pytest.raises(FastPathError):
            read(b"\0", at)


def test_reading_and_writing_leave_no_references_behind() -> None:
    chance = random.Random(3)
    vectors = chance.sample([vector for vector in corpus() if len(vector.raw) > 60], 60)

    def work() -> None:
        for vector in vectors:
            codec = codec_of_name(vector.message, vector.edition)
            message, _ = codec.readers[vector.version](vector.raw, 0)
            codec.encoders[vector.version](message)
            codec.writers[vector.version](message)
            with contextlib.suppress(*FAILURES):
                codec.readers[vector.version](vector.raw[: len(vector.raw) * 2 // 3], 0)

    assert growth(work) < CALLS


def test_refused_messages_leave_no_references_behind() -> None:
    chance = random.Random(5)
    vector = next(one for one in corpus() if one.message == "FetchResponse" and one.version == 17)
    codec = codec_of_name(vector.message, vector.edition)
    messages = []
    for _ in range(40):
        message, _ = codec.pure_readers[17](vector.raw, 0)
        mutate_message(message, chance)
        messages.append(message)

    def work() -> None:
        for message in messages:
            with contextlib.suppress(*FAILURES):
                codec.encoders[17](message)

    assert growth(work) < CALLS


def test_large_record_batches_are_views_when_read_and_parts_when_written() -> None:
    codec = codec_of_name("ProduceRequest")
    partition = codec.structs["PartitionProduceData"](index=0, records=bytes(100_000))
    topic = codec.structs["TopicProduceData"](topic_id=bytes(16), partition_data=[partition])
    message = codec.message(acks=-1, timeout_ms=1, topic_data=[topic])
    raw = encode(message, 13)

    read, _ = codec.readers[13](raw, 0)
    view = read.topic_data[0].partition_data[0].records
    parts = codec.writers[13](read)

    assert (type(view), view.obj is raw, view.nbytes) == (memoryview, True, 100_000)
    assert any(part is view for part in parts)
    assert b"".join(parts) == raw
