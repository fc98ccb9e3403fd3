"""Number the pairs of endpoints of a capture in the order in which they first appear."""

from __future__ import annotations

import numpy as np

from kwire.capture.index.arrays import NO_NUMBERS, Ints, Words

_MIX = np.array(
    [0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0xD6E8FEB86659FD93, 0xA0761D6478BD642F],
    dtype=np.uint64,
)


class EndpointPairs:
    """Numbers pairs of endpoints. `words`: by pair number, its endpoint words, as in `PacketHeaders.ends`."""

    def __init__(self) -> None:
        """There is no pair yet."""
        self.words: list[tuple[int, ...]] = []
        self._ids: dict[tuple[int, ...], int] = {}

    def __len__(self) -> int:
        return len(self.words)

    def number_pairs(self, words: Words) -> Ints:
        """The pair number of each row of endpoint words; new pairs are added in their order."""
        if not len(words):
            return NO_NUMBERS
        mixed = (words * _MIX).sum(axis=1, dtype=np.uint64)
        _, first, inverse = np.unique(mixed, return_index=True, return_inverse=True)
        if not np.array_equal(words[first][inverse], words):
            # Two pairs have the same hash, by chance or by intent.
            _, first, inverse = np.unique(words, axis=0, return_index=True, return_inverse=True)
        ids = np.empty(len(first), dtype=np.int64)
        for index in np.argsort(first, kind="stable").tolist():
            key = tuple(words[first[index]].tolist())
            number = self._ids.get(key)
            if number is None:
                number = self._ids[key] = len(self.words)
                self.words.append(key)
            ids[index] = number
        return ids[inverse.reshape(-1)]

    def endpoint_table(self) -> Words:
        """The endpoint words of all pairs, one row per pair."""
        return np.array(self.words, dtype=np.uint64).reshape(-1, 5)
