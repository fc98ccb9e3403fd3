"""Moves of a cluster's clock: as far as a hundred years, and never longer than their limit."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from kwire import Client
from kwire.messages.find_coordinator import Coordinator, FindCoordinatorRequest
from kwire.messages.metadata import MetadataRequest
from mockbroker import Cluster, WaitTimeout
from mockbroker.net.clock_moves import SLICE_S, TimeSlice
from tests.support.brokers.group_requests import share
from tests.support.stubborn_clients import stop_within_limit

_DAY_MS = 24 * 3_600_000
_CENTURY_MS = 100 * 365 * _DAY_MS
#: Followers fetch each half second, so that a century has more deadlines than any limit allows.
_REAL_REPLICATION = {"mockbroker.replication": "real", "default.replication.factor": "3"}


def _deadlines(cluster: Cluster, times_ms: list[int]) -> list[int]:
    """Schedule deadlines at these times from now. Returns: the list of the times at which they run, to be filled."""
    ran: list[int] = []

    def schedule(server: object) -> None:
        core = server.core  # type: ignore[attr-defined]
        for time_ms in times_ms:
            core.state.inter_broker.schedule(time_ms, ran.append, now_ms=core.now_ms)

    cluster.run(schedule)
    return ran


def _join_share_group(cluster: Cluster) -> None:
    """Let a member join a share group, whose partitions get state that is stored for ever."""
    with Client(cluster.bootstrap_servers) as client:
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=("g",))

        def find() -> Coordinator | None:
            (row,) = client.send(request, 4).coordinators
            return None if row.error_code else row

        found = cluster.wait_until(find)
    assert found is not None
    with Client(f"{found.host}:{found.port}") as client:
        assert client.send(share(0, "orders"), 1).error_code == 0
        cluster.wait_for_group("g", members=1)


def test_a_slice_of_time_is_over_when_it_has_lasted_long_enough() -> None:
    now_s = 10.0
    part = TimeSlice(lambda: now_s)

    assert not part.is_over()
    now_s += SLICE_S
    assert part.is_over()
    part.restart()
    assert not part.is_over()
    assert part.rounds == 3


def test_a_century_passes_with_three_nodes_a_data_directory_and_a_group(tmp_path: Path) -> None:
    with Cluster(nodes=3, topics={"orders": 2}, data_dir=tmp_path) as cluster:
        cluster.produce("orders", b"v")
        _join_share_group(cluster)
        cluster.clock.freeze()
        before_ms = cluster.clock.now_ms()
        ran = _deadlines(cluster, [_CENTURY_MS, 5, _DAY_MS])
        cluster.clock.advance(_CENTURY_MS)

        assert cluster.clock.now_ms() == before_ms + _CENTURY_MS
        assert [time_ms - before_ms for time_ms in ran] == [5, _DAY_MS, _CENTURY_MS]


def test_a_move_that_takes_too_long_says_how_far_it_came_and_stays_there() -> None:
    with Cluster(nodes=3, topics=["orders"], properties=_REAL_REPLICATION) as cluster:
        cluster.produce("orders", b"v")
        cluster.clock.freeze()
        before_ms = cluster.clock.now_ms()
        with pytest.raises(
            WaitTimeout, match=r"not moved by 3153600000000 ms within 0\.1 s: it was moved by \d+ ms"
        ) as e:
            cluster.clock.advance(_CENTURY_MS, timeout_s=0.1)
        moved_ms = cluster.clock.now_ms() - before_ms

        assert 0 < moved_ms < _CENTURY_MS
        assert f"it was moved by {moved_ms} ms, with deadlines at " in e.value.seen
        cluster.clock.advance(1_000)
        assert cluster.clock.now_ms() - before_ms == moved_ms + 1_000


def test_clients_are_served_while_the_clock_moves_and_the_cluster_stops() -> None:
    errors: list[Exception] = []
    with Cluster(nodes=3, topics=["orders"], properties=_REAL_REPLICATION) as cluster:
        cluster.produce("orders", b"v")
        cluster.clock.freeze()
        before_ms = cluster.clock.now_ms()

        def move() -> None:
            try:
                cluster.clock.advance(_CENTURY_MS, timeout_s=3_600)
            except RuntimeError as error:
                errors.append(error)

        thread = threading.Thread(target=move)
        thread.start()
        cluster.wait_until(lambda: cluster.clock.now_ms() > before_ms)
        with Client(cluster.bootstrap_servers) as client:
            assert client.send(MetadataRequest(topics=None)).topics[0].name == "orders"
        stop_within_limit(cluster)
        thread.join(30)

    assert "the cluster was stopped after its clock was moved by" in str(errors[0])


def test_moves_follow_one_another_and_a_reset_ends_them() -> None:
    async def move_twice(cluster: Cluster) -> None:
        await asyncio.gather(cluster.aio.advance_clock(1_000), cluster.aio.advance_clock(2_000))

    async def move_and_reset(cluster: Cluster) -> None:
        move = asyncio.ensure_future(cluster.aio.advance_clock(_CENTURY_MS, timeout_s=3_600))
        await cluster.aio.wait_until(lambda: cluster.clock.now_ms() > before_ms + 3_000)
        await asyncio.to_thread(cluster.reset)
        await move

    with Cluster(nodes=3, topics=["orders"], properties=_REAL_REPLICATION) as cluster:
        cluster.clock.freeze()
        before_ms = cluster.clock.now_ms()
        asyncio.run(move_twice(cluster))
        assert cluster.clock.now_ms() == before_ms + 3_000
        cluster.produce("orders", b"v")
        with pytest.raises(RuntimeError, match="the cluster was reset after its clock was moved by"):
            asyncio.run(move_and_reset(cluster))


@pytest.mark.parametrize("duration_ms", [-1, _CENTURY_MS + 1, 1 << 62])
def test_a_move_that_no_clock_makes_is_refused(duration_ms: int) -> None:
    with Cluster() as cluster, pytest.raises(ValueError, match=f"advance\\({duration_ms}\\)"):
        cluster.clock.advance(duration_ms)


def test_a_move_in_the_thread_of_the_cluster_is_refused() -> None:
    with Cluster() as cluster, pytest.raises(RuntimeError, match="would wait for itself"):
        cluster.run(lambda _: cluster.clock.advance(1))


def test_a_process_that_stood_still_runs_its_deadlines_in_slices_with_a_frozen_clock_too() -> None:
    with Cluster(nodes=3, topics=["orders"], properties=_REAL_REPLICATION) as cluster:
        cluster.produce("orders", b"v")
        cluster.clock.freeze()
        ran = _deadlines(cluster, [30 * _DAY_MS])
        # What is behind the clock, as after SIGSTOP: `run_due` ends each slice, and goes on.
        cluster.run(lambda server: server.clock.advance(30 * _DAY_MS))
        assert ran == []
        with Client(cluster.bootstrap_servers) as client:
            client.send(MetadataRequest(topics=None))
        stop_within_limit(cluster)
