"""A cluster stops in bounded time, whatever its clients do."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mockbroker import Cluster
from mockbroker.cluster_methods import cluster_thread
from mockbroker.net.event_loops import new_event_loop
from tests.support.stubborn_clients import (
    LARGE_TOPIC,
    PLAIN,
    WITH_TLS,
    OpenClient,
    fill_large_topic,
    leave_answer_unread,
    stay_silent,
    stop_within_limit,
)

_GRACE_MS = 100


@pytest.fixture(params=["asyncio", "installed"])
def loop_factory(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both event loops: that of Python, and uvloop where it is installed."""
    factory = asyncio.new_event_loop if request.param == "asyncio" else new_event_loop
    monkeypatch.setattr(cluster_thread, "new_event_loop", factory)


@pytest.mark.usefixtures("loop_factory")
@pytest.mark.parametrize("open_client", [*PLAIN, *WITH_TLS])
def test_a_cluster_stops_though_a_client_does_not_end_its_connection(open_client: OpenClient) -> None:
    tls = "auto" if open_client in WITH_TLS else None
    with Cluster(topics=[LARGE_TOPIC], tls=tls, stop_grace_ms=_GRACE_MS) as cluster:
        fill_large_topic(cluster)
        with open_client(cluster):
            stop_within_limit(cluster)


def test_a_cluster_with_idle_clients_stops_without_its_grace() -> None:
    with Cluster(stop_grace_ms=3_600_000) as cluster, stay_silent(cluster):
        stop_within_limit(cluster)


def test_a_client_that_reads_gets_its_whole_answer_within_the_grace() -> None:
    received = b""
    with Cluster(topics=[LARGE_TOPIC], stop_grace_ms=60_000) as cluster:
        fill_large_topic(cluster)
        with leave_answer_unread(cluster, receives_little=False) as client:
            loop = asyncio.new_event_loop()
            stopped = loop.run_in_executor(None, cluster.stop)
            while part := client.recv(1 << 20):
                received += part
            loop.run_until_complete(stopped)
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()

    assert len(received) == 4 + int.from_bytes(received[:4], "big") > 10_000_000


def test_a_cluster_stops_with_a_connection_that_was_never_removed() -> None:
    with Cluster(stop_grace_ms=_GRACE_MS) as cluster, stay_silent(cluster):

        def leak(server: object) -> None:
            network = server.require_started()  # type: ignore[attr-defined]
            network.remove_connection = lambda connection: None

        cluster.run(leak)
        stop_within_limit(cluster)


def test_a_cluster_with_a_data_directory_stops_and_starts_again_with_a_client_that_reads_nothing(
    tmp_path: Path,
) -> None:
    with Cluster(topics=[LARGE_TOPIC], data_dir=tmp_path, stop_grace_ms=_GRACE_MS) as cluster:
        fill_large_topic(cluster)
        with leave_answer_unread(cluster):
            stop_within_limit(cluster)
        with Cluster(data_dir=tmp_path) as again:
            assert len(again.read(LARGE_TOPIC)) == 12
