"""Overview of captures: totals by file, status and API."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  Spark's own habit.

from kwire.spark.analyses.common import CONNECTION, count_by_time_bin


def overview(messages: DataFrame) -> DataFrame:
    """For each file: requests, those matched and decoded, connections, first and last time, share requests."""
    return messages.groupBy("file").agg(
        # Only rows of requests have it, not those of TLS, gaps and issues.
        F.count("in_flight").alias("requests"),
        F.count_if(F.col("status") == "ok").alias("ok"),
        F.count_distinct("conn_id", "stream_epoch").alias("connections"),
        F.min(F.coalesce("req_ts", "resp_ts")).alias("first_ts"),
        F.max(F.coalesce("resp_end_ts", "resp_ts", "req_end_ts", "req_ts")).alias("last_ts"),
        F.count_if(F.col("api_name").isin("ShareFetch", "ShareAcknowledge")).alias("share_requests"),
    )


def totals(messages: DataFrame) -> DataFrame:
    """One row about all files: clients, connections, responses with an error, and bytes of both directions."""
    return messages.agg(
        F.count_distinct("client_id").alias("clients"),
        F.count_distinct(*CONNECTION).alias("connections"),
        F.count_if((F.col("error_code") != 0) & F.col("api_name").isNotNull()).alias("error_responses"),
        F.coalesce(F.sum("req_bytes"), F.lit(0)).alias("req_bytes"),
        F.coalesce(F.sum("resp_bytes"), F.lit(0)).alias("resp_bytes"),
    )


def statuses(messages: DataFrame) -> DataFrame:
    """The number of rows with each status."""
    return messages.groupBy("status").agg(F.count("*").alias("messages"))


def traffic(messages: DataFrame, *, start_us: int, step_us: int) -> DataFrame:
    """Requests by API in time bins of `step_us`; bin 0 begins at `start_us`."""
    requests = messages.filter(F.col("req_ts").isNotNull())
    return count_by_time_bin(requests, F.col("req_ts"), "api_name", start_us, step_us)
