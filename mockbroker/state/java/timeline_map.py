"""A dict that can be read in the iteration order of Kafka's `TimelineHashMap`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from mockbroker.state.java.hash_order import timeline_order

K = TypeVar("K")
V = TypeVar("V")


class TimelineMap(dict[K, V]):
    """A dict, which iterates by insertion as every other, and remembers how large it was.

    hash_of: the hash of a key in Java.
    """

    def __init__(self, hash_of: Callable[[K], int]) -> None:
        super().__init__()
        self._hash_of = hash_of
        self._largest = 0

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self._largest = max(self._largest, len(self))

    def setdefault(self, key: K, default: V) -> V:
        """The value of a key, which is stored if there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def in_map_order(self) -> dict[K, V]:
        """A copy in the order in which Kafka's map iterates."""
        return {key: self[key] for key in timeline_order(self, self._hash_of, most=self._largest)}
