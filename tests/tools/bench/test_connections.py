"""Requests of many connections at a steady rate, and the section about their latencies."""

from __future__ import annotations

import os

import pytest

from mockbroker import Cluster
from tools.bench.connections import Load, LoadResult, _render_section, _summarize, measure_load


def test_every_request_of_a_load_is_sent_and_answered() -> None:
    with Cluster(topics={"orders": 1}) as cluster:
        after = cluster.journal.last_number
        result = measure_load(cluster.bootstrap_servers, os.getpid(), Load(5, 40, 0.5), "orders")

        by_connection: dict[int, int] = {}
        for exchange in cluster.requests("Metadata", after=after):
            by_connection[exchange.connection_id] = by_connection.get(exchange.connection_id, 0) + 1

    # The first one is that of the client which looks at an answer; then one and a half seconds, warm-up included.
    assert sorted(by_connection.values()) == [1, 60, 60, 60, 60, 60]
    assert 0 < result.p50_ms <= result.p99_ms


def test_a_topic_that_is_not_there_is_an_error_and_no_measurement() -> None:
    with (
        Cluster(settings=["auto.create.topics.enable=false"]) as cluster,
        pytest.raises(RuntimeError, match="error 3"),
    ):
        measure_load(cluster.bootstrap_servers, os.getpid(), Load(1, 1, 1), "orders")


def test_the_section_has_the_medians_of_the_runs_and_the_ratio_to_ours() -> None:
    runs = {"mockbroker": [LoadResult(0.5, 2.0, 0.1, 40.0)], "kfake": [LoadResult(1.0, 1.0, 0.1, 30.0)]}
    load = Load(2_000, 10, 5)

    results = {(result.case, result.peer): result for result in _summarize(runs, load)}
    text = _render_section(runs, load)

    case = "latency of 2,000 connections, 10 requests/s each, "
    assert (results[f"{case}p50", "mockbroker"].median, results[f"{case}p50", "mockbroker"].ratio) == (0.5, None)
    assert (results[f"{case}p50", "kfake"].ratio, results[f"{case}p99", "kfake"].ratio) == (2.0, 0.5)
    assert "| kfake | 1.00 [1.00 … 1.00] | 1.00 [1.00 … 1.00] | 0.10 [0.10 … 0.10] | 30 [30 … 30] |" in text
    assert "100,000 in a run" in text
