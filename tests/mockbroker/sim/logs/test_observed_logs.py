"""`ObservedLogs` finds each change that the invariants of logs depend on, and none where there is none."""

from __future__ import annotations

import pytest

from mockbroker.sim.logs.observed_logs import ObservedLogs
from mockbroker.sim.simulated_cluster import SimulatedCluster


@pytest.fixture(params=[False, True], ids=["shared logs", "replicas"])
def cluster(request: pytest.FixtureRequest) -> SimulatedCluster:
    """A cluster with a log of one marker in each partition."""
    cluster = SimulatedCluster(1, replicates=request.param)
    cluster.advance(1_000)
    for key in cluster.partition_keys():
        _append(cluster, key)
    cluster.advance(5_000)
    return cluster


def _append(cluster: SimulatedCluster, key: tuple[bytes, int]) -> None:
    log = cluster.find_log(key)
    assert log is not None
    log.append_marker(commit=True, producer_id=-1, producer_epoch=0, coordinator_epoch=0, now_ms=cluster.now_ms)


def _observe(logs: ObservedLogs) -> bool:
    """Whether there is a change since the last time."""
    version = logs.version
    logs.observe()
    return logs.version != version


def test_time_alone_is_no_change(cluster: SimulatedCluster) -> None:
    logs = ObservedLogs(cluster.core)
    logs.observe()
    cluster.core.advance(cluster.now_ms + 1_000)

    assert not _observe(logs)


def test_an_end_a_start_and_a_high_watermark_that_move_are_changes(cluster: SimulatedCluster) -> None:
    logs = ObservedLogs(cluster.core)
    logs.observe()
    key = cluster.partition_keys()[0]
    log = cluster.find_log(key)
    assert log is not None

    _append(cluster, key)
    assert _observe(logs)
    log.start_offset = 1
    assert _observe(logs)
    log.hold_high_watermark(2)
    assert _observe(logs)
    assert not _observe(logs)


def test_another_leader_another_topic_and_another_node_are_changes(cluster: SimulatedCluster) -> None:
    logs, core = ObservedLogs(cluster.core), cluster.core
    logs.observe()

    core.move_leader("a", 0, core.now_ms, to=None)
    assert _observe(logs)
    core.create_topic("new")
    assert _observe(logs)
    core.kill_node(2, core.now_ms)
    assert _observe(logs)


def test_the_start_of_a_log_stays_known_without_a_leader(cluster: SimulatedCluster) -> None:
    logs, key = ObservedLogs(cluster.core), cluster.partition_keys()[0]
    log = cluster.find_log(key)
    assert log is not None
    log.start_offset = 1

    before = logs.find_start(key)
    cluster.core.kill_node(cluster.leader(key), cluster.now_ms)

    assert (before, logs.find_start(key)) == (1, 1)
