"""The window of a share partition costs the same whatever its size; here in calls and bytes, which do not vary."""

from __future__ import annotations

import gc
import sys
from types import FrameType

import pytest

from tools.bench.window import BATCH, Held, held_bytes


def _calls(held: Held, at: int) -> int:
    """How many functions run while one batch is acknowledged and another acquired."""
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    # A collection in between would count the calls of whoever listens to it.
    gc.disable()
    sys.setprofile(note)
    try:
        held.accept(at)
        held.acquire()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


@pytest.mark.parametrize("place", ["oldest", "middle", "newest"])
def test_acknowledging_and_acquiring_do_not_depend_on_how_much_is_in_flight(place: str) -> None:
    calls = []
    for size in (10_000, 1_000_000):
        held = Held(size)
        at = {"oldest": 0, "middle": len(held.runs) // 2, "newest": len(held.runs) - 1}[place]
        calls.append(max(_calls(held, at) for _ in range(10)))

    assert calls[1] <= calls[0]


def test_a_million_records_in_flight_take_memory_by_the_batch() -> None:
    assert len(Held(1_000_000).runs) == 1_000_000 // BATCH
    assert held_bytes(1_000_000) < 2 * held_bytes(100_000)
    assert held_bytes(1_000_000) < 1_000
