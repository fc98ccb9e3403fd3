"""The attacks by name, and what runs one of them."""

from __future__ import annotations

import importlib
import random
from collections.abc import Iterator

#: The module of each attack; its function `attack(rng, *, seconds)` yields a line for each violation that it finds.
ATTACKS: dict[str, str] = {
    "stops": "tests.attack.stops",
    "random-faults": "tests.attack.random_faults",
    "key-stores": "tests.attack.key_stores",
}


def run_attack(name: str, seed: int, *, seconds: float) -> Iterator[str]:
    """Run one attack.

    Args: seed: of all random choices. seconds: after which no further round begins; each has at least one.
    Yields: the violations: what was seen, and what was expected.
    """
    module = importlib.import_module(ATTACKS[name])
    yield from module.attack(random.Random(seed), seconds=seconds)
