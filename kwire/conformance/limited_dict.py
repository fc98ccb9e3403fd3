"""`LimitedDict`: a mapping that forgets its oldest entries, so that traffic of any length needs limited memory."""

from __future__ import annotations

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class LimitedDict(dict[K, V]):
    """A dict of at most `limit` entries; the one that was added first is dropped. The rules then know less."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        if len(self) > self._limit:
            del self[next(iter(self))]
