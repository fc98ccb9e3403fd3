"""Frames are read by offset, and no more of the file than needed."""

from __future__ import annotations

import random
from typing import SupportsIndex

from kwire.capture import index
from kwire.capture.columnar.body_reader import BodyReader
from kwire.capture.index import Index
from tests.support.captures.capture_files import SHARE

MIB = 1 << 20


class CountingBytes(bytes):
    """A file that counts the bytes that are read."""

    def __init__(self, *_: object) -> None:
        self.sizes: list[int] = []

    def __getitem__(self, key: SupportsIndex | slice) -> bytes:  # type: ignore[override]
        assert isinstance(key, slice)
        data = super().__getitem__(key)
        self.sizes.append(len(data))
        return data


def open_bodies(size: int) -> tuple[BodyReader, CountingBytes]:
    source = CountingBytes(random.Random(5).randbytes(size))
    return BodyReader(Index(source, index.build_index(SHARE).columns)), source


def test_frames_far_from_each_other_are_read_one_by_one() -> None:
    bodies, source = open_bodies(8 * MIB)

    for at in range(MIB // 2, 8 * MIB, MIB // 2):
        assert bodies.read_frame(at, 1, 100) == bytes(source)[at : at + 100]
    assert source.sizes == [100] * 15


def test_frames_near_each_other_are_read_together() -> None:
    bodies, source = open_bodies(4 * MIB)

    for at in range(0, 4 * MIB, 10_000):
        assert bodies.read_frame(at, 1, 5_000) == bytes(source)[at : at + 5_000]
    assert len(source.sizes) <= 5
    assert sum(source.sizes) < 4.1 * MIB


def test_frames_in_any_order_are_read_correctly() -> None:
    bodies, source = open_bodies(3 * MIB)
    chance, whole = random.Random(3), bytes(source)

    for _ in range(500):
        at, size = chance.randrange(3 * MIB), chance.choice((1, 100, 100_000, 400_000))
        size = min(size, 3 * MIB - at)
        assert bodies.read_frame(at, 1, size) == whole[at : at + size]
