"""What matters of a stretch is read; what lies far from all of it is not, where that is most of it."""

from __future__ import annotations

import random

import numpy as np

from kwire.capture.index.sparse import read_places

MIB = 1 << 20


class Reader:
    """A file that counts what is read of it."""

    def __init__(self, size: int) -> None:
        self.data = random.Random(size).randbytes(size)
        self.count = 0

    def read(self, at: int, size: int) -> bytes:
        found = self.data[at : at + size]
        self.count += len(found)
        return found


def some(reader: Reader, base: int, size: int, places: list[tuple[int, int]]) -> bytes:
    begin, stop = np.array(places, dtype=np.int64).reshape(-1, 2).T
    return read_places(reader.read, base, size, (begin, stop))


def test_only_what_is_asked_for_is_read() -> None:
    reader = Reader(8 * MIB)
    places = [(5 * MIB, 5 * MIB + 100), (2 * MIB, 2 * MIB + 10_000), (2 * MIB + 500, 2 * MIB + 700)]

    found = some(reader, MIB, 6 * MIB, places)

    assert len(found) == 6 * MIB
    assert reader.count == 10_100
    for begin, stop in places:
        assert found[begin - MIB : stop - MIB] == reader.data[begin:stop]


def test_where_much_is_asked_for_all_is_read_at_once() -> None:
    reader = Reader(2 * MIB)

    assert some(reader, 100, MIB, [(at, at + 40_000) for at in range(100, MIB, 60_000)]) == reader.data[100 : MIB + 100]
    assert reader.count == MIB


def test_nothing_is_read_for_nothing() -> None:
    reader = Reader(MIB)

    assert some(reader, 0, 1_000, []) == bytes(1_000)
    assert reader.count == 0


def test_places_in_any_order_beyond_the_stretch_or_the_file() -> None:
    chance = random.Random(4)
    reader = Reader(3 * MIB)

    for _ in range(100):
        base, size = chance.randrange(2 * MIB), chance.randrange(1, 2 * MIB)
        begins = [chance.randrange(3 * MIB) for _ in range(chance.randrange(5))]
        places = [(begin, begin + chance.choice((0, 1, 50_000))) for begin in begins]
        found = some(reader, base, size, places)
        for begin, stop in places:
            low, high = max(begin, base), min(stop, base + len(found))
            assert low >= high or found[low - base : high - base] == reader.data[low:high]
