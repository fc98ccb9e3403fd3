"""Analyses of errors: by partition, and over time."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

from kwire.spark import analyses
from tests.support.spark.data_frames import START_US, Row, at, frame, message

pytestmark = pytest.mark.spark


def failures_of_sample(spark: SparkSession) -> DataFrame:
    """Three errors of partitions in two responses, one error of a whole response, and responses without error."""
    answers = [
        message("Produce", 0, 0.0, correlation_id=1, error_code=7, error_name="E7"),
        message("Produce", 0, 1.0, correlation_id=2, error_code=7, error_name="E7"),
        message("Heartbeat", 12, 2.0, correlation_id=3, error_code=27, error_name="E27", resp_packet=33),
        message("Metadata", 3, 2.0, correlation_id=4, error_code=0, error_name="NONE"),
        message("Metadata", 3, 2.0, correlation_id=5, error_code=None, error_name=None),
    ]

    def partition(seconds: float, index: int, correlation_id: int, code: int) -> Row:
        """One partition of a Produce response."""
        place = {"file": "a.pcap", "conn_id": "c>b", "stream_epoch": 0, "resp_packet": correlation_id * 10}
        about = {"api_name": "Produce", "topic": "t", "partition": index, "client_id": "me", "ts": at(seconds)}
        return {**place, **about, "correlation_id": correlation_id, "error_code": code, "error_name": f"E{code}"}

    parts = [partition(0, 0, 1, 7), partition(0, 1, 1, 7), partition(0, 2, 1, 0), partition(1, 0, 2, 7)]
    return analyses.failures(frame(spark, "messages", answers), frame(spark, "partitions", parts))


def test_errors_are_counted_by_partition_and_by_response(spark: SparkSession) -> None:
    errors = analyses.errors(failures_of_sample(spark))

    assert set(errors.select("api_name", "error_name", "topic", "partition", "failures", "resp_packet").collect()) == {
        ("Produce", "E7", "t", 0, 2, 10),
        ("Produce", "E7", "t", 1, 1, 10),
        ("Heartbeat", "E27", None, None, 1, 33),
    }


def test_errors_are_counted_by_time_bin(spark: SparkSession) -> None:
    counts = analyses.errors_over_time(failures_of_sample(spark), start_us=START_US, step_us=1_000_000)

    assert set(counts.select("name", "bin", "count").collect()) == {("E7", 0, 2), ("E7", 1, 1), ("E27", 2, 1)}
