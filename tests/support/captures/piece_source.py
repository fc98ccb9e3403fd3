"""A source of a capture that arrives in pieces, as a pipe does."""

from __future__ import annotations

import random


class PieceSource:
    """Returns the bytes of a capture in pieces of random sizes; before each piece it has to be waited for."""

    name = "<bytes>"

    def __init__(self, data: bytes, chance: random.Random, largest: int) -> None:
        """Args: largest: the greatest size of a piece."""
        self._data = data
        self._chance = chance
        self._largest = largest
        self._at = 0

    def is_ready(self) -> bool:
        """Whether a read returns at once: at the end."""
        return self._at >= len(self._data)

    def read(self, size: int = -1, /) -> bytes:
        """The next piece; empty at the end."""
        count = self._chance.randint(1, self._largest)
        piece = self._data[self._at : self._at + (count if size < 0 else min(count, size))]
        self._at += len(piece)
        return piece
