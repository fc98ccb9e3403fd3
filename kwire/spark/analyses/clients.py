"""Analyses of clients: their software, the API versions they use, and the size of their requests."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  Spark's own habit.

from kwire.spark.analyses.common import CONNECTION, micros_between

# Below this size, requests carry more overhead than data. Settings against it: `linger.ms` and `batch.size` for
# Produce, `fetch.min.bytes` for Fetch.
TINY_BYTES = 1024
APIS_WITH_RECORDS = ("Produce", "Fetch", "ShareFetch")


def clients(messages: DataFrame) -> DataFrame:
    """For each client id and software: requests, how many a second, connections, errors, and bytes each way."""
    requests = messages.filter(F.col("in_flight").isNotNull())
    span_us = micros_between(F.min("req_ts"), F.max("req_ts"))
    return (
        requests.withColumn("software", F.concat_ws(" ", "software_name", "software_version"))
        .groupBy("client_id", "software")
        .agg(
            F.count("*").alias("requests"),
            F.count_distinct(*CONNECTION).alias("connections"),
            F.count_distinct("api_name").alias("apis"),
            F.count_if(F.col("error_code") != 0).alias("errors"),
            F.coalesce(F.sum("req_bytes"), F.lit(0)).alias("req_bytes"),
            F.coalesce(F.sum("resp_bytes"), F.lit(0)).alias("resp_bytes"),
            # A client seen for less than a second has no meaningful rate.
            F.when(span_us >= 1_000_000, F.count("*") * 1e6 / span_us).alias("requests_per_s"),
        )
    )


def client_versions(messages: DataFrame) -> DataFrame:
    """Which versions of each API each client uses."""
    requests = messages.filter(F.col("in_flight").isNotNull() & F.col("api_version").isNotNull())
    return requests.groupBy("client_id", "api_name").agg(
        F.array_sort(F.collect_set("api_version")).alias("versions"), F.count("*").alias("requests")
    )


def request_sizes(partitions: DataFrame) -> DataFrame:
    """Each Produce request and each Fetch and ShareFetch response with records: how many, and their bytes."""
    return (
        _with_records(partitions)
        .groupBy(*CONNECTION, "client_id", "api_name", "correlation_id", "req_packet")
        .agg(
            F.min("ts").alias("ts"),
            F.count("*").alias("partitions"),
            F.sum("records").alias("records"),
            F.sum("batch_bytes").alias("batch_bytes"),
            F.array_sort(F.collect_set("codec")).alias("codecs"),
        )
    )


def codecs_used(partitions: DataFrame) -> DataFrame:
    """For each client and API: the codecs of the record batches that it sends or receives."""
    codecs = F.array_sort(F.collect_set("codec")).alias("codecs")
    return _with_records(partitions).groupBy("client_id", "api_name").agg(codecs)


def batch_sizes(sizes: DataFrame, *, tiny_bytes: int = TINY_BYTES, codecs: DataFrame | None = None) -> DataFrame:
    """For each client and API: records and bytes of a request or response, and how many are tiny.

    Args: sizes: the result of `request_sizes`. codecs: the result of `codecs_used`, with which the codecs of each
        request need not be collected; Spark sorts all requests for that.
    """
    if codecs is not None:
        without_codecs = sizes.withColumn("codecs", F.array().cast("array<string>"))
        sums = batch_sizes(without_codecs, tiny_bytes=tiny_bytes)
        same = [sums[name].eqNullSafe(codecs[name]) for name in ("client_id", "api_name")]
        found = sums.join(F.broadcast(codecs), same, "left")
        return found.select(*(codecs[name] if name == "codecs" else sums[name] for name in sums.columns))
    is_tiny = F.col("batch_bytes") < tiny_bytes
    return sizes.groupBy("client_id", "api_name").agg(
        F.count("*").alias("requests"),
        F.sum("records").alias("records"),
        F.sum("batch_bytes").alias("batch_bytes"),
        F.percentile_approx("batch_bytes", 0.5, 10_000).alias("p50_bytes"),
        F.percentile_approx("records", 0.5, 10_000).alias("p50_records"),
        F.count_if(is_tiny).alias("tiny"),
        F.array_sort(F.array_distinct(F.flatten(F.collect_set("codecs")))).alias("codecs"),
        F.min_by("file", F.when(is_tiny, F.col("ts"))).alias("file"),
        F.min_by("req_packet", F.when(is_tiny, F.col("ts"))).alias("req_packet"),
    )


def _with_records(partitions: DataFrame) -> DataFrame:
    return partitions.filter(F.col("api_name").isin(*APIS_WITH_RECORDS) & (F.col("batch_bytes") > 0))
