"""The invariants of replicas that fetch: they hold over seeds, and a violation of each is found."""

from __future__ import annotations

import pytest

from mockbroker.replication.replicated_log_store import ReplicatedLogStore
from mockbroker.sim.replication.replica_checker import SITUATIONS
from mockbroker.sim.simulated_cluster import SimulatedCluster
from mockbroker.sim.simulation import run
from mockbroker.sim.violation import SeedFailed, Violation
from mockbroker.state.replication.leader_replicas import LagRules, LeaderReplicas

SEEDS, STEPS = (1, 5, 6), 150


def _run_seeds() -> dict[str, int]:
    """How often each situation occurred. Raises: SeedFailed at the first violation."""
    counts = dict.fromkeys(SITUATIONS, 0)
    for seed in SEEDS:
        coverage = run(seed, steps=STEPS, replicates=True).coverage
        counts = {name: count + coverage.counts[name] for name, count in counts.items()}
    return counts


@pytest.mark.slow
def test_no_invariant_breaks_and_followers_lag_leave_the_isr_and_are_truncated() -> None:
    counts = _run_seeds()

    assert [name for name, count in counts.items() if not count] == []


@pytest.mark.slow
def test_the_same_seed_gives_the_same_bytes() -> None:
    assert run(0, steps=60, replicates=True).wire.digest == run(0, steps=60, replicates=True).wire.digest


@pytest.mark.slow
def test_a_high_watermark_that_does_not_wait_for_followers_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_end(
        _replicas: LeaderReplicas, end_offset: int, _least: int, _rules: LagRules, *, now_ms: int
    ) -> int | None:
        return end_offset

    monkeypatch.setattr(LeaderReplicas, "find_high_watermark", find_end)

    with pytest.raises(SeedFailed) as failed:
        _run_seeds()

    assert isinstance(failed.value.cause, Violation)


def make_cluster() -> SimulatedCluster:
    cluster = SimulatedCluster(1, replicates=True)
    cluster.advance(1_000)
    return cluster


def test_an_acknowledgement_of_what_is_not_committed_is_found() -> None:
    cluster = make_cluster()
    key = cluster.partition_keys()[0]

    with pytest.raises(Violation, match="1 is acknowledged, and 0 committed"):
        cluster.record_produced(key, 1)


def test_a_high_watermark_that_goes_back_is_found() -> None:
    cluster = make_cluster()
    key = cluster.partition_keys()[0]
    log = cluster.find_log(key)
    assert log is not None
    log.append_marker(commit=True, producer_id=-1, producer_epoch=0, coordinator_epoch=0, now_ms=cluster.now_ms)
    cluster.advance(1_000)
    store = cluster.core.state.log_store
    assert isinstance(store, ReplicatedLogStore)
    store.node_logs(cluster.leader(key)).on_log_changed = None  # The leader would correct it.

    log.hold_high_watermark(0)

    with pytest.raises(Violation, match="the high watermark is 0 in epoch 0, and was 1"):
        cluster.check()


def test_a_truncated_record_that_was_committed_is_found() -> None:
    cluster = make_cluster()
    key = cluster.partition_keys()[0]
    log = cluster.find_log(key)
    assert log is not None
    log.append_marker(commit=True, producer_id=-1, producer_epoch=0, coordinator_epoch=0, now_ms=cluster.now_ms)
    cluster.advance(5_000)

    log.truncate_to(0)

    with pytest.raises(Violation, match="it ends at 0, and has known that 1 is committed"):
        cluster.check()
