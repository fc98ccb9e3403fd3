"""Faults in the simulator: on virtual time the same seed gives the same bytes, and the invariants hold."""

from __future__ import annotations

import pytest

from mockbroker.faults.registry import FaultRegistry
from mockbroker.faults.validation import create_fault
from mockbroker.sim.simulation import Simulation

_STEPS = 250


def _run(seed: int) -> tuple[str, int]:
    """Run a simulation with late answers; a hash of all bytes, and how often the faults have acted."""
    simulation = Simulation(seed)
    cluster = simulation.cluster
    registry = FaultRegistry(cluster.core)
    late = registry.add(create_fault("ShareFetch", after=True, delay_ms=1, jitter_ms=900, probability=0.3))
    slow = registry.add(create_fault("ShareAcknowledge", delay_ms=1, jitter_ms=900, probability=0.3))
    with cluster.coverage.counting_transitions():
        simulation.prepare()
        for _ in range(_STEPS):
            simulation.step()
        registry.remove(late)
        registry.remove(slow)
        simulation.finish()
    return cluster.wire.digest, late.hits + slow.hits


@pytest.mark.parametrize("seed", [2, 3])
def test_the_same_seed_gives_the_same_bytes(seed: int) -> None:
    first, second = _run(seed), _run(seed)

    assert first == second
    assert first[1] > 0
