"""What brokers answered with an error, down to the partition."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  Spark's own habit.

from kwire.spark.analyses.common import CONNECTION, binned, topic_or_id

PLACE = ("file", "conn_id", "correlation_id", "req_packet", "resp_packet")


def failures(messages: DataFrame, partitions: DataFrame) -> DataFrame:
    """A row for every error of a partition, and for every response with an error that lies in none.

    `ts` is when the request was sent, or the response where no request was seen.
    """
    key = [*CONNECTION, "correlation_id"]
    inside = partitions.filter(F.col("error_code") != 0)
    outside = messages.filter((F.col("error_code") != 0) & F.col("api_name").isNotNull()).join(inside, key, "left_anti")
    about = ("client_id", "api_name", "error_name")
    return inside.select(*PLACE, *about, "stream_epoch", topic_or_id().alias("topic"), "partition", "ts").unionByName(
        outside.select(
            *PLACE,
            *about,
            "stream_epoch",
            F.lit(None).cast("string").alias("topic"),
            F.lit(None).cast("int").alias("partition"),
            F.coalesce("req_ts", "resp_ts").alias("ts"),
        )
    )


def errors(failed: DataFrame) -> DataFrame:
    """How often each API answered with each error about each partition, when first and last, and where first.

    Args: failed: what `failures` gives.
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
    """Errors by name in spans of `step_us`; `bin` counts the spans from `start_us`.

    Args: failed: what `failures` gives.
    """
    return binned(failed, F.col("ts"), "error_name", start_us, step_us)
