"""The random number generator that state machines are given; a seeded `random.Random` is one."""

from __future__ import annotations

from typing import Protocol


class RandomSource(Protocol):
    """Random numbers from the cluster's seed."""

    def getrandbits(self, k: int, /) -> int:
        """k random bits."""

    def randrange(self, start: int, stop: int | None = None, /) -> int:
        """A number from `start` to `stop` - 1; from 0 to `start` - 1 without a stop."""
