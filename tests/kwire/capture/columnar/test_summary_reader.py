"""Summaries that the accelerator reads from bytes are those of the decoded messages."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from kwire import registry
from kwire.accelerator import NATIVE, is_accelerated
from kwire.capture.columnar.summary_reader import SummaryReader
from kwire.capture.kafka.topic_names import TopicNames
from kwire.capture.rows.exchange_summary import summarize_bodies
from kwire.codec import encode
from kwire.messages.share_acknowledge import AcknowledgementBatch as AcknowledgedRange
from kwire.messages.share_acknowledge import AcknowledgePartition, AcknowledgeTopic, ShareAcknowledgeRequest
from kwire.messages.share_fetch import (
    AcknowledgementBatch,
    AcquiredRecords,
    FetchPartition,
    FetchTopic,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)
from kwire.primitives import FAILURES
from kwire.records import Codec, Record, write_batch
from kwire.registry import codec_of_name
from tests.kwire.accelerator.mutations import mutated_bytes
from tests.support.messages.filled_messages import filled_vectors
from tests.support.messages.golden_vectors import own_vectors

pytestmark = pytest.mark.skipif(not is_accelerated(), reason="the accelerator is not built, or switched off")

NAMES = TopicNames({})
# FetchSnapshot and UpdateRaftVoter: all their messages here have tagged fields.
ALWAYS_TAGGED = (59, 82)
TOPIC_ID = bytes(range(16))
BATCH, PACKED = (write_batch([Record(value=b"v" * 50)], codec=codec) for codec in (Codec.NONE, Codec.GZIP))
# Bytes before and behind the bodies, which no reader may use.
BEFORE, AFTER = b"\x7f\x01", b"\x02\x00\xff"


def bodies(api_key: int) -> dict[int, tuple[list[bytes], list[bytes]]]:
    """The requests and the responses of an API by version."""
    found: dict[int, tuple[list[bytes], list[bytes]]] = {}
    for side, kind in enumerate(("Request", "Response")):
        name = registry.api_name(api_key) + kind
        golden = [vector for vector in own_vectors() if vector.message == name]
        for vector in (*golden, *filled_vectors(name, registry.DEFAULT_EDITION)):
            if vector.edition == registry.DEFAULT_EDITION:
                found.setdefault(vector.version, ([], []))[side].append(vector.raw)
    return found


def compare(api_key: int, version: int, request: bytes, response: bytes | None) -> bool:
    """Compare one exchange of valid bodies; whether the accelerator read it."""
    names = f"{registry.api_name(api_key)}Request", f"{registry.api_name(api_key)}Response"
    data = BEFORE + request + AFTER + (response or b"") + AFTER
    asked = codec_of_name(names[0]).readers[version](request, 0)[0]
    answered = None if response is None else codec_of_name(names[1]).readers[version](response, 0)[0]
    at = len(BEFORE + request + AFTER)
    # Twice, the second time with the stored head.
    found = SummaryReader(*names, version, NAMES).read(data, [len(BEFORE)] * 2, [-1 if response is None else at] * 2)

    if found.texts[0] is None:
        assert found == ([None] * 2, [0] * 2)
        return False
    assert found.texts == [summarize_bodies(asked, answered, None, NAMES)] * 2
    assert found.max_wait_ms == [max(getattr(asked, "max_wait_ms", 0), 0)] * 2
    return True


@pytest.mark.parametrize("api_key", sorted(registry.API_KEYS))
def test_summaries_of_every_api_and_version(api_key: int) -> None:
    read = 0
    for version, (requests, responses) in bodies(api_key).items():
        for request in requests:
            for response in (None, *responses):
                read += compare(api_key, version, request, response)

    assert read or api_key in ALWAYS_TAGGED


def valid_mutations(api_key: int, chance: random.Random) -> Iterator[tuple[int, bytes, bytes]]:
    """Exchanges of mutated bodies that are valid."""
    for version, (requests, responses) in bodies(api_key).items():
        for request in requests:
            for response in responses:
                pair = mutated_bytes(request, chance), mutated_bytes(response, chance)
                try:
                    for kind, raw in zip(("Request", "Response"), pair, strict=True):
                        _, end = codec_of_name(registry.api_name(api_key) + kind).readers[version](raw, 0)
                        if end != len(raw):
                            raise ValueError("bytes behind the message")
                except FAILURES:
                    continue
                yield version, *pair


@pytest.mark.parametrize("api_key", [0, 1, 3, 8, 9, 19, 68, 78])
def test_summaries_of_mutated_messages(api_key: int) -> None:
    chance = random.Random(api_key)
    pairs = [pair for _ in range(30) for pair in valid_mutations(api_key, chance)]

    assert sum(compare(api_key, *pair) for pair in pairs) > 3


RANGES: dict[str, list[AcquiredRecords]] = {
    "none": [],
    "one": [AcquiredRecords(5, 9, 1)],
    "delivered again": [AcquiredRecords(5, 9, 2), AcquiredRecords(2**63 - 2, 2**63 - 1, 32767)],
    "many": [AcquiredRecords(10 * number, 10 * number + 1, number) for number in range(12)],
}
ACKNOWLEDGED: dict[str, list[tuple[int, int, tuple[int, ...]]]] = {
    "none": [],
    "one type": [(0, 9, (1,)), (10, 11, (2,))],
    "a type for each": [(0, 4, (1, 0, 1, 3, 2)), (5, 5, (4,))],
    "unknown types": [(0, 1, (9, -1))],
    "no types": [(0, 1, ())],
    "reversed": [(9, 0, (1,))],
    "huge": [(0, 2**63 - 1, (1,))],
}


@pytest.mark.parametrize("ranges", RANGES)
@pytest.mark.parametrize("acknowledged", ACKNOWLEDGED)
def test_summaries_of_share_groups(ranges: str, acknowledged: str) -> None:
    batches = [AcknowledgementBatch(*batch) for batch in ACKNOWLEDGED[acknowledged]]
    topics = [FetchTopic(TOPIC_ID, [FetchPartition(3, acknowledgement_batches=batches)])]
    request = ShareFetchRequest(group_id="g", member_id="m", share_session_epoch=7, max_wait_ms=500, topics=topics)
    partitions = [PartitionData(partition, acquired_records=RANGES[ranges], records=BATCH) for partition in (3, 4)]
    response = ShareFetchResponse(responses=[ShareFetchableTopicResponse(TOPIC_ID, partitions)])
    acknowledge = ShareAcknowledgeRequest(
        group_id="g",
        topics=[
            AcknowledgeTopic(
                TOPIC_ID, [AcknowledgePartition(1, [AcknowledgedRange(*batch) for batch in ACKNOWLEDGED[acknowledged]])]
            )
        ],
    )
    is_usual = acknowledged not in {"reversed", "huge"}

    raw = encode(request, 1), encode(response, 1)
    assert compare(78, 1, *raw) == is_usual
    assert compare(79, 1, encode(acknowledge, 1), None) == is_usual


@pytest.mark.parametrize(
    ("records", "is_usual"),
    [
        (b"", True),
        (BATCH * 3, True),
        (PACKED, True),
        (BATCH + PACKED, False),
        (BATCH[:-1], False),
        (BATCH[:16] + b"\x01" + BATCH[17:], False),
        (BATCH[:22] + b"\x07" + BATCH[23:], True),
        (BATCH[:8] + b"\xff\xff\xff\xff" + BATCH[12:], False),
    ],
)
def test_summaries_of_records(records: bytes, is_usual: bool) -> None:
    partitions = [PartitionData(0, records=records), PartitionData(1, records=PACKED)]
    response = ShareFetchResponse(responses=[ShareFetchableTopicResponse(TOPIC_ID, partitions)])
    request = encode(ShareFetchRequest(), 1)
    # Two codecs of compressed records are left to the Python code.
    has_two_codecs = records[22:23] == b"\x07"

    assert compare(78, 1, request, encode(response, 1)) == (is_usual and not has_two_codecs)


def test_wrong_arguments_are_refused() -> None:
    assert NATIVE is not None
    codecs, description = (b"",) * 8, (True, ((0, False, False, False, 0, None),))
    for wrong in (
        (),
        (True,),
        (True, ((99, False, False, False, 0, None),)),
        (True, ((0, 0, 0, 0, 2, None),)),
        (1, (3,)),
    ):
        with pytest.raises((TypeError, ValueError)):
            NATIVE.SummaryReader(wrong, codecs, ())
    with pytest.raises(ValueError, match="8 numbers"):
        NATIVE.SummaryReader(description, codecs[1:], ())
    with pytest.raises(TypeError):
        NATIVE.SummaryReader(description, codecs, ("text",))
    reader, nothing = NATIVE.SummaryReader(description, codecs, ()), ((), ())
    refused: tuple[tuple[Any, ...], ...] = (
        (reader, b"", nothing, {}),
        (None, b"", nothing, {}, str),
        (reader, bytearray(), nothing, {}, str),
        (reader, b"", [(), ()], {}, str),
        (reader, b"", ((),), {}, str),
        (reader, b"", ((), []), {}, str),
        (reader, b"", ((0,), ()), {}, str),
        (reader, b"", (("0",), (0,)), {}, str),
        (reader, b"", ((0,), (None,)), {}, str),
        (reader, b"", nothing, (), str),
        (reader, b"\0\0", ((0,), (-1,)), {}, lambda at, answer_at: b"no text"),
    )
    for arguments in refused:
        with pytest.raises(TypeError):
            reader.read(*arguments)

    heads: dict[bytes, str] = {}
    places = (-1, 0, 1, 2, 3, 2**62), (-1, 0, -1, 1, -1, -1)
    found = reader.read(reader, b"\0\0", places, heads, lambda at, answer_at: f"{at} {answer_at}")
    assert found == ([None, "0 0", None, None, None, None], [0] * 6)
    assert list(heads.values()) == ["0 0"]


def test_the_error_of_a_head_ends_the_call() -> None:
    assert NATIVE is not None
    reader = NATIVE.SummaryReader((False, ()), (b"",) * 8, ())

    def fail(at: int, answer_at: int) -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reader.read(reader, b"", ((0, 0), (-1, -1)), {}, fail)
