"""A limit of memory for tests of hostile input."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def memory_below(limit: int) -> Iterator[None]:
    """Fail if the block allocates this many bytes at once."""
    tracemalloc.start()
    try:
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < limit
