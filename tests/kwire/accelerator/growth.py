"""Counts the memory blocks that calls leave behind."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable

CALLS = 300


def growth(work: Callable[[], object]) -> int:
    """The allocated blocks that `CALLS` calls leave behind: a leak is one for each call, Python's own are fewer."""
    for _ in range(20):
        work()
    gc.collect()
    blocks = sys.getallocatedblocks()
    for _ in range(CALLS):
        work()
    gc.collect()
    return sys.getallocatedblocks() - blocks
