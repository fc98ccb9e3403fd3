"""The flows of a capture by number, in the order in which they first appear."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Ints = npt.NDArray[np.int64]
    Words = npt.NDArray[np.uint64]

_MIX = np.array(
    [0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93, 0xA0761D6478BD642F],
    dtype=np.uint64,
)


class FlowIds:
    """Gives numbers to flows as they come. `words` are the two ends of each, as `Heads` has them."""

    def __init__(self) -> None:
        """No flow yet."""
        self.words: list[tuple[int, ...]] = []
        self._ids: dict[tuple[int, ...], int] = {}

    def __len__(self) -> int:
        return len(self.words)

    def of(self, words: Words) -> Ints:
        """The flow of each row of words; new ones are added, in the order in which they come."""
        if not len(words):
            return np.zeros(0, dtype=np.int64)
        mixed = (words * _MIX).sum(axis=1, dtype=np.uint64)
        _, first, inverse = np.unique(mixed, return_index=True, return_inverse=True)
        if not np.array_equal(words[first][inverse], words):
            # Two flows have one sum: rare, or made so.
            _, first, inverse = np.unique(words, axis=0, return_index=True, return_inverse=True)
        ids = np.empty(len(first), dtype=np.int64)
        for index in np.argsort(first, kind="stable").tolist():
            key = tuple(words[first[index]].tolist())
            found = self._ids.get(key)
            if found is None:
                found = self._ids[key] = len(self.words)
                self.words.append(key)
            ids[index] = found
        return ids[inverse.reshape(-1)]

    def table(self) -> Words:
        """The words of all flows, a row each."""
        return np.array(self.words, dtype=np.uint64).reshape(-1, 5)
