"""The cost of operations is independent of the window size, measured in calls and bytes, which do not vary."""

from __future__ import annotations

import gc
import sys
from types import FrameType

import pytest

from tools.bench.window import BATCH, FilledWindow, bytes_per_batch


def _calls(held: FilledWindow, at: int) -> int:
    """How many functions run while one batch is acknowledged and another acquired."""
    count = 0

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    # A garbage collection would add the calls of its callbacks.
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
def test_the_cost_of_acknowledge_and_acquire_is_independent_of_the_window(place: str) -> None:
    calls = []
    for size in (10_000, 1_000_000):
        held = FilledWindow(size)
        at = {"oldest": 0, "middle": len(held.runs) // 2, "newest": len(held.runs) - 1}[place]
        calls.append(max(_calls(held, at) for _ in range(10)))

    assert calls[1] <= calls[0]


def test_memory_of_the_window_depends_on_the_number_of_batches() -> None:
    assert len(FilledWindow(1_000_000).runs) == 1_000_000 // BATCH
    assert bytes_per_batch(1_000_000) < 2 * bytes_per_batch(100_000)
    assert bytes_per_batch(1_000_000) < 1_000
