"""Bodies that are decoded together have the results of the strict decoder and `message_fields`, or are left to it."""

from __future__ import annotations

import random
from functools import cache

import msgspec
import numpy as np
import pytest

from kwire import registry
from kwire.capture.columnar.body_walker import BODIES_MIN, PADDING_SIZE
from kwire.capture.columnar.decode_plan import message_plan
from kwire.capture.columnar.vectorized_decoder import VectorizedDecoder
from kwire.capture.kafka.message_fields import first_error_code
from kwire.capture.kafka.topic_names import TopicNames
from kwire.codec import decode
from kwire.errors import WireError
from tests.support.cases import check_cases
from tests.support.messages.golden_vectors import vectors_by_message

pytestmark = pytest.mark.slow

VECTORS = vectors_by_message(registry.DEFAULT_EDITION)
MESSAGES = sorted(
    {
        (name, version)
        for name, version in VECTORS
        if name.removesuffix("Request").removesuffix("Response") in map(registry.api_name, registry.API_KEYS)
    }
)
#: They run in parallel.
PARTS = 8


@cache
def damaged_copies(data: bytes, seed: int) -> list[bytes]:
    """Copies of a body with a byte changed, removed or added."""
    chance = random.Random(seed)
    out = []
    for _ in range(12):
        changed = bytearray(data)
        if changed:
            changed[chance.randrange(len(changed))] = chance.choice((0, 1, 2, 127, 128, 255, chance.randrange(256)))
        out.append(bytes(changed))
    return [*out, data[:-1], data + b"\0"]


def decode_together(name: str, version: int, bodies: list[bytes]) -> VectorizedDecoder:
    """Decode all of them together."""
    sizes = np.array([len(data) for data in bodies], dtype=np.int64)
    ends = np.cumsum(sizes)
    plan = message_plan(name, version)
    assert plan is not None
    return VectorizedDecoder(b"".join(bodies) + bytes(PADDING_SIZE), ends - sizes, ends, plan)


def decode_strictly(name: str, version: int, data: bytes) -> msgspec.Struct | None:
    """The message, if the strict decoder accepts it."""
    try:
        return decode(name, version, data)
    except WireError:
        return None


@pytest.mark.parametrize("part", range(PARTS))
def test_each_body_has_the_result_of_decoding_it_alone(part: int) -> None:
    check_cases(MESSAGES[part::PARTS], check_message)


def check_message(message: tuple[str, int]) -> None:
    name, version = message
    whole = [vector.raw for vector in VECTORS[name, version]]
    bodies = [each for data in whole for each in [data] * BODIES_MIN]
    bodies += [each for number, data in enumerate(whole) for each in damaged_copies(data, number)]

    decoder = decode_together(name, version, bodies)

    for row in np.nonzero(decoder.is_good)[0].tolist():
        decoded = decode_strictly(name, version, bodies[row])
        assert decoded is not None, bodies[row].hex()
        topics = TopicNames({}).learn(decoded)
        assert decoder.error[row] == first_error_code(decoded)
        assert decoder.throttle[row] == getattr(decoded, "throttle_time_ms", 0)
        assert decoder.n_topics[row] == len({topic.topic_id or topic.name for topic in topics})
        if topics:
            assert decoder.n_partitions[row] == sum(topic.partition_count for topic in topics)
        for text, (at, size) in decoder.texts.items():
            start = sum(len(each) for each in bodies[:row])
            data = bodies[row][int(at[row]) - start :][: max(int(size[row]), 0)]
            assert (data.decode() or None) == (getattr(decoded, text) or None)


def test_most_bodies_are_decoded_together_despite_unknown_tags_and_non_ascii_text() -> None:
    total = decoded = 0
    for name, version in MESSAGES:
        bodies = [vector.raw for vector in VECTORS[name, version] for _ in range(BODIES_MIN)]
        total += len(bodies)
        decoded += int(decode_together(name, version, bodies).is_good.sum())

    assert decoded > 0.6 * total
