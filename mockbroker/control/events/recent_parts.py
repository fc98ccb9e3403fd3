"""`RecentParts`: the newest encoded parts of streams, which readers with the same question share."""

from __future__ import annotations

from collections.abc import Callable, Hashable

#: The default maximum number of parts.
PARTS_MAX = 32


class RecentParts:
    """Keeps the newest parts by their keys: readers are notified together, so most of them ask for the same ones."""

    def __init__(self, *, parts_max: int = PARTS_MAX) -> None:
        self._parts: dict[Hashable, bytes] = {}
        self._parts_max = parts_max

    def get(self, key: Hashable, encode: Callable[[], bytes]) -> bytes:
        """The part with this key, which `encode` makes if it is not there."""
        part = self._parts.get(key)
        if part is None:
            part = self._parts[key] = encode()
            if len(self._parts) > self._parts_max:
                del self._parts[next(iter(self._parts))]
        return part
