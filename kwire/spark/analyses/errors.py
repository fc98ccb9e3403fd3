"""Analyses of error responses, down to the partition."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  Spark's own habit.

from kwire.spark.analyses.common import CONNECTION, count_by_time_bin, topic_or_id

LOCATION = ("file", "conn_id", "correlation_id", "req_packet", "resp_packet")


def failures(messages: DataFrame, partitions: DataFrame) -> DataFrame:
    """A row for every error of a partition, and for every response with an error outside partitions.

    `ts`: the time of the request, or of the response if the request was not captured.
    """
    partition_errors = partitions.filter(F.col("error_code") != 0)
    failed = messages.filter((F.col("error_code") != 0) & F.col("api_name").isNotNull())
    response_errors = failed.join(partition_errors, [*CONNECTION, "correlation_id"], "left_anti")
    columns = (*LOCATION, "client_id", "api_name", "error_name", "stream_epoch")
    ts = F.coalesce("req_ts", "resp_ts").alias("ts")
    in_responses = response_errors.select(*columns, ts)
    in_partitions = partition_errors.select(*columns, topic_or_id().alias("topic"), "partition", "ts")
    return in_partitions.unionByName(in_responses, allowMissingColumns=True)


def errors(failed: DataFrame) -> DataFrame:
    """For each API, error and partition: number of failures, first and last time, and the first packet.

    Args: failed: the result of `failures`.
    """
    return failed.groupBy("api_name", "error_name", "topic", "partition").agg(
        F.count("*").alias("failures"),
        F.count_distinct("client_id").alias("clients"),
        F.min("ts").alias("first_ts"),
        F.max("ts").alias("last_ts"),
        F.min_by("file", "ts").alias("file"),
        F.min_by("correlation_id", "ts").alias("correlation_id"),
        F.min_by("resp_packet", "ts").alias("resp_packet"),
    )


def errors_over_time(failed: DataFrame, *, start_us: int, step_us: int) -> DataFrame:
    """Errors by name in time bins of `step_us`; bin 0 begins at `start_us`.

    Args: failed: the result of `failures`.
    """
    return count_by_time_bin(failed, F.col("ts"), "error_name", start_us, step_us)
