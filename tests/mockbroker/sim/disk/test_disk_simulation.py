"""Seeds of the simulator with a data directory on a disk that fails, and processes that end."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from mockbroker.sim.coverage import DISK_FAULTS, PROCESS_ENDS, PROMISES
from mockbroker.sim.simulation import run

pytestmark = pytest.mark.slow

#: In parts that run in parallel; those of each part together have every fault, end and promise.
SEEDS = (range(30), range(30, 60))


@pytest.fixture(autouse=True)
def _without_log() -> Iterator[None]:
    """A disk that fails makes thousands of lines."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("seeds", SEEDS, ids=str)
def test_no_promise_is_broken_on_a_disk_that_fails(seeds: range) -> None:
    counts = dict.fromkeys((*DISK_FAULTS, *PROCESS_ENDS, *PROMISES), 0)
    for seed in seeds:
        coverage = run(seed, on_disk=True).coverage
        for name in counts:
            counts[name] += coverage.counts[name]

    print(counts)
    assert [name for name, count in counts.items() if not count] == []


def test_the_same_seed_gives_the_same_bytes() -> None:
    assert run(3, on_disk=True).wire.digest == run(3, on_disk=True).wire.digest
