"""Analyses of latency: percentiles by API, and the slowest requests."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from kwire.spark import analyses
from tests.support.spark.data_frames import Row, frame, message

pytestmark = pytest.mark.spark


def test_latency_has_the_percentiles_of_the_answered_requests(spark: SparkSession) -> None:
    rows: list[Row] = [
        {"api_name": "Produce", "api_version": 11 + index % 2, "latency_us": index} for index in range(1, 101)
    ]
    rows += [{"api_name": "Produce", "api_version": 13, "latency_us": None}]

    (row,) = analyses.latency(frame(spark, "messages", rows)).collect()

    ranks = {"p50_us": 50, "p95_us": 95, "p99_us": 99, "max_us": 100}
    assert row.asDict() == {"api_name": "Produce", "versions": [11, 12], "requests": 100, **ranks}


def test_the_slowest_requests_exclude_long_polls(spark: SparkSession) -> None:
    rows = [
        message("Produce", 0, latency_us=5, req_packet=1),
        message("Metadata", 3, latency_us=9, req_packet=2),
        message("Fetch", 1, latency_us=500_000),
        message("JoinGroup", 11, latency_us=3_000_000),
        message("Produce", 0, latency_us=None),
    ]

    slowest = analyses.slowest(frame(spark, "messages", rows), count=2)

    assert slowest.select("api_name", "latency_us", "req_packet").collect() == [("Metadata", 9, 2), ("Produce", 5, 1)]
