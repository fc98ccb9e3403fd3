"""`read_sparse` reads the needed ranges, and all bytes at once if most are needed."""

from __future__ import annotations

import random

import numpy as np

from kwire.capture.index.sparse import read_sparse

MIB = 1 << 20


class CountingFile:
    """A file that counts the bytes that are read."""

    def __init__(self, size: int) -> None:
        self.data = random.Random(size).randbytes(size)
        self.count = 0

    def read(self, at: int, size: int) -> bytes:
        data = self.data[at : at + size]
        self.count += len(data)
        return data


def read_ranges(reader: CountingFile, base: int, size: int, ranges: list[tuple[int, int]]) -> bytes:
    begin, stop = np.array(ranges, dtype=np.int64).reshape(-1, 2).T
    return read_sparse(reader.read, base, size, (begin, stop))


def test_only_the_needed_ranges_are_read() -> None:
    reader = CountingFile(8 * MIB)
    ranges = [(5 * MIB, 5 * MIB + 100), (2 * MIB, 2 * MIB + 10_000), (2 * MIB + 500, 2 * MIB + 700)]

    found = read_ranges(reader, MIB, 6 * MIB, ranges)

    assert len(found) == 6 * MIB
    assert reader.count == 10_100
    for begin, stop in ranges:
        assert found[begin - MIB : stop - MIB] == reader.data[begin:stop]


def test_all_bytes_are_read_at_once_if_most_are_needed() -> None:
    reader = CountingFile(2 * MIB)

    ranges = [(at, at + 40_000) for at in range(100, MIB, 60_000)]
    assert read_ranges(reader, 100, MIB, ranges) == reader.data[100 : MIB + 100]
    assert reader.count == MIB


def test_no_byte_is_read_without_ranges() -> None:
    reader = CountingFile(MIB)

    assert read_ranges(reader, 0, 1_000, []) == bytes(1_000)
    assert reader.count == 0


def test_ranges_in_any_order_may_exceed_the_part_or_the_file() -> None:
    chance = random.Random(4)
    reader = CountingFile(3 * MIB)

    for _ in range(100):
        base, size = chance.randrange(2 * MIB), chance.randrange(1, 2 * MIB)
        begins = [chance.randrange(3 * MIB) for _ in range(chance.randrange(5))]
        ranges = [(begin, begin + chance.choice((0, 1, 50_000))) for begin in begins]
        found = read_ranges(reader, base, size, ranges)
        for begin, stop in ranges:
            low, high = max(begin, base), min(stop, base + len(found))
            assert low >= high or found[low - base : high - base] == reader.data[low:high]
