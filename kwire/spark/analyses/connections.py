"""Connections: how they come and go, what TCP had to repair, how deep requests queue, where brokers throttle."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  Spark's own habit.

from kwire.spark.analyses.common import CONNECTION, bin_of, micros_between
from kwire.spark.row_types import LONG_POLLS

# A connection that ends after this long without a request was probably closed for being idle.
IDLE_US = 60_000_000


def connections(flows: DataFrame, messages: DataFrame) -> DataFrame:
    """Each connection: its packets and their troubles, its requests and their latency, how it ended.

    `idle_us` is from its last request or answer to its last packet. Latency leaves long polls out.
    """
    patient = F.col("api_name").isin(*LONG_POLLS)
    heard = F.coalesce("resp_end_ts", "resp_ts", "req_end_ts", "req_ts")
    asked = (
        messages.filter(F.col("conn_id").isNotNull())
        .groupBy(*CONNECTION)
        .agg(
            F.count("in_flight").alias("requests"),
            F.count_if(F.col("error_code") != 0).alias("errors"),
            F.percentile_approx(F.when(~patient, F.col("latency_us")), 0.5, 1_000).alias("p50_us"),
            F.max(F.when(~patient, F.col("latency_us"))).alias("max_us"),
            F.max("in_flight").alias("in_flight_max"),
            F.max("throttle_ms").alias("throttle_ms_max"),
            F.first("client_id", ignorenulls=True).alias("client_id"),
            F.max(heard).alias("heard_ts"),
        )
    )
    joined = flows.join(asked, list(CONNECTION), "left")
    return joined.select(
        *CONNECTION,
        *("client_id", "kind", "tls", "ended", "first_ts", "last_ts", "first_packet", "last_packet"),
        F.coalesce("requests", F.lit(0)).alias("requests"),
        F.coalesce("errors", F.lit(0)).alias("errors"),
        *("p50_us", "max_us", "in_flight_max", "throttle_ms_max", "rtt_us"),
        *(
            (F.col(f"{name}_client") + F.col(f"{name}_broker")).alias(name)
            for name in ("packets", "bytes", "retransmits", "lost_bytes", "zero_windows")
        ),
        micros_between(F.col("heard_ts"), F.col("last_ts")).alias("idle_us"),
    )


def troubles(found: DataFrame) -> DataFrame:
    """One row about all connections: how many sent packets again or had a full window, and how often; how many ended
    by a reset, or after a minute without a request.

    Args: found: what `connections` gives.
    """
    sums = [F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in ("retransmits", "zero_windows")]
    return found.agg(
        F.count_if(F.col("retransmits") > 0).alias("with_retransmits"),
        F.count_if(F.col("zero_windows") > 0).alias("with_zero_windows"),
        *sums,
        F.count_if((F.col("ended") == "rst") & (F.col("kind") == "kafka")).alias("resets"),
        F.count_if((F.col("ended") == "fin") & (F.col("idle_us") >= IDLE_US)).alias("idle_closes"),
    )


def churn(flows: DataFrame, *, start_us: int, step_us: int) -> DataFrame:
    """Connections `opened` and `closed` in spans of `step_us`; only those whose beginning or end was captured."""
    opened = flows.filter(F.col("rtt_us").isNotNull()).select(
        F.lit("opened").alias("name"), bin_of(F.col("first_ts"), start_us, step_us)
    )
    closed = flows.filter(F.col("ended").isin("fin", "rst")).select(
        F.lit("closed").alias("name"), bin_of(F.col("last_ts"), start_us, step_us)
    )
    return opened.unionByName(closed).groupBy("name", "bin").agg(F.count("*").alias("count"))


def depth(messages: DataFrame, *, start_us: int, step_us: int) -> DataFrame:
    """For each connection in spans of `step_us`: requests, the most in flight at once, the longest throttle time.

    A request counts as in flight itself: 1 is a client that waits for each answer.
    """
    sent = messages.filter(F.col("in_flight").isNotNull() & F.col("req_ts").isNotNull())
    return sent.groupBy(*CONNECTION, bin_of(F.col("req_ts"), start_us, step_us)).agg(
        F.first("client_id", ignorenulls=True).alias("client_id"),
        F.count("*").alias("requests"),
        (F.max("in_flight") + 1).alias("in_flight_max"),
        F.coalesce(F.max("throttle_ms"), F.lit(0)).alias("throttle_ms_max"),
    )
