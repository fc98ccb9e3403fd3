"""Latency, and errors down to the partition, on rows small enough to count by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kwire.spark import analyses
from tests.kwire.spark.frames import START_US, Row, at, frame, message

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def test_latency_has_the_percentiles_of_the_answered_requests(spark: SparkSession) -> None:
    rows: list[Row] = [
        {"api_name": "Produce", "api_version": 11 + index % 2, "latency_us": index} for index in range(1, 101)
    ]
    rows += [{"api_name": "Produce", "api_version": 13, "latency_us": None}]

    found = analyses.latency(frame(spark, "messages", rows)).collect()

    assert [row.asDict() for row in found] == [
        {
            "api_name": "Produce",
            "versions": [11, 12],
            "requests": 100,
            "p50_us": 50,
            "p95_us": 95,
            "p99_us": 99,
            "max_us": 100,
        }
    ]


def test_the_slowest_requests_leave_out_those_that_wait_on_purpose(spark: SparkSession) -> None:
    rows = [
        message("Produce", 0, latency_us=5, req_packet=1),
        message("Metadata", 3, latency_us=9, req_packet=2),
        message("Fetch", 1, latency_us=500_000),
        message("JoinGroup", 11, latency_us=3_000_000),
        message("Produce", 0, latency_us=None),
    ]

    found = analyses.slowest(frame(spark, "messages", rows), count=2).collect()

    assert [(row["api_name"], row["latency_us"], row["req_packet"]) for row in found] == [
        ("Metadata", 9, 2),
        ("Produce", 5, 1),
    ]


def failed(spark: SparkSession) -> DataFrame:
    """Three errors of partitions in two answers, one error of a whole answer, and answers that went well."""
    answers = [
        message("Produce", 0, 0.0, correlation_id=1, error_code=7, error_name="E7"),
        message("Produce", 0, 1.0, correlation_id=2, error_code=7, error_name="E7"),
        message("Heartbeat", 12, 2.0, correlation_id=3, error_code=27, error_name="E27", resp_packet=33),
        message("Metadata", 3, 2.0, correlation_id=4, error_code=0, error_name="NONE"),
        message("Metadata", 3, 2.0, correlation_id=5, error_code=None, error_name=None),
    ]

    def partition(seconds: float, index: int, correlation_id: int, code: int) -> Row:
        """One partition of an answer to Produce."""
        place = {"file": "a.pcap", "conn_id": "c>b", "stream_epoch": 0, "resp_packet": correlation_id * 10}
        about = {"api_name": "Produce", "topic": "t", "partition": index, "client_id": "me", "ts": at(seconds)}
        return {**place, **about, "correlation_id": correlation_id, "error_code": code, "error_name": f"E{code}"}

    parts = [partition(0, 0, 1, 7), partition(0, 1, 1, 7), partition(0, 2, 1, 0), partition(1, 0, 2, 7)]
    return analyses.failures(frame(spark, "messages", answers), frame(spark, "partitions", parts))


def test_errors_are_counted_by_partition_and_whole_answers_apart(spark: SparkSession) -> None:
    found = analyses.errors(failed(spark)).collect()

    assert {
        (row["api_name"], row["error_name"], row["topic"], row["partition"]): (row["failures"], row["resp_packet"])
        for row in found
    } == {
        ("Produce", "E7", "t", 0): (2, 10),
        ("Produce", "E7", "t", 1): (1, 10),
        ("Heartbeat", "E27", None, None): (1, 33),
    }


def test_errors_stand_in_their_span_of_time(spark: SparkSession) -> None:
    found = analyses.errors_over_time(failed(spark), start_us=START_US, step_us=1_000_000).collect()

    assert {(row["name"], row["bin"]): row["count"] for row in found} == {("E7", 0): 2, ("E7", 1): 1, ("E27", 2): 1}
