"""The bytes of frames by offset: no more of the file is read than what is asked for needs."""

from __future__ import annotations

import random
from typing import SupportsIndex

from kwire.capture import index
from kwire.capture.index import Index
from kwire.capture.lane.bodies import Bodies
from tests.kwire.capture.wire import SHARE

MIB = 1 << 20


class Counted(bytes):
    """A file that counts what is read of it."""

    def __init__(self, *_: object) -> None:
        self.sizes: list[int] = []

    def __getitem__(self, key: SupportsIndex | slice) -> bytes:  # type: ignore[override]
        assert isinstance(key, slice)
        found = super().__getitem__(key)
        self.sizes.append(len(found))
        return found


def opened(size: int) -> tuple[Bodies, Counted]:
    source = Counted(random.Random(5).randbytes(size))
    return Bodies(Index(source, index.built(SHARE).columns)), source


def test_frames_that_lie_far_from_each_other_are_read_alone() -> None:
    bodies, source = opened(8 * MIB)

    for at in range(MIB // 2, 8 * MIB, MIB // 2):
        assert bodies.frame(at, 1, 100) == bytes(source)[at : at + 100]
    assert source.sizes == [100] * 15


def test_frames_that_lie_near_each_other_are_read_together() -> None:
    bodies, source = opened(4 * MIB)

    for at in range(0, 4 * MIB, 10_000):
        assert bodies.frame(at, 1, 5_000) == bytes(source)[at : at + 5_000]
    assert len(source.sizes) <= 5
    assert sum(source.sizes) < 4.1 * MIB


def test_frames_in_any_order_are_what_the_file_has_there() -> None:
    bodies, source = opened(3 * MIB)
    chance, whole = random.Random(3), bytes(source)

    for _ in range(500):
        at, size = chance.randrange(3 * MIB), chance.choice((1, 100, 100_000, 400_000))
        size = min(size, 3 * MIB - at)
        assert bodies.frame(at, 1, size) == whole[at : at + size]
