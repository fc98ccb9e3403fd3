"""Java's priority queue: the order of equal elements depends on its heap operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class JavaHeap(Generic[T]):
    """A heap that returns elements in the order of a `java.util.PriorityQueue` with the same history.

    rank: the value that elements are compared by; an element must not change while it is inside.
    """

    def __init__(self, rank: Callable[[T], Any]) -> None:
        self._rank = rank
        self._items: list[T] = []

    def __len__(self) -> int:
        return len(self._items)

    def add(self, item: T) -> None:
        """Add an element: it rises from the end past larger ones only."""
        at = len(self._items)
        self._items.append(item)
        rank = self._rank(item)
        while at > 0:
            parent = (at - 1) // 2
            if rank >= self._rank(self._items[parent]):
                break
            self._items[at] = self._items[parent]
            at = parent
        self._items[at] = item

    def poll(self) -> T:
        """Remove and return the first element: the last one sinks from the top past smaller ones only."""
        first = self._items[0]
        last = self._items.pop()
        if self._items:
            self._sink(last)
        return first

    def _sink(self, item: T) -> None:
        count, at, rank = len(self._items), 0, self._rank(item)
        while at < count // 2:
            child = 2 * at + 1
            if child + 1 < count and self._rank(self._items[child]) > self._rank(self._items[child + 1]):
                child += 1
            if rank <= self._rank(self._items[child]):
                break
            self._items[at] = self._items[child]
            at = child
        self._items[at] = item
