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
    "broker-settings": "tests.attack.broker_settings",
    "costly-requests": "tests.attack.costly_requests",
    "extreme-numbers": "tests.attack.extreme_numbers",
    "growing-state": "tests.attack.growing_state",
    "slow-readers": "tests.attack.slow_readers",
    "http-connections": "tests.attack.http_connections",
    "damaged-directories": "tests.attack.damaged_directories",
}


def run_attack(name: str, seed: int, *, seconds: float) -> Iterator[str]:
    """Run one attack.

    Args: seed: of all random choices. seconds: after which no further round begins; each has at least one.
    Yields: the violations: what was seen, and what was expected.
    """
    module = importlib.import_module(ATTACKS[name])
    yield from module.attack(random.Random(seed), seconds=seconds)
