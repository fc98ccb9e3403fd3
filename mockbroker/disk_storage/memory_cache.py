"""`MemoryCache`: bounds the memory of what can be read from files again, for all logs of a cluster together."""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

#: By default, in bytes.
SIZE_MAX = 64 << 20


class CachedPart(Protocol):
    """Something in memory that can be read again."""

    def drop_cached(self) -> None:
        """Free the memory."""


class MemoryCache:
    """The parts that are in memory, with their sizes in bytes; those that were not used for longest are dropped."""

    def __init__(self, size_max: int = SIZE_MAX) -> None:
        self._size_max = size_max
        self._sizes: OrderedDict[CachedPart, int] = OrderedDict()
        self._total = 0

    @property
    def total(self) -> int:
        """Bytes of all parts."""
        return self._total

    def use(self, part: CachedPart, size: int) -> None:
        """A part is used, and has this size now. The others are dropped while there are too many bytes."""
        self._total += size - self._sizes.get(part, 0)
        self._sizes[part] = size
        self._sizes.move_to_end(part)
        while self._total > self._size_max and len(self._sizes) > 1:
            dropped, dropped_size = self._sizes.popitem(last=False)
            self._total -= dropped_size
            dropped.drop_cached()

    def forget(self, part: CachedPart) -> None:
        """A part does not exist any more."""
        self._total -= self._sizes.pop(part, 0)
