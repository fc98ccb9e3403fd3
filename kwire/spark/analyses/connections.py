"""Analyses of connections: lifetime, TCP issues, requests in flight, throttling by brokers."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  Spark's own habit.

from kwire.spark.analyses.common import CONNECTION, count_by_time_bin, micros_between, time_bin
from kwire.spark.long_polls import LONG_POLLS

# A connection that ends after this long without a request was probably closed because it was idle.
IDLE_US = 60_000_000


def connections(flows: DataFrame, messages: DataFrame) -> DataFrame:
    """Each connection: its packets and TCP issues, its requests and their latency, how it ended.

    `idle_us`: from its last request or response to its last packet. Latency excludes long polls; `answered` is the
    number of responses that it is made of.
    """
    is_long_poll = F.col("api_name").isin(*LONG_POLLS)
    message_ts = F.coalesce("resp_end_ts", "resp_ts", "req_end_ts", "req_ts")
    requests = (
        messages.filter(F.col("conn_id").isNotNull())
        .groupBy(*CONNECTION)
        .agg(
            F.count("in_flight").alias("requests"),
            F.count_if(F.col("error_code") != 0).alias("errors"),
            F.count(F.when(~is_long_poll, F.col("latency_us"))).alias("answered"),
            F.percentile_approx(F.when(~is_long_poll, F.col("latency_us")), 0.5, 1_000).alias("p50_us"),
            F.max(F.when(~is_long_poll, F.col("latency_us"))).alias("max_us"),
            F.max("in_flight").alias("in_flight_max"),
            F.max("throttle_ms").alias("throttle_ms_max"),
            F.first("client_id", ignorenulls=True).alias("client_id"),
            F.max(message_ts).alias("last_message_ts"),
        )
    )
    names = ("packets", "bytes", "retransmits", "lost_bytes", "zero_windows")
    sums = [(F.col(f"{name}_client") + F.col(f"{name}_broker")).alias(name) for name in names]
    joined = flows.join(requests, list(CONNECTION), "left")
    return joined.select(
        *CONNECTION,
        *("client_id", "kind", "tls", "ended", "first_ts", "last_ts", "first_packet", "last_packet"),
        F.coalesce("requests", F.lit(0)).alias("requests"),
        F.coalesce("errors", F.lit(0)).alias("errors"),
        F.coalesce("answered", F.lit(0)).alias("answered"),
        *("p50_us", "max_us", "in_flight_max", "throttle_ms_max", "rtt_us"),
        *sums,
        micros_between(F.col("last_message_ts"), F.col("last_ts")).alias("idle_us"),
    )


def connection_problems(rows: DataFrame) -> DataFrame:
    """One row about all connections: how many had retransmissions or a zero window, and how often; how many ended
    by a reset, or after a minute without a request.

    Args: rows: the result of `connections`.
    """
    sums = [F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in ("retransmits", "zero_windows")]
    return rows.agg(
        F.count_if(F.col("retransmits") > 0).alias("with_retransmits"),
        F.count_if(F.col("zero_windows") > 0).alias("with_zero_windows"),
        *sums,
        F.count_if((F.col("ended") == "rst") & (F.col("kind") == "kafka")).alias("resets"),
        F.count_if((F.col("ended") == "fin") & (F.col("idle_us") >= IDLE_US)).alias("idle_closes"),
    )


def connection_churn(flows: DataFrame, *, start_us: int, step_us: int) -> DataFrame:
    """Connections `opened` and `closed` in time bins of `step_us`, if that packet was captured."""
    ts = F.col("first_ts").alias("ts")
    opened = flows.filter(F.col("rtt_us").isNotNull()).select(F.lit("opened").alias("event"), ts)
    closed = flows.filter(F.col("ended").isin("fin", "rst")).select(F.lit("closed"), "last_ts")
    return count_by_time_bin(opened.union(closed), F.col("ts"), "event", start_us, step_us)


def requests_in_flight(messages: DataFrame, *, start_us: int, step_us: int) -> DataFrame:
    """For each connection and time bin of `step_us`: requests, the most in flight at once, the longest throttle time.

    A request itself counts as in flight: 1 means a client that waits for each response.
    """
    sent = messages.filter(F.col("in_flight").isNotNull() & F.col("req_ts").isNotNull())
    return sent.groupBy(*CONNECTION, time_bin(F.col("req_ts"), start_us, step_us)).agg(
        F.first("client_id", ignorenulls=True).alias("client_id"),
        F.count("*").alias("requests"),
        (F.max("in_flight") + 1).alias("in_flight_max"),
        F.coalesce(F.max("throttle_ms"), F.lit(0)).alias("throttle_ms_max"),
    )
