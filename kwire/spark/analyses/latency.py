"""Analyses of response latency."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  Spark's own habit.

from kwire.spark.long_polls import LONG_POLLS


def latency(messages: DataFrame) -> DataFrame:
    """Latency of each API in microseconds: p50, p95, p99 and max over the answered requests, and the versions used."""
    ranks = F.percentile_approx("latency_us", F.lit([0.5, 0.95, 0.99]), 10_000)
    percentiles = [F.col("ranks")[index].alias(name) for index, name in enumerate(("p50_us", "p95_us", "p99_us"))]
    return (
        messages.filter(F.col("latency_us").isNotNull() & F.col("api_name").isNotNull())
        .groupBy("api_name")
        .agg(
            F.count("*").alias("requests"),
            F.array_sort(F.collect_set("api_version")).alias("versions"),
            ranks.alias("ranks"),
            F.max("latency_us").alias("max_us"),
        )
        .select("api_name", "versions", "requests", *percentiles, "max_us")
    )


def slowest(messages: DataFrame, *, count: int = 25) -> DataFrame:
    """The requests with the highest latency, long polls excluded."""
    return (
        messages.filter(F.col("latency_us").isNotNull() & ~F.col("api_name").isin(*LONG_POLLS))
        .orderBy(F.col("latency_us").desc(), "file", "req_packet")
        .limit(count)
        .select(
            *("api_name", "api_version", "client_id", "latency_us", "error_name", "req_ts"),
            *("file", "conn_id", "correlation_id", "req_packet", "resp_packet"),
        )
    )
