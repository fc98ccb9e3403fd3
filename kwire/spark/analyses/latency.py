"""How long answers took."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  Spark's own habit.

from kwire.spark.row_types import LONG_POLLS


def latency(messages: DataFrame) -> DataFrame:
    """Latency of each API in microseconds: p50, p95, p99 and max over the answered requests, and the versions seen."""
    ranks = F.percentile_approx("latency_us", F.lit([0.5, 0.95, 0.99]), 10_000)
    return (
        messages.filter(F.col("latency_us").isNotNull() & F.col("api_name").isNotNull())
        .groupBy("api_name")
        .agg(
            F.count("*").alias("requests"),
            F.array_sort(F.collect_set("api_version")).alias("versions"),
            ranks.alias("ranks"),
            F.max("latency_us").alias("max_us"),
        )
        .select(
            "api_name",
            "versions",
            "requests",
            F.col("ranks")[0].alias("p50_us"),
            F.col("ranks")[1].alias("p95_us"),
            F.col("ranks")[2].alias("p99_us"),
            "max_us",
        )
    )


def slowest(messages: DataFrame, *, count: int = 25) -> DataFrame:
    """The requests that waited longest for their answer, long polls left out."""
    return (
        messages.filter(F.col("latency_us").isNotNull() & ~F.col("api_name").isin(*LONG_POLLS))
        .orderBy(F.col("latency_us").desc(), "file", "req_packet")
        .limit(count)
        .select(
            *("api_name", "api_version", "client_id", "latency_us", "error_name", "req_ts"),
            *("file", "conn_id", "correlation_id", "req_packet", "resp_packet"),
        )
    )
