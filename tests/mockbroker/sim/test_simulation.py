"""Many seeds of the whole cluster: no violation, complete coverage, and equal bytes for equal seeds."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mockbroker.config.releases import RELEASES
from mockbroker.sim.coverage import Coverage
from mockbroker.sim.simulation import run
from mockbroker.state.share.share_rules import SHARE_EDITIONS

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
#: Seeds in which everything occurs, and further ones, in parts that run in parallel.
COMPLETE = range(60)
FURTHER = (range(60, 90), range(90, 120))


def _run_seeds(seeds: range) -> Coverage:
    """The common coverage of seeds. Raises: SeedFailed at the first violation."""
    total = Coverage()
    for seed in seeds:
        total.add(run(seed).coverage)
    return total


def test_every_transition_and_every_fault_occurs() -> None:
    total = _run_seeds(COMPLETE)
    print(total.line())

    assert total.missing() == []


@pytest.mark.parametrize("seeds", FURTHER, ids=str)
def test_no_invariant_breaks(seeds: range) -> None:
    assert _run_seeds(seeds).counts["start moved"]


@pytest.mark.parametrize(
    "option", [*(("--release", name) for name in RELEASES), *(("--share-edition", name) for name in SHARE_EDITIONS)]
)
def test_the_same_seed_gives_the_same_bytes_in_processes_that_hash_differently(option: tuple[str, str]) -> None:
    digests = set()
    for hash_seed in ("1", "2"):
        result = subprocess.run(
            [sys.executable, "-m", "mockbroker.sim", "--seed", "1", *option],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        digests.add(result.stdout.splitlines()[0])

    assert len(digests) == 1
    assert run(6).wire.digest not in digests.pop()
