"""Bytes of a stream by position: what later spans need is kept, in memory or in a file."""

from __future__ import annotations

import numpy as np
import pytest

from kwire.capture.index import held_bytes
from kwire.capture.index.held_bytes import HeldBytes


def keep(held: HeldBytes, *ranges: tuple[int, int]) -> None:
    at, size = np.array(ranges, dtype=np.int64).reshape(-1, 2).T
    held.keep([(at, size)])


@pytest.mark.parametrize("memory_size_max", [1 << 20, 10])
def test_kept_ranges_are_read_by_their_positions(memory_size_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_bytes, "_MEMORY_SIZE_MAX", memory_size_max)
    held = HeldBytes()
    held.add_span(bytes(range(100)))
    assert held.read(90, 20) == bytes(range(90, 100))
    keep(held, (10, 5), (12, 8), (50, 10), (-1, 7), (70, 0))
    held.add_span(b"next")
    held.append(b" span")
    assert held.read(100, 9) == b"next span"
    assert held.read(11, 4) == bytes(range(11, 15))
    assert held.read(12, 8) == bytes(range(12, 20))
    assert held.kept_size == 20
    keep(held, (50, 10), (105, 4))
    held.add_span(b"")
    assert held.read(55, 10) == bytes(range(55, 60))
    assert held.read(105, 4) == b"span"
    assert held.kept_size == 14
    keep(held)
    assert held.kept_size == 0


def test_bytes_of_two_packets_are_kept_apart() -> None:
    held = HeldBytes()
    held.add_span(b"abcdef")
    keep(held, (0, 3), (3, 3))
    held.add_span(b"")
    keep(held, (3, 3))
    assert held.read(3, 3) == b"def"


def test_nothing_is_read_of_a_missing_fragment() -> None:
    held = HeldBytes()
    held.add_span(b"abc")
    keep(held)
    assert held.read(2, 0) == b""
