"""`ChangedKeys`: which of many things have changed since a moment, so that only these are looked at."""

from __future__ import annotations

from collections.abc import Hashable
from itertools import takewhile
from typing import Generic, TypeVar

#: After changes of more keys than this it is no longer known which have changed.
_KEPT = 10_000

K = TypeVar("K", bound=Hashable)


class ChangedKeys(Generic[K]):
    """Counts changes, and knows the last one of each key. count: of all changes."""

    def __init__(self) -> None:
        self.count = 0
        # By key the number of its last change, the newest last.
        self._last: dict[K, int] = {}
        self._known_since = 0

    def add(self, key: K) -> None:
        """Something with this key has changed, is new or is gone."""
        self.count += 1
        if len(self._last) >= _KEPT:
            self._last.clear()
            self._known_since = self.count - 1
        self._last.pop(key, None)
        self._last[key] = self.count

    def since(self, count: int) -> list[K] | None:
        """The keys that have changed since there were so many changes, the newest last; None if unknown."""
        if count < self._known_since:
            return None
        found = list(takewhile(lambda key: self._last[key] > count, reversed(self._last)))
        found.reverse()
        return found
