"""What is read of many bodies side by side is what the exact decoder and `facts` find in each, or it is given back."""

from __future__ import annotations

import random
from functools import cache

import msgspec
import numpy as np
import pytest

from kwire import registry
from kwire.capture.facts import error_code
from kwire.capture.lane.matrix import ROOM, TOGETHER_MIN, Matrix
from kwire.capture.lane.shapes import plan
from kwire.capture.topic_names import TopicNames
from kwire.codec import decode
from kwire.errors import WireError
from tests.kwire.capture.test_every_message import body, vectors

MESSAGES = sorted(
    {
        (name, version)
        for name, version in vectors()
        if name.removesuffix("Request").removesuffix("Response") in map(registry.api_name, registry.API_KEYS)
    }
)


@cache
def damaged(data: bytes, seed: int) -> list[bytes]:
    """Copies of a body with a byte changed, cut or added."""
    chance = random.Random(seed)
    out = []
    for _ in range(12):
        changed = bytearray(data)
        if changed:
            changed[chance.randrange(len(changed))] = chance.choice((0, 1, 2, 127, 128, 255, chance.randrange(256)))
        out.append(bytes(changed))
    return [*out, data[:-1], data + b"\0"]


def read(name: str, version: int, bodies: list[bytes]) -> Matrix:
    """All of them side by side."""
    sizes = np.array([len(each) for each in bodies], dtype=np.int64)
    ends = np.cumsum(sizes)
    found = plan(name, version)
    assert found is not None
    return Matrix(b"".join(bodies) + bytes(ROOM), ends - sizes, ends, found)


def exact(name: str, version: int, data: bytes) -> msgspec.Struct | None:
    """The message, where a strict decoder takes it."""
    try:
        return decode(name, version, data)
    except WireError:
        return None


@pytest.mark.parametrize(("name", "version"), MESSAGES)
def test_each_body_says_the_same_as_alone(name: str, version: int) -> None:
    whole = [body(vector) for vector in vectors()[name, version]]
    bodies = [each for data in whole for each in [data] * TOGETHER_MIN]
    bodies += [each for number, data in enumerate(whole) for each in damaged(data, number)]

    matrix = read(name, version, bodies)

    for row in np.nonzero(matrix.is_good)[0].tolist():
        message = exact(name, version, bodies[row])
        assert message is not None, bodies[row].hex()
        topics = TopicNames({}).learn(message)
        assert matrix.error[row] == error_code(message)
        assert matrix.throttle[row] == getattr(message, "throttle_time_ms", 0)
        assert matrix.n_topics[row] == len({topic.topic_id or topic.name for topic in topics})
        if topics:
            assert matrix.n_partitions[row] == sum(topic.partition_count for topic in topics)
        for text, (at, size) in matrix.texts.items():
            start = sum(len(each) for each in bodies[:row])
            data = bodies[row][int(at[row]) - start :][: max(int(size[row]), 0)]
            assert (data.decode() or None) == (getattr(message, text) or None)


def test_most_bodies_are_read_side_by_side_though_these_have_unknown_tags_and_letters_of_all_kinds() -> None:
    given = taken = 0
    for name, version in MESSAGES:
        bodies = [body(vector) for vector in vectors()[name, version] for _ in range(TOGETHER_MIN)]
        given += len(bodies)
        taken += int(read(name, version, bodies).is_good.sum())

    assert taken > 0.6 * given
