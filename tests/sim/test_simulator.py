"""Two hundred seeds of the whole cluster: nothing is found, everything is met, and equal seeds give equal bytes."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from mockbroker.sim.coverage import Coverage
from mockbroker.sim.world import run

ROOT = Path(__file__).parents[2]
SEEDS = 200
PARTS = 4


@cache
def _played(part: int) -> Coverage:
    """Every fourth seed; what they have met together."""
    total = Coverage()
    for seed in range(part, SEEDS, PARTS):
        total.add(run(seed).coverage)
    return total


@pytest.mark.parametrize("part", range(PARTS))
def test_no_invariant_breaks_in_two_hundred_seeds(part: int) -> None:
    assert _played(part).counts["start moved"]


def test_every_transition_and_every_fault_is_met() -> None:
    total = Coverage()
    for part in range(PARTS):
        total.add(_played(part))
    print(total.line())

    assert total.missing() == []


def test_the_same_seed_gives_the_same_bytes_in_processes_that_hash_differently() -> None:
    digests = set()
    for hash_seed in ("1", "2"):
        told = subprocess.run(
            [sys.executable, "-m", "mockbroker.sim", "--seed", "5"],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        digests.add(told.stdout.splitlines()[0])

    assert len(digests) == 1
    assert run(6).wire.digest not in digests.pop()
